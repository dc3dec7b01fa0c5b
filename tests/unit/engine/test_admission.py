"""Which sweeps job side by side: a few normal ones, a heavy one alone, other workloads beside anything."""

from __future__ import annotations

import pytest

from scalable.engine.events import (
    AddWorkers,
    Job,
    JobState,
    Loss,
    Paused,
    RemoveWorker,
    Resumed,
    StartJob,
    SubmittedSweep,
    SweepAdmitted,
    SweepCancelled,
    SweepEnded,
    SweepKind,
    SweepSubmitted,
)
from tests.helpers.engine.builders import a_world, gib, only


def test_at_most_two_normal_sweeps_run_at_once_and_the_third_starts_when_one_ends() -> None:
    world = a_world().with_willing_cluster().with_sweep("a").with_sweep("b").with_sweep("c")
    assert world.admitted() == ["a", "b"]
    assert world.state("c/1") is JobState.HELD

    world.finishes("b/1")

    assert world.admitted() == ["a", "b", "c"]
    assert world.state("c/1") is JobState.RUNNING


@pytest.mark.parametrize("places", [1, 3])
def test_how_many_normal_sweeps_run_at_once_is_a_policy(places: int) -> None:
    world = a_world().with_policy("concurrency", normal=places)
    for name in "abcd":
        world.with_sweep(name)
    assert world.admitted() == list("abcd"[:places])


def test_a_heavy_sweep_waits_until_every_normal_one_has_ended() -> None:
    world = a_world().with_willing_cluster().with_sweep("a").with_sweep("b").with_sweep("big", kind=SweepKind.HEAVY)
    world.finishes("a/1")
    assert "big" not in world.admitted()

    world.finishes("b/1")

    assert world.admitted()[-1] == "big"
    assert world.state("big/1") is JobState.RUNNING


def test_a_waiting_heavy_sweep_lets_no_later_sweep_past() -> None:
    world = a_world().with_willing_cluster().with_sweep("a").with_sweep("big", kind=SweepKind.HEAVY).with_sweep("late")
    assert world.admitted() == ["a"], "there is a second place, but big came first"

    world.finishes("a/1")
    assert world.admitted() == ["a", "big"]

    world.finishes("big/1")
    assert world.admitted() == ["a", "big", "late"]


def test_nothing_but_free_workloads_runs_beside_a_heavy_sweep() -> None:
    world = a_world().with_sweep("big", kind=SweepKind.HEAVY).with_sweep("other", kind=SweepKind.HEAVY)
    world.with_sweep("a").with_sweep("backtest", kind=SweepKind.FREE)
    assert world.admitted() == ["big", "backtest"]


def test_free_workloads_overlap_normal_sweeps_and_take_no_place() -> None:
    world = a_world().with_sweep("backtest", kind=SweepKind.FREE).with_sweep("discovery", kind=SweepKind.FREE)
    world.with_sweep("a").with_sweep("b")
    assert world.admitted() == ["backtest", "discovery", "a", "b"]


def test_a_heavy_sweep_does_not_wait_for_free_workloads() -> None:
    world = a_world().with_sweep("backtest", kind=SweepKind.FREE).with_sweep("big", kind=SweepKind.HEAVY)
    assert world.admitted() == ["backtest", "big"]


def test_a_job_that_ran_out_of_memory_waits_until_heavy_work_may_run_and_then_runs_alone() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", jobs=2).with_sweep("b")
    world.loses("a/1", Loss.OUT_OF_MEMORY, peak=gib(9))
    world.passes(60)
    assert world.state("a/1") is JobState.HELD, "the rest of its own sweep still runs"

    world.finishes("a/2")
    assert world.state("a/1") is JobState.HELD, "b still runs"

    world.with_sweep("c")
    assert world.state("c/1") is JobState.HELD, "heavy work is first in line"

    world.finishes("b/1")
    assert world.state("a/1") is JobState.RUNNING
    assert world.all(SweepAdmitted)[-1] == SweepAdmitted("a", SweepKind.HEAVY)
    assert world.engine.state.workers[world.starts("a/1")[-1].worker].tag == "heavy"
    assert world.state("c/1") is JobState.HELD, "it runs alone"

    world.finishes("a/1")
    assert world.all(SweepEnded)[-1] == SweepEnded("a", True, {"finished": 2})
    assert world.state("c/1") is JobState.RUNNING


def test_a_sweep_that_climbed_asks_for_no_more_workers_of_the_size_it_left() -> None:
    world = a_world().with_kind("standard", minimum=2, maximum=2).with_willing_cluster().with_sweep("a", jobs=2)
    world.loses("a/1", Loss.OUT_OF_MEMORY, peak=gib(9))
    world.finishes("a/2")
    world.passes(60)
    world.happens(Paused("waits until heavy work may run", drop_workers=True))
    world.happens(Resumed())
    world.passes(200)
    assert world.state("a/1") is JobState.RUNNING
    assert world.asked("standard") == [2]
    assert world.asked("heavy") == [1]


