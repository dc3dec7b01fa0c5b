"""Asks Python processes where they are: SIGUSR1 makes faulthandler write their stacks to a file it was given before.

Works where py-spy is not permitted, and while C code holds the interpreter lock. The signal goes only to processes that
handle it and hold the file open: others would die of it, or understand something else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scalable import proc

FAULTS_WITHIN_S = 1.0  # the first bytes came in 8 ms; a process that is waiting for a disk writes none
SETTLED_S = 0.05  # after so long without another byte it has told all
LONGEST_FAULTS = 20_000  # characters


async def ask_faulthandler(pids: Iterable[int], file: Path, until: float) -> dict[int, str]:
    """What faulthandler tells of those processes that registered it with this file; one at a time, not to mix them."""
    told = {}
    for pid in pids:
        if time.monotonic() < until and proc.state_of(pid) in ("running", "waiting") and listens(pid, file):
            before = size_of(file)
            with suppress(OSError):
                os.kill(pid, signal.SIGUSR1)
                if text := await growth(file, before, min(until, time.monotonic() + FAULTS_WITHIN_S)):
                    told[pid] = text
    return told


def listens(pid: int, file: Path) -> bool:
    """Whether SIGUSR1 makes a process write to this file. Others it would kill, or tell something else."""
    with suppress(OSError, StopIteration, ValueError):
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = int(next(line for line in status if line.startswith("SigCgt:")).split()[1], 16)
        if not caught >> (signal.SIGUSR1 - 1) & 1:
            return False
        meant = file.stat()
        return any(same_file(meant, entry) for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False


def same_file(meant: os.stat_result, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(meant, path.stat())
    return False


async def growth(file: Path, before: int, until: float) -> str:
    """What is appended to a file, once no more comes."""
    size, since = before, time.monotonic()
    while time.monotonic() < until and (size == before or time.monotonic() - since < SETTLED_S):
        await asyncio.sleep(0.005)
        if (now := size_of(file)) != size:
            size, since = now, time.monotonic()
    with file.open("rb") as opened:
        opened.seek(before)
        return opened.read(LONGEST_FAULTS).decode(errors="replace")


def size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
