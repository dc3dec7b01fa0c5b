"""Batch jobs that hold several workers on several nodes: each worker dies alone, the job goes with the last."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from scalable.cluster.slurm import commands, launcher
from scalable.engine.events import Loss
from tests.helpers.slurm.helpers import SMALL, WITHIN_S, Made, limited_sbatch, made
from tests.helpers.slurm.work import hoarding, waiting
from tests.helpers.waiting import eventually
from tests.tools.slurm import PrivateSlurm, Settings

TWO_NODES = {"workers_per_job": 4, "nodes_per_job": 2}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(it: Made, count: int, tag: str = "small") -> list[dict[str, Any]]:
    """What was told of so many workers that have joined."""
    it.cluster.add_workers(count, tag)
    return it.wait_for("worker-joined", count)


def steps(slurm: PrivateSlurm) -> dict[str, str]:
    """The node of each worker that runs as a step, by its name."""
    lines = slurm.run("squeue", "--noheader", "--steps", "--format=%j|%N").splitlines()
    return {name: node for name, _, node in (line.partition("|") for line in lines) if name != "batch"}


@pytest.mark.journey
def test_workers_share_jobs_and_nodes_and_the_job_ends_with_the_last(slurm: PrivateSlurm) -> None:
    with made(**TWO_NODES) as it:
        joined = started(it, 6)
        allocations = [told["allocation"] for told in joined]
        assert sorted(map(allocations.count, set(allocations))) == [2, 4]
        assert {job.name.rpartition("-")[0] for job in slurm.living()} == {"small"}
        assert len(slurm.living()) == len(set(it.jobs())) == 2
        spread = sorted(node for name, node in steps(slurm).items() if name in {f"small-{n}" for n in range(4)})
        assert len(spread) == 4 and sorted(map(spread.count, set(spread))) == [2, 2]
        assert it.client.gather(it.client.map(lambda x: x * x, range(24), tag="small")) == [x * x for x in range(24)]
        (gone,) = it.cluster.remove_workers(1, "small")
        eventually(lambda: gone not in steps(slurm), lambda: f"the step of {gone} to end: {steps(slurm)}")
        assert len(slurm.living()) == 2 and it.cluster.worker_count() == 5
        it.cluster.remove_workers(5, "small")
        eventually(lambda: not slurm.living(), lambda: f"{slurm.living()} to be given back")


def test_a_worker_that_dies_takes_only_itself(slurm: PrivateSlurm) -> None:
    with made(**TWO_NODES, allowed_failures=0, replace=False) as it:
        joined = started(it, 4)
        with pytest.raises(Exception, match="out of memory"):
            it.client.submit(hoarding(), tag="small").result(WITHIN_S)
        (lost,) = it.wait_for("worker-lost")
        assert lost["cause"] == Loss.OUT_OF_MEMORY.value
        assert "used more memory than it asked for (400 MB)" in lost["detail"]
        pid = next(told["pid"] for told in joined if told["worker"] != lost["worker"])
        os.kill(pid, signal.SIGKILL)
        killed = it.wait_for("worker-lost", 2)[1]
        assert killed["cause"] == Loss.WORKER_LOST.value
        assert it.cluster.worker_count() == 2 and len(slurm.living()) == 1
        assert it.client.submit(sum, [1, 2], tag="small").result(WITHIN_S) == 3


def test_another_worker_takes_the_place_of_a_dead_one_in_the_same_job(slurm: PrivateSlurm) -> None:
    with made(**TWO_NODES, walltime="00:30:00") as it:
        joined = started(it, 4)
        (job,) = set(it.jobs())
        where = steps(slurm)
        for count, dead in enumerate(joined[:2], 5):
            os.kill(dead["pid"], signal.SIGKILL)
            late = it.wait_for("worker-joined", count)[-1]
            assert late["allocation"] == dead["allocation"]
        assert set(it.jobs()) == {job} and len(slurm.living()) == 1
        now = steps(slurm)
        assert sorted(now.values()) == sorted(where.values()), "two on each node, as before"
        assert len({*now} - {*where}) == 2
        assert it.client.gather(it.client.map(lambda x: x + 1, range(8), tag="small")) == list(range(1, 9))
        gone = it.cluster.remove_workers(1, "small")
        it.cluster.add_workers(1, "small")
        it.wait_for("worker-joined", 7)
        assert len(set(it.jobs())) == 2, f"nobody takes the place of {gone}, who was sent away"


def test_a_lost_node_takes_only_its_workers(fresh_slurm: PrivateSlurm, project: Path) -> None:
    with made(**TWO_NODES, replace=False) as it:
        started(it, 4)
        where = steps(fresh_slurm)
        first, second = sorted(set(where.values()))
        fresh_slurm.crash(first)  # the node on which the job's script runs
        told = it.wait_for("worker-lost", 2)
        assert {lost["worker"] for lost in told} == {name for name, node in where.items() if node == first}
        assert it.client.submit(sum, [1, 2], tag="small").result(WITHIN_S) == 3
        fresh_slurm.restore(first)
        again = {name: node for name, node in steps(fresh_slurm).items() if node == second}
        assert set(again) == {name for name, node in where.items() if node == second}


def test_a_node_set_down_is_named(slurm: PrivateSlurm) -> None:
    with made(**TWO_NODES, replace=False) as it:
        started(it, 4)
        where = steps(slurm)
        second = max(where.values())
        slurm.mark_down(second)
        told = it.wait_for("worker-lost", 2)
        assert {lost["worker"] for lost in told} == {name for name, node in where.items() if node == second}
        assert {lost["cause"] for lost in told} == {Loss.NODE_LOST.value}
        assert f"on {second}: the node failed" in told[0]["detail"]
        assert it.cluster.worker_count() == 2


def test_the_walltime_of_a_job_ends_all_its_workers_and_the_work_goes_on(slurm: PrivateSlurm, project: Path) -> None:
    with made(**TWO_NODES, walltime="00:10:00") as it:
        started(it, 4)
        future = it.client.submit(waiting(), project / "told", tag="small")
        eventually(lambda: list(project.glob("running-*")), lambda: "the task to run")
        (job,) = set(it.jobs())
        slurm.expire(job)
        eventually(lambda: len(list(project.glob("running-*"))) == 2, lambda: f"it to run again: {it.told}", 90)
        (project / "told").touch()
        assert future.result(WITHIN_S) == "told"
        assert {lost["cause"] for lost in it.wait_for("worker-lost", 4)} <= {"walltime", "preempted"}


def test_whole_nodes_hold_workers_of_several_kinds_with_their_own_surroundings(slurm: PrivateSlurm) -> None:
    with made(exclusive=True) as it:
        for tag, cpus in (("wide", 2), ("narrow", 1)):
            it.cluster.add_container(tag=tag, cpus=cpus, memory=SMALL, env={"KIND": tag, "SECRET": f"{tag}-hunter2"})
        it.cluster.sync(ask_together, it.cluster, {"wide": 2, "narrow": 4})
        it.cluster.wait_until({"wide": 2, "narrow": 4}, WITHIN_S)
        assert len(slurm.living()) == 2, "8 CPUs on nodes of 4"
        for tag, counted in (("wide", "2"), ("narrow", "1")):
            look = it.client.submit(lambda: [os.environ[name] for name in ("KIND", "SLURM_CPUS_PER_TASK")], tag=tag)
            assert look.result(WITHIN_S) == [tag, counted]
        for job in slurm.living():
            text = slurm.run("scontrol", "show", "job", str(job.id), "--oneliner")
            assert "OverSubscribe=NO" in text and "NumCPUs=4" in text
        scripts = it.cluster.job_script("wide") + it.cluster.job_script("narrow")
        assert "hunter2" not in scripts


async def ask_together(cluster: Any, counts: dict[str, int]) -> None:
    """Ask for workers of several kinds at one moment, as a session does."""
    await asyncio.gather(*(cluster.launch(count, cluster.template(tag)) for tag, count in counts.items()))


def test_a_backlog_caps_the_jobs_that_wait(slurm: PrivateSlurm, caplog: pytest.LogCaptureFixture) -> None:
    with made(backlog=2) as it:
        it.cluster.add_container(tag="wide", cpus=4, memory=SMALL)
        it.cluster.add_workers(9, "wide")
        it.cluster.wait_until({"wide": 4}, WITHIN_S)

        def waiting_jobs() -> int:
            return sum(job.state == "PENDING" for job in slurm.living())

        eventually(lambda: waiting_jobs() == 2, lambda: f"2 of {slurm.living()} to wait")
        words = "handed in when fewer than 2 jobs wait in Slurm (backlog)"
        eventually(lambda: words in {told["reason"] for told in it.of("worker-pending")}, lambda: f"{it.told}")
        assert len(slurm.living()) == 6
        it.cluster.remove_workers(3, "wide")  # those that were not handed in go first
        it.cluster.remove_workers(2, "wide")
        eventually(lambda: len(slurm.living()) == 4, lambda: f"{slurm.living()}")
    assert "handed in when fewer than 2 jobs wait" in caplog.text


@pytest.mark.parametrize("fresh_slurm", [Settings(nodes=1)], indirect=True)
def test_a_limit_of_submitted_jobs_keeps_those_that_came_and_asks_again(
    fresh_slurm: PrivateSlurm, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without accounting this Slurm has no such limit: its sbatch is asked through one that has."""
    monkeypatch.setattr(launcher, "LIMIT_AGAIN_S", 0.5)
    limit = limited_sbatch(project, most=2)
    monkeypatch.setenv("PATH", f"{limit}{os.pathsep}{os.environ['PATH']}")
    with made() as it:
        it.cluster.add_workers(4, "small")
        it.cluster.wait_until({"small": 2}, WITHIN_S)
        assert it.client.gather(it.client.map(lambda x: x + 1, range(8), tag="small")) == list(range(1, 9))
        words = "handed in when Slurm takes more jobs of yours (AssocMaxSubmitJobLimit)"
        eventually(lambda: sum(told["reason"] == words for told in it.of("worker-pending")) == 2, lambda: f"{it.told}")
        assert len(fresh_slurm.living()) == 2 and it.of("workers-refused") == []
        (limit / "most").write_text("4")
        it.cluster.wait_until({"small": 4}, WITHIN_S)
        assert len(fresh_slurm.living()) == 4


