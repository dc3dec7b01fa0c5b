"""Ends that nobody plans for: code that exits, forks, or asks for what no worker has, and how they are told."""

from __future__ import annotations

from typing import Any

import pytest

from scalable import AdaptiveScaler, ScaleDecision, TaskError, open_store
from scalable.engine.events import Event, Instruction, Tick
from tests.helpers.session.builders import Project, nap
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("world")


@pytest.mark.parametrize(("line", "words"), [("sys.exit('no grid')", "no grid"), ("raise Stop('enough')", "enough")])
def test_a_task_that_exits_fails_with_its_own_words_and_keeps_its_worker(
    project: Project, line: str, words: str
) -> None:
    code = project.module(f"import sys\nclass Stop(BaseException): pass\ndef leave():\n    {line}\n")
    tasks = {"leave": {"component": "demeter", "run": f"{code}:leave"}}
    session = project.session(tasks=tasks)
    with session as client:
        with pytest.raises(TaskError, match=words):
            session.run_tasks()
        assert client.worker_count("demeter") == 1


def test_a_secret_in_an_error_does_not_reach_the_store(project: Project) -> None:
    code = project.module("def leave(): raise ValueError('postgres://me:hunter2@db/x is down')\n")
    session = project.session(tasks={"leave": {"component": "demeter", "run": f"{code}:leave"}})
    with session, pytest.raises(TaskError):
        session.run_tasks()
    with open_store("sqlite:///.scalable/results.db") as store:
        (row,) = store.rows()
    assert row.error is not None and "is down" in row.error
    assert "hunter2" not in row.error


def test_runs_that_wait_for_a_worker_are_counted_as_waiting(project: Project) -> None:
    code = project.module("import time\ndef nap(): time.sleep(1.5)\n")
    names = ("one", "two", "three")
    session = project.session(tasks={name: {"component": "demeter", "run": f"{code}:nap"} for name in names})
    with session:
        session.run_tasks()
    gauges = [one["tasks"]["demeter"] for one in project.journal() if one["kind"] == "gauge"]
    assert max(one["waiting"] for one in gauges) >= 1
    assert gauges[-1] == {"waiting": 0, "running": 0, "done": 3, "failed": 0}


class Stumbling(AdaptiveScaler):
    """Raises every other time that it is asked."""

    asked = 0

    def evaluate(self, **facts: Any) -> ScaleDecision:
        self.asked += 1
        if self.asked % 2:
            raise ZeroDivisionError("no worker, no average")
        return super().evaluate(**facts)


def test_a_scaler_of_ones_own_that_raises_is_told_of_once_and_stops_nothing(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    scaler = Stumbling(min_workers={"demeter": 1}, max_workers={"demeter": 2}, cooldown_seconds=0)
    session = project.session(target={"max_workers": 2})
    client = session.start(adaptive=scaler)
    futures = [client.submit(nap, 0.2, number, tag="demeter") for number in range(12)]
    assert until(lambda: client.worker_count() == 2)
    client.gather(futures)
    assert until(lambda: scaler.asked >= 4)
    session.close()
    told = "the scaler could not decide: ZeroDivisionError: no worker, no average; it goes on"
    assert [one.getMessage() for one in caplog.records if one.name.startswith("scalable")] == [told]


def test_an_event_that_goes_wrong_keeps_no_later_one_from_the_engine(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = project.session()
    with session:
        driver, came = session.live(), list[Event]()
        handle = driver.engine.handle

        def stumbling(event: Event, now: float) -> list[Instruction]:
            came.append(event)
            if len(came) == 1:
                driver.handle(Tick())  # as carrying out an instruction may lead to
                raise ZeroDivisionError
            return handle(event, now)

        async def told() -> None:
            monkeypatch.setattr(driver.engine, "handle", stumbling)
            with pytest.raises(ZeroDivisionError):
                driver.handle(Tick())
            driver.handle(Tick())

        driver.cluster.sync(told)
        assert len(came) >= 3
