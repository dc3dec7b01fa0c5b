"""Batch jobs that end by their walltime: nothing is lost, nothing is tried in vain, nothing goes on for ever.

The shortest walltime of Slurm is a minute. Where less will do, the end of a job is moved with ``scontrol``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from scalable import ScalableSession
from scalable.cluster.scheduler import AllocationError
from scalable.cluster.slurm.provider import SlurmCluster
from scalable.engine.events import Loss
from scalable.errors import PlanningError
from scalable.observe.journal import read
from scalable.session.driver.tasks import TaskError
from scalable.walltime import CLOSING_S
from tests.helpers.slurm.helpers import made
from tests.helpers.slurm.work import outlasting
from tests.helpers.waiting import eventually
from tests.tools.slurm import PrivateSlurm

MINUTE = "00:01:00"
WITHIN_S = 400.0  # several jobs of a minute on a busy machine
STEPS = """
import time
from pathlib import Path

import scalable


def forever(place):
    with open(place, "a") as file:
        file.write("x")
    time.sleep(3000)


def brief(place):
    with open(place, "a") as file:
        file.write("x")
    time.sleep(1)
    return 1


def counts(place, steps):
    file = scalable.scratch() / "step"
    done = int(file.read_text()) if file.exists() else 0
    with open(place, "a") as log:
        log.write(f"{done} ")
    for step in range(done, steps):
        time.sleep(1)
        file.write_text(str(step + 1))
        scalable.progress(step + 1, steps)
    return steps
"""


def hurry(slurm: PrivateSlurm, session: ScalableSession) -> None:
    """Let the jobs of a session end in a few seconds, with notice at once: Slurm looks at limits every half minute."""
    members = list(session.live().cluster.members.values())
    for job in dict.fromkeys(str(member.launched.job).removeprefix("job ") for member in members):
        slurm.expire(int(job), CLOSING_S + 4)
        alone = not any(member.shared for member in members)
        slurm.run("scancel", "--signal=TERM", *(["--batch"] if alone else []), job)


@pytest.fixture
def brief_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work has three seconds after notice."""
    defaults = SlurmCluster.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "grace", 3.0)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.py").write_text(STEPS)
    return tmp_path


def a_session(folder: Path, tasks: dict[str, Any], **target: Any) -> ScalableSession:
    hpc = {
        "provider": "slurm",
        "queue": "main",
        "interface": "lo",
        "walltime": MINUTE,
        **(target or {"max_workers": 1}),
    }
    manifest = {
        "version": 1,
        "project": {"name": "walltimes"},
        "targets": {"hpc": hpc},
        "components": {"model": {"cpus": 1, "memory": "400M"}},
        "tasks": {name: {"component": "model", **task} for name, task in tasks.items()},
    }
    (folder / "scalable.yaml").write_text(yaml.safe_dump(manifest))
    return ScalableSession.from_yaml(folder / "scalable.yaml", target="hpc")


def records(session: ScalableSession, kind: str) -> list[dict[str, Any]]:
    return [dict(record) for record in read(session.folder.journal) if record["kind"] == kind]


def most_at_once(session: ScalableSession) -> int:
    """The most batch jobs that were there at the same moment, those that only waited or were ending included."""
    there, most = set[str](), 0
    for record in read(session.folder.journal):
        if record["kind"] == "worker-started":
            there.add(str(record["worker"]))
        elif record["kind"] in ("worker-lost", "worker-removed", "workers-refused"):
            there.discard(str(record.get("worker")))
        most = max(most, len(there))
    return most


def test_what_outlasts_a_walltime_is_given_up_with_the_figures(slurm: PrivateSlurm, project: Path) -> None:
    """A plain task, a guarded one, a task of the manifest and one of a cluster made by hand, in the same minute."""
    begun = [project / name for name in ("plain", "guarded", "long", "by-hand")]
    long = {"run": "steps:forever", "arguments": {"place": str(begun[2])}}
    session = a_session(project, {"long": long}, max_workers=3)
    with made(walltime=MINUTE) as it, session as client:
        it.cluster.add_workers(1, "small")
        by_hand = it.client.submit(outlasting(), begun[3], tag="small")
        plain = [
            client.submit(outlasting(), place, tag="model", guarded=guarded, pure=False)
            for place, guarded in zip(begun, (False, True), strict=False)
        ]
        outside = session.live().outside
        eventually(
            lambda: "model" in outside and len(outside["model"].busy) == 2, lambda: f"two workers to be busy: {outside}"
        )
        told = r"long: failed: it ran for \d+ s of the \d+ s that an allocation gives and did not finish; raise targets"
        with pytest.raises(TaskError, match=told):
            session.run_tasks()
        for future in (*plain, by_hand):
            with pytest.raises(
                AllocationError, match=r"it ran for \d+ s of the \d+ s that \w+-\d+ had for work and did"
            ):
                future.result(WITHIN_S)
    most = {place.name: len(place.read_text()) for place in begun}
    assert max(most.values()) <= 2, f"one whole allocation is enough to see that it does not fit: {most}"
    assert most_at_once(session) == 3
    causes = [record["outcome"] for record in records(session, "attempt-ended")]
    assert set(causes) <= {Loss.PREEMPTED.value, Loss.WALLTIME.value}


