"""What a person may do to a live engine: kill one job, pause with or without giving the workers up, resume."""

from __future__ import annotations

import pytest

from scalable.engine.events import (
    JobCancelled,
    JobState,
    KillJob,
    Loss,
    OutsideWork,
    Paused,
    Progressed,
    RemoveWorker,
    Resumed,
    StartJob,
    SweepCancelled,
    SweepEnded,
    SweepKind,
    WorkerJoined,
    WorkerLost,
)
from tests.helpers.engine.builders import World, a_world, only


def a_running_job() -> World:
    return a_world().with_sweep("s", jobs=2, workers=1).with_workers(1)


def test_a_running_job_is_killed_and_not_run_again() -> None:
    world = a_running_job()
    world.happens(JobCancelled("s/1", "wrong data"))
    assert world.all(KillJob) == [KillJob("s/1", 1, "w1", Loss.OPERATOR)]
    assert world.explains("s/1") == ["is being killed on w1: killed by operator"]

    world.loses("s/1", Loss.OPERATOR)
    world.passes(600)

    assert (world.state("s/1"), world.failure("s/1").reason) == (JobState.FAILED, "killed by operator: wrong data")
    assert len(world.starts("s/1")) == 1
    assert world.state("s/2") is not JobState.QUEUED, "the others go on"


def test_a_waiting_job_fails_at_once() -> None:
    world = a_running_job()
    world.happens(JobCancelled("s/2"))
    assert (world.state("s/2"), world.failure("s/2").reason) == (JobState.FAILED, "killed by operator")
    world.finishes("s/1")
    assert world.all(SweepEnded) == [SweepEnded("s", False, {"finished": 1, "failed": 1})]


def test_a_job_that_waits_out_a_delay_or_for_its_sweep_fails_at_once() -> None:
    world = a_running_job().with_sweep("big", kind=SweepKind.HEAVY)
    world.loses("s/1", Loss.TRANSIENT)
    world.happens(JobCancelled("s/1"), JobCancelled("big/1"))
    world.passes(600)
    assert [world.state(job) for job in ("s/1", "big/1")] == [JobState.FAILED, JobState.FAILED]
    assert len(world.starts("s/1")) == 1


def test_a_job_that_climbed_and_is_held_back_can_be_killed() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", jobs=2)
    world.loses("s/1", Loss.OUT_OF_MEMORY)
    world.passes(60)
    assert world.state("s/1") is JobState.HELD
    world.happens(JobCancelled("s/1"))
    world.finishes("s/2")
    assert world.all(SweepEnded) == [SweepEnded("s", False, {"failed": 1, "finished": 1})]


@pytest.mark.parametrize("cause", [Loss.TRANSIENT, Loss.RAISED, Loss.WORKER_LOST])
def test_whatever_ends_it_meanwhile_it_counts_as_killed(cause: Loss) -> None:
    world = a_running_job()
    world.happens(JobCancelled("s/1"))
    world.loses("s/1", cause)
    assert world.failure("s/1").reason == "killed by operator"


def test_a_worker_lost_under_the_kill_does_not_bring_the_job_back() -> None:
    world = a_running_job()
    world.happens(JobCancelled("s/1"), WorkerLost("w1", Loss.PREEMPTED))
    assert world.failure("s/1").reason == "killed by operator"


def test_a_result_that_comes_first_counts() -> None:
    world = a_running_job()
    world.happens(JobCancelled("s/1"))
    world.finishes("s/1")
    assert world.state("s/1") is JobState.FINISHED


@pytest.mark.parametrize(("job", "why"), [("ghost", "no job has this name"), ("s/1", "it is finished already")])
def test_a_job_that_is_not_there_or_over_is_told_and_ignored(job: str, why: str) -> None:
    world = a_running_job()
    world.finishes("s/1")
    world.happens(JobCancelled(job))
    assert [alert.message for alert in world.alerts("unknown-run")] == [f"{job} was not killed: {why}"]
    assert not world.all(KillJob)


@pytest.mark.parametrize("order", [JobCancelled("s/1"), SweepCancelled("s")])
def test_a_stuck_verdict_does_not_protect_from_the_operator(order: JobCancelled | SweepCancelled) -> None:
    world = a_running_job()
    world.passes(300)
    world.happens(order)
    assert [kill.cause for kill in world.all(KillJob)] == [Loss.STUCK, Loss.OPERATOR]
    world.happens(Progressed("s/1", 1))
    assert world.state("s/1") is JobState.KILLING


def test_an_operator_overrules_a_walltime() -> None:
    world = a_world().with_policy("stuck", walltime="4m").with_sweep("s").with_workers(1)
    world.passes(240)
    world.happens(JobCancelled("s/1"))
    assert [kill.cause for kill in world.all(KillJob)] == [Loss.TIMED_OUT, Loss.OPERATOR]


def test_pausing_lets_running_jobs_end_and_starts_nothing() -> None:
    world = a_running_job()
    world.happens(Paused())
    world.finishes("s/1")
    world.happens(WorkerJoined("late", "standard"))
    assert len(world.all(StartJob)) == 1


def test_a_pause_for_the_cost_sends_workers_away_at_once_and_work_goes_on_after_it() -> None:
    world = a_world().with_willing_cluster().with_kind("standard", minimum=2).with_sweep("s")
    world.happens(Paused("the month is too dear", drop_workers=True))
    (removal,) = world.all(RemoveWorker)
    assert (removal.reason, removal.forced) == ("the month is too dear", True)
    assert world.state("s/1") is JobState.RUNNING, "it may end"
    world.finishes("s/1")
    world.with_sweep("t")
    world.passes(3600)
    assert world.engine.state.workers == {}
    assert world.explains("t/1") == ["queued for a standard worker: the month is too dear"]

    began = only(StartJob, world.happens(Resumed()))

    assert [start.job for start in began] == ["t/1"], "without waiting for a cooldown"


def test_a_worker_that_comes_during_such_a_pause_is_sent_away_too() -> None:
    world = a_world().with_sweep("s", jobs=2)
    world.happens(Paused("too dear", drop_workers=True), WorkerJoined("late", "standard"))
    assert world.removed() == ["late"]


def test_workers_that_work_for_others_or_keep_results_stay_through_such_a_pause() -> None:
    world = a_world().with_kind("standard", minimum=3).with_workers(3)
    world.happens(OutsideWork("standard", 0, frozenset({"w1"}), frozenset({"w2"})))
    world.happens(Paused("too dear", drop_workers=True))
    assert world.removed() == ["w3"]
    world.happens(OutsideWork("standard", 0))
    assert world.removed() == ["w3", "w1", "w2"]


def test_a_plain_pause_after_one_for_the_cost_keeps_new_workers() -> None:
    world = a_world().with_sweep("s", jobs=2)
    world.happens(Paused("too dear", drop_workers=True), Resumed(), Paused(), WorkerJoined("late", "standard"))
    assert not world.removed()
