"""Looking at processes through /proc and ending them, each by its own process id and never by its name alone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

KILLED_S = 5.0  # how long a process may take to vanish after SIGKILL
POLL_S = 0.05
NAME_LENGTH = 15  # the kernel cuts a process's name there


@dataclass(frozen=True, slots=True)
class Process:
    """One living process, as it was when it was looked at."""

    pid: int
    name: str
    parent: int


def look(pid: int) -> Process | None:
    """The process with this id, if it lives; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    head, _, rest = text.rpartition(")")  # the name may hold spaces and brackets
    state, parent = rest.split()[:2] or ("X", "0")
    return None if state in "ZX" else Process(pid, head.partition("(")[2], int(parent))


def everyone() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (process := look(int(entry.name))) is not None:
            yield process


def environment(pid: int) -> dict[str, str]:
    """The variables a process was started with; empty if it is gone or another user's."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in text.split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def recorded(file: Path, name: str) -> int | None:
    """The process id in a pid file, if a process of that name has it; ids are used again."""
    try:
        process = look(int(file.read_text(encoding="ascii").split()[0]))
    except (OSError, ValueError, IndexError):
        return None
    return process.pid if process is not None and process.name == name[:NAME_LENGTH] else None


def ancestors() -> set[int]:
    """This process and those it descends from."""
    found: set[int] = set()
    process = look(os.getpid())
    while process is not None:
        found.add(process.pid)
        process = look(process.parent)
    return found


def kill(pids: Iterable[int]) -> None:
    send(pids, signal.SIGKILL)


def kill_at_once(pids: Iterable[int]) -> None:
    """Kill processes so that none of them can do anything about the end of another, as when a machine stops.

    All are halted first. Children die before their parents: the kernel lets halted ones go on that lose theirs.
    """
    left = list(pids)
    send(left, signal.SIGSTOP)
    kill(sorted(left, key=depth, reverse=True))


def depth(pid: int) -> int:
    """The number of processes that one descends from."""
    count = 0
    while (process := look(pid)) is not None:
        pid, count = process.parent, count + 1
    return count


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end(pids: Iterable[int], grace_s: float) -> list[int]:
    """Ask the processes to end, insist after ``grace_s``; what is left even then is returned."""
    left = [pid for pid in pids if look(pid)]
    for wanted, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILLED_S)):
        send(left, wanted)
        until = time.monotonic() + wait_s
        while (left := [pid for pid in left if look(pid)]) and time.monotonic() < until:
            time.sleep(POLL_S)
        if not left:
            break
    return left