def test_a_task_that_is_known_to_be_too_long_is_refused_before_anything_starts(
    slurm: PrivateSlurm, project: Path
) -> None:
    long = {"run": "steps:forever", "arguments": {"place": str(project / "begun")}, "run_minutes": 2.5}
    told = (
        r"tasks.long: a job of 150 s does not fit a walltime of 60 s; raise targets.hpc.walltime to at least 00:04:00"
    )
    with pytest.raises(PlanningError, match=told):
        a_session(project, {"long": long}).plan()
    assert not (project / "begun").exists()


@pytest.mark.usefixtures("brief_grace")
def test_a_task_with_checkpoints_goes_on_in_the_next_job(slurm: PrivateSlurm, project: Path) -> None:
    place = project / "starts"
    counts = {"run": "steps:counts", "arguments": {"place": str(place), "steps": 12}, "checkpoints": True}
    session = a_session(project, {"counts": counts}, walltime="00:10:00", max_workers=1)
    with session, ThreadPoolExecutor(1) as pool:
        results = pool.submit(session.run_tasks)
        eventually(
            lambda: list((project / ".scalable/scratch").rglob("step")), lambda: "the first checkpoint", WITHIN_S
        )
        hurry(slurm, session)
        assert results.result(WITHIN_S) == {"counts": 12}
    began_at = [int(step) for step in place.read_text().split()]
    assert began_at[0] == 0
    assert len(began_at) == 2, "the first job ended early"
    assert 0 < began_at[1] < 12, "the next went on where the one before stopped"
    assert most_at_once(session) == 1, "the next job was asked for when the first was gone"
    assert not list(project.glob(".scalable/scratch/*/*")), "what is finished needs no checkpoint"
    assert records(session, "retry") == []


def test_work_that_is_in_flight_when_jobs_end_is_neither_lost_nor_tried_in_vain(
    slurm: PrivateSlurm, project: Path
) -> None:
    """Twelve short tasks on two workers, whose jobs are cut to a few seconds after the first tasks have finished."""
    tasks = {
        f"t{number}": {"run": "steps:brief", "arguments": {"place": str(project / f"t{number}")}}
        for number in range(12)
    }
    session = a_session(project, tasks, walltime="00:10:00", max_workers=2)
    with session:
        driver = session.live()
        driver.cluster.wait_until({"model": 2}, WITHIN_S)
        for job in [str(m.launched.job).removeprefix("job ") for m in driver.cluster.members.values()]:
            slurm.run("scontrol", "update", f"jobid={job}", "EndTime=now+20")
        first = dict(driver.ends)
        eventually(lambda: driver.ends != first, lambda: f"the engine hears of the new end: {driver.ends}", WITHIN_S)
        assert session.run_tasks() == dict.fromkeys(tasks, 1)
    assert all((project / name).read_text() == "x" for name in tasks), "each was begun once"
    assert most_at_once(session) == 2


@pytest.mark.usefixtures("brief_grace")
def test_an_adaptive_session_goes_on_in_other_jobs_of_several_workers_when_theirs_end(
    slurm: PrivateSlurm, project: Path
) -> None:
    names = [f"t{number}" for number in range(24)]
    tasks = {name: {"run": "steps:brief", "arguments": {"place": str(project / name)}} for name in names}
    bounds = {"minimum": 0, "maximum": 4}
    session = a_session(project, tasks, walltime="00:10:00", adaptive=bounds, workers_per_job=2, nodes_per_job=2)
    with session, ThreadPoolExecutor(1) as pool:
        results = pool.submit(session.run_tasks)
        eventually(lambda: sum((project / name).exists() for name in names) >= 4, lambda: "four to begin", WITHIN_S)
        hurry(slurm, session)
        assert results.result(WITHIN_S) == dict.fromkeys(names, 1)
    assert records(session, "retry") == []
    joined = [record["allocation"] for record in records(session, "worker-joined")]
    assert len(set(joined)) >= 3 and set(map(joined.count, joined)) == {2}, "whole jobs were asked for"
    assert most_at_once(session) == 4
    lost = {record["cause"] for record in records(session, "worker-lost")}
    assert lost <= {Loss.PREEMPTED.value, Loss.WALLTIME.value}
