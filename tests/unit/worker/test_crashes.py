"""What is read from a worker's log of its crash, and how tasks get their names on its stacks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalable.worker.crashes import Crash, crash_in, current, frame_called, last_crash, printed, signal_called

STAMP = "2026-11-17T23:00:00.123Z "
CRASH = """Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "<task>", line 47 in innocent-1

Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/home/me/model.py", line 3 in crash
  File "<task>", line 47 in ('crash-abc', 0)

Extension modules: numpy.core._multiarray_umath (total: 1)
"""


def test_the_thread_that_crashed_names_its_task_and_place(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("".join(f"{STAMP}{line}\n" for line in ("scalable worker: connected", *CRASH.splitlines())))
    assert crash_in(log) == Crash("Segmentation fault", "('crash-abc', 0)", "string_at (ctypes/__init__.py:519)")
    assert str(crash_in(log)) == " in string_at (ctypes/__init__.py:519), task ('crash-abc', 0)"


def test_a_crash_outside_of_tasks_names_none() -> None:
    lines = [
        "Fatal Python error: Aborted",
        "Current thread 0x1 (most recent call first):",
        '  File "/a/b/c.py", line 1 in f',
    ]
    assert last_crash(lines) == Crash("Aborted", "", "f (b/c.py:1)")


def test_of_several_crashes_the_last_counts() -> None:
    other = CRASH.replace("('crash-abc', 0)", "second-2").splitlines()
    found = last_crash([*CRASH.splitlines(), "a line", *other])
    assert found is not None and found.task == "second-2"


def test_a_log_without_a_crash_tells_of_none(tmp_path: Path) -> None:
    assert last_crash(["scalable worker: closed"]) is None
    assert crash_in(tmp_path / "missing.log") is None


@pytest.mark.parametrize("key", ["sum-1", "('a', 1)", "größe-1", "two\nlines", "k" * 1000])
def test_a_task_runs_below_a_frame_that_has_its_name(key: str) -> None:
    def caller() -> str:
        return sys._getframe(1).f_code.co_name

    assert frame_called(key)(caller, (), {}) == printed(key)
    assert printed(key).isascii() and "\n" not in printed(key) and len(printed(key)) <= 400
    assert current.get() == ""


@pytest.mark.parametrize(
    ("number", "words"), [(11, "SIGSEGV (segmentation fault)"), (6, "SIGABRT (aborted)"), (99, "signal 99")]
)
def test_a_signal_is_told_by_its_name(number: int, words: str) -> None:
    assert signal_called(number) == words
