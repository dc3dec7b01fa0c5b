"""Workloads misbehave as they say, each in a process of its own, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalable import proc
from tests.helpers.waiting import LONG_S, until
from tests.helpers.worker.measures import tree_cpu_s

TICKING = """
import threading, time
def tick():
    while True:
        print("tick", flush=True)
        time.sleep(0.02)
threading.Thread(target=tick, daemon=True).start()
time.sleep(0.2)
"""


@contextmanager
def called(expression: str, before: str = "") -> Iterator[subprocess.Popen[str]]:
    code = f"from scalable.chaos import workloads\n{before}\nprint('called', flush=True)\nprint(workloads.{expression})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            while process.stdout.readline() not in ("called\n", ""):
                pass
            yield process
        finally:
            proc.kill_tree(process.pid)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("name", ["hang_in_lock", "hang_in_c", "hang_on_child"])
def test_what_hangs_uses_no_cpu_and_does_not_end(name: str) -> None:
    with called(f"{name}()") as process:
        time.sleep(0.3)
        before = tree_cpu_s(process.pid)
        time.sleep(0.7)
        assert process.poll() is None
        assert tree_cpu_s(process.pid) - before < 0.2


@pytest.mark.parametrize("name", ["hang_in_lock", "hang_in_c", "hang_on_child", "spin", "stop_itself"])
def test_what_hangs_does_so_no_longer_than_it_was_told(name: str) -> None:
    with called(f"{name}(1)") as process:
        assert process.wait(LONG_S) == 0


def test_c_code_that_keeps_the_interpreter_stops_all_threads() -> None:
    with called("hang_in_c()", TICKING) as process:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        assert until(lambda: silent(process))


def silent(process: subprocess.Popen[str]) -> bool:
    drained(process)
    time.sleep(0.3)
    return not drained(process)


def drained(process: subprocess.Popen[str]) -> bytes:
    assert process.stdout is not None
    try:
        return os.read(process.stdout.fileno(), 1 << 20)
    except BlockingIOError:
        return b""


def test_a_hung_pool_has_a_child() -> None:
    with called("hang_on_child()") as process:
        assert until(lambda: len(proc.tree(process.pid)) == 2)


def test_spinning_uses_cpu() -> None:
    with called("spin()") as process:
        assert until(lambda: proc.cpu_s(process.pid) > 1)


def test_what_stops_itself_is_stopped() -> None:
    with called("stop_itself()") as process:
        assert until(lambda: state(process.pid) == "T")


def test_memory_grows_as_told() -> None:
    with called("eat_memory(200 << 20, seconds=0.1, hold=300)") as process:
        assert until(lambda: proc.resident(process.pid) > 200 << 20)


@pytest.mark.parametrize(("how", "status"), [("segfault", -signal.SIGSEGV), ("abort", -signal.SIGABRT), ("exit", 3)])
def test_crashes_end_the_process(how: str, status: int) -> None:
    with called(f"crash({how!r})") as process:
        assert process.wait(LONG_S) == status


def test_a_daemon_outlives_the_call_in_a_session_of_its_own() -> None:
    with called("leave_daemon(300)") as process:
        assert process.stdout is not None
        daemon = int(process.stdout.readline())
        try:
            assert process.wait(LONG_S) == 0
            assert proc.alive(daemon)
            assert os.getsid(daemon) != process.pid
        finally:
            os.kill(daemon, signal.SIGKILL)


def test_progress_is_no_hang() -> None:
    with called("slow_but_progressing(3, 0.01)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "3\n"
