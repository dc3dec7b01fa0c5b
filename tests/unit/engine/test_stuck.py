"""When a job counts as stuck and what happens then: it is killed first, then retried."""

from __future__ import annotations

import pytest

from scalable.engine.events import (
    CpuSeen,
    JobLost,
    JobState,
    KillJob,
    Loss,
    Progressed,
    RemoveWorker,
    RowPersisted,
    StartJob,
    WorkerLost,
)
from scalable.findings import Finding
from tests.helpers.engine.builders import World, a_world, only


def a_running_job() -> World:
    return a_world().with_sweep("s").with_workers(1)


def killed(world: World) -> bool:
    return bool(world.all(KillJob))


def test_a_job_silent_for_300_seconds_without_a_row_is_killed_as_stuck() -> None:
    world = a_running_job()
    world.passes(299.9)
    assert not killed(world)

    world.passes(0.1)

    assert world.all(KillJob) == [KillJob("s/1", 1, "w1", Loss.STUCK)]
    assert world.alerts("stuck") == [Finding.warning("stuck", "s/1", "s/1 gave no sign of life for 300 s on w1")]


def test_how_long_silence_may_last_is_a_policy() -> None:
    world = a_world().with_policy("stuck", after="30s").with_sweep("s").with_workers(1)
    assert world.engine.next_wake() <= 30
    world.passes(29)
    assert not killed(world)
    world.passes(1)
    assert killed(world)


def test_progress_keeps_a_job_alive() -> None:
    world = a_running_job()
    for _ in range(50):
        world.passes(299)
        world.happens(Progressed("s/1", 1))
    assert not killed(world)
    world.passes(300)
    assert killed(world)


def test_a_row_persisted_by_its_worker_keeps_a_job_alive() -> None:
    world = a_running_job()
    world.passes(200)
    world.happens(RowPersisted("w1"))
    world.passes(299)
    assert not killed(world)
    world.passes(1)
    assert killed(world)


def test_a_row_of_another_worker_does_not() -> None:
    world = a_world().with_sweep("s", jobs=2).with_workers(2)
    worker = world.starts("s/1")[0].worker
    other = next(name for name in ("w1", "w2") if name != worker)
    world.passes(200)
    world.happens(RowPersisted(other))
    world.passes(100)
    assert [kill.job for kill in world.all(KillJob)] == ["s/1"]


def test_a_row_the_worker_persisted_before_the_job_gives_it_no_extra_time() -> None:
    world = a_world().with_sweep("s", jobs=2, workers=1).with_workers(1)
    world.passes(100)
    world.happens(RowPersisted("w1"))
    world.finishes("s/1")
    world.passes(299)
    assert not killed(world)
    world.passes(1)
    assert world.all(KillJob) == [KillJob("s/2", 1, "w1", Loss.STUCK)]


def test_a_declared_long_step_is_not_due_before_its_end() -> None:
    world = a_running_job()
    world.happens(Progressed("s/1", 1, until=3600))
    world.passes(3600 + 299)
    assert not killed(world)
    world.passes(1)
    assert killed(world)


def test_the_next_report_ends_a_declared_long_step() -> None:
    world = a_running_job()
    world.happens(Progressed("s/1", 1, until=36000))
    world.passes(60)
    world.happens(Progressed("s/1", 1))
    world.passes(299)
    assert not killed(world)
    world.passes(1)
    assert killed(world)


def test_code_that_declared_a_long_step_and_never_reports_is_judged_by_its_cpu_use_afterwards() -> None:
    world = a_running_job()
    world.happens(Progressed("s/1", 1, until=600, reported=False))
    world.passes(600)
    world.happens(Progressed("s/1", 1, reported=False))
    for _ in range(5):
        world.passes(299)
        world.happens(CpuSeen("s/1", 1))
    assert not killed(world)
    world.passes(300)
    assert killed(world)


def test_code_that_never_reports_is_kept_alive_by_its_cpu_use() -> None:
    world = a_running_job()
    for _ in range(24 * 60):
        world.passes(60)
        world.happens(CpuSeen("s/1", 1))
    assert not killed(world), "a day without a walltime"
    world.passes(300)
    assert killed(world)


def test_code_that_never_reports_is_ended_by_the_walltime_however_busy_it_is() -> None:
    world = a_world().with_policy("stuck", walltime="1h").with_sweep("s").with_workers(1)
    for _ in range(59):
        world.passes(60)
        world.happens(CpuSeen("s/1", 1))
    assert not killed(world)
    world.passes(60)
    assert [kill.cause for kill in world.all(KillJob)] == [Loss.TIMED_OUT]
    assert "1 h" in world.alerts("walltime")[0].message
    assert not world.alerts("stuck")
    world.happens(JobLost("s/1", 1, Loss.TIMED_OUT))
    assert world.state("s/1") is JobState.DELAYED
    assert world.engine.state.jobs["s/1"].charged == 1


