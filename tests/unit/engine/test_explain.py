"""Why a job is where it is, in a sentence for each state."""

from __future__ import annotations

from scalable.engine.events import JobLost, Loss, Paused, Progressed, SpendChanged, SweepKind, WorkersRefused
from tests.helpers.engine.builders import a_world, gib, money


def test_a_held_job_names_the_sweeps_that_must_end_first() -> None:
    world = a_world().with_sweep("a").with_sweep("b").with_sweep("c")
    assert world.explains("c/1") == [
        "waits for its sweep c to be admitted: at most 2 sweeps run at once: a, b",
    ]


def test_a_held_heavy_job_says_that_it_runs_alone() -> None:
    world = a_world().with_sweep("a").with_sweep("big", kind=SweepKind.HEAVY)
    assert world.explains("big/1") == [
        "waits for its sweep big to be admitted: a heavy sweep runs alone; a must end first",
    ]


def test_a_job_behind_a_waiting_heavy_sweep_says_who_is_first_in_line() -> None:
    world = a_world().with_sweep("a").with_sweep("big", kind=SweepKind.HEAVY).with_sweep("late")
    assert world.explains("late/1") == ["waits for its sweep late to be admitted: big is first in line"]


def test_a_climbed_job_says_what_it_waits_for_and_what_it_used() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", jobs=2).with_sweep("b")
    world.passes(90)
    world.loses("a/1", Loss.OUT_OF_MEMORY, peak=gib(9))
    world.passes(60)
    past = "attempt 1 on w1 (standard) was lost after 1 min 30 s: out of memory, peak 9 GiB"
    held = "waits for heavy workers, which run alone: "
    assert world.explains("a/1") == [past, held + "the rest of its sweep must end first"]

    world.finishes("a/2")
    assert world.explains("a/1")[1] == held + "a heavy sweep runs alone; b must end first"


def test_a_queued_job_says_how_long_its_workers_have_been_awaited() -> None:
    world = a_world().with_sweep("a", jobs=3)
    world.passes(40)
    assert world.explains("a/1") == [
        "queued for a standard worker: 3 workers were asked for 40 s ago and have not joined",
    ]


def test_a_queued_job_says_when_refused_workers_are_asked_for_again() -> None:
    world = a_world().with_sweep("a")
    world.happens(WorkersRefused("standard", 1, "quota"))
    world.passes(20)
    assert world.explains("a/1") == [
        "queued for a standard worker: the last request was refused; asking again in 40 s",
    ]


def test_a_queued_job_says_that_the_pool_is_full() -> None:
    world = a_world().with_nodes(1).with_willing_cluster().with_sweep("a", jobs=8)
    assert world.explains("a/8") == [
        "queued for a standard worker: all 7 workers are busy and the pool compute is full",
    ]


def test_a_queued_job_says_that_its_sweep_has_all_the_workers_it_asked_for() -> None:
    world = a_world().with_willing_cluster().with_sweep("a", jobs=4, workers=2)
    assert world.explains("a/4") == ["queued for a standard worker: 2 of 2 workers are busy, 2 jobs waiting"]


def test_a_queued_job_says_that_work_is_paused() -> None:
    world = a_world().with_sweep("a")
    world.happens(Paused("spent too much this month"))
    assert world.explains("a/1") == ["queued for a standard worker: spent too much this month"]


def test_a_queued_job_says_that_the_pool_was_just_scaled_down() -> None:
    world = a_world().with_willing_cluster().with_sweep("a")
    world.passes(200)
    world.happens(Progressed("a/1", 1))
    world.finishes("a/1")
    assert world.removed() == ["w1"]
    world.passes(20)
    world.with_sweep("b")
    assert world.explains("b/1") == [
        "queued for a standard worker: no worker; idle ones were given back and may be asked for again in 100 s",
    ]


def test_a_queued_job_says_that_the_money_does_not_cover_it() -> None:
    world = a_world().with_budget("2 EUR").with_sweep("a", jobs=2, expected_s=3000).with_workers(1)
    world.happens(SpendChanged(money("1 EUR"), money("1 EUR"), money("0.2 EUR"), covered=1))
    world.with_workers(1)
    waiting = next(job for job in ("a/1", "a/2") if not world.starts(job))
    assert world.explains(waiting) == ["queued for a standard worker: what is left of the budget does not cover it"]


def test_a_delayed_job_says_when_and_where_it_is_tried_again() -> None:
    world = a_world().with_willing_cluster().with_sweep("a")
    world.loses("a/1", Loss.TRANSIENT, message="connection reset")
    world.passes(15)
    assert world.explains("a/1") == [
        "attempt 1 on w1 (standard) was lost after 0 s: transient, connection reset",
        "is tried again in 45 s on standard",
    ]


def test_a_running_job_says_where_for_how_long_and_when_it_was_heard_of() -> None:
    world = a_world().with_willing_cluster().with_sweep("a")
    world.passes(100)
    world.happens(Progressed("a/1", 1))
    world.passes(20)
    assert world.explains("a/1") == ["runs on w1 for 2 min, attempt 1, last sign of life 20 s ago"]


def test_a_job_in_a_declared_long_step_was_heard_of_just_now() -> None:
    world = a_world().with_willing_cluster().with_sweep("a")
    world.happens(Progressed("a/1", 1, until=1000))
    world.passes(500)
    assert world.explains("a/1")[0].endswith("last sign of life 0 s ago")


def test_a_job_being_killed_says_why() -> None:
    world = a_world().with_sweep("a").with_workers(1)
    world.passes(300)
    assert world.explains("a/1") == ["is being killed on w1: stuck"]


def test_a_finished_job_says_so() -> None:
    world = a_world().with_willing_cluster().with_sweep("a")
    world.finishes("a/1")
    assert world.explains("a/1") == ["finished"]


def test_a_failed_job_shows_every_attempt_and_the_reason() -> None:
    world = a_world().with_willing_cluster().with_sweep("a")
    world.loses("a/1", Loss.TRANSIENT)
    world.passes(60)
    world.passes(30)
    world.happens(JobLost("a/1", 2, Loss.RAISED, None, "KeyError: 'close'"))
    assert world.explains("a/1") == [
        "attempt 1 on w1 (standard) was lost after 0 s: transient",
        "attempt 2 on w1 (standard) was lost after 30 s: raised, KeyError: 'close'",
        "failed: raised: KeyError: 'close'",
    ]


def test_a_refused_job_says_why() -> None:
    world = a_world().with_sweep("a", memory=gib(30))
    expected = "refused: memory check: a/1 is expected to use 30 GiB, a standard worker may use 8 GiB"
    assert world.explains("a/1") == [expected]


def test_a_stopped_job_says_that_the_budget_is_used_up() -> None:
    world = a_world().with_budget("0.01 EUR").with_sweep("a", expected_s=60)
    assert world.explains("a/1") == [
        "stopped: what is left of the budget of EUR 0.01 is not enough for another job",
    ]


def test_a_job_nobody_knows_is_called_that() -> None:
    assert a_world().explains("ghost") == ["no job is called ghost"]
