"""Faults of processes: killed, stopped for a while, short of memory. Each is sent to a process, never to a number.

A signal goes through a file descriptor of the process, opened before its identity is checked: whoever gets that number
next cannot be hit.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scalable import proc
from scalable.chaos.errors import ChaosError
from scalable.chaos.victims import Victim, as_victim
from scalable.quantities import Memory

LITTLE = Memory.parse("1MiB")


def kill(process: int | Victim) -> None:
    """SIGKILL, as the kernel does when memory runs out, or an impatient person."""
    send(as_victim(process), signal.SIGKILL)


def lose(worker: int | Victim) -> int:
    """All processes of a worker at once, as when its machine vanishes. How many there were."""
    victim = as_victim(worker)
    tree = proc.tree(victim.pid)
    send(victim, signal.SIGSTOP)  # it must not see the others die, nor start new ones
    tree += [pid for pid in proc.tree(victim.pid) if pid not in tree]
    proc.kill(reversed(tree))
    return len(tree)


@contextmanager
def stopped(process: int | Victim) -> Iterator[Victim]:
    """SIGSTOP, and SIGCONT at the end: it is there, holds what it holds, and does nothing."""
    victim = as_victim(process)
    send(victim, signal.SIGSTOP)
    try:
        yield victim
    finally:
        with suppress(ChaosError):  # someone has killed it in the meantime, and may
            send(victim, signal.SIGCONT)


@contextmanager
def starved(process: int | Victim, leave: Memory = LITTLE) -> Iterator[Victim]:
    """It and its children get no more than ``leave`` beyond the memory they have: allocations fail, nothing else.

    What their code makes of that is its own affair, mostly a MemoryError. The machine's memory is not used up.
    """
    victim = as_victim(process)
    before: dict[int, tuple[int, int]] = {}
    for pid in proc.tree(victim.pid):
        with suppress(ProcessLookupError), refusals_told(victim):
            has = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * proc.PAGE
            before[pid] = resource.prlimit(pid, resource.RLIMIT_AS)
            resource.prlimit(pid, resource.RLIMIT_AS, (has + leave.bytes, before[pid][1]))
    try:
        yield victim
    finally:
        for pid, limits in before.items():
            if pid != victim.pid or victim.there:
                with suppress(OSError):
                    resource.prlimit(pid, resource.RLIMIT_AS, limits)


def send(victim: Victim, name: signal.Signals) -> None:
    with refusals_told(victim):
        try:
            handle = os.pidfd_open(victim.pid)
        except ProcessLookupError:
            raise ChaosError(f"{victim} is gone already") from None
        try:
            if not victim.there:
                raise ChaosError(f"{victim} is gone already")
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, name)
        finally:
            os.close(handle)


@contextmanager
def refusals_told(victim: Victim) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise ChaosError(f"{victim} belongs to another user; call this as that user") from None
    except FileNotFoundError:
        raise ChaosError(f"{victim} is gone already") from None
