"""Short jobs are given to a worker several at once; it begins them in order, and what has not begun can come back."""

from __future__ import annotations

import pytest

from scalable.engine.events import (
    JobCancelled,
    JobFinished,
    JobLost,
    JobState,
    KillJob,
    Loss,
    Paused,
    Progressed,
    Resumed,
    StartJob,
    SweepCancelled,
    SweepEnded,
    TakeBack,
    WorkerLeaving,
    WorkerLost,
)
from scalable.engine.fleet import demand
from scalable.engine.queues import AHEAD_S, MOST_AHEAD, PATIENCE_S, Pace
from tests.helpers.engine.builders import World, a_world, only

SHORT_S = 0.05  # six fill a unit


def a_measured_world(jobs: int = 200, *, workers: int = 1, slots: int = 1, seconds: float = SHORT_S) -> World:
    """So many workers with so many slots; the first job of ``s`` has finished in so many seconds, on ``w1``."""
    world = a_world().with_nodes(1).with_kind("standard", slots=slots, maximum=workers)
    world.with_sweep("s", jobs, workers=workers).with_workers(workers)
    ends(world, "s/1", seconds)
    return world


def ends(world: World, job: str, seconds: float = SHORT_S) -> list[StartJob]:
    """A job finishes after so many seconds; what is given next."""
    world.now += seconds
    return only(StartJob, world.happens(JobFinished(job, world.attempt(job), None, seconds)))


def on(world: World, worker: str) -> tuple[list[str], list[str]]:
    """What has begun and what waits there."""
    record = world.engine.state.workers[worker]
    return list(record.jobs), list(record.ahead)


def names(numbers: range) -> list[str]:
    return [f"s/{number}" for number in numbers]


def test_nothing_is_given_ahead_before_a_job_was_measured() -> None:
    world = a_world().with_kind("standard", maximum=1).with_sweep("s", 50, workers=1).with_workers(1)
    assert on(world, "w1") == (["s/1"], [])
    world.finishes("s/1")
    assert on(world, "w1") == (["s/2"], []), "nobody said how long it took"


def test_a_worker_with_short_jobs_gets_as_many_as_fill_a_unit() -> None:
    world = a_measured_world()
    assert on(world, "w1") == (["s/2"], names(range(3, 9)))


@pytest.mark.parametrize(
    ("seconds", "ahead"), [(0.0, MOST_AHEAD), (0.0001, MOST_AHEAD), (0.1, 3), (0.3, 1), (0.31, 0), (60.0, 0)]
)
def test_how_many_wait_follows_from_how_long_they_take(seconds: float, ahead: int) -> None:
    assert len(on(a_measured_world(seconds=seconds), "w1")[1]) == ahead


def test_more_are_given_when_half_of_them_have_begun_several_at_once() -> None:
    world = a_measured_world()
    given = [len(ends(world, job)) for job in names(range(2, 8))]
    assert given == [0, 0, 3, 0, 0, 3]


def test_slots_are_filled_before_anything_is_given_ahead() -> None:
    world = a_measured_world(workers=2, slots=2)
    assert on(world, "w1") == (["s/2", "s/5"], names(range(6, 18)))
    assert on(world, "w2") == (["s/3", "s/4"], [])


def test_at_the_end_no_worker_gets_more_than_its_part_of_half_the_queue() -> None:
    world = a_measured_world(jobs=13, workers=2, seconds=0.001)
    assert on(world, "w1")[1] == ["s/4", "s/5"], "of ten that wait, each of two workers may have two or three"


def test_what_waits_begins_when_the_job_before_it_ends_and_is_watched_from_then() -> None:
    world = a_measured_world()
    ends(world, "s/2", 0.25)
    record = world.engine.state.jobs["s/3"]
    assert (record.state, record.started) == (JobState.RUNNING, world.now)
    assert world.state("s/4") is JobState.GIVEN
    world.happens(Progressed("s/4", 1))
    world.passes(299)
    assert not world.all(KillJob)
    world.passes(1)
    assert [kill.job for kill in world.all(KillJob)] == ["s/3"], "none of those that only waited"


