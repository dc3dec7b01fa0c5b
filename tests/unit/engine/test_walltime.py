"""Workers whose allocation ends: what starts on them, when others are asked for, and what is given up."""

from __future__ import annotations

import pytest

from scalable.engine.events import (
    AddWorkers,
    JobEnded,
    JobFinished,
    JobState,
    Loss,
    OutsideWork,
    Progressed,
    RemoveWorker,
    StartJob,
    WorkerEnds,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
)
from scalable.engine.rules import Walltime
from scalable.engine.walltime import USELESS, refusal
from tests.helpers.engine.builders import World, a_world, only

KEY = "targets.hpc.walltime"
HOUR = Walltime(3600.0, KEY)


def a_batch_world(walltime: Walltime = HOUR, **kind: object) -> World:
    return a_world().with_policy("stuck", after=1_000_000).with_kind("standard", walltime=walltime, **kind)


def joins(world: World, worker: str, left_s: float) -> list[StartJob]:
    return only(StartJob, world.happens(WorkerJoined(worker, "standard", left_s=left_s)))


def finishes(world: World, job: str, seconds: float) -> list[StartJob]:
    world.now += seconds
    return only(StartJob, world.happens(JobFinished(job, world.attempt(job), None, seconds)))


# What fits into no allocation


def test_a_job_longer_than_any_allocation_is_refused_with_the_number() -> None:
    world = a_batch_world(Walltime(60.0, KEY)).with_sweep("s", 2, expected_s=150.0)
    assert world.state("s/1") is JobState.REFUSED
    assert world.failure("s/1").reason == (
        "a job of 150 s does not fit a walltime of 60 s; "
        "raise targets.hpc.walltime to at least 00:04:00 or declare checkpoints: true"
    )
    assert world.asked() == [], "no worker is asked for what cannot run"


@pytest.mark.parametrize(("seconds", "fits"), [(50.0, True), (51.0, False), (None, True)])
def test_the_last_seconds_of_an_allocation_are_not_for_work(seconds: float | None, fits: bool) -> None:
    assert (refusal(Walltime(60.0, KEY), seconds) == "") is fits


def test_what_an_advised_walltime_allows_is_not_refused() -> None:
    told = refusal(Walltime(60.0, KEY), 36_000.0)
    assert "12:31:00" in told
    assert refusal(Walltime(12 * 3600 + 31 * 60, KEY), 36_000.0) == ""


# What starts on a worker that ends


def test_nothing_starts_that_cannot_end_in_time() -> None:
    world = a_batch_world().with_sweep("s", 1, expected_s=600.0)
    joins(world, "w1", 3500.0)
    assert world.starts("s/1")
    world.with_sweep("t", 1, expected_s=600.0)
    finishes(world, "s/1", 2900.0)  # 600 s are left, and the next may take a little longer than foreseen
    assert not world.starts("t/1")
    assert world.all(RemoveWorker) == [RemoveWorker("w1", "standard", USELESS, forced=True)]
    world.happens(WorkerLost("w1", Loss.STOPPED))
    assert joins(world, "w2", 3500.0) == [StartJob("t/1", 1, "w2")]


def test_a_shorter_job_takes_the_rest_that_a_longer_one_cannot_use() -> None:
    world = a_batch_world().with_sweep("s", 1, expected_s=2500.0)
    joins(world, "w1", 3500.0)
    world.with_sweep("long", 1, expected_s=2000.0).with_sweep("short", 1, expected_s=100.0)
    assert finishes(world, "s/1", 2500.0) == [StartJob("short/1", 1, "w1")]


def test_what_jobs_of_a_sweep_took_counts_more_than_what_was_foreseen() -> None:
    world = a_batch_world().with_sweep("s", 3, expected_s=10.0, workers=1)
    joins(world, "w1", 3500.0)
    finishes(world, "s/1", 1500.0)
    assert finishes(world, "s/2", 1500.0) == [], "500 s are left for a job of 1500 s"


def test_a_job_of_unknown_length_needs_half_of_what_a_new_worker_has() -> None:
    world = a_batch_world().with_sweep("s", 1)
    joins(world, "w1", 3500.0)
    world.with_sweep("t", 1)
    finishes(world, "s/1", 1700.0)
    assert world.starts("t/1"), "1800 of 3500 s are left"
    world.with_sweep("u", 1)
    finishes(world, "t/1", 100.0)
    assert not world.starts("u/1")


