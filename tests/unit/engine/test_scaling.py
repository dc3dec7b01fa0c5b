"""How many workers there are: up with pending work, down after idling, never under running work."""

from __future__ import annotations

import pytest

from scalable.engine.events import (
    AddWorkers,
    CpuSeen,
    JobState,
    Loss,
    Paused,
    RemoveWorker,
    Resumed,
    StartJob,
    SweepKind,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkersRefused,
)
from scalable.engine.fleet import MAX_REFUSALS
from tests.helpers.engine.builders import World, a_world, only


def kept_alive(world: World, seconds: float) -> None:
    """Let time pass during which the code of every job is busy."""
    for _ in range(int(seconds // 100)):
        world.passes(100)
        for job, record in world.engine.state.jobs.items():
            if record.state is JobState.RUNNING:
                world.happens(CpuSeen(job, record.attempt))
    world.passes(seconds % 100)


def test_pending_work_brings_as_many_workers_as_the_sweep_asks_for() -> None:
    assert a_world().with_sweep("a", jobs=25, workers=5).asked() == [5]


def test_there_are_never_more_workers_than_jobs() -> None:
    assert a_world().with_sweep("a", jobs=3, workers=10).asked() == [3]


def test_two_sweeps_side_by_side_get_workers_each() -> None:
    world = a_world().with_sweep("a", jobs=25, workers=5).with_sweep("b", jobs=25, workers=5)
    assert sum(world.asked()) == 10


def test_there_are_never_more_workers_than_the_pool_holds() -> None:
    world = a_world().with_nodes(2).with_sweep("a", jobs=100, workers=100)
    assert world.asked() == [14], "7 × 2 CPU on each of two nodes with 15.6"


def test_there_are_never_more_workers_than_the_kind_allows() -> None:
    assert a_world().with_kind("standard", maximum=4).with_sweep("a", jobs=100, workers=100).asked() == [4]


def test_workers_on_their_way_are_not_asked_for_again() -> None:
    world = a_world().with_sweep("a", jobs=25, workers=5)
    world.passes(1000)
    world.with_workers(2)
    world.passes(200)
    assert world.asked() == [5]


def test_a_held_sweep_brings_no_workers() -> None:
    world = a_world().with_sweep("a").with_sweep("b").with_sweep("c", jobs=10)
    assert sum(world.asked()) == 2


def test_every_free_worker_gets_exactly_one_job() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", jobs=25, workers=5)
    starts = world.all(StartJob)
    assert len(starts) == len({start.worker for start in starts}) == len({start.job for start in starts}) == 5


def test_an_idle_worker_goes_after_its_idle_time() -> None:
    world = a_world().with_policy("scaling", idle="60s").with_willing_cluster().with_sweep("a")
    world.passes(200)
    world.finishes("a/1")
    world.passes(59)
    assert world.removed() == []
    world.passes(1)
    assert world.all(RemoveWorker) == [RemoveWorker("w1", "standard", "idle")]


def test_no_worker_goes_within_the_cooldown_after_scaling_up() -> None:
    world = a_world().with_willing_cluster().with_sweep("a")
    world.finishes("a/1")
    world.passes(119)
    assert world.removed() == []
    world.passes(1)
    assert world.removed() == ["w1"]


def test_how_long_idle_workers_stay_is_a_policy() -> None:
    world = a_world().with_policy("scaling", idle="10m", cooldown="0s").with_willing_cluster().with_sweep("a")
    world.finishes("a/1")
    world.passes(599)
    assert world.removed() == []
    world.passes(1)
    assert world.removed() == ["w1"]


def test_a_worker_with_a_job_is_never_taken_away() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", jobs=5)
    long = world.starts("a/3")[0].worker
    world.finishes("a/1", "a/2", "a/4", "a/5")
    kept_alive(world, 36000)
    assert sorted(world.removed()) == sorted({"w1", "w2", "w3", "w4", "w5"} - {long})
    assert world.state("a/3") is JobState.RUNNING


def test_idle_workers_stay_while_work_waits_for_them() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", jobs=1)
    world.finishes("a/1")
    world.passes(100)
    world.with_sweep("b", jobs=1)
    assert world.starts("b/1")[0].worker == "w1"
    world.passes(100)
    assert world.removed() == []


def test_the_minimum_is_kept_warm_and_not_more() -> None:
    world = a_world().with_kind("standard", minimum=2).with_willing_cluster()
    world.passes(1)
    assert world.asked() == [2]
    world.with_sweep("a", jobs=5)
    world.finishes("a/1", "a/2", "a/3", "a/4", "a/5")
    world.passes(7200)
    assert len(world.removed()) == 3
    assert world.engine.state.tags["standard"].workers == 2


def test_new_work_right_after_scaling_down_waits_out_the_cooldown() -> None:
    world = a_world().with_willing_cluster().with_sweep("a")
    world.finishes("a/1")
    world.passes(120)
    assert world.removed() == ["w1"]
    world.with_sweep("b")
    world.passes(119)
    assert world.asked() == [1]
    world.passes(1)
    assert world.asked() == [1, 1]
    assert world.state("b/1") is JobState.RUNNING


def test_an_idle_worker_makes_room_at_once_for_a_kind_that_has_none() -> None:
    world = a_world().with_nodes(1).with_policy("scaling", idle="1h").with_willing_cluster().with_sweep("a", jobs=7)
    world.with_sweep("big", kind=SweepKind.HEAVY)
    world.finishes(*(f"a/{n}" for n in range(1, 8)))
    assert world.state("big/1") is JobState.RUNNING, "neither its idle time nor a cooldown is waited for"
    assert [one.reason for one in world.all(RemoveWorker)] == ["idle, others need its place"], "no more than must"


def test_two_kinds_take_turns_within_one_limit() -> None:
    world = a_world().with_most_workers(2).with_willing_cluster()
    for name, kind in (("a", SweepKind.NORMAL), ("b", SweepKind.FREE), ("c", SweepKind.NORMAL), ("d", SweepKind.FREE)):
        world.with_sweep(name, jobs=2, kind=kind)
        assert [world.state(f"{name}/{n}") for n in (1, 2)] == [JobState.RUNNING] * 2
        world.finishes(f"{name}/1", f"{name}/2")


def test_a_kind_without_workers_gets_the_place_of_another_kinds_minimum_and_gives_it_back() -> None:
    world = a_world().with_kind("standard", minimum=2).with_most_workers(2).with_willing_cluster()
    world.passes(1)
    world.with_sweep("b", kind=SweepKind.FREE)
    assert world.state("b/1") is JobState.RUNNING
    assert world.asked("standard") == [2], "the minimum does not take the place back"
    world.finishes("b/1")
    world.passes(120)
    assert world.engine.state.tags["standard"].workers == 2


def test_no_idle_worker_goes_for_another_kind_where_there_is_room() -> None:
    world = a_world().with_policy("scaling", idle="1h").with_willing_cluster().with_sweep("a")
    world.finishes("a/1")
    world.passes(300)
    world.with_sweep("b", kind=SweepKind.FREE)
    assert world.removed() == []
    assert world.state("b/1") is JobState.RUNNING


def test_no_idle_worker_goes_where_that_would_make_no_room() -> None:
    world = a_world().with_nodes(1).with_policy("scaling", idle="1h").with_willing_cluster()
    world.with_sweep("a", jobs=7, kind=SweepKind.FREE, on="standard").with_sweep("b", kind=SweepKind.FREE)
    world.finishes("b/1")
    world.with_sweep("big", kind=SweepKind.HEAVY)
    assert world.removed() == [], "1.6 CPU are too few for a worker with 2"
    world.finishes("a/1")
    assert world.removed() == [world.starts("a/1")[0].worker]


def test_a_kind_is_not_held_up_by_the_cooldown_of_another() -> None:
    world = a_world().with_willing_cluster().with_sweep("a")
    world.finishes("a/1")
    world.passes(120)
    assert world.removed() == ["w1"]
    world.with_sweep("b", kind=SweepKind.FREE)
    assert world.state("b/1") is JobState.RUNNING


def test_a_refused_request_is_made_again_after_a_minute_then_two() -> None:
    world = a_world().with_sweep("a")
    for delay in (60, 120):
        before = len(world.asked())
        world.happens(WorkersRefused("standard", 1, "quota exceeded"))
        world.passes(delay - 1)
        assert len(world.asked()) == before
        world.passes(1)
        assert len(world.asked()) == before + 1
    assert [alert.message for alert in world.alerts("workers-refused")] == ["1 × standard refused: quota exceeded"] * 2


def test_jobs_are_given_up_when_no_worker_can_be_had_at_all() -> None:
    world = a_world().with_sweep("a", jobs=2)
    for _ in range(MAX_REFUSALS):
        assert world.state("a/1") is JobState.QUEUED
        world.happens(WorkersRefused("standard", 2, "quota exceeded"))
        world.passes(300)
    assert world.failure("a/2").state is JobState.STOPPED
    assert world.failure("a/2").reason == "no worker could be had: quota exceeded"
    assert len(world.asked()) == MAX_REFUSALS


def test_refusals_do_not_give_up_work_that_a_living_worker_can_do() -> None:
    world = a_world().with_sweep("a", jobs=3, workers=3).with_workers(1)
    for _ in range(MAX_REFUSALS + 1):
        world.happens(WorkersRefused("standard", 2, "quota exceeded"))
        kept_alive(world, 300)
    for _ in range(3):
        running = next(job for job in ("a/1", "a/2", "a/3") if world.state(job) is JobState.RUNNING)
        world.finishes(running)
    assert {world.state(f"a/{n}") for n in (1, 2, 3)} == {JobState.FINISHED}


def test_a_worker_that_joins_ends_the_count_of_refusals() -> None:
    world = a_world().with_sweep("a", jobs=2)
    for _ in range(MAX_REFUSALS - 1):
        world.happens(WorkersRefused("standard", 2, "quota exceeded"))
        world.passes(300)
    world.with_workers(1)
    world.happens(WorkerLost("w1", Loss.PREEMPTED))
    world.happens(WorkersRefused("standard", 2, "quota exceeded"))
    assert {world.state("a/1"), world.state("a/2")} == {JobState.QUEUED}, "one refusal since a worker came"


def test_workers_that_have_not_come_after_five_minutes_are_an_alert_once() -> None:
    world = a_world().with_sweep("a", jobs=3)
    world.passes(299)
    assert not world.alerts("scale-up-late")
    world.passes(1)
    world.passes(3600)
    assert [alert.message for alert in world.alerts("scale-up-late")] == [
        "3 × standard asked for 300 s ago have not come",
    ]


def test_workers_that_come_in_time_are_no_alert() -> None:
    world = a_world().with_sweep("a", jobs=3)
    world.passes(180)
    world.with_workers(3)
    kept_alive(world, 3600)
    assert not world.alerts("scale-up-late")


def test_a_pause_starts_nothing_lets_jobs_end_and_scales_to_zero() -> None:
    world = a_world().with_kind("standard", minimum=1).with_willing_cluster().with_sweep("a", jobs=4, workers=2)
    world.happens(Paused())
    kept_alive(world, 1000)
    assert [world.state(f"a/{n}") for n in (1, 2)] == [JobState.RUNNING] * 2

    world.finishes("a/1", "a/2")
    world.passes(120)

    assert len(world.all(StartJob)) == 2
    assert sorted(world.removed()) == ["w1", "w2"], "even the minimum goes"


def test_a_resumed_world_goes_on_where_it_was() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", jobs=4, workers=2)
    world.happens(Paused())
    world.finishes("a/1", "a/2")
    world.passes(3600)
    assert not world.engine.state.workers

    world.happens(Resumed())

    assert world.asked() == [2, 2]
    assert [world.state(f"a/{n}") for n in (3, 4)] == [JobState.RUNNING] * 2


def test_a_worker_that_joins_during_a_pause_gets_no_work_and_goes() -> None:
    world = a_world().with_sweep("a")
    world.happens(Paused(), WorkerJoined("late", "standard"))
    world.passes(120)
    assert not world.starts("a/1")
    assert world.removed() == ["late"]


def test_a_pause_asks_for_nothing() -> None:
    world = a_world()
    world.happens(Paused())
    world.with_sweep("a", jobs=5)
    world.passes(3600)
    assert world.asked() == []


def test_a_lost_worker_is_replaced_at_once_while_work_waits() -> None:
    world = a_world().with_sweep("a", jobs=10, workers=2).with_workers(2)
    assert only(AddWorkers, world.happens(WorkerLost("w1", Loss.NODE_LOST)))[0].count == 1


def test_a_lost_worker_that_nobody_needs_is_not_replaced() -> None:
    world = a_world().with_sweep("a", jobs=2, workers=2).with_workers(2)
    world.finishes("a/1")
    idle = world.starts("a/1")[0].worker
    assert not only(AddWorkers, world.happens(WorkerLost(idle)))


def test_a_worker_with_notice_gets_no_more_work_is_replaced_and_goes_when_its_job_ends() -> None:
    world = a_world().with_sweep("a", jobs=3, workers=1).with_workers(1)
    assert only(AddWorkers, world.happens(WorkerLeaving("w1")))[0].count == 1
    world.finishes("a/1")
    assert world.all(RemoveWorker) == [RemoveWorker("w1", "standard", "had notice to leave", forced=True)]
    assert len(world.all(StartJob)) == 1
    world.with_workers(1)
    assert world.all(StartJob)[-1].worker == "w2"


def test_a_worker_of_an_unknown_tag_is_reported_and_gets_nothing() -> None:
    world = a_world().with_sweep("a")
    world.happens(WorkerJoined("stray", "gpu"))
    assert [alert.message for alert in world.alerts("unknown-tag")] == ["the worker stray has the unknown tag 'gpu'"]
    assert not world.all(StartJob)


def test_a_worker_with_two_slots_takes_two_jobs() -> None:
    world = a_world().with_kind("standard", slots=2).with_willing_cluster().with_sweep("a", jobs=3, workers=5)
    assert world.asked() == [2]
    assert len(world.all(StartJob)) == 3


@pytest.mark.parametrize("seconds", [0.0, 1.0, 59.0, 1e6])
def test_a_world_without_work_asks_for_nothing_and_need_not_be_woken(seconds: float) -> None:
    world = a_world()
    assert world.passes(seconds) == []
    assert world.engine.next_wake() == float("inf")
