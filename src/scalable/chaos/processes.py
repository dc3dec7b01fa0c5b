"""Faults of processes: killed, stopped for a while, short of memory. Whoever gets their numbers next is not hit."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scalable import proc
from scalable.chaos.errors import ChaosError, NoVictimError
from scalable.chaos.victims import Victim, as_victim
from scalable.quantities import Memory

LITTLE = Memory.parse("1MiB")


def kill(process: int | Victim) -> None:
    """SIGKILL, as the kernel does when memory runs out, or an impatient person."""
    send(as_victim(process), signal.SIGKILL)


def lose(worker: int | Victim) -> int:
    """End all processes of a worker at once, as when its machine vanishes, and return how many there were."""
    victim = as_victim(worker)
    send(victim, signal.SIGSTOP)  # it must not see the others die, nor start new ones
    below = [process for pid in proc.tree(victim.pid)[1:] if (process := proc.look(pid)) is not None]
    return sum(proc.send(process, signal.SIGKILL) for process in [*reversed(below), victim.process])


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
    before: list[tuple[proc.Process, tuple[int, int]]] = []
    try:
        for pid in proc.tree(victim.pid):
            with suppress(ProcessLookupError, FileNotFoundError), refusals_told(victim):
                if (seen := proc.look(pid)) is not None:
                    has = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * proc.PAGE
                    limits = resource.prlimit(pid, resource.RLIMIT_AS)
                    before.append((seen, limits))
                    resource.prlimit(pid, resource.RLIMIT_AS, (has + leave.bytes, limits[1]))
        if not victim.there:
            raise NoVictimError(f"{victim} is gone already")
        yield victim
    finally:
        for seen, limits in before:
            with suppress(OSError):
                if proc.same(seen) is not None:
                    resource.prlimit(seen.pid, resource.RLIMIT_AS, limits)


def send(victim: Victim, name: signal.Signals) -> None:
    with refusals_told(victim):
        if not proc.send(victim.process, name):
            raise NoVictimError(f"{victim} is gone already")


@contextmanager
def refusals_told(victim: Victim) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise ChaosError(f"{victim} belongs to another user; call this as that user") from None