def test_a_job_that_waits_on_a_worker_says_behind_how_many() -> None:
    world = a_measured_world()
    assert world.explains("s/3") == ["waits on w1 behind 1 other"]
    assert world.explains("s/8") == ["waits on w1 behind 6 others"]


def test_jobs_that_only_waited_on_a_lost_worker_are_charged_nothing_and_keep_their_order() -> None:
    world = a_measured_world()
    world.happens(WorkerLost("w1", Loss.WORKER_LOST))
    assert world.state("s/2") is JobState.DELAYED
    for job in names(range(3, 9)):
        record = world.engine.state.jobs[job]
        assert (record.state, record.charged, record.handovers, record.past) == (JobState.QUEUED, 0, 0, [])
    world.with_workers(1)
    assert world.starts("s/3")[-1] == StartJob("s/3", 2, "w2"), "its first attempt's number is used up"
    assert [alert.path for alert in world.alerts("retry-used")] == ["s/2"]


def test_a_job_that_turns_out_to_be_slow_gives_back_what_waits_behind_it() -> None:
    world = a_measured_world()
    world.passes(PATIENCE_S - 0.01)
    assert not world.all(TakeBack)
    assert world.engine.next_wake() == pytest.approx(SHORT_S + PATIENCE_S)
    world.passes(0.02)
    assert world.all(TakeBack) == [TakeBack(job, 1, "w1") for job in reversed(names(range(3, 9)))]

    world.happens(*(JobLost(back.job, 1, Loss.STOPPED) for back in world.all(TakeBack)))
    world.passes(10)
    assert on(world, "w1") == (["s/2"], []), "nothing is put behind the slow one again"
    assert len(world.all(TakeBack)) == 6, "each is asked for once"
    world.with_workers(1)
    assert on(world, "w2")[0] == ["s/3"], "in their order"


def test_a_long_job_stops_giving_ahead_at_once_and_short_ones_start_it_again_slowly() -> None:
    pace = Pace()
    pace.note(SHORT_S)
    assert pace.window == 6
    pace.note(5.0)
    assert pace.window == 0
    notes = 0
    while pace.window == 0:
        pace.note(SHORT_S)
        notes += 1
    assert 3 < notes < 20


def test_a_job_that_began_before_it_could_be_taken_back_just_goes_on() -> None:
    world = a_measured_world()
    world.passes(PATIENCE_S)
    assert world.all(TakeBack)
    ends(world, "s/2")
    assert world.state("s/3") is JobState.RUNNING
    ends(world, "s/3")
    assert world.state("s/3") is JobState.FINISHED
    assert len(world.starts("s/3")) == 1


def test_a_worker_with_notice_gives_back_what_waits_on_it() -> None:
    world = a_measured_world()
    world.happens(WorkerLeaving("w1"))
    assert len(world.all(TakeBack)) == 6
    world.happens(*(JobLost(back.job, 1, Loss.STOPPED) for back in world.all(TakeBack)))
    ends(world, "s/2")
    assert world.removed() == ["w1"]
    assert world.state("s/3") is JobState.QUEUED


def test_a_job_that_begins_on_a_worker_with_notice_asks_for_no_other_worker() -> None:
    world = a_measured_world()
    world.happens(WorkerLeaving("w1"))
    active = world.engine.state.sweeps["s"].active
    before = active["standard"]
    ends(world, "s/2")  # the worker went on with the next before it heard that this is taken back
    assert world.state("s/3") is JobState.RUNNING
    assert active["standard"] == before - 1


def test_pausing_takes_back_what_has_not_begun_and_resuming_starts_it() -> None:
    world = a_measured_world()
    world.happens(Paused())
    assert len(world.all(TakeBack)) == 6
    world.happens(*(JobLost(back.job, 1, Loss.STOPPED) for back in world.all(TakeBack)))
    assert ends(world, "s/2") == []
    assert [start.job for start in only(StartJob, world.happens(Resumed()))] == ["s/3"]


