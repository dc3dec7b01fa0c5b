"""What Linux knows of a process and its children: their memory, and how to end all of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """The process and all its descendants, also those in sessions of their own."""
    found, at = [pid], 0
    while at < len(found):
        with suppress(OSError):
            for thread in Path(f"/proc/{found[at]}/task").iterdir():
                with suppress(OSError):
                    found += [int(child) for child in (thread / "children").read_text().split()]
        at += 1
    return found


def resident(pid: int) -> int:
    """Bytes in memory, 0 for a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def tree_resident(pid: int) -> int:
    return sum(map(resident, tree(pid)))


def cpu_s(pid: int) -> float:
    """Seconds of CPU a process and its ended children have used, 0 for one that is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat[stat.rindex(")") + 2 :].split()
    return sum(int(ticks) for ticks in fields[11:15]) / TICKS


def tree_cpu_s(pid: int) -> float:
    return sum(map(cpu_s, tree(pid)))


def kill_tree(pid: int) -> None:
    """Kill a process, its process group and all descendants; what is gone already does not matter."""
    victims = tree(pid)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    kill(victims)


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"
