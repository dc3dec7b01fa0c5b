"""What follows a lost attempt: when it is tried again, where, how often, and what people are told."""

from __future__ import annotations

import pytest

from scalable.engine.ending import MAX_HANDOVERS, advice
from scalable.engine.events import (
    JobFinished,
    JobLost,
    JobState,
    Loss,
    Progressed,
    StartJob,
    SweepCancelled,
    SweepEnded,
    WorkerLeaving,
    WorkerLost,
)
from scalable.engine.rules import ANY_MEMORY
from scalable.manifest.work import Retry
from scalable.observe.incidents import Incident, more_memory
from scalable.quantities import Memory
from tests.helpers.engine.builders import World, a_world, gib

TRANSIENT = [Loss.TRANSIENT, Loss.STUCK, Loss.TIMED_OUT, Loss.WORKER_LOST, Loss.NODE_LOST, Loss.KILLED, Loss.CRASHED]
DETERMINISTIC = [Loss.RAISED, Loss.CANNOT_START, Loss.OPERATOR]
FREE = [Loss.PREEMPTED, Loss.WALLTIME, Loss.STOPPED, Loss.WORKER_CRASHED]


def a_running_job() -> World:
    """Called s/1."""
    return a_world().with_willing_cluster().with_sweep("s")


@pytest.mark.parametrize("cause", TRANSIENT)
def test_a_transient_loss_is_retried_once_after_a_minute(cause: Loss) -> None:
    world = a_running_job()
    world.passes(10)
    world.loses("s/1", cause)
    world.passes(59.9)
    assert world.state("s/1") is JobState.DELAYED

    world.passes(0.1)

    assert world.started_at("s/1", 2) == pytest.approx(70)
    world.finishes("s/1")
    assert world.state("s/1") is JobState.FINISHED


@pytest.mark.parametrize("cause", TRANSIENT)
def test_a_second_transient_loss_fails_the_job_and_says_how_often_it_was_tried(cause: Loss) -> None:
    world = a_running_job()
    world.loses("s/1", cause)
    world.passes(60)
    world.loses("s/1", cause, message="connection reset")

    assert world.failure("s/1").state is JobState.FAILED
    assert world.failure("s/1").reason == f"{cause.value} after 2 attempts: connection reset"
    assert world.alerts("run-failed")[0].path == "s/1"


def test_an_attempt_that_was_made_before_by_another_driver_counts() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", charged=1)
    assert world.state("s/1") is JobState.RUNNING
    world.loses("s/1", Loss.WORKER_LOST)
    assert world.failure("s/1").reason == "worker lost after 2 attempts"


def test_a_job_whose_attempts_were_all_made_before_fails_without_being_started() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", charged=2)
    assert world.failure("s/1").state is JobState.FAILED
    assert world.failure("s/1").reason.startswith("its 2 attempts were used by drivers that died")
    assert world.all(StartJob) == []
    assert world.alerts("run-failed")[0].path == "s/1"


def test_a_sweep_with_a_policy_of_its_own_is_retried_by_it() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", retry=Retry(times=0)).with_sweep("t")
    for job in ("s/1", "t/1"):
        world.loses(job, Loss.WORKER_LOST)
    assert (world.state("s/1"), world.state("t/1")) == (JobState.FAILED, JobState.DELAYED)


def test_the_delay_doubles_with_every_retry_up_to_its_cap() -> None:
    world = a_world().with_policy("retry", times=5, delay="60s", cap="300s").with_kind("standard", minimum=1)
    world.with_willing_cluster().with_sweep("s")
    for delay in (60, 120, 240, 300, 300):
        world.loses("s/1", Loss.TRANSIENT)
        world.passes(delay - 1)
        assert world.state("s/1") is JobState.DELAYED, f"before {delay} s"
        world.passes(1)
        assert world.state("s/1") is JobState.RUNNING, f"after {delay} s"


def test_a_job_that_was_retried_a_thousand_times_is_retried_after_the_cap() -> None:
    world = a_world().with_policy("retry", times=5000, delay="1s", cap="5s").with_willing_cluster().with_sweep("s")
    world.engine.state.jobs["s/1"].charged = 1500
    world.loses("s/1", Loss.TRANSIENT)
    world.passes(5)
    assert world.started_at("s/1", 2) == pytest.approx(5)


