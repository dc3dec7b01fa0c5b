"""A session counts core-hours, and stops when its allocation is used up."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from scalable import PlanningError, TaskError
from scalable.cli.commands.status import status_facts
from scalable.machine_hours import CORE_HOURS
from scalable.observe.fields import day
from scalable.observe.liveness import RunState
from scalable.observe.report import current, report_of
from scalable.observe.view import RunView
from tests.helpers.observe.builders import START, Record, a_live_run, record
from tests.helpers.session.builders import Project
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("world")

WORKER = {"components": {"demeter": {"cpus": 4}}}


def slow(project: Project, seconds: int) -> dict[str, Any]:
    module = project.module(f"import time\ndef slow():\n    time.sleep({seconds})\n")
    policies = {"stuck": {"after": "3h"}}
    return {**WORKER, "policies": policies, "tasks": {"slow": {"component": "demeter", "run": f"{module}:slow"}}}


def test_hours_are_counted_while_workers_are_there_and_learned(project: Project) -> None:
    session = project.session(**slow(project, 900), budget={"allocation": "10 core-hours"})
    with session:
        session.run_tasks()
    (begun,) = project.journal("allocation")
    assert begun["budget"] == {"amount": 10.0, "unit": CORE_HOURS}
    last = project.journal("hours")[-1]
    assert last["used"][CORE_HOURS] == pytest.approx(1.0, abs=0.05), "four cores for a quarter of an hour"
    assert last["held"][CORE_HOURS] == 0
    history = json.loads((project.folder / ".scalable/history.json").read_text())
    assert history["hours"][day(time.time())][CORE_HOURS] == pytest.approx(1.0, abs=0.05)
    view = RunView.of(project.journal())
    report = report_of(view, RunState.OK, time.time())
    assert report["hours"]["left"]["amount"] == pytest.approx(9.0, abs=0.05)
    assert report["plan_vs_actual"]["hours"]["actual"] == last["used"]
    (line,) = [text for name, text in status_facts(current(view, RunState.OK, time.time())) if name == "hours"]
    assert line.endswith("of 10 core-hours left")


def test_when_the_hours_are_used_up_everything_stops(project: Project) -> None:
    session = project.session(**slow(project, 2500), budget={"allocation": "1 core-hours"})
    with session as client:
        with pytest.raises(TaskError, match=r"slow: stopped: the budget of 1 core-hours is used up"):
            session.run_tasks()
        assert until(lambda: client.worker_count() == 0)
    assert 0.5 < project.journal("hours")[-1]["used"][CORE_HOURS] <= 1.0


def test_nothing_is_started_when_earlier_runs_used_the_allocation(project: Project) -> None:
    for _ in range(2):
        session = project.session(**slow(project, 900), budget={"allocation": "1.5 core-hours"})
        try:
            with session:
                session.run_tasks()
        except TaskError:
            pass
    session = project.session(**WORKER, budget={"allocation": "1 core-hours"})
    with pytest.raises(PlanningError, match=r"nothing is left of the 1 core-hours of budget\.allocation"):
        session.start()


def hours(cores: float) -> Record:
    return record("hours", time.time() - START, used={CORE_HOURS: cores}, held={CORE_HOURS: 4.0})


def test_a_session_beside_this_one_uses_the_same_allocation(project: Project) -> None:
    a_live_run(project.folder / ".scalable/runs", hours(6))
    with project.session(**WORKER, budget={"allocation": "10 core-hours"}):
        assert project.journal("allocation")[0]["budget"]["amount"] == 4


def test_where_nothing_is_budgeted_on_this_machine_no_hours_are_counted(project: Project) -> None:
    with project.session() as client:
        assert client.submit(int, "5").result() == 5
    assert not project.journal("hours")
