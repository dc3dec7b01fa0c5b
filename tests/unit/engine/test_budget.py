"""The budget as a rule of the engine: nothing starts that the money does not cover, and the brake stops everything.

A node costs EUR 1 an hour, takes 3 minutes to come and is paid for 10 more after its last worker.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from scalable.engine.events import (
    Job,
    JobState,
    KillJob,
    Loss,
    OutsideWork,
    RemoveWorker,
    SpendChanged,
    SubmittedSweep,
    SweepEnded,
    SweepKind,
    WorkerJoined,
)
from scalable.planning.placement import PoolRoom
from scalable.planning.simulation import simulate
from scalable.planning.simulation.cluster import ModelPool
from scalable.planning.simulation.durations import Fixed
from tests.helpers.engine.builders import World, a_world, money
from tests.helpers.engine.invariants import Invariants


def spending(spent: str, per_hour: str = "1 EUR", wind_down: str = "0.17 EUR", covered: int = 1) -> SpendChanged:
    """The world's report; it covers the first request for workers if nothing else is said."""
    return SpendChanged(money(spent), money(per_hour), money(wind_down), covered)


def test_a_budget_under_the_price_of_a_start_asks_for_no_worker() -> None:
    world = a_world().with_budget("0.20 EUR").with_sweep("a", jobs=3, expected_s=60)
    assert world.asked() == []
    assert world.alerts("budget")[0].message == ("what is left of the budget of EUR 0.20 is not enough for another job")
    assert world.all(SweepEnded) == [SweepEnded("a", False, {"stopped": 3})]


def test_a_minimum_of_workers_that_cannot_be_paid_stops_everything_at_once() -> None:
    world = a_world().with_kind("standard", minimum=2).with_budget("0.20 EUR")
    world.passes(1)
    assert world.asked() == []
    assert len(world.alerts("budget")) == 1


def test_work_from_outside_that_cannot_be_paid_stops_everything_unless_other_such_work_runs() -> None:
    def alerts(busy: frozenset[str]) -> int:
        world = a_world().with_budget("0.20 EUR")
        world.happens(WorkerJoined("w", "heavy"))
        world.happens(OutsideWork("heavy", 0, busy))
        world.happens(OutsideWork("standard", 3))
        return len(world.alerts("budget"))

    assert (alerts(frozenset()), alerts(frozenset({"w"}))) == (1, 0)


def test_a_budget_that_covers_start_job_a_kill_and_the_idle_tail_exactly_is_enough() -> None:
    seconds = 180 + 420 + 60 + 600
    assert a_world().with_budget(f"{seconds / 3600 - 1e-9:.10f} EUR").with_sweep("a", expected_s=420).asked() == []
    assert a_world().with_budget(f"{seconds / 3600:.10f} EUR").with_sweep("a", expected_s=420).asked() == [1]


def test_only_as_many_workers_are_asked_for_as_can_be_paid() -> None:
    world = a_world().with_budget("1.5 EUR").with_sweep("a", jobs=14, expected_s=3600)
    assert world.asked() == [7], "a second node would need another EUR 1.22"


def test_without_a_budget_there_is_no_limit() -> None:
    world = a_world().with_sweep("a", jobs=14, expected_s=3600)
    world.happens(spending("1000000 EUR"))
    assert world.asked() == [14]
    assert not world.alerts("budget")


def test_a_job_that_the_rest_of_the_money_does_not_cover_is_not_started() -> None:
    world = a_world().with_budget("2 EUR").with_sweep("long", jobs=2, expected_s=3600).with_workers(1)
    world.happens(spending("0.9 EUR"))
    world.with_workers(1)
    assert len(world.starts("long/1") + world.starts("long/2")) == 1


def test_a_shorter_job_that_the_money_covers_goes_first() -> None:
    world = a_world().with_budget("2 EUR").with_sweep("long", jobs=2, expected_s=3600).with_workers(1)
    world.happens(spending("0.9 EUR"))
    world.with_sweep("short", expected_s=60)
    world.with_workers(1)
    assert world.state("short/1") is JobState.RUNNING


