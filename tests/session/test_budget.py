"""A session does not spend what it has not got."""

from __future__ import annotations

import pytest

from scalable import PlanningError, TaskError
from tests.session.builders import Project
from tests.waiting import until

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
    assert alert["text"] == "the budget of EUR 62.00 is used up"
    [ended] = project.journal("attempt-ended")
    assert ended["outcome"] == "stopped"


def test_nothing_is_started_when_nothing_is_left(project: Project) -> None:
    session = project.session(target=SECOND, budget={"monthly": "10 EUR", "fixed": {"database": "10 EUR"}})
    with pytest.raises(PlanningError, match=r"nothing is left of this month's budget of EUR 10\.00"):
        session.start()
    assert not project.journal("worker-started")


def test_where_nothing_is_charged_a_budget_stops_nothing(project: Project) -> None:
    with project.session(budget={"monthly": "0.01 EUR"}) as client:
        assert client.submit(int, "5").result() == 5
