"""Hours of an allocation as a rule of the engine: the brake works by them as it does by money, and by both together.

Every worker holds four cores.
"""

from __future__ import annotations

from scalable.engine.events import Event, HoursChanged, JobState, SpendChanged, SweepEnded
from scalable.machine_hours import MachineHours
from scalable.planning.codec import decoder, encoder
from tests.helpers.engine.builders import a_world, money


def used(hours: float, held: float = 4, elsewhere: float | None = None) -> HoursChanged:
    def amount(number: float) -> MachineHours:
        return MachineHours.parse(f"{number} core-hours")

    others = amount(elsewhere) if elsewhere is not None else None
    return HoursChanged(amount(hours), amount(held), amount(0), 1, others)


def test_only_as_many_workers_are_asked_for_as_the_allocation_holds_for_a_job_each() -> None:
    world = a_world().with_allocation("9 core-hours").with_sweep("a", jobs=14, expected_s=3600)
    assert world.asked() == [2], "two workers of four cores for an hour and the time to stop them"


def test_an_allocation_that_is_too_small_for_one_job_stops_everything() -> None:
    world = a_world().with_allocation("1 core-hours").with_sweep("a", jobs=3, expected_s=3600)
    assert world.asked() == []
    (alert,) = world.alerts("budget")
    assert "1 core-hours" in alert.message
    assert world.all(SweepEnded) == [SweepEnded("a", False, {"stopped": 3})]


def test_the_brake_is_pulled_when_the_hours_are_used_up() -> None:
    world = a_world().with_policy("stuck", after="24h").with_allocation("10 core-hours").with_willing_cluster()
    world.with_sweep("a", expected_s=60)
    assert world.state("a/1") is JobState.RUNNING
    world.happens(used(1))
    world.passes(2 * 3600)
    assert not world.alerts("budget"), "after two hours nine of ten are used"
    world.passes(1000)
    (alert,) = world.alerts("budget")
    assert "the budget of 10 core-hours is used up" in alert.message
    assert world.state("a/1") is JobState.STOPPED
    assert world.removed() == ["w1"]


def test_what_other_sessions_use_counts() -> None:
    world = a_world().with_allocation("10 core-hours").with_willing_cluster().with_sweep("a", expected_s=60)
    world.happens(used(1, elsewhere=9.5))
    assert len(world.alerts("budget")) == 1


def test_of_two_budgets_the_one_that_is_used_up_first_stops_and_is_named() -> None:
    world = a_world().with_budget("1000 EUR").with_allocation("10 core-hours").with_willing_cluster()
    world.with_sweep("a", expected_s=60)
    world.happens(SpendChanged(money("1 EUR"), money("1 EUR"), money("0.1 EUR"), 1), used(10))
    (alert,) = world.alerts("budget")
    assert "10 core-hours" in alert.message


def test_hours_do_not_brake_where_none_are_budgeted() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", expected_s=60)
    world.happens(used(1e6))
    assert not world.alerts("budget")


def test_the_report_of_hours_is_recorded_and_read_back() -> None:
    event = used(1.5, elsewhere=2)
    assert decoder(Event)(encoder(Event)(event)) == event