def test_the_walltime_is_not_for_code_that_reports() -> None:
    world = a_world().with_policy("stuck", walltime="10m").with_sweep("s").with_workers(1)
    for _ in range(60):
        world.passes(60)
        world.happens(Progressed("s/1", 1))
    assert not killed(world)


def test_once_code_has_reported_busy_cpus_no_longer_excuse_its_silence() -> None:
    world = a_running_job()
    world.happens(Progressed("s/1", 1))
    for _ in range(6):
        world.passes(50)
        world.happens(CpuSeen("s/1", 1))
    assert killed(world)


def test_a_stuck_job_is_started_again_only_after_its_death_was_reported() -> None:
    world = a_running_job()
    world.passes(300)
    assert not only(StartJob, world.passes(59)), "it may still be alive"
    assert world.state("s/1") is JobState.KILLING

    world.happens(JobLost("s/1", 1, Loss.STUCK))
    assert world.state("s/1") is JobState.DELAYED
    world.passes(60)
    assert world.starts("s/1")[-1].attempt == 2


def test_a_job_that_does_not_die_in_time_takes_its_worker_with_it_and_is_retried() -> None:
    world = a_running_job()
    world.passes(300)
    world.passes(60)
    assert [alert.path for alert in world.alerts("kill-late")] == ["s/1"]
    (removal,) = world.all(RemoveWorker)
    assert removal.forced

    world.happens(WorkerLost(removal.worker))
    assert world.state("s/1") is JobState.DELAYED
    assert world.engine.state.jobs["s/1"].past[-1].cause is Loss.STUCK


def test_a_job_is_told_to_die_once() -> None:
    world = a_running_job()
    world.passes(3600)
    assert len(world.all(KillJob)) == 1
    assert len(world.alerts("stuck")) == 1


def test_a_job_stuck_twice_fails() -> None:
    world = a_world().with_willing_cluster().with_sweep("s")
    world.passes(2000)
    assert world.failure("s/1").state is JobState.FAILED
    assert world.failure("s/1").reason == "stuck after 2 attempts"


def test_a_job_that_waits_is_never_stuck() -> None:
    world = a_world().with_sweep("s")
    world.passes(36000)
    assert not killed(world)


@pytest.mark.parametrize("sign_at", [0.0, 120.0, 250.0])
def test_the_engine_asks_to_be_woken_when_the_silence_would_be_too_long(sign_at: float) -> None:
    world = a_running_job()
    world.passes(sign_at)
    world.happens(Progressed("s/1", 1))
    world.passes(300 - sign_at)
    assert killed(world) is (sign_at == 0.0)
    assert sign_at == 0.0 or world.engine.next_wake() == sign_at + 300


@pytest.mark.parametrize("sign", [Progressed("s/1", 1), CpuSeen("s/1", 1)])
def test_a_job_that_moves_when_it_is_looked_at_again_goes_on(sign: Progressed | CpuSeen) -> None:
    world = a_running_job()
    world.passes(300)
    world.passes(10)
    world.happens(sign)
    assert world.state("s/1") is JobState.RUNNING
    assert [alert.path for alert in world.alerts("stuck-withdrawn")] == ["s/1"]

    world.passes(299)
    assert len(world.all(KillJob)) == 1
    assert not world.all(RemoveWorker), "nobody waits for it to be dead any longer"
    world.finishes("s/1")
    assert world.state("s/1") is JobState.FINISHED


def test_a_job_that_falls_silent_again_after_a_withdrawn_verdict_is_killed() -> None:
    world = a_running_job()
    world.passes(300)
    world.happens(Progressed("s/1", 1))
    world.passes(300)
    assert [kill.cause for kill in world.all(KillJob)] == [Loss.STUCK, Loss.STUCK]
    world.happens(JobLost("s/1", 1, Loss.STUCK))
    assert world.state("s/1") is JobState.DELAYED


def test_a_sign_that_crossed_with_the_kill_does_not_bring_a_dead_job_back() -> None:
    world = a_running_job()
    world.passes(300)
    world.happens(Progressed("s/1", 1), JobLost("s/1", 1, Loss.STUCK))
    assert world.state("s/1") is JobState.DELAYED


def test_cpu_use_does_not_withdraw_what_a_walltime_or_missing_reports_led_to() -> None:
    world = a_world().with_policy("stuck", walltime="1h").with_sweep("s").with_workers(1)
    for _ in range(36):
        world.passes(100)
        world.happens(CpuSeen("s/1", 1))
    assert world.state("s/1") is JobState.KILLING

    reporting = a_running_job()
    reporting.happens(Progressed("s/1", 1))
    reporting.passes(300)
    reporting.happens(CpuSeen("s/1", 1))
    assert reporting.state("s/1") is JobState.KILLING
    assert len(world.all(KillJob)) == len(reporting.all(KillJob)) == 1


def test_a_verdict_is_not_withdrawn_once_the_worker_was_told_to_go() -> None:
    world = a_running_job()
    world.passes(300)
    world.passes(60)
    assert world.removed() == ["w1"]
    world.happens(Progressed("s/1", 1))
    assert world.state("s/1") is JobState.KILLING