def test_a_new_worker_takes_any_job_however_slowly_it_came() -> None:
    world = a_batch_world(Walltime(60.0, KEY)).with_sweep("s", 1, expected_s=49.0)
    assert joins(world, "w1", 38.0), "it took 12 s to start; another would not be quicker"


def test_a_worker_that_came_late_into_its_allocation_has_only_the_rest_of_it() -> None:
    world = a_batch_world().with_sweep("s", 8)
    world.happens(WorkerJoined("w1", "standard", "job 8", left_s=3500.0))
    world.happens(WorkerJoined("w2", "standard", "job 8", left_s=2100.0))
    world.happens(WorkerJoined("w3", "standard", "job 8", left_s=3300.0))
    world.happens(WorkerJoined("w4", "standard", "job 9", left_s=2100.0))
    spans = {name: worker.span for name, worker in world.engine.state.workers.items()}
    assert spans == {"w1": 3500.0, "w2": 3500.0, "w3": 3300.0, "w4": 2100.0}, "w3 only started more slowly"


def test_an_end_that_was_moved_is_believed() -> None:
    world = a_batch_world().with_sweep("s", 1, expected_s=600.0)
    world.with_workers(0)
    world.happens(WorkerJoined("w1", "standard", left_s=3500.0), WorkerEnds("w1", 60.0))
    world.finishes("s/1")
    world.with_sweep("t", 1, expected_s=600.0)
    assert not world.starts("t/1")
    assert world.removed() == ["w1"]


def test_workers_without_an_end_are_treated_as_before() -> None:
    world = a_world().with_sweep("s", 1, expected_s=1e9).with_workers(1)
    assert world.starts("s/1")


# Another worker in time


def test_the_next_worker_is_asked_for_before_the_last_one_ends() -> None:
    world = a_batch_world(maximum=1).with_sweep("s", 20, expected_s=600.0, workers=1)
    world.now = 30.0
    joins(world, "w1", 3500.0)
    assert world.asked() == [1]
    for number in range(1, 4):
        finishes(world, f"s/{number}", 600.0)
    assert world.asked() == [1]
    world.passes(500.0)
    world.passes(600.0)
    assert world.asked() == [1, 1], "it took 30 s to come, so it is asked for 30 s before the last start that fits"
    when = [time for time, told in world.log if isinstance(told, AddWorkers)][-1]
    assert when == pytest.approx(30.0 + 3500.0 - 30.0 - 660.0)


def test_no_worker_is_asked_for_in_the_place_of_an_ending_one_if_nothing_waits() -> None:
    world = a_batch_world(minimum=1, maximum=1).with_sweep("s", 1, expected_s=600.0)
    joins(world, "w1", 3500.0)
    world.passes(3400.0)
    assert world.asked() == [1]


def test_the_next_worker_is_not_more_than_the_maximum_while_the_last_one_works_until_its_end() -> None:
    world = a_batch_world(maximum=1)
    world.happens(OutsideWork("standard", 2))
    world.now = 60.0
    joins(world, "w1", 3500.0)
    world.happens(OutsideWork("standard", 1, busy=frozenset({"w1"})))
    world.passes(3460.0)
    assert world.asked() == [1, 1]
    joins(world, "w2", 3500.0)
    world.passes(30.0)
    assert (world.asked(), world.removed()) == ([1, 1], [])
    world.happens(OutsideWork("standard", 0, busy=frozenset({"w1"})))
    assert world.removed() == ["w2"], "nothing waits for it any more"


def test_no_more_batch_jobs_than_the_target_allows_while_one_is_ending() -> None:
    world = a_batch_world(minimum=1, maximum=1)
    world.most_at_once = 1
    world.rebuild().with_sweep("s", 20, workers=1)
    joins(world, "w1", 50.0)
    world.passes(45.0)
    world.happens(WorkerLeaving("w1"))
    assert world.asked() == [1], "the first is still there"
    world.happens(WorkerLost("w1", Loss.WALLTIME))
    assert world.asked() == [1, 1]


