"""Jobs that hang, work without a word, run out of memory or lose their worker: what is decided, and what is told."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest

import scalable
from scalable.chaos import workloads
from scalable.cli.progress import what
from scalable.engine.events import Job, JobState, Loss, SubmittedSweep, SweepKind
from scalable.observe.incidents import IncidentFolder
from scalable.observe.mailbox import Question
from scalable.observe.view import RunView
from scalable.session.driver.driver import LOOK_EVERY_S, Driver
from scalable.session.driver.execution import JobCall
from scalable.session.driver.tasks import TaskError
from scalable.session.operate.control import Control
from scalable.store import Filter, RowStatus
from scalable.worker.runner.calls import Call
from tests.helpers.session.builders import Project
from tests.helpers.session.tasks_of import tasks_of
from tests.helpers.session.virtual import World

pytestmark = pytest.mark.usefixtures("world")

MIB = 2**20
CODE = """
    import time
    from pathlib import Path
    import scalable
    from tests.helpers.session.virtual_workers import compute, die, use_memory

    def once(folder):
        first = Path(folder, "first")
        there = first.exists()
        first.touch()
        return not there

    def hang_once(folder):
        scalable.progress(1, 3, "loading")
        if once(folder):
            time.sleep(600)
        return "arrived"

    def long_step(seconds):
        scalable.progress(1)
        with scalable.long_step(600):
            time.sleep(seconds)
        return "done"

    def eat_once(folder):
        if once(folder):
            use_memory(520 << 20)
            die("out of memory", "killed")
        return "fits"

    def ticks(count, pause=0.05):
        for step in range(count):
            scalable.progress(step, count)
            time.sleep(pause)
        return count

    def busy(seconds=6):
        compute(seconds)
        return "done"

    def asleep():
        time.sleep(600)

    def eat(size):
        use_memory(size)
        return size

    def raise_once(folder):
        if once(folder):
            raise MemoryError("no room for the array")
        return "fits"