def test_without_retries_in_the_policy_a_lost_job_fails_at_once() -> None:
    world = a_world().with_policy("retry", times=0).with_willing_cluster().with_sweep("s")
    world.loses("s/1", Loss.TRANSIENT)
    assert world.failure("s/1").reason == "transient and no retry is allowed"
    assert not world.alerts("retry-used")


@pytest.mark.parametrize("cause", DETERMINISTIC)
def test_an_error_that_would_come_again_is_not_retried(cause: Loss) -> None:
    world = a_running_job()
    world.loses("s/1", cause, message="assert len(bars) > 0")
    world.passes(3600)

    assert world.failure("s/1").state is JobState.FAILED
    assert world.failure("s/1").reason == f"{cause.value}: assert len(bars) > 0"
    assert len(world.starts("s/1")) == 1
    assert not world.alerts("retry-used")


def test_every_cause_of_loss_is_judged_here() -> None:
    assert {*TRANSIENT, *DETERMINISTIC, *FREE, Loss.OUT_OF_MEMORY} == set(Loss)


def test_out_of_memory_is_retried_on_the_larger_profile() -> None:
    world = a_world().with_willing_cluster().with_profiles("standard", "heavy").with_sweep("s")
    world.loses("s/1", Loss.OUT_OF_MEMORY, peak=gib(9))
    world.passes(60)
    assert world.engine.state.jobs["s/1"].tag == "heavy"
    assert world.engine.state.workers[world.starts("s/1")[-1].worker].tag == "heavy"


def test_a_second_out_of_memory_on_the_largest_profile_fails_the_job_with_both_peaks() -> None:
    world = a_world().with_profiles("standard", "heavy").with_job("r1", on="standard")
    world.loses("r1", Loss.OUT_OF_MEMORY, peak=gib(9))
    assert world.engine.state.jobs["r1"].tag == "heavy"
    world.passes(60)
    world.with_workers(1, "heavy")
    world.loses("r1", Loss.OUT_OF_MEMORY, peak=gib(25))
    assert "9 GiB of 8 GiB on standard, 25 GiB of 24 GiB on heavy" in world.failure("r1").reason


@pytest.mark.parametrize("times", [1, 5])
def test_out_of_memory_on_the_largest_profile_is_never_tried_again_on_the_same_size(times: int) -> None:
    world = a_world().with_policy("retry", times=times).with_profiles("standard", "heavy").with_job("r1", on="heavy")
    world.loses("r1", Loss.OUT_OF_MEMORY, peak=gib(25))
    world.passes(3600)
    assert world.failure("r1").reason == (
        "out of memory and no larger profile exists: 25 GiB of 24 GiB on heavy; ask for 38 GiB"
    )
    assert len(world.starts("r1")) == 1


def test_every_out_of_memory_climbs_one_profile_while_retries_last() -> None:
    world = a_world().with_policy("retry", times=2).with_profiles("standard", "heavy", "huge").with_willing_cluster()
    world.with_sweep("s")
    for peak in (9, 25, 50):
        world.loses("s/1", Loss.OUT_OF_MEMORY, peak=gib(peak))
        world.passes(300)
    tags = [attempt.tag for attempt in world.engine.state.jobs["s/1"].past]
    assert tags == ["standard", "heavy", "huge"]
    reason = world.failure("s/1").reason
    assert "9 GiB of 8 GiB on standard, 25 GiB of 24 GiB on heavy, 50 GiB of 48 GiB on huge" in reason


def test_out_of_memory_with_no_retry_left_fails_with_the_peaks_though_a_larger_profile_exists() -> None:
    world = a_world().with_profiles("standard", "heavy", "huge").with_willing_cluster().with_sweep("s")
    world.loses("s/1", Loss.OUT_OF_MEMORY, peak=gib(9))
    world.passes(60)
    world.loses("s/1", Loss.OUT_OF_MEMORY, peak=gib(25))
    assert world.failure("s/1").reason == (
        "out of memory after 2 attempts (9 GiB of 8 GiB on standard, 25 GiB of 24 GiB on heavy)"
    )


