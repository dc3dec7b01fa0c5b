"""The progress stamp: read while it is written, from threads, forks and the dead, and with whatever users report."""

from __future__ import annotations

import os
import threading
import time
from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest

from scalable.worker.runner import stamp
from scalable.worker.runner.stamp import LONGEST_NOTE, LONGEST_STEP_S, Progress, Stamp, long_step, progress
from tests.helpers.runner.stamp import page

__all__ = ["page"]


def test_what_was_reported_is_read(page: Stamp) -> None:
    assert page.read() == Progress()

    before = time.monotonic()
    progress(3, 10, "fold 3")
    found = page.read()

    assert (found.count, found.step, found.of, found.note) == (1, 3, 10, "fold 3")
    assert before <= found.at <= time.monotonic()
    assert isinstance(found.step, int)

    progress(0.25)

    assert page.read().step == 0.25
    assert (page.read().count, page.read().of, page.read().note) == (2, None, "")


def test_outside_a_runner_nothing_happens() -> None:
    assert stamp.attached() is None
    progress(1, 2, "three")
    with long_step(60):
        pass


@pytest.mark.parametrize("newest", [0, 1])
def test_where_the_newest_record_is_torn_the_one_before_is_read(page: Stamp, newest: int) -> None:
    for n in range(4 + newest):
        progress(n, note="fine")
    page._page[stamp.STARTS[(4 + newest) & 1] + 20] ^= 0xFF

    assert page.read().step == 2 + newest
    progress(9)
    assert page.read().step == 9


def test_a_page_that_is_damaged_altogether_still_gives_what_was_read_last(page: Stamp) -> None:
    progress(5, note="good")
    assert page.read().step == 5
    progress(6)
    for start in stamp.STARTS:
        page._page[start : start + 40] = os.urandom(40)

    assert (page.read().step, page.read().note) == (5, "good")


class Broken:
    def __float__(self) -> float:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError


SILLY = [nan, inf, -inf, None, "many", "", b"x", [], {}, Broken(), 10**400, -(10**400), object(), 3j]


@pytest.mark.parametrize("value", SILLY, ids=lambda value: type(value).__name__)
def test_a_number_that_is_none_is_left_out(page: Stamp, value: Any) -> None:
    progress(value, 10, "still here")
    assert (page.read().count, page.read().step, page.read().of, page.read().note) == (1, None, 10, "still here")

    progress(1, value)
    assert (page.read().count, page.read().step, page.read().of) == (2, 1, None)


@pytest.mark.parametrize(
    ("value", "read"),
    [(True, 1), ("3", 3.0), (Decimal("1.5"), 1.5), (2**62, 2**62), (-3, -3), (1e300, 1e300), (10**30, float(10**30))],
)
def test_what_can_be_read_as_a_number_is_one(page: Stamp, value: Any, read: float) -> None:
    progress(value)
    assert page.read().step == read


def test_numbers_of_numpy_are_numbers(page: Stamp) -> None:
    numpy = pytest.importorskip("numpy")
    progress(numpy.int64(3), numpy.float32(10))

    assert (page.read().step, page.read().of) == (3, 10.0)
    assert isinstance(page.read().step, int)


@pytest.mark.parametrize(
    ("note", "read"),
    [
        ("Größe ≥ 3 …", "Größe ≥ 3 …"),
        ("漢字🙂", "漢字🙂"),
        ("\ud800lone", "?lone"),
        ("two\nlines\x1b[2J\0", "two lines [2J "),
        ("x" * 10_000, "x" * LONGEST_NOTE),
        ("🙂" * 1000, "🙂" * (LONGEST_NOTE // 4)),
        ("é" + "🙂" * 1000, "é" + "🙂" * ((LONGEST_NOTE - 2) // 4)),
        (None, ""),
        (17, "17"),
        (b"raw", "b'raw'"),
        (Broken(), ""),
    ],
)
def test_any_note_is_taken_and_cut(page: Stamp, note: Any, read: str) -> None:
    progress(1, 2, note)

    assert (page.read().step, page.read().note) == (1, read)


def test_a_long_step_is_declared_until_it_ends(page: Stamp) -> None:
    now = time.monotonic()
    with long_step(600):
        until = page.read().until
        assert until is not None
        assert now + 600 <= until <= time.monotonic() + 600
        progress(1)
        assert page.read().until == until, "a report does not end it"
    assert page.read().until is None


def test_a_long_step_is_a_sign_of_life_but_no_report(page: Stamp) -> None:
    progress(4, 9, "fit")
    first = page.read()
    with long_step(600):
        begun = page.read()
    ended = page.read()

    assert first.at < begun.at < ended.at
    assert {(found.count, found.step, found.of, found.note) for found in (first, begun, ended)} == {(1, 4, 9, "fit")}


def test_a_run_that_only_declares_has_reported_nothing(page: Stamp) -> None:
    with long_step(5):
        pass

    assert page.read().count == 0
    assert page.read().at > 0


def test_of_nested_long_steps_the_latest_end_counts(page: Stamp) -> None:
    with long_step(100):
        outer = page.read().until
        with long_step(10):
            assert page.read().until == outer
        assert page.read().until == outer
        with long_step(1000):
            assert page.read().until > outer  # type: ignore[operator]
        assert page.read().until == outer
    assert page.read().until is None


def test_a_long_step_ends_with_an_error_in_it(page: Stamp) -> None:
    with pytest.raises(KeyError), long_step(100):
        raise KeyError
    assert page.read().until is None


def test_threads_declare_long_steps_of_their_own(page: Stamp) -> None:
    def declare() -> None:
        for _ in range(200):
            with long_step(100):
                pass

    with long_step(500):
        mine = page.read().until
        threads = [threading.Thread(target=declare) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert page.read().until == mine
    assert page.read().until is None


@pytest.mark.parametrize("seconds", [nan, None, "soon", 0, -5, Broken(), 10**400])
def test_a_time_that_is_none_declares_nothing(page: Stamp, seconds: Any) -> None:
    with long_step(seconds):
        assert page.read().until is None


@pytest.mark.parametrize("seconds", [inf, 1e300])
def test_nothing_is_declared_for_ever(page: Stamp, seconds: float) -> None:
    with long_step(seconds):
        until = page.read().until
        assert until is not None
        assert until <= time.monotonic() + LONGEST_STEP_S


def test_a_new_run_starts_from_nothing(page: Stamp) -> None:
    with long_step(100):
        progress(5, note="the run before")
        attached = stamp.attached()
        assert attached is not None
        attached.forked()
        assert page.read().fork_warnings == 1
        page.clear()
        assert page.read() == Progress()
    progress(1)
    assert page.read().count == 1


def test_a_child_cannot_take_the_memory_away_from_under_the_reader(page: Stamp) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(page.fd, 0)


def test_a_closed_stamp_is_no_longer_written(page: Stamp) -> None:
    mine = stamp.attached()
    assert mine is not None
    progress(1)
    other = Stamp.attach(os.dup(page.fd))
    stamp.use(other)
    other.close()
    progress(2)

    assert stamp.attached() is None
    assert page.read().step == 1