@pytest.mark.parametrize("fresh_slurm", [Settings(nodes=2, extra=("MaxJobCount=3", "MinJobAge=2"))], indirect=True)
def test_a_controller_that_takes_no_more_jobs_is_waited_for(
    fresh_slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MaxJobCount is the limit that a Slurm without accounting has itself; sbatch waits by itself then."""
    monkeypatch.setattr(commands, "ANSWER_WITHIN_S", 5.0)
    monkeypatch.setattr(launcher, "LIMIT_AGAIN_S", 0.5)
    with made() as it:
        it.cluster.add_workers(4, "small")
        it.cluster.wait_until({"small": 2}, WITHIN_S)
        assert it.client.submit(sum, [1, 2], tag="small").result(WITHIN_S) == 3
        words = "handed in when Slurm takes more jobs of yours"
        eventually(lambda: any(words in told["reason"] for told in it.of("worker-pending")), lambda: f"{it.told}")
        assert it.of("workers-refused") == []
        it.cluster.remove_workers(1, "small")
        assert len(fresh_slurm.living()) <= 3


def test_a_job_that_asks_to_be_requeued_does_not_come_back_beside_its_replacement(slurm: PrivateSlurm) -> None:
    with made(sbatch=["--requeue"]) as it:
        started(it, 1)
        (job,) = it.jobs()
        slurm.mark_down(slurm.job(job).node)
        it.wait_for("worker-lost")
        it.wait_for("worker-joined", 2)
        assert slurm.job(job).state == "NODE_FAIL"
        assert [living.id for living in slurm.living()] == it.jobs() != [job]


def test_a_component_is_asked_for_with_words_of_its_own(slurm: PrivateSlurm) -> None:
    with made(queue="nowhere", walltime="00:30:00", qos="normal") as it:
        it.cluster.add_container(tag="own", memory=SMALL, partition="main", walltime="00:07:00")
        it.cluster.add_workers(1, "own")
        (job,) = it.jobs()
        text = slurm.run("scontrol", "show", "job", str(job), "--oneliner")
        assert "Partition=main" in text and "TimeLimit=00:07:00" in text