def test_results_can_be_handed_to_another_worker_beyond_the_limit() -> None:
    world = a_batch_world(minimum=1, maximum=1)
    world.most_at_once = 1
    world.rebuild()
    world.happens(WorkerJoined("w1", "standard", left_s=50.0))
    world.happens(OutsideWork("standard", 0, frozenset(), frozenset({"w1"})), WorkerLeaving("w1"))
    assert world.asked()[-1] == 1


# What the end of a worker cut off


def test_a_job_that_was_cut_off_is_tried_once_more_on_a_new_worker_and_costs_no_retry() -> None:
    world = a_batch_world().with_sweep("s", 1)
    joins(world, "w1", 3000.0)
    world.now = 1000.0
    world.happens(WorkerEnds("w1", 5.0))  # somebody shortened its time
    world.now = 1005.0
    world.happens(WorkerLost("w1", Loss.WALLTIME))
    assert world.state("s/1") is JobState.QUEUED
    assert world.engine.view.jobs["s/1"].past[-1].cause is Loss.WALLTIME
    assert joins(world, "w2", 3000.0) == [StartJob("s/1", 2, "w2")]
    world.now += 3000.0
    world.happens(WorkerLost("w2", Loss.WALLTIME))
    assert world.state("s/1") is JobState.FAILED
    assert world.failure("s/1").reason == (
        "it ran for 3000 s of the 3000 s that an allocation gives and did not finish; "
        "raise targets.hpc.walltime above 01:00:00 or declare checkpoints: true"
    )


def test_a_notice_at_the_end_of_an_allocation_is_its_walltime() -> None:
    world = a_batch_world(Walltime(60.0, KEY)).with_sweep("s", 1)
    joins(world, "w1", 45.0)
    world.now = 45.0
    world.happens(WorkerLeaving("w1"))
    world.loses("s/1", Loss.PREEMPTED)
    assert world.state("s/1") is JobState.FAILED
    assert "it ran for 45 s of the 45 s" in world.failure("s/1").reason


def test_a_preemption_long_before_the_end_is_no_walltime() -> None:
    world = a_batch_world().with_sweep("s", 1)
    joins(world, "w1", 3000.0)
    world.now = 2700.0
    world.loses("s/1", Loss.PREEMPTED)
    assert world.engine.view.jobs["s/1"].past[-1].cause is Loss.PREEMPTED
    assert world.state("s/1") is not JobState.FAILED


# Checkpoints


def with_checkpoints(walltime_s: float = 60.0) -> World:
    return a_batch_world(Walltime(walltime_s, KEY)).with_sweep("s", 1, expected_s=600.0, checkpoints=True)


def live_through(world: World, worker: str, step: float | None) -> None:
    """A worker of 45 s on which the job gets as far as this step."""
    joins(world, worker, 45.0)
    if step is not None:
        world.happens(Progressed("s/1", world.attempt("s/1"), step=step))
    world.now += 45.0
    world.happens(WorkerLost(worker, Loss.WALLTIME))


def test_a_job_with_checkpoints_goes_on_in_as_many_allocations_as_it_needs() -> None:
    world = with_checkpoints()
    for number in range(1, 31):
        live_through(world, f"w{number}", float(number))
    assert not world.state("s/1").final
    joins(world, "last", 45.0)
    world.finishes("s/1")
    assert world.state("s/1") is JobState.FINISHED
    assert world.engine.state.jobs["s/1"].charged == 0


def test_a_job_with_checkpoints_that_gets_no_further_is_given_up() -> None:
    world = with_checkpoints()
    for number in range(1, 10):
        live_through(world, f"w{number}", 7.0)
    [ended] = [told for told in world.all(JobEnded) if told.job == "s/1"]
    assert ended.state is JobState.FAILED
    assert "moved 3 times without getting further than step 7" in ended.reason
    assert len(world.starts("s/1")) == 5, "one that got to step 7 and four that did not get further"


def test_a_job_with_checkpoints_that_never_says_how_far_it_is_moves_ten_times() -> None:
    world = with_checkpoints()
    for number in range(1, 20):
        live_through(world, f"w{number}", None)
    assert world.state("s/1") is JobState.FAILED
    assert len(world.starts("s/1")) == 11
