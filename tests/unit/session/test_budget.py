"""A session does not spend what it has not got."""

from __future__ import annotations

import re
import time

import pytest

from scalable import PlanningError, TaskError
from scalable.cluster.scheduler import TaskStoppedError
from tests.helpers.observe.builders import START, Record, a_live_run, a_run, record, write
from tests.helpers.session.builders import Project
from tests.helpers.session.virtual import World
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("world")


SECOND = {"cpu_price": "3600 EUR/h"}  # one euro a second; the brake keeps a minute of that for stopping


def test_when_the_money_is_used_up_everything_stops_and_no_worker_is_left(project: Project) -> None:
    module = project.module("import time\ndef slow():\n    time.sleep(600)\n")
    session = project.session(
        target=SECOND,
        tasks={"slow": {"component": "demeter", "run": f"{module}:slow"}},
        budget={"monthly": "62 EUR"},
    )
    with session as client:
        with pytest.raises(TaskError, match=r"slow: stopped: the budget of EUR 62.00 is used up"):
            session.run_tasks()
        assert until(lambda: client.worker_count() == 0)
    [alert] = [record for record in project.journal("alert") if record["alert"] == "budget"]
    figures = re.fullmatch(
        r"the budget of EUR 62\.00 is used up: EUR (\S+) spent, EUR (\S+) kept for ending what runs", alert["text"]
    )
    assert figures is not None
    assert float(figures[1]) + float(figures[2]) == pytest.approx(62, abs=0.02)
    assert float(figures[1]) < 5
    assert {one["outcome"] for one in project.journal("attempt-ended")} <= {"stopped"}, "on a slow machine none began"


def test_when_the_money_is_used_up_futures_of_a_script_fail_with_the_reason(project: Project) -> None:
    with project.session(target=SECOND, budget={"monthly": "70 EUR"}) as client:
        slow = client.submit(time.sleep, 600)
        waits = client.submit(str, slow)
        with pytest.raises(TaskStoppedError, match=r"sleep-\d+ was stopped: the budget of EUR 70\.00 is used up: EUR"):
            client.gather([slow, waits])
        with pytest.raises(TaskStoppedError):
            waits.result()
        assert until(lambda: client.worker_count() == 0)
        with pytest.raises(TaskStoppedError, match="is used up"):
            client.submit(int, "5").result()


def test_nothing_is_started_when_nothing_is_left(project: Project) -> None:
    session = project.session(target=SECOND, budget={"monthly": "10 EUR", "fixed": {"database": "10 EUR"}})
    with pytest.raises(PlanningError, match=r"nothing is left of this month's budget of EUR 10\.00"):
        session.start()
    assert not project.journal("worker-started")


def test_no_worker_is_asked_for_that_the_budget_cannot_pay_for_a_minute(project: Project) -> None:
    session = project.session(target=SECOND, budget={"monthly": "50 EUR"})
    with pytest.raises(PlanningError, match=r"what is left of the budget of EUR 50\.00 is not enough"):
        session.start()
    assert not project.journal("worker-started")
    assert [record["alert"] for record in project.journal("alert")] == ["budget"]


def test_where_nothing_is_charged_a_budget_stops_nothing(project: Project) -> None:
    with project.session(budget={"monthly": "0.01 EUR"}) as client:
        assert client.submit(int, "5").result() == 5


def spent(amount: float) -> Record:
    return record("cost", time.time() - START, spent={"amount": amount, "currency": "EUR"})


NO_PROCESS = 2**22 + 1  # more than any process's number on Linux


def test_what_a_killed_run_cost_counts_once_in_the_month(project: Project) -> None:
    runs = project.folder / ".scalable/runs"
    a_run(runs, spent(70), end=False, pid=NO_PROCESS, at=time.time() - START)
    for _ in range(2):
        with project.session(target=SECOND, budget={"monthly": "1000 EUR"}):
            (tariff,) = until(lambda: project.journal("tariff"))
            assert 900 < tariff["budget"]["amount"] <= 930


def test_a_session_that_runs_at_the_same_time_is_paid_from_the_same_budget(project: Project, world: World) -> None:
    other = a_live_run(project.folder / ".scalable/runs", spent(300))
    module = project.module("import time\ndef slow():\n    time.sleep(600)\n")
    tasks = {"slow": {"component": "demeter", "run": f"{module}:slow"}}
    session = project.session(target=SECOND, tasks=tasks, budget={"monthly": "1000 EUR"})
    with session as client:
        assert project.journal("tariff")[0]["budget"]["amount"] == 700
        world.at(5, lambda: write(other, [spent(940)]))
        with pytest.raises(
            TaskError, match=r"the budget of EUR 700.00 is used up: .*EUR 640.00 spent by other sessions"
        ):
            session.run_tasks()
        assert until(lambda: client.worker_count() == 0)
    (ended,) = project.journal("attempt-ended")
    assert ended["outcome"] == "stopped"


def test_nothing_is_started_when_others_have_spent_it_all(project: Project) -> None:
    a_live_run(project.folder / ".scalable/runs", spent(10))
    session = project.session(target=SECOND, budget={"monthly": "10 EUR"})
    with pytest.raises(PlanningError, match=r"nothing is left of this month's budget of EUR 10\.00"):
        session.start()


def test_a_run_beside_it_whose_journal_cannot_be_read_keeps_nothing_from_starting(project: Project) -> None:
    other = a_live_run(project.folder / ".scalable/runs", spent(10))
    other.journal.unlink()
    other.journal.mkdir()
    with project.session(target=SECOND, budget={"monthly": "1000 EUR"}) as client:
        assert client.submit(int, "5").result() == 5
    assert project.ended() == ("ok", "")