def test_a_peak_nobody_saw_is_called_unknown() -> None:
    world = a_world().with_profiles("standard").with_job("r1")
    world.loses("r1", Loss.OUT_OF_MEMORY)
    assert world.failure("r1").reason.endswith("an unknown peak of 8 GiB on standard")


def test_after_climbing_a_transient_loss_stays_on_the_larger_profile() -> None:
    world = a_world().with_policy("retry", times=2).with_profiles("standard", "heavy").with_willing_cluster()
    world.with_sweep("s")
    world.loses("s/1", Loss.OUT_OF_MEMORY, peak=gib(9))
    world.passes(60)
    world.loses("s/1", Loss.TRANSIENT)
    world.passes(120)
    assert world.engine.state.workers[world.starts("s/1")[2].worker].tag == "heavy"


@pytest.mark.parametrize("cause", [Loss.PREEMPTED, Loss.WALLTIME])
def test_preemption_and_walltime_cost_no_retry_and_no_delay(cause: Loss) -> None:
    world = a_running_job()
    for _ in range(3):
        world.loses("s/1", cause)
        assert world.state("s/1") is JobState.RUNNING, "it moved on at once"
    assert not world.alerts("retry-used")

    world.loses("s/1", Loss.TRANSIENT)
    world.passes(60)

    assert len(world.starts("s/1")) == 5, "the retry was still there"


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        (Loss.PREEMPTED, "give it a longer walltime"),
        (Loss.WALLTIME, "give it a longer walltime"),
        (Loss.WORKER_CRASHED, "run it alone"),
    ],
)
def test_a_job_that_loses_its_workers_again_and_again_is_given_up(cause: Loss, remedy: str) -> None:
    world = a_running_job()
    for _ in range(MAX_HANDOVERS + 1):
        assert world.state("s/1") is JobState.RUNNING
        world.loses("s/1", cause)
    assert world.failure("s/1").reason == f"{cause.value} {MAX_HANDOVERS} times without finishing; {remedy}"


def test_a_worker_taken_back_with_notice_costs_its_job_no_retry() -> None:
    world = a_world().with_willing_cluster().with_sweep("s")
    world.happens(WorkerLeaving("w1"), WorkerLost("w1", Loss.PREEMPTED))
    assert world.state("s/1") is JobState.RUNNING
    assert world.starts("s/1")[-1].worker != "w1"
    assert not world.alerts("retry-used")


@pytest.mark.parametrize("cause", TRANSIENT)
def test_any_retry_used_is_an_alert_that_names_job_and_cause_and_blames_no_size(cause: Loss) -> None:
    world = a_running_job()
    world.loses("s/1", cause, peak=gib(1), message="it went")
    (alert,) = world.alerts("retry-used")
    assert alert.path == "s/1"
    assert alert.message == f"s/1: {cause.value}: it went, is run again in 1 min"


@pytest.mark.parametrize(
    ("peak", "told"),
    [
        (gib(9), "ask for 14 GiB"),
        (gib(8), "ask for 12 GiB"),
        (gib(5.3), "ask for 12 GiB"),
        (gib(0.3), "ask for 12 GiB"),
    ],
)
def test_a_retry_for_memory_suggests_the_peak_and_half_as_much_again_and_never_less_than_it_had(
    peak: Memory, told: str
) -> None:
    world = a_running_job()
    world.loses("s/1", Loss.OUT_OF_MEMORY, peak=peak)
    (alert,) = world.alerts("retry-used")
    assert alert.message == (
        f"s/1: out of memory ({peak} of 8 GiB on standard), is run again in 1 min on heavy, which has 24 GiB; {told}"
    )


@pytest.mark.parametrize(("peak", "size"), [(0.3, "512 MiB"), (0.7, "1.25 GiB"), (8, "12 GiB")])
def test_where_there_is_no_limit_the_peak_alone_says_what_to_ask_for(peak: float, size: str) -> None:
    assert advice(gib(peak), ANY_MEMORY) == f"ask for {size}"
    assert advice(None, ANY_MEMORY) == "its peak is not known, ask for more"


