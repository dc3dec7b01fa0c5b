"""Work that others hand out, bounds that others set: what the engine does for them, and what it must not do."""

from __future__ import annotations

import pytest

from scalable.engine.events import (
    BoundsSet,
    JobState,
    OutsideWork,
    Paused,
    RemoveWorker,
    Resumed,
    SpendChanged,
    WorkerLeaving,
    WorkerLost,
    WorkersWithdrawn,
)
from tests.helpers.engine.builders import World, a_world, money, only

COOLDOWN_S = 120


def with_outside_work(*workers: str, waiting: int = 0, tag: str = "standard") -> OutsideWork:
    return OutsideWork(tag, waiting, frozenset(workers))


def a_world_of(count: int) -> World:
    """So many workers that stay because they are the minimum."""
    return a_world().with_kind("standard", minimum=count).with_workers(count)


def a_world_of_idle_workers(count: int) -> World:
    """They have been idle for long, and no cooldown is on."""
    world = a_world_of(count)
    world.passes(10 * COOLDOWN_S)
    return world


def test_waiting_work_from_outside_brings_workers() -> None:
    world = a_world()
    world.happens(with_outside_work(waiting=3))
    assert world.asked() == [3]


def test_work_from_outside_fills_the_slots_of_workers() -> None:
    world = a_world().with_kind("standard", slots=2)
    world.happens(with_outside_work(waiting=3))
    assert world.asked() == [2]


def test_work_from_outside_never_brings_more_workers_than_the_maximum() -> None:
    world = a_world().with_kind("standard", maximum=2)
    world.happens(with_outside_work(waiting=50))
    world.with_workers(2)
    world.happens(with_outside_work("w1", "w2", waiting=48))
    world.passes(1000)
    assert world.asked() == [2]


def test_own_and_outside_work_are_asked_for_together() -> None:
    world = a_world_of(1)
    world.happens(with_outside_work("w1", waiting=2))
    world.with_sweep("mine", jobs=2)
    assert sum(world.asked()) == 4


def test_a_worker_with_work_from_outside_is_kept_until_it_is_done() -> None:
    world = a_world_of_idle_workers(2)
    world.happens(with_outside_work("w1"), BoundsSet("standard", 0, None))
    world.passes(1000)
    assert world.removed() == ["w2"]
    world.happens(with_outside_work())
    world.passes(1000)
    assert world.removed() == ["w2", "w1"]


def test_a_worker_with_work_from_outside_is_given_no_job() -> None:
    world = a_world_of(1)
    world.happens(with_outside_work("w1"))
    world.with_sweep("mine")
    assert world.starts("mine/1") == []
    assert world.asked() == [1]
    world.happens(with_outside_work())
    assert [start.worker for start in world.starts("mine/1")] == ["w1"]


def test_a_worker_that_keeps_results_stays_but_may_be_given_jobs() -> None:
    world = a_world_of_idle_workers(3)
    world.happens(OutsideWork("standard", 0, holding=frozenset({"w1"})), BoundsSet("standard", 0, None))
    world.passes(1000)
    assert world.removed() == ["w2", "w3"]
    world.with_sweep("mine")
    assert [start.worker for start in world.starts("mine/1")] == ["w1"]
    world.finishes("mine/1")
    world.happens(with_outside_work())
    world.passes(1000)
    assert world.removed() == ["w2", "w3", "w1"]


def test_a_later_idle_worker_goes_on_time_though_an_earlier_one_keeps_results() -> None:
    world = a_world().with_policy("scaling", idle=60, cooldown=0).with_workers(2)
    world.happens(OutsideWork("standard", 0, busy=frozenset({"w2"}), holding=frozenset({"w1"})))
    world.passes(100)
    world.happens(OutsideWork("standard", 0, holding=frozenset({"w1"})))
    world.passes(59)
    assert world.removed() == []
    world.passes(1)
    assert world.removed() == ["w2"]


def test_a_worker_that_had_notice_may_finish_its_work_from_outside() -> None:
    world = a_world_of(1)
    world.happens(with_outside_work("w1"), WorkerLeaving("w1"))
    assert world.removed() == []
    world.happens(with_outside_work())
    assert world.removed() == ["w1"]


def test_a_worker_that_had_notice_is_not_counted_for_work_that_still_waits() -> None:
    world = a_world_of(1)
    world.happens(with_outside_work("w1"), WorkerLeaving("w1"))
    before = len(world.asked())
    world.happens(with_outside_work("w1", waiting=2))
    assert sum(world.asked()[before - 1 :]) == 2


def test_a_used_up_budget_ends_work_from_outside_too() -> None:
    world = a_world().with_budget("1 EUR").with_workers(1)
    world.happens(with_outside_work("w1", waiting=3))
    world.happens(SpendChanged(money("1 EUR"), money("1 EUR"), money("0 EUR")))
    assert world.removed() == ["w1"]
    before = world.asked()
    world.happens(with_outside_work(waiting=3))
    assert world.asked() == before


def test_a_worker_that_is_lost_with_work_from_outside_leaves_no_trace() -> None:
    world = a_world_of_idle_workers(2)
    world.happens(with_outside_work("w1", "w2"), BoundsSet("standard", 0, None), WorkerLost("w1"))
    world.happens(with_outside_work("w2", waiting=1))
    assert world.asked()[-1] == 1
    world.happens(with_outside_work())
    world.passes(1000)
    assert world.removed() == ["w2"]


