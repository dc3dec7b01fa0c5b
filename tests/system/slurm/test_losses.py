"""Workers that are lost while they work: the cause is told, the work goes on elsewhere, nothing waits for ever."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import string
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from scalable.cluster import workers
from scalable.cluster.base import WorkerTemplate
from scalable.cluster.client import WorkerKilledError
from scalable.cluster.slurm.commands import Slurm
from scalable.cluster.slurm.jobs import BatchJob
from scalable.cluster.slurm.launcher import SlurmLauncher
from scalable.cluster.slurm.script import Step
from scalable.engine.events import Loss
from scalable.worker.options import WorkerOptions
from tests.helpers.slurm.helpers import WITHIN_S, Made, made
from tests.helpers.slurm.work import hoarding, unknown_to_nodes, waiting
from tests.helpers.waiting import eventually
from tests.tools import processes
from tests.tools.slurm import MemoryRule, PrivateSlurm, Settings, daemons, why_no_cgroup

CGROUP = Settings(
    nodes=1,
    memory=MemoryRule.CGROUP,
    prefix="".join(random.choices(string.ascii_lowercase, k=8)),  # the kernel's tree is shared with other clusters
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_job_over_its_memory_is_told_of_and_its_task_fails(slurm: PrivateSlurm) -> None:
    out_of_memory()


@pytest.mark.skipif(bool(why_no_cgroup()), reason=why_no_cgroup() or "")
@pytest.mark.parametrize("fresh_slurm", [CGROUP], indirect=True)
def test_a_job_over_its_memory_where_the_kernel_enforces_it(fresh_slurm: PrivateSlurm) -> None:
    out_of_memory()


def out_of_memory() -> None:
    with made(allowed_failures=0) as it:
        it.cluster.add_workers(1, "small")
        hungry = it.client.submit(hoarding(), tag="small")
        with pytest.raises(WorkerKilledError, match=r"out of memory .job [0-9]+ on .* used more memory than it asked"):
            hungry.result(WITHIN_S)
        (lost,) = it.wait_for("worker-lost")
        assert lost["cause"] == Loss.OUT_OF_MEMORY.value
        assert it.client.submit(sum, [1, 2], tag="small").result(WITHIN_S) == 3  # another worker has come


def test_code_that_nodes_do_not_have_is_named(slurm: PrivateSlurm) -> None:
    with made(allowed_failures=0) as it:
        it.cluster.add_workers(1, "small")
        future = it.client.submit(unknown_to_nodes(), tag="small")
        with pytest.raises(WorkerKilledError, match=r"cannot read what the driver sent: .*No module named 'ghost'"):
            future.result(WITHIN_S)
        assert it.client.submit(sum, [1, 2], tag="small").result(WITHIN_S) == 3


def test_a_cancelled_job_and_a_node_set_down_are_replaced_and_the_work_resumes(
    slurm: PrivateSlurm, project: Path
) -> None:
    with made() as it:
        it.cluster.add_workers(2, "small")
        it.cluster.wait_until({"small": 2}, WITHIN_S)
        futures = it.client.map(waiting(), [project / "first", project / "second"], tag="small")
        first, second = running_jobs(it, project, 2)
        slurm.run("scancel", str(first))
        (cancelled,) = it.wait_for("worker-lost")
        assert (cancelled["cause"], "was cancelled" in cancelled["detail"]) == (Loss.PREEMPTED.value, True)
        slurm.mark_down(slurm.job(second).node, "pulled the plug")
        _, downed = it.wait_for("worker-lost", 2)
        assert (downed["cause"], "the node failed" in downed["detail"]) == (Loss.NODE_LOST.value, True)
        (project / "first").touch()
        (project / "second").touch()
        assert it.client.gather(futures) == ["first", "second"]
        assert {first, second}.isdisjoint(it.jobs())


def test_work_of_a_crashed_node_goes_on_before_slurm_notices(
    fresh_slurm: PrivateSlurm, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "FATE_WITHIN_S", 1.0)
    with made() as it:
        it.cluster.add_workers(1, "small")
        future = it.client.submit(waiting(), project / "done", tag="small")
        (job,) = running_jobs(it, project, 1)
        fresh_slurm.crash(fresh_slurm.job(job).node)
        (lost,) = it.wait_for("worker-lost")
        assert lost["cause"] == Loss.WORKER_LOST.value
        (project / "done").touch()
        assert future.result(WITHIN_S) == "done"
        assert it.jobs() != [job]


def test_slurm_may_be_away_for_a_while(fresh_slurm: PrivateSlurm, project: Path) -> None:
    with made() as it:
        it.cluster.add_workers(1, "small")
        future = it.client.submit(waiting(), project / "done", tag="small")
        (job,) = running_jobs(it, project, 1)
        (pid,) = daemons.running_daemons(fresh_slurm.paths, "slurmctld")
        processes.end([pid], 10)
        eventually(it.trouble, lambda: "Slurm to be missed")
        assert "Unable to contact slurm controller" in it.trouble()
        os.kill(worker_of(it), signal.SIGKILL)  # meanwhile a worker dies as well
        eventually(lambda: it.cluster.worker_count() == 0, lambda: "the worker to be missed")
        time.sleep(1)
        daemons.start_controller(fresh_slurm.paths, fresh_slurm.full_env)
        it.wait_for("worker-lost")
        (project / "done").touch()
        assert future.result(WITHIN_S) == "done"
        eventually(lambda: not it.trouble(), lambda: "Slurm to be heard of again")
        assert [one.id for one in fresh_slurm.living() if one.id != job] == it.jobs()


@pytest.mark.parametrize("fresh_slurm", [Settings(nodes=1)], indirect=True)
def test_a_job_that_the_controller_has_forgotten_is_looked_up_in_the_records(
    fresh_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    number = fresh_slurm.submit("echo 'scalable worker: no licence'; exit 72", f"--output={log}")
    fresh_slurm.wait(number)
    processes.end(daemons.running_daemons(fresh_slurm.paths, "slurmctld"), 10)
    for file in fresh_slurm.paths.state.glob("job_state*"):
        file.unlink()
    daemons.start_controller(fresh_slurm.paths, fresh_slurm.full_env)
    fresh_slurm.wait_for_nodes(["n1"])
    job = BatchJob(Slurm(), [Step(WorkerTemplate("small"), WorkerOptions("", "small-0", {}), log)], log)
    job.id = str(number)
    fate = asyncio.run(job.workers[0].learn_fate(WITHIN_S))
    assert (fate.cause, fate.detail) == (Loss.CANNOT_START, f"job {number} on n1: no licence")


def test_twenty_jobs_on_four_nodes_do_all_the_work_and_are_cancelled_together(
    slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made() as it:
        it.cluster.add_container(tag="wide", cpus=4, memory="400M")
        it.cluster.add_workers(20, "wide")
        futures = it.client.map(lambda x: x * x, range(40), tag="wide")
        assert it.client.gather(futures) == [x * x for x in range(40)]
        reason = "waits for free nodes (Resources)"
        eventually(lambda: reason in {told["reason"] for told in it.of("worker-pending")}, lambda: f"{it.told}")
        assert len(it.cluster.members) == 20
        assert isinstance(it.cluster.launcher, SlurmLauncher)
        ends = Mock(wraps=it.cluster.launcher.slurm.end)
        monkeypatch.setattr(it.cluster.launcher.slurm.cancellations, "ask", ends)
        it.cluster.close()
        assert ends.call_count == 1, "all are cancelled together"
        assert len(ends.call_args.args[0]) == 20
    assert {job.state for job in slurm.living()} <= {"COMPLETING"}


def running_jobs(it: Made, project: Path, count: int) -> list[int]:
    """Jobs in which a task has begun."""

    def found() -> list[int]:
        return sorted(int(file.name.partition("-")[2]) for file in project.glob("running-*"))

    eventually(lambda: len(found()) >= count, lambda: f"{count} tasks to run: {it.told}")
    return found()


def worker_of(it: Made) -> int:
    return int(it.of("worker-joined")[0]["pid"] or 0)