@pytest.mark.parametrize(("peak", "limit"), [(1.1, 1), (0.1, 0.2), (9, 8), (0, 8)])
def test_the_engine_and_the_incident_name_the_same_size(peak: float, limit: float) -> None:
    size = Memory.to_ask_for(gib(peak), gib(limit))
    assert size is not None and size > max(gib(peak), gib(limit))
    assert advice(gib(peak), gib(limit)).endswith(f"ask for {size}")
    incident = Incident("out of memory", evidence={"peak": gib(peak).bytes, "limit": gib(limit).bytes})
    assert f"ask for memory: {size.exact} " in more_memory(incident)


def test_a_retry_for_memory_without_a_measured_peak_says_so() -> None:
    world = a_running_job()
    world.loses("s/1", Loss.OUT_OF_MEMORY)
    assert world.alerts("retry-used")[0].message.endswith("its peak is not known, ask for 12 GiB")


@pytest.mark.parametrize("cause", [Loss.WORKER_LOST, Loss.KILLED])
@pytest.mark.parametrize(("peak", "suspected"), [(7.2, True), (7.1, False)])
def test_a_silent_end_near_the_limit_makes_memory_suspected(cause: Loss, peak: float, suspected: bool) -> None:
    world = a_running_job()
    world.loses("s/1", cause, peak=gib(peak))
    text = world.alerts("retry-used")[0].message
    assert text.endswith("; memory is suspected, it used 7.2 GiB of 8 GiB: ask for 12 GiB") is suspected

    world.passes(60)
    world.loses("s/1", cause, peak=gib(peak))
    assert ("memory is suspected" in world.failure("s/1").reason) is suspected


def test_an_error_of_the_code_near_the_limit_is_not_blamed_on_memory() -> None:
    world = a_running_job()
    world.loses("s/1", Loss.TRANSIENT, peak=gib(7.9))
    assert "memory" not in world.alerts("retry-used")[0].message


def test_a_job_that_crashes_twice_is_not_tried_a_third_time_whatever_the_policy() -> None:
    world = a_world().with_policy("retry", times=5).with_willing_cluster().with_sweep("s")
    world.loses("s/1", Loss.CRASHED)
    world.passes(60)
    world.loses("s/1", Loss.CRASHED, message="SIGSEGV")
    assert world.failure("s/1").reason == "crashed after 2 attempts: SIGSEGV"


def undersized(world: World) -> list[str]:
    return [alert.message for alert in world.alerts("undersized")]


def test_two_jobs_out_of_memory_and_none_finished_is_told_once_with_a_size_for_the_sweep() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", jobs=4)
    world.loses("s/1", Loss.OUT_OF_MEMORY, peak=gib(9))
    assert not undersized(world), "one may be an exception"
    world.loses("s/2", Loss.OUT_OF_MEMORY, peak=gib(11))
    world.loses("s/3", Loss.OUT_OF_MEMORY, peak=gib(10))
    assert undersized(world) == [
        "2 jobs of s ran out of memory on standard and none has finished there: ask for 17 GiB",
    ]
    assert world.state("s/4") is JobState.RUNNING, "where jobs go is not changed by that"


def test_a_size_on_which_a_job_has_finished_is_not_called_too_small_for_the_sweep() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", jobs=3)
    world.finishes("s/1")
    world.loses("s/2", Loss.OUT_OF_MEMORY, peak=gib(9))
    world.loses("s/3", Loss.OUT_OF_MEMORY, peak=gib(9))
    assert not undersized(world)


def test_code_that_cannot_be_loaded_refuses_the_rest_of_its_sweep_and_lets_running_ones_end() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", jobs=5, workers=3).with_sweep("other", workers=1)
    world.loses("s/3", Loss.TRANSIENT)
    assert [world.state(f"s/{n}") for n in (2, 3, 4, 5)] == [
        JobState.RUNNING,
        JobState.DELAYED,
        JobState.RUNNING,
        JobState.QUEUED,
    ]
    world.loses("s/1", Loss.CANNOT_START, message="No module named 'model'")

    reason = "cannot start: No module named 'model'"
    assert [(world.state(f"s/{n}"), world.failure(f"s/{n}").reason) for n in (1, 3, 5)] == [
        (JobState.FAILED, reason),
        (JobState.FAILED, reason),
        (JobState.REFUSED, reason),
    ]
    assert [alert.message for alert in world.alerts("cannot-start")] == [
        f"s: its other 2 jobs are not started either: {reason}",
    ]
    world.finishes("s/2")
    world.loses("s/4", Loss.TRANSIENT)
    assert world.failure("s/4").reason == f"transient; not run again: {reason}"
    assert world.all(SweepEnded) == [SweepEnded("s", False, {"failed": 3, "refused": 1, "finished": 1})]
    assert world.state("other/1") is JobState.RUNNING