"""


def alerts(project: Project) -> list[str]:
    """Those of the engine, which say no state."""
    return [one["alert"] for one in project.journal("alert") if "state" not in one]


def test_a_stuck_run_is_killed_and_run_again_while_its_neighbours_go_on(project: Project) -> None:
    module = project.module(CODE)
    session = project.session(
        target={"max_workers": 2},
        tasks=tasks_of(module, "hang_once", folder=str(project.folder)) | tasks_of(module, "ticks", count=100),
        policies={"retry": {"times": 1, "delay": "0.1s"}, "stuck": {"after": "2s"}},
    )
    with session, session.open_store() as store:
        assert session.run_tasks() == {"hang_once": "arrived", "ticks": 100}
        [row] = store.rows(Filter(name="hang_once"))
    assert (row.run_status, row.attempt, row.value) == (RowStatus.FINISHED, 2, "arrived")
    assert len(project.journal("worker-joined")) == 2
    ends = [(record["run"], record["outcome"]) for record in project.journal("attempt-ended")]
    assert ends == [("hang_once", "stuck"), ("hang_once", "finished"), ("ticks", "finished")]
    assert not project.journal("worker-lost")
    [incident] = IncidentFolder(session.folder.path).all()
    assert (incident.kind, incident.run, incident.attempt) == ("stuck", "hang_once", 1)
    assert incident.outcome.startswith("retried: finished")
    assert incident.found_after_s == pytest.approx(0, abs=2 / 8), "within one look at it"
    [retry] = project.journal("retry")
    assert retry["cause"] == "stuck"
    assert "retry-used" in alerts(project)


def test_a_declared_long_step_is_not_called_stuck(project: Project) -> None:
    session = project.session(
        tasks=tasks_of(project.module(CODE), "long_step", seconds=60), policies={"stuck": {"after": "10s"}}
    )
    with session:
        assert session.run_tasks() == {"long_step": "done"}
    assert alerts(project) == []


def test_what_hangs_is_killed_and_what_works_without_a_word_is_not(project: Project) -> None:
    session = project.session(
        target={"max_workers": 2},
        tasks=tasks_of(project.module(CODE), "busy", "asleep"),
        policies={"retry": {"times": 0}, "stuck": {"after": "4s"}},
    )
    with session as client:
        with pytest.raises(TaskError) as error:
            session.run_tasks()
        assert "1 of 2 tasks did not finish" in str(error.value)
        assert "asleep: failed: stuck" in str(error.value)
        assert client.worker_count() == 2
    states = {record["run"]: record["state"] for record in project.journal("run-ended")}
    assert states == {"busy": "finished", "asleep": "failed"}
    assert alerts(project) == ["stuck", "run-failed"]
    [killed] = [record for record in project.journal("attempt-ended") if record["run"] == "asleep"]
    assert killed["outcome"] == "stuck"
    assert not project.journal("worker-lost")


def test_a_run_that_reached_its_walltime_is_not_called_stuck(project: Project) -> None:
    session = project.session(
        tasks=tasks_of(project.module(CODE), "busy", seconds=60),
        policies={"retry": {"times": 0}, "stuck": {"after": "10s", "walltime": "20s"}},
    )
    with session, pytest.raises(TaskError, match="busy: failed: over its walltime"):
        session.run_tasks()
    assert alerts(project) == ["walltime", "run-failed"]
    [ended] = project.journal("attempt-ended")
    assert ended["outcome"] == "over its walltime"
    [incident] = IncidentFolder(session.folder.path).all()
    assert (incident.kind, incident.threshold_s, len(incident.prevent)) == ("over its walltime", None, 1)


def test_slow_jobs_that_progress_are_left_alone(project: Project) -> None:
    """Each takes longer in all than a job may be silent, and says something in time."""
    count, workers = (1000, 50) if os.environ.get("SCALABLE_TRACES") else (30, 30)
    jobs = tuple(Job(f"slow-{number}", "slow", "demeter") for number in range(count))
    works = {job.id: JobCall(workloads.slow_but_progressing, {"steps": 22, "each": 0.2}) for job in jobs}
    session = project.session(
        target={"max_workers": workers}, policies={"stuck": {"after": "4s"}, "retry": {"times": 0}}
    )

    async def go(driver: Driver) -> list[JobState]:
        futures = await driver.submit(SubmittedSweep("slow", SweepKind.FREE, jobs, workers=workers), works)
        return [state for state, _ in await asyncio.gather(*futures.values())]

    with session:
        states = session.live().cluster.sync(go, session.live())
    assert states == [JobState.FINISHED] * count
    assert not project.journal("incident")
    assert len(project.journal("attempt-started")) == count


def test_a_session_that_was_asleep_calls_nothing_stuck(project: Project, world: World) -> None:
    """As when a laptop is closed for an hour: its clock jumps, and nothing was heard meanwhile."""
    session = project.session(tasks=tasks_of(project.module(CODE), "ticks", count=24, pause=5))
    with session:
        driver, jumps = session.live(), list[float]()
        driver.now.source = lambda: time.monotonic() + sum(jumps)
        for seconds in (0, 50, 100):
            world.at(seconds, jumps.append, 3600.0)
        assert session.run_tasks() == {"ticks": 24}
        assert jumps == [3600.0] * 3
    assert alerts(project) == []


def test_after_a_pause_that_ends_everything_nothing_is_said_to_run(project: Project, world: World) -> None:
    module = project.module(CODE)
    tasks = tasks_of(module, "busy", seconds=60) | tasks_of(module, "ticks", count=600)
    session = project.session(target={"max_workers": 2}, tasks=tasks)
    with session:
        driver = session.live()
        pause = Question("1", "pause", {})
        world.at(20, lambda: driver.cluster.keep(Control(driver, session.folder).pause(pause, now=True)))
        world.at(30, driver.halt, "operator", None)
        session.run_tasks()
    gauges = [(record["t"], record["tasks"]["demeter"]) for record in project.journal("gauge")]
    [paused] = [record["t"] for record in project.journal("operator")]
    before = [counts for t, counts in gauges if t < paused]
    after = [counts for t, counts in gauges if paused <= t < paused + LOOK_EVERY_S]
    assert (before[-1]["running"], after[0]["running"], after[0]["waiting"]) == (2, 0, 2)


def test_progress_can_be_seen_while_a_run_goes_on(project: Project) -> None:
    session = project.session(tasks=tasks_of(project.module(CODE), "ticks", count=60))
    seen: list[dict[str, Any]] = []
    with session:
        driver = session.live()
        driver.on_look, before = (lambda look, **_: seen.extend(driver.activity())), driver.on_look  # type: ignore[assignment]
        session.run_tasks()
        driver.on_look = before
    steps = [one["step"] for one in seen if one["step"] is not None]
    assert steps == sorted(steps) and len(set(steps)) > 1
    assert {one["of"] for one in seen if one["step"] is not None} == {60}
    assert [record["step"] for record in project.journal("progress")]


def test_a_run_whose_worker_is_lost_is_run_again_on_another(project: Project, world: World) -> None:
    session = project.session(
        tasks=tasks_of(project.module(CODE), "hang_once", folder=str(project.folder)),
        policies={"retry": {"times": 1, "delay": "0.1s"}},
    )
    with session:
        world.at(5, world.lose, "demeter-0")
        assert session.run_tasks() == {"hang_once": "arrived"}
    [lost] = project.journal("worker-lost")
    first, second = project.journal("attempt-started")
    assert (lost["worker"], first["worker"], second["worker"]) == ("demeter-0", "demeter-0", "demeter-1")
    assert [record["outcome"] for record in project.journal("attempt-ended")] == ["worker lost", "finished"]
    assert [(record["run"], record["cause"]) for record in project.journal("retry")] == [("hang_once", "worker lost")]


def test_a_lost_worker_is_an_incident_with_the_outcome_of_its_jobs_also_in_the_store(
    project: Project, world: World
) -> None:
    tasks = tasks_of(project.module(CODE), "hang_once", folder=str(project.folder))
    session = project.session(tasks=tasks, policies={"retry": {"times": 1, "delay": "0.1s"}})
    with session:
        session.folder.log("demeter-0").write_text("about to die\n", encoding="utf-8")
        world.at(5, world.lose, "demeter-0", Loss.NODE_LOST, "its node is gone")
        session.run_tasks()
    [incident] = IncidentFolder(session.folder.path).all()
    assert (incident.kind, incident.worker, incident.run) == ("node lost", "demeter-0", "hang_once")
    assert (incident.guilty, incident.evidence["jobs"]) == ("its node is gone", ["hang_once"])
    assert incident.evidence["log"] == ["about to die"]
    assert incident.outcome.startswith("retried: finished")
    with session.open_store() as store:
        [row] = store.incidents()
    assert (row.id, row.kind, row.worker, row.sweep) == (f"{session.folder.run_id}/1", "node lost", "demeter-0", None)
    assert row.summary["outcome"] == incident.outcome
    assert row.summary["evidence"]["log"] == ["about to die"]
    assert row.summary["folder"].endswith(str(session.folder.path))


def test_a_lost_worker_without_jobs_is_an_incident_and_one_that_we_sent_away_is_none(
    project: Project, world: World
) -> None:
    session = project.session(target={"max_workers": 2})
    with session:
        world.lose("demeter-0")
        world.sleep(5)
        session.scale({"demeter": 0})
    [incident] = IncidentFolder(session.folder.path).all()
    assert (incident.worker, incident.run, incident.evidence["jobs"]) == ("demeter-0", "", [])


def test_a_missing_module_ends_a_sweep_before_it_starts(project: Project) -> None:
    """It would fail everywhere, so it is found out once and named."""
    jobs = tuple(Job(f"job-{number}", "sweep", "demeter") for number in range(20))
    works = {job.id: JobCall(Call("no_such_module:f", False, ())) for job in jobs}
    session = project.session(target={"max_workers": 2})

    async def go(driver: Driver) -> list[tuple[JobState, Any]]:
        futures = await driver.submit(SubmittedSweep("sweep", SweepKind.FREE, jobs, workers=2), works)
        return await asyncio.gather(*futures.values())

    with session:
        ends: list[tuple[JobState, Any]] = session.live().cluster.sync(go, session.live())
    assert all("No module named 'no_such_module'" in reason for _, reason in ends)
    assert len(project.journal("attempt-started")) <= 2
    assert [state for state, _ in ends].count(JobState.REFUSED) >= 18
    assert alerts(project).count("cannot-start") == 1


class TestTheLadder:
    def test_a_run_that_ran_out_of_memory_is_run_again_on_the_larger_component(self, project: Project) -> None:
        run = {"run": f"{project.module(CODE)}:eat_once", "arguments": {"folder": str(project.folder)}}
        session = project.session(
            target={"max_workers": 2},
            components={"small": {"memory": "500MB", "larger": "large"}, "large": {"memory": "2GB"}},
            tasks={"eat": {"component": "small", **run}},
            policies={"retry": {"delay": "0.1s"}},
        )
        with session:
            assert session.run_tasks() == {"eat": "fits"}
        first, second = project.journal("attempt-started")
        assert (first["tag"], second["tag"]) == ("small", "large")
        [alert] = [record for record in project.journal("alert") if record["alert"] == "retry-used"]
        assert "on large" in alert["text"]
        assert "ask for" in alert["text"]
        [incident] = IncidentFolder(session.folder.path).all()
        assert (incident.kind, incident.evidence["peak"]) == ("out of memory", 520 * MIB)

    def test_a_memory_error_climbs_and_is_not_counted_as_a_kill(self, project: Project) -> None:
        run = {"run": f"{project.module(CODE)}:raise_once", "arguments": {"folder": str(project.folder)}}
        session = project.session(
            target={"max_workers": 2},
            components={"small": {"memory": "500MB", "larger": "large"}, "large": {"memory": "2GB"}},
            tasks={"eat": {"component": "small", **run}},
            policies={"retry": {"delay": "0.1s"}},
        )
        with session:
            assert session.run_tasks() == {"eat": "fits"}
        assert [record["tag"] for record in project.journal("attempt-started")] == ["small", "large"]
        assert [record.get("raised") for record in project.journal("attempt-ended")] == [True, None]
        [incident] = IncidentFolder(session.folder.path).all()
        assert (incident.kind, incident.evidence["raised"]) == ("out of memory", True)
        assert "killed" not in what(incident)
        assert RunView.of(project.journal()).out_of_memory == 0

    def test_what_a_run_used_last_time_is_known_before_the_next_is_paid_for(self, project: Project) -> None:
        eat = {"run": f"{project.module(CODE)}:eat", "arguments": {"size": 400 * MIB}}
        tasks = {"eat": {"component": "small", **eat}}
        session = project.session(components={"small": {"memory": "1500MB"}}, tasks=tasks)
        with session:
            session.run_tasks()
        session = project.session(components={"small": {"memory": "350MB"}}, tasks=tasks)
        with session, pytest.raises(scalable.TaskError, match="memory check: eat is expected to use"):
            session.run_tasks()
        assert not project.journal("attempt-started")
        larger = {"small": {"memory": "350MB", "larger": "large"}, "large": {"memory": "2GB"}}
        session = project.session(target={"max_workers": 2}, components=larger, tasks=tasks)
        with session:
            session.run_tasks()
        [attempt] = project.journal("attempt-started")
        assert attempt["tag"] == "large"

    def test_a_component_that_is_not_larger_is_no_way_up(self, project: Project) -> None:
        with pytest.raises(scalable.ManifestError, match="large is not larger than small: 1 GB against 2 GB"):
            project.session(components={"small": {"memory": "2GB", "larger": "large"}, "large": {"memory": "1GB"}})
