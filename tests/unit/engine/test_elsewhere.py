"""Jobs that another run of the same sweep computes: set aside, taken back, done."""

from __future__ import annotations

from scalable.engine.events import (
    JobsDoneElsewhere,
    JobsElsewhere,
    JobsReturned,
    JobState,
    SweepCancelled,
    SweepEnded,
    SweepKind,
)
from tests.helpers.engine.builders import World, a_world


def two_jobs() -> World:
    return a_world().with_sweep("s", jobs=2, workers=1).with_workers(1)


def test_a_job_that_was_to_start_makes_place_for_the_next() -> None:
    world = two_jobs()
    assert world.state("s/1") is JobState.RUNNING
    world.happens(JobsElsewhere(("s/1",)))
    assert (world.state("s/1"), world.state("s/2")) == (JobState.ELSEWHERE, JobState.RUNNING)
    assert world.explains("s/1") == ["another run of the same sweep computes it; its rows are waited for"]


def test_a_sweep_ends_complete_when_another_run_has_done_the_rest() -> None:
    world = two_jobs()
    world.happens(JobsElsewhere(("s/2",)))
    world.finishes("s/1")
    assert world.all(SweepEnded) == []
    world.happens(JobsDoneElsewhere(("s/2",)))
    assert world.all(SweepEnded) == [SweepEnded("s", True, {"finished": 2})]


def test_a_job_that_comes_back_is_started_here() -> None:
    world = two_jobs()
    world.happens(JobsElsewhere(("s/1", "s/2")), JobsReturned({"s/1": 0}))
    assert world.state("s/1") is JobState.RUNNING
    world.finishes("s/1")
    world.happens(JobsReturned({"s/2": 1}))
    world.finishes("s/2")
    assert world.all(SweepEnded) == [SweepEnded("s", True, {"finished": 2})]


def test_a_job_whose_attempts_died_with_other_runs_fails_when_it_comes_back() -> None:
    world = two_jobs()
    world.happens(JobsElsewhere(("s/2",)), JobsReturned({"s/2": 99}))
    assert world.state("s/2") is JobState.FAILED
    assert "99 attempts were used" in world.failure("s/2").reason


def test_a_job_of_a_sweep_that_waits_stays_held_when_it_comes_back() -> None:
    world = two_jobs().with_sweep("big", kind=SweepKind.HEAVY)
    world.happens(JobsElsewhere(("big/1",)), JobsReturned({"big/1": 0}))
    assert world.state("big/1") is JobState.HELD


def test_a_cancelled_sweep_does_not_wait_for_another_run() -> None:
    world = two_jobs()
    world.happens(JobsElsewhere(("s/1", "s/2")), SweepCancelled("s"))
    assert world.all(SweepEnded) == [SweepEnded("s", False, {"stopped": 2})]


def test_news_of_jobs_that_have_ended_changes_nothing() -> None:
    world = two_jobs()
    world.finishes("s/1")
    world.happens(JobsElsewhere(("s/1",)), JobsDoneElsewhere(("s/1",)), JobsReturned({"s/1": 0, "s/2": 0}))
    assert (world.state("s/1"), world.state("s/2")) == (JobState.FINISHED, JobState.RUNNING)