def test_a_late_result_of_an_old_attempt_does_not_end_the_new_one() -> None:
    world = a_running_job()
    world.loses("s/1", Loss.TRANSIENT)
    world.passes(60)
    assert world.happens(JobFinished("s/1", attempt=1)) == []
    assert world.state("s/1") is JobState.RUNNING


def test_a_late_loss_of_an_old_attempt_costs_nothing() -> None:
    world = a_running_job()
    world.loses("s/1", Loss.TRANSIENT)
    assert world.happens(JobLost("s/1", 1, Loss.TRANSIENT)) == [], "the same news twice"
    world.passes(60)
    assert world.happens(JobLost("s/1", 1, Loss.RAISED)) == []
    assert world.state("s/1") is JobState.RUNNING


def test_a_sign_of_life_of_an_old_attempt_keeps_no_new_one_alive() -> None:
    world = a_world().with_sweep("s").with_workers(1)
    world.loses("s/1", Loss.TRANSIENT)
    world.passes(60)
    world.passes(200)
    world.happens(Progressed("s/1", attempt=1))
    world.passes(100)
    assert world.state("s/1") is JobState.KILLING


def test_news_about_unknown_jobs_and_workers_is_ignored() -> None:
    world = a_world()
    assert world.happens(JobFinished("ghost", 1), JobLost("ghost", 1, Loss.TRANSIENT), WorkerLost("ghost")) == []


def test_a_result_that_arrives_while_the_job_is_being_killed_counts() -> None:
    world = a_world().with_sweep("s").with_workers(1)
    world.passes(300)
    assert world.state("s/1") is JobState.KILLING
    world.finishes("s/1")
    assert world.state("s/1") is JobState.FINISHED


def test_a_worker_that_dies_under_a_kill_does_not_change_what_the_job_was_killed_for() -> None:
    world = a_world().with_policy("retry", times=0).with_sweep("s").with_workers(1)
    world.passes(300)
    world.happens(WorkerLost("w1", Loss.WORKER_LOST))
    assert world.failure("s/1").reason.startswith("stuck")


def test_a_finished_job_is_not_run_again_when_its_worker_is_lost_afterwards() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", jobs=2, workers=1)
    world.finishes("s/1")
    world.happens(WorkerLost("w1", Loss.NODE_LOST))
    world.passes(600)
    assert len(world.starts("s/1")) == 1
    assert len(world.starts("s/2")) == 2


def test_a_retried_job_goes_before_those_that_wait() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", jobs=4, workers=1)
    world.loses("s/1", Loss.TRANSIENT)
    world.passes(60)
    world.finishes("s/2")
    assert world.starts("s/1")[-1].attempt == 2
    assert not world.starts("s/3")


def test_a_lost_job_waits_without_holding_up_the_others() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", jobs=2, workers=1)
    world.loses("s/1", Loss.TRANSIENT)
    assert world.state("s/2") is JobState.RUNNING


def test_a_job_killed_for_being_stuck_is_not_run_again_once_its_sweep_is_cancelled() -> None:
    world = a_world().with_sweep("s").with_workers(1)
    world.passes(300)
    world.happens(SweepCancelled("s"))
    world.loses("s/1", Loss.STUCK)
    world.passes(600)
    assert len(world.starts("s/1")) == 1
    assert world.all(SweepEnded) == [SweepEnded("s", False, {"stopped": 1})]


def test_cancelling_stops_running_queued_and_delayed_jobs_without_calling_them_failed() -> None:
    world = a_world().with_willing_cluster().with_sweep("s", jobs=3, workers=1)
    world.loses("s/1", Loss.TRANSIENT)
    assert [world.state(f"s/{n}") for n in (1, 2, 3)] == [JobState.DELAYED, JobState.RUNNING, JobState.QUEUED]
    world.happens(SweepCancelled("s"))
    world.passes(600)
    assert world.all(SweepEnded) == [SweepEnded("s", False, {"stopped": 3})]
    assert not world.alerts("run-failed")