def test_the_brake_stops_everything_when_the_committed_money_reaches_the_budget() -> None:
    world = a_world().with_budget("1 EUR").with_sweep("a", jobs=3, workers=1, expected_s=60).with_workers(1)
    world.happens(spending("0.70 EUR", wind_down="0.20 EUR"))
    assert world.engine.next_wake() <= 300, "EUR 0.10 lasts for 6 minutes, one of them kept for stopping"
    world.passes(200)
    world.finishes("a/1")
    world.passes(100)

    assert world.all(KillJob) == [KillJob("a/2", 1, "w1", Loss.STOPPED)]
    assert world.state("a/3") is JobState.STOPPED
    used_up = "the budget of EUR 1.00 is used up: EUR 0.78 spent, EUR 0.22 kept for ending what runs"
    assert world.alerts("budget")[0].message == used_up

    world.loses("a/2", Loss.STOPPED)
    assert world.state("a/2") is JobState.STOPPED
    assert world.all(RemoveWorker) == [
        RemoveWorker("w1", "standard", used_up, forced=True),
    ]
    assert world.all(SweepEnded) == [SweepEnded("a", False, {"finished": 1, "stopped": 2})]


def braked() -> World:
    world = a_world().with_budget("1 EUR").with_sweep("a", jobs=2, workers=1, expected_s=60).with_workers(1)
    world.happens(spending("0.9 EUR", wind_down="0.1 EUR"))
    assert world.alerts("budget")
    return world


def test_after_the_brake_nothing_is_retried() -> None:
    world = braked()
    world.loses("a/1", Loss.TRANSIENT)
    world.passes(3600)
    assert world.state("a/1") is JobState.STOPPED
    assert len(world.starts("a/1")) == 1


def test_after_the_brake_a_late_worker_is_sent_away_at_once() -> None:
    world = braked()
    world.happens(WorkerJoined("late", "standard"))
    assert "late" in world.removed()


def test_after_the_brake_a_new_sweep_is_stopped_not_run() -> None:
    world = braked()
    world.with_sweep("b", jobs=2)
    assert world.failure("b/1").state is JobState.STOPPED
    assert world.failure("b/1").reason.startswith("the budget of EUR 1.00 is used up: EUR 0.90 spent")
    assert world.asked() == [1]


def test_the_brake_is_pulled_once() -> None:
    world = braked()
    world.happens(spending("1.1 EUR"))
    world.passes(3600)
    assert len(world.alerts("budget")) == 1


def test_a_report_from_before_a_request_does_not_forget_what_the_request_costs() -> None:
    def asked_after(covered: int) -> list[int]:
        world = a_world().with_budget("0.5 EUR").with_sweep("a", expected_s=60)
        world.happens(spending("0 EUR", "0 EUR", "0 EUR", covered))
        world.with_sweep("other", kind=SweepKind.FREE, expected_s=300)
        return world.asked("wfrb")

    assert asked_after(covered=0) == [], "EUR 0.22 of 0.50 are promised, another start needs 0.30"
    assert asked_after(covered=1) == [1], "the report says that the promise came to nothing"


@pytest.mark.parametrize("budget", ["0.25", "0.5", "1", "2.37", "4", "9"])
def test_what_is_paid_in_the_end_is_never_over_the_budget(budget: str) -> None:
    world = a_world().with_budget(f"{budget} EUR")
    rules = world.engine.state.rules
    room = rules.pools["compute"]
    assert isinstance(room, PoolRoom)
    jobs = tuple(Job(f"a/{n}", "a", "standard", expected_s=900) for n in range(60))
    watch = Invariants(rules)
    outcome = simulate(
        rules,
        {"compute": ModelPool(room, cpus=15.6)},
        [SubmittedSweep("a", SweepKind.NORMAL, jobs, 20)],
        caps={"standard": 4.0, "heavy": 4.0, "wfrb": 2.0},
        durations={"a": Fixed(1000)},  # longer than foreseen
        journal=watch,
    )
    paid = outcome.cost({"compute": money("1 EUR")}, "EUR")
    watch.at_the_end(paid)
    assert paid.amount <= Decimal(budget) + Decimal("0.0001")
    assert outcome.complete is (budget == "9")