def test_a_climb_stays_within_the_most_workers_and_waits_for_nobody() -> None:
    world = a_world().with_kind("standard", minimum=2, maximum=2).with_kind("heavy", maximum=1, within=2)
    world.with_willing_cluster().with_sweep("a", jobs=3)
    world.loses("a/1", Loss.OUT_OF_MEMORY, peak=gib(9))
    world.finishes("a/2", "a/3")
    world.passes(120)
    assert world.state("a/1") is JobState.RUNNING
    here = 0
    for instruction in (instruction for _, instruction in world.log):
        here += instruction.count if isinstance(instruction, AddWorkers) else -isinstance(instruction, RemoveWorker)
        assert here <= 2
    world.finishes("a/1")
    assert world.all(SweepEnded)[-1].complete


def test_a_climb_of_a_kind_beside_others_gets_the_place_of_an_idle_worker() -> None:
    world = a_world().with_profiles("standard", "wfrb").with_kind("standard", maximum=1, within=2)
    world.with_kind("wfrb", minimum=2, maximum=2, larger="standard").with_willing_cluster()
    world.with_sweep("a", jobs=2, kind=SweepKind.FREE)
    world.loses("a/1", Loss.OUT_OF_MEMORY, peak=gib(4))
    world.finishes("a/2")
    world.passes(120)
    assert world.state("a/1") is JobState.RUNNING
    assert world.asked("standard") == [1]


def test_jobs_of_a_heavy_sweep_start_only_after_the_last_normal_job_has_ended() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", jobs=3).with_sweep("big", jobs=2, kind=SweepKind.HEAVY)
    for job in ("a/1", "a/2"):
        assert not [start for start in only(StartJob, world.finishes(job)) if start.job.startswith("big")]
    assert {start.job for start in only(StartJob, world.finishes("a/3"))} == {"big/1", "big/2"}


def test_a_sweep_the_memory_check_refused_takes_no_place() -> None:
    world = a_world().with_sweep("a", memory=gib(30)).with_sweep("b").with_sweep("c")
    assert world.admitted() == ["b", "c"]
    assert world.failure("a/1").state is JobState.REFUSED
    assert "expected to use 30 GiB, a standard worker may use 8 GiB" in world.failure("a/1").reason


def test_a_sweep_for_workers_nobody_has_is_refused_with_the_tags_there_are() -> None:
    world = a_world().with_sweep("a", jobs=2, on="gpu")
    assert world.failure("a/2").state is JobState.REFUSED
    assert world.failure("a/2").reason == "no workers are tagged 'gpu'; known tags: heavy, standard, wfrb"
    assert world.all(SweepEnded) == [SweepEnded("a", False, {"refused": 2})]


def test_a_sweep_that_no_pool_can_ever_hold_is_refused_instead_of_waiting_for_ever() -> None:
    world = a_world().with_kind("standard", maximum=0).with_sweep("a")
    assert world.failure("a/1").state is JobState.REFUSED
    assert "can never hold a worker tagged 'standard'" in world.failure("a/1").reason


def test_a_cancelled_sweep_gives_its_place_to_the_next() -> None:
    world = a_world().with_willing_cluster().with_sweep("a").with_sweep("b").with_sweep("c")
    world.happens(SweepCancelled("a"))
    assert world.admitted() == ["a", "b", "c"]
    assert world.all(SweepEnded)[0].complete is False


def test_cancelling_a_waiting_heavy_sweep_frees_those_behind_it() -> None:
    world = a_world().with_sweep("a").with_sweep("big", kind=SweepKind.HEAVY).with_sweep("b")
    world.happens(SweepCancelled("big"))
    assert world.state("big/1") is JobState.STOPPED
    assert world.admitted() == ["a", "b"]


def test_a_sweep_without_jobs_ends_at_once_and_is_complete() -> None:
    world = a_world().with_sweep("nothing", jobs=0)
    assert world.all(SweepEnded) == [SweepEnded("nothing", True, {})]


def test_the_same_sweep_submitted_twice_is_reported_and_not_run_twice() -> None:
    world = a_world().with_sweep("a")
    sweep = world.engine.state.sweeps["a"].sweep
    world.happens(SweepSubmitted(sweep))
    (alert,) = world.alerts("duplicate-sweep")
    assert alert.message == "the sweep a is ignored: it was submitted before"
    assert world.admitted() == ["a"]


def test_a_sweep_with_a_job_of_another_is_reported_and_ignored() -> None:
    world = a_world().with_sweep("a")
    stolen = world.engine.state.sweeps["a"].sweep.jobs
    world.happens(SweepSubmitted(SubmittedSweep("b", SweepKind.NORMAL, stolen, 1)))
    assert world.alerts("duplicate-sweep")
    assert "b" not in world.admitted()


def test_a_sweep_that_has_a_job_twice_is_reported_and_ignored() -> None:
    world = a_world()
    job = Job("b/1", "b", "standard")
    world.happens(SweepSubmitted(SubmittedSweep("b", SweepKind.NORMAL, (job, job), 1)))
    (alert,) = world.alerts("duplicate-sweep")
    assert alert.message == "the sweep b is ignored: its job b/1 stands in it twice"


def test_a_sweep_is_complete_only_if_every_job_finished() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", jobs=2)
    world.finishes("a/1")
    world.loses("a/2", Loss.RAISED, message="bad input")
    assert world.all(SweepEnded) == [SweepEnded("a", False, {"finished": 1, "failed": 1})]