def test_nothing_is_asked_for_while_the_engine_is_paused() -> None:
    world = a_world()
    world.happens(Paused(), with_outside_work(waiting=2))
    assert world.asked() == []
    world.happens(Resumed())
    assert world.asked() == [2]


def test_work_that_comes_and_goes_does_not_make_workers_come_and_go() -> None:
    world = a_world().with_willing_cluster()
    for _ in range(50):
        world.happens(with_outside_work(waiting=2))
        world.passes(1)
        world.happens(with_outside_work())
        world.passes(1)
    assert world.asked() == [2]
    assert world.removed() == []


def test_waiting_work_takes_the_place_of_idle_workers_of_another_kind() -> None:
    world = a_world().with_nodes(1).with_kind("standard", minimum=7).with_workers(7)
    world.passes(1000)
    world.happens(BoundsSet("standard", 6, None), with_outside_work(waiting=1, tag="heavy"))
    assert len(world.removed()) == 1
    world.happens(WorkerLost(world.removed()[0]))
    assert world.asked("heavy") == [1]


def test_workers_missing_to_a_raised_minimum_come_at_once() -> None:
    world = a_world_of_idle_workers(2)
    world.happens(BoundsSet("standard", 0, None))
    assert len(world.removed()) == 2, "the cooldown begins"
    world.happens(BoundsSet("standard", 3, None))
    assert world.asked()[-1] == 3


def test_a_lost_worker_is_replaced_at_once_where_there_is_a_minimum() -> None:
    world = a_world_of_idle_workers(3)
    world.happens(BoundsSet("standard", 2, None))
    assert len(world.removed()) == 1, "the cooldown begins"
    world.happens(WorkerLost("w3"))
    assert world.asked()[-1] == 1


def test_more_than_the_minimum_waits_for_the_cooldown() -> None:
    world = a_world_of_idle_workers(2)
    world.happens(BoundsSet("standard", 1, None))
    assert len(world.removed()) == 1
    before = len(world.asked())
    world.happens(with_outside_work("w2", waiting=3))
    assert len(world.asked()) == before
    world.passes(COOLDOWN_S)
    assert world.asked()[before:] == [3]


def test_idle_workers_over_a_lowered_maximum_go_at_once_and_busy_ones_later() -> None:
    world = a_world().with_kind("standard", minimum=3).with_workers(3)
    world.happens(with_outside_work("w1", "w2"))
    sent = only(RemoveWorker, world.happens(BoundsSet("standard", 1, 1)))
    assert [(one.worker, one.forced) for one in sent] == [("w3", True)]
    sent = only(RemoveWorker, world.happens(with_outside_work("w1")))
    assert [one.worker for one in sent] == ["w2"]


def test_a_maximum_below_the_minimum_is_raised_to_it() -> None:
    world = a_world()
    world.happens(BoundsSet("standard", 3, 1))
    assert world.asked() == [3]
    world.with_workers(3).passes(1000)
    assert world.removed() == []


def test_workers_that_were_withdrawn_before_they_came_can_be_asked_for_again() -> None:
    world = a_world()
    world.happens(BoundsSet("standard", 3, 3))
    world.happens(BoundsSet("standard", 1, 1), WorkersWithdrawn("standard", 2))
    world.with_workers(1)
    world.happens(BoundsSet("standard", 3, 3))
    assert world.asked() == [3, 2]
    assert world.alerts("workers-refused") == []


def test_withdrawn_workers_are_not_reported_as_late() -> None:
    world = a_world()
    world.happens(BoundsSet("standard", 2, 2))
    world.happens(BoundsSet("standard", 0, 0), WorkersWithdrawn("standard", 2))
    world.passes(10_000)
    assert world.alerts("scale-up-late") == []


@pytest.mark.parametrize(
    "event", [OutsideWork("unknown", 3), BoundsSet("unknown", 1, 2), WorkersWithdrawn("unknown", 1)]
)
def test_an_unknown_tag_changes_nothing(event: OutsideWork | BoundsSet | WorkersWithdrawn) -> None:
    world = a_world()
    assert world.happens(event) == []
    world.with_job("r1")
    assert world.state("r1") is JobState.RUNNING


def test_workers_that_die_right_after_they_join_are_tried_less_and_less_often() -> None:
    world = a_world()
    world.happens(BoundsSet("standard", 1, 1))
    for _ in range(400):
        if world.engine.state.tags["standard"].requested:
            world.with_workers(1)
            world.happens(WorkerLost(f"w{world.made}"))
        world.passes(1)
    assert 5 <= len(world.asked()) <= 10, "2, 4, 8, … seconds lie between them"
    assert len(world.alerts("workers-die-young")) == 1


def test_one_worker_that_dies_young_is_replaced_at_once() -> None:
    world = a_world_of(2)
    world.happens(WorkerLost("w1"))
    assert world.asked()[-1] == 1


def test_workers_that_die_of_their_work_or_late_are_replaced_at_once() -> None:
    world = a_world_of(1)
    for number in range(1, 6):
        world.happens(with_outside_work(f"w{number}"), WorkerLost(f"w{number}"))
        world.with_workers(1)
    for number in range(6, 11):
        world.passes(61)
        world.happens(WorkerLost(f"w{number}"))
        world.with_workers(1)
    assert world.asked() == [1] * 10
    assert world.alerts("workers-die-young") == []
