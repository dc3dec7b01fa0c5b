"""Memory groups: real ones of version 1 where this machine has them, version 2 on a folder shaped like one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scalable import proc
from scalable.worker.runner import limits
from scalable.worker.runner.limits import MemoryGroup
from tests.helpers.runner.limits import MIB, group, kernel
from tests.helpers.runner.programs import PATIENCE_S, eventually, program

pytestmark = pytest.mark.journey

__all__ = ["group"]


IDLE = "print('ready', flush=True); import time; time.sleep(600)"


def eat(mib: int, then: str = "") -> list[str]:
    """A program that waits to be taken in, then uses memory."""
    return [
        sys.executable,
        "-c",
        f"input(); data = b'x' * ({mib} << 20); print('ate', flush=True); {then or 'input()'}",
    ]


def started(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def tell(process: subprocess.Popen[bytes]) -> bytes:
    """Let it go on, and wait for what it says; nothing if it died."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    return process.stdout.readline()


def ended(process: subprocess.Popen[bytes]) -> int:
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    return process.returncode


@kernel
def test_a_process_over_its_limit_is_killed_and_the_group_knows_why(group: MemoryGroup) -> None:
    process = started(eat(400))
    assert group.add(process.pid)
    assert group.pids() == [process.pid]
    assert tell(process) == b""
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    ended(process)
    assert group.out_of_memory() == 1


@kernel
def test_a_process_within_its_limit_is_not_touched(group: MemoryGroup) -> None:
    process = started(eat(100))
    group.add(process.pid)
    assert tell(process) == b"ate\n"
    assert ended(process) == -signal.SIGKILL
    assert group.out_of_memory() == 0


@kernel
def test_children_count_together(group: MemoryGroup) -> None:
    both = "import os, time; os.fork(); data += b'x'; time.sleep(60)"
    process = started(eat(120, both))  # copied by adding to it: more than 200 MiB together
    group.add(process.pid)
    tell(process)
    eventually(group.out_of_memory, "a process is killed")
    proc.kill(group.pids())
    ended(process)


@kernel
def test_a_limit_can_be_raised_and_lowered(group: MemoryGroup) -> None:
    assert group.limit() == 200 * MIB
    assert group.set_limit(500 * MIB)
    process = started(eat(300))
    group.add(process.pid)
    assert tell(process) == b"ate\n"
    assert not group.set_limit(100 * MIB) or group.version == 2  # cannot be freed
    assert group.limit() in (500 * MIB, 100 * MIB)
    ended(process)
    eventually(lambda: group.set_limit(150 * MIB), "a smaller limit once there is room")


@kernel
def test_a_group_with_living_processes_stays_and_can_be_closed_later(group: MemoryGroup) -> None:
    with program(IDLE) as it:
        group.add(it.pid)
        assert not group.close()
        assert group.path.exists()
    eventually(group.close, "it is empty")
    assert not group.path.exists()
    assert group.close()


@kernel
def test_a_group_is_below_the_group_this_process_is_in(group: MemoryGroup) -> None:
    """Else the limit of a pod or batch job would be evaded."""
    place = limits.place_here()
    assert group.path.parent == place.path
    with program(IDLE) as it:
        group.add(it.pid)
        own = limits.own_group(group.version)
        theirs = Path(f"/proc/{it.pid}/cgroup").read_text()
        assert f"{own.rstrip('/')}/{group.path.name}" in theirs


@kernel
def test_a_process_that_is_gone_cannot_be_taken_in(group: MemoryGroup) -> None:
    with program("print('ready', flush=True)") as it:
        it.process.wait()
        assert not group.add(it.pid)


@kernel
def test_the_peak_of_a_group_counts_processes_that_are_gone_and_begins_anew_when_told(group: MemoryGroup) -> None:
    for mib in (100, 40):
        group.begin_peak()
        process = started(eat(mib))
        group.add(process.pid)
        assert tell(process) == b"ate\n"
        ended(process)
        assert mib * MIB <= group.peak() < (mib + 30) * MIB or (mib == 40 and group.peak() == 0), "0: cannot begin anew"
