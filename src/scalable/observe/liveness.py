"""The state of a run: what its journal says, and if that says nothing, whether its process is there.

Of a process on another machine only the files say something: a session writes ``live.json`` at least every ten seconds.
``Follower`` keeps the view of a run whose journal is still written.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any

from scalable import proc
from scalable.observe.fields import number, text
from scalable.observe.folders import RunFolder
from scalable.observe.journal import ending, read
from scalable.observe.view import RunView

LATER_S = 600.0  # a process that began so long after the run is another one with the same number; clocks may be set
SILENT_S = 30.0  # a session writes every ten seconds; one that did not for so long is stopped, hangs or is gone
LOST_AFTER_S = 300.0  # the same for sure: a shared file system may show a minute late what another machine wrote
LOOKED_AT = 50  # how many of the latest runs are looked at for one that runs


class RunState(Enum):
    """The state of a run, in the words people see."""

    RUNNING = "running"  # not ended, and its process is there, or is on a machine we cannot ask
    OK = "ok"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # stopped by a person or a signal, in an orderly way
    GONE = "interrupted (the process is gone)"  # killed, or the machine went down: nobody wrote an end
    LOST = "lost (no sign from its machine)"  # the same on another machine, as far as its files show
    EMPTY = "nothing was recorded"  # not even its start; its process died in its first second

    @property
    def over(self) -> bool:
        return self is not RunState.RUNNING


def state_of(view: RunView, facts: Mapping[str, Any] | None = None) -> RunState:
    """Return where a run is. ``facts`` are those of ``run.json``, for a journal that has not got its first line yet."""
    if view.status:
        ends = {state.value: state for state in (RunState.OK, RunState.FAILED, RunState.INTERRUPTED)}
        return ends.get(view.status, RunState.FAILED)
    start = view.started or facts or {}
    pid, began = number(start.get("pid")), number(start.get("t")) or view.first
    if pid is None and not view.records:
        return RunState.EMPTY
    if pid is None or text(start.get("host")) != socket.gethostname():
        return RunState.RUNNING
    return RunState.RUNNING if is_there(int(pid), began, text(start.get("process"))) else RunState.GONE


def state_in(run: RunFolder, view: RunView) -> RunState:
    """Return where the run of a folder is. One on another machine is lost when it has written nothing for long."""
    facts = run.facts()
    state = state_of(view, facts)
    far = text((view.started or facts).get("host")) != socket.gethostname()
    return RunState.LOST if state is RunState.RUNNING and far and silence_s(run) > LOST_AFTER_S else state


@dataclass(frozen=True, slots=True)
class LastSign:
    """The last sign of a session that has not said its end."""

    at: float | None
    """When it wrote ``live.json``, by its own clock."""
    silent_s: float
    """For how long it has written nothing."""
    stopped: int | None
    """Its process, if that is on this machine and was stopped."""

    @classmethod
    def of(cls, run: RunFolder) -> LastSign:
        return cls(number(run.live().get("t")), silence_s(run), stopped(run))

    @property
    def missing(self) -> bool:
        return self.stopped is not None or self.silent_s > SILENT_S


def silence_s(run: RunFolder) -> float:
    """Return for how many seconds a run has written nothing."""
    newest = max(map(written, (run.live_file, run.journal, run.run_file)))
    silent = time.time() - newest if newest else 0.0
    if not 0 <= silent <= SILENT_S:  # or the clock of its file system differs from this machine's
        silent = file_clock(run.path) - newest
    return max(0.0, silent)


def written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def file_clock(folder: Path) -> float:
    """Return what time it is for the file system of a folder; for this machine where it may not be written to."""
    probe = folder / f".{token_hex(8)}.part"
    try:
        probe.touch()
        moment = probe.stat().st_mtime
        probe.unlink()
    except OSError:
        return time.time()
    return moment


def stopped(run: RunFolder) -> int | None:
    """Return the session's process, if it is on this machine and was stopped."""
    facts = run.facts()
    pid = number(facts.get("pid"))
    if pid is None or text(facts.get("host")) != socket.gethostname():
        return None
    return int(pid) if proc.state_of(int(pid)) == "stopped" else None


def running(base: Path | str | None = None) -> list[RunFolder]:
    """Return the runs that have not ended, the latest first."""
    return [run for run in reversed(RunFolder.list(base)[-LOOKED_AT:]) if is_running(run)]


def is_running(run: RunFolder) -> bool:
    return not state_now(run).over


def state_now(run: RunFolder) -> RunState:
    """Return where a run is, from the ends of its journal: its start, which names the process, and its last lines."""
    view = RunView()
    if (end := ending(run.journal)) is not None:
        view.take(end)
        return state_of(view)
    with suppress(OSError):  # another user's run; its run.json says as much, if that can be read
        for record in read(run.journal):
            view.take(record)
            if view.started or view.records > LOOKED_AT:
                break
    return state_in(run, view)


def is_there(pid: int, began: float | None = None, identity: str = "") -> bool:
    """Return whether a process still is there; a zombie, or a later process of that number, is not.

    It is known by its ``identity``; where that was not recorded, by the time ``began`` at which it was there.
    """
    process = proc.look(pid) if pid > 0 else None
    if process is None:
        return pid > 0 and not Path("/proc/self/stat").exists() and proc.exists(pid)
    if identity:
        return process.alive and proc.identity(pid) == identity
    started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + process.started / proc.TICKS
    return process.alive and (began is None or started < began + LATER_S)


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
    def state(self) -> RunState:
        return state_in(self.run, self.view)

    @property
    def sign(self) -> LastSign | None:
        """The last sign of a run that has not said its end."""
        return None if self.view.ended else LastSign.of(self.run)
