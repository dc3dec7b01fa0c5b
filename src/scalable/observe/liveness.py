"""Whether a run still runs: what its journal says, and if that says nothing, whether its process is there.

``Follower`` keeps the view of a run whose journal is still written.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any

from scalable import proc
from scalable.observe.fields import number, text
from scalable.observe.folders import RunFolder
from scalable.observe.reading import ending, read
from scalable.observe.view import RunView

LATER_S = 600.0  # a process that began so long after the run is another one with the same number; clocks may be set
LOOKED_AT = 50  # how many of the latest runs are looked at for one that runs


class State(Enum):
    """Where a run is, in the words people see."""

    RUNNING = "running"  # not ended, and its process is there, or is on a machine we cannot ask
    OK = "ok"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # stopped by a person or a signal, in an orderly way
    GONE = "interrupted (the process is gone)"  # killed, or the machine went down: nobody wrote an end
    EMPTY = "nothing was recorded"  # not even its start; its process died in its first second

    @property
    def over(self) -> bool:
        return self is not State.RUNNING


def state_of(view: RunView, facts: Mapping[str, Any] | None = None) -> State:
    """Return where a run is. ``facts`` are those of ``run.json``, for a journal that has not got its first line yet."""
    if view.status:
        ends = {state.value: state for state in (State.OK, State.FAILED, State.INTERRUPTED)}
        return ends.get(view.status, State.FAILED)
    start = view.started or facts or {}
    pid, began = number(start.get("pid")), number(start.get("t")) or view.first
    if pid is None and not view.records:
        return State.EMPTY
    if pid is None or text(start.get("host")) != socket.gethostname():
        return State.RUNNING
    return State.RUNNING if is_there(int(pid), began, text(start.get("process"))) else State.GONE


def running(base: Path | str | None = None) -> list[RunFolder]:
    """Return the runs that have not ended, the latest first."""
    return [run for run in reversed(RunFolder.list(base)[-LOOKED_AT:]) if is_running(run)]


def is_running(run: RunFolder) -> bool:
    """Reads only the ends of the journal: its start, which names the process, and its last lines."""
    if ending(run.journal) is not None:
        return False
    view = RunView()
    with suppress(OSError):  # another user's run; its run.json says as much, if that can be read
        for record in read(run.journal):
            view.take(record)
            if view.started or view.records > LOOKED_AT:
                break
    return not state_of(view, run.facts()).over


def is_there(pid: int, began: float | None = None, identity: str = "") -> bool:
    """Return whether a process still is there; a zombie, or a later process of that number, is not.

    It is known by its ``identity``; where that was not recorded, by the time ``began`` at which it was there.
    """
    process = proc.look(pid) if pid > 0 else None
    if process is None:
        return pid > 0 and not Path("/proc/self/stat").exists() and signalled(pid)
    if identity:
        return process.alive and proc.identity(pid) == identity
    started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + process.started / proc.TICKS
    return process.alive and (began is None or started < began + LATER_S)


def signalled(pid: int) -> bool:
    """Return the same where there is no /proc, as far as it can be known."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class Follower:
    """Takes in, at every look, what was written since the last one."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.start_anew()

    def start_anew(self) -> None:
        self.records, self.view = read(self.run.journal), RunView()
        self.reading: Iterator[dict[str, Any]] | None = None

    def look(self, most: int | None = None) -> bool:
        """Take in at most so many records; return whether that was all there is by now.

        Starts from the beginning when another journal has taken the place of the one that was read.
        """
        if self.records.shrunk:
            self.start_anew()
        self.reading = self.reading or self.records.new()
        before = self.view.records
        for record in islice(self.reading, most):
            self.view.take(record)
        if most is not None and self.view.records - before == most:
            return False
        self.reading = None
        return True

    @property
    def state(self) -> State:
        return state_of(self.view, self.run.facts())
