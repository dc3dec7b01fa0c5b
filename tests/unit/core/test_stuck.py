"""One rule says when work is stuck, and when it will be."""

from __future__ import annotations

from scalable.stuck import is_stuck, silence, stuck_at


def test_work_is_stuck_when_it_was_silent_for_the_whole_time() -> None:
    assert is_stuck(300.0, 300.0)
    assert not is_stuck(299.9, 300.0)


def test_a_row_of_its_worker_counts_as_a_sign() -> None:
    assert silence(500.0, sign=100.0, last_row=400.0) == 100.0
    assert stuck_at(100.0, last_row=400.0, after_s=300.0) == 700.0


def test_work_is_stuck_at_the_moment_at_which_its_silence_has_lasted_long_enough() -> None:
    when = stuck_at(sign=20.0, last_row=-1.0, after_s=300.0)
    assert is_stuck(silence(when, 20.0, -1.0), 300.0) and not is_stuck(silence(when - 0.1, 20.0, -1.0), 300.0)


def test_a_walltime_comes_first_unless_a_declared_step_outlasts_it() -> None:
    assert stuck_at(10.0, last_row=-1.0, after_s=300.0, walltime_ends=60.0) == 60.0
    assert stuck_at(200.0, last_row=-1.0, after_s=300.0, walltime_ends=60.0) == 200.0