def test_a_cancelled_sweep_is_taken_from_its_worker_to_the_last_job() -> None:
    world = a_measured_world(jobs=20)
    begun, waiting = on(world, "w1")
    world.happens(SweepCancelled("s"))
    assert world.all(KillJob) == [KillJob(job, 1, "w1", Loss.OPERATOR) for job in (*begun, *waiting)]
    world.happens(*(JobLost(kill.job, 1, Loss.OPERATOR) for kill in reversed(world.all(KillJob))))
    assert world.all(SweepEnded) == [SweepEnded("s", False, {"finished": 1, "stopped": 19})]


def test_a_job_killed_by_a_person_before_it_began_fails_and_lets_the_others_be() -> None:
    world = a_measured_world()
    world.happens(JobCancelled("s/4", "wrong data"))
    assert world.all(KillJob) == [KillJob("s/4", 1, "w1", Loss.OPERATOR)]
    world.happens(JobLost("s/4", 1, Loss.OPERATOR))
    assert world.failure("s/4").reason == "killed by operator: wrong data"
    ends(world, "s/2")
    ends(world, "s/3")
    assert world.state("s/5") is JobState.RUNNING


def test_jobs_that_wait_on_a_worker_are_refused_with_the_rest_when_their_code_cannot_be_loaded() -> None:
    world = a_measured_world(jobs=30)
    world.loses("s/2", Loss.CANNOT_START, message="no such file")
    told = world.all(KillJob)
    assert [kill.cause for kill in told] == [Loss.STOPPED] * 5, "the sixth has begun in the meantime"
    world.happens(*(JobLost(kill.job, 1, Loss.STOPPED) for kill in told))
    assert {world.state(kill.job) for kill in told} == {JobState.REFUSED}
    ends(world, "s/3")
    assert world.all(SweepEnded) == [SweepEnded("s", False, {"finished": 2, "failed": 1, "refused": 27})]


def test_a_sweep_that_was_not_measured_follows_its_tag_unless_it_is_expected_to_be_longer() -> None:
    def waiting(expected_s: float | None) -> list[str]:
        world = a_world().with_kind("standard", maximum=1).with_sweep("s", 1).with_workers(1)
        world.with_sweep("other", 50, workers=1, expected_s=expected_s)
        world.now += SHORT_S
        world.happens(JobFinished("s/1", 1, None, SHORT_S))
        return on(world, "w1")[1]

    assert len(waiting(None)) == len(waiting(AHEAD_S)) == 6
    assert waiting(AHEAD_S + 0.1) == []


def test_workers_are_wanted_for_jobs_that_only_wait_on_another() -> None:
    world = a_world().with_kind("standard", maximum=1).with_sweep("s", 40, workers=10).with_workers(1)
    ends(world, "s/1")
    assert len(on(world, "w1")[1]) == 6
    tags = world.engine.state.tags["standard"]
    assert demand(world.engine.state, "standard") == 10
    while tags.queue.size > 4:
        ends(world, on(world, "w1")[0][0])
    assert tags.ahead
    assert demand(world.engine.state, "standard") == 1 + tags.queue.size + tags.ahead < 10


def test_an_idle_worker_is_not_given_back_while_jobs_wait_on_another() -> None:
    world = a_measured_world(jobs=13, workers=2, seconds=0.001)
    while world.engine.state.tags["standard"].queue.size:
        ends(world, on(world, "w2")[0][0], 0.001)
    while on(world, "w2")[0]:
        ends(world, on(world, "w2")[0][0], 0.001)
    assert on(world, "w1")[1], "something waits there"
    assert not world.removed()
    world.passes(PATIENCE_S)
    world.happens(*(JobLost(back.job, 1, Loss.STOPPED) for back in world.all(TakeBack)))
    assert on(world, "w2")[0] in (["s/4"], ["s/5"]), "it helps out"
