"""Faults of single processes: made, undone, and never sent to another process than the one that was meant."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from scalable import chaos, proc
from scalable.chaos.victims import as_victim
from scalable.quantities import Memory
from tests.helpers.waiting import LONG_S, until

WAITS = "import sys; print('ready', flush=True); sys.stdin.read()"
GROWS = """
import sys
for line in sys.stdin:
    try:
        block = bytearray(int(line))
        print("had", flush=True)
    except MemoryError:
        print("refused", flush=True)
"""
HAS_CHILDREN = """
import subprocess, sys, time
subprocess.Popen(["sleep", "300"], start_new_session=True)
subprocess.Popen(["sleep", "300"])
print("ready", flush=True)
time.sleep(300)
"""


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        try:
            yield process
        finally:
            proc.kill_tree(process.pid)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:  # noqa: PTH123
        return stat.read().rpartition(")")[2].split()[0]


def test_a_killed_process_is_gone() -> None:
    with running(WAITS) as process:
        chaos.kill(process.pid)
        assert process.wait(LONG_S) == -9


def test_a_stopped_process_stands_still_and_goes_on_afterwards() -> None:
    with running(WAITS) as process:
        assert said(process) == "ready"
        with chaos.stopped(process.pid):
            assert until(lambda: state(process.pid) == "T")
        assert until(lambda: state(process.pid) != "T")
        process.communicate("", timeout=LONG_S)
        assert process.returncode == 0


def test_a_process_that_is_killed_while_stopped_is_no_error() -> None:
    with running(WAITS) as process, chaos.stopped(process.pid):
        process.kill()
        process.wait(LONG_S)


def test_a_starved_process_gets_no_memory_until_that_is_undone() -> None:
    def ask(size: int) -> str:
        assert process.stdin is not None
        process.stdin.write(f"{size}\n")
        process.stdin.flush()
        return said(process)

    with running(GROWS) as process:
        assert ask(200 << 20) == "had"
        with chaos.starved(process.pid, Memory.parse("50MiB")):
            assert ask(200 << 20) == "refused"
            assert ask(1 << 20) == "had"
        assert ask(200 << 20) == "had"


def test_a_lost_node_takes_all_processes_with_it() -> None:
    with running(HAS_CHILDREN) as process:
        assert said(process) == "ready"
        tree = proc.tree(process.pid)
        assert chaos.lose(process.pid) == 3
        assert process.wait(LONG_S) == -9
        assert until(lambda: not any(map(proc.alive, tree)))


def test_another_process_of_the_same_number_is_not_touched() -> None:
    with running(WAITS) as process:
        seen = as_victim(process.pid)
        earlier = replace(seen, process=replace(seen.process, started=seen.process.started - 1))
        with pytest.raises(chaos.ChaosError, match="is gone already"):
            chaos.kill(earlier)
        with pytest.raises(chaos.ChaosError, match="is gone already"), chaos.stopped(earlier):
            pass
        assert process.poll() is None


def test_a_process_that_is_not_there_is_refused() -> None:
    with running(WAITS) as process:
        process.kill()
        process.wait(LONG_S)
        with pytest.raises(chaos.ChaosError, match=f"no process {process.pid}"):
            chaos.kill(process.pid)
