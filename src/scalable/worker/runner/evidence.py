"""The state of a process and its children as seen from outside, before they are killed.

``collect`` always comes back within its time and with something, also of processes that are stopped, gone, not ours or
no Python. It writes to nobody and changes nothing but this: py-spy pauses a process for some milliseconds, and SIGUSR1
goes to processes that handle it and hold the fault file open, where faulthandler has asked for it. No environment and
no variable is read; all texts are bounded and without secrets.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scalable import proc
from scalable.observe import logs
from scalable.observe.incidents import evidence_lines
from scalable.observe.redact import Redactor, redact, redact_text
from scalable.wording import plural, shortened
from scalable.worker.printing import utc
from scalable.worker.runner import stacks
from scalable.worker.runner.output import MARK, mark_of
from scalable.worker.runner.stacks import LONGEST_FAULTS, StackError, Thread, ask_faulthandler

MOST_PROCESSES = 50  # listed
MOST_DUMPED = 24  # whose stacks are read
AT_ONCE = 4  # py-spy uses a CPU for some tenths of a second
MOST_THREADS = 120  # whose stacks are kept; a thread pool's are all alike
LONGEST_COMMAND = 240  # characters
LOG_LINES = 30
LONGEST_LINE = 400  # characters of a line of the log
LOG_TAIL = 1 << 16  # bytes at the log's end that are looked at
WORKERS_OWN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ - distributed\.|scalable worker: ")
"""How lines begin that the worker itself has printed."""


@dataclass(frozen=True, slots=True)
class ProcessLine:
    pid: int
    parent: int
    state: str
    command: str
    resident: int
    cpu_s: float
    threads: int
    waits_in: str
    """The kernel's function it sleeps in, if it says so."""


@dataclass(frozen=True, slots=True)
class Evidence:
    pid: int
    taken: float
    processes: tuple[ProcessLine, ...] = ()
    stacks: tuple[Thread, ...] = ()
    stacks_by: str = ""
    """Who read them: py-spy, or faulthandler where that could not."""
    guilty: str = ""
    """Where the deepest stuck process is, in one sentence; empty if no stack could be had."""
    notes: tuple[str, ...] = ()
    """What else there is to know, a sentence each."""
    faults: str = ""
    """What faulthandler told."""
    log: tuple[str, ...] = ()
    fork_warnings: int = 0
    memory: int = 0
    """Bytes of all its processes together."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "taken": self.taken,
            "guilty": self.guilty,
            "notes": list(self.notes),
            "processes": [asdict(process) for process in self.processes],
            "stacks": [
                {
                    "pid": thread.pid,
                    "thread": thread.name,
                    "main": thread.main,
                    "active": thread.active,
                    "frames": list(map(str, thread.frames)),
                }
                for thread in self.stacks
            ],
            "stacks_by": self.stacks_by,
            "faulthandler": self.faults,
            "log": list(self.log),
            "fork_warnings": self.fork_warnings,
            "memory": self.memory,
        }

    def text(self) -> str:
        """Return all of it for people."""
        facts = self.to_dict()
        warned = f"{plural(self.fork_warnings, 'fork')} with threads before" if self.fork_warnings else ""
        head = (self.guilty, *self.notes, warned)
        return "\n".join((*filter(None, head), *evidence_lines(facts)))


@dataclass(frozen=True, slots=True)
class LoggedWork:
    """A piece of work, by what tells its lines in the worker's log from those of others."""

    pid: int
    """Of its runner."""
    number: int
    """How many that runner had begun with it."""
    began: float
    """Seconds since the epoch."""

    def lines(self, lines: Sequence[str]) -> list[str]:
        """Return its own: those with its mark, and those without any that came since it began and follow no other's."""
        mark, since = mark_of(self.pid, self.number), utc(self.began)
        kept, own = [], True
        for line in lines:
            text = logs.without_time(line)
            if text.startswith(mark):
                own = True
            elif text != line and line < since:
                continue
            elif MARK.match(text) or WORKERS_OWN.match(text):
                own = False
            if own:
                kept.append(line)
        return kept


async def collect(
    pid: int,
    *,
    fault_file: Path | None,
    log: Path | None,
    printed_by: LoggedWork | None = None,
    fork_warnings: int = 0,
    within_s: float = 8,
) -> Evidence:
    """Look at a process and all its descendants. Never raises for anything that they are or do.

    ``printed_by`` is the work whose lines of the log are wanted; without it all of the log counts.
    """
    until = time.monotonic() + within_s
    try:
        lines = await asyncio.wait_for(asyncio.to_thread(look, pid), within_s / 2)
    except TimeoutError:  # reading a command line waits for a process that is stuck in a page fault
        return Evidence(
            pid, time.time(), notes=(f"the kernel does not tell of process {pid} within {within_s / 2:g} s",)
        )
    threads, notes = await dump_all(lines, time.monotonic() + 0.75 * within_s)
    by = "py-spy" if threads else ""
    faults: dict[int, str] = {}
    if fault_file is not None:
        faults = await ask_faulthandler([line.pid for line in lines[:MOST_DUMPED]], fault_file, until)
        seen = {thread.pid for thread in threads}
        added = [
            thread
            for number, text in faults.items()
            if number not in seen
            for thread in stacks.from_faulthandler(number, text)
        ]
        by = " and ".join(filter(None, (by, "faulthandler" if added else "")))
        threads += added
    culprit = guilty(lines, threads)
    return Evidence(
        pid,
        time.time(),
        processes=tuple(lines[:MOST_PROCESSES]),
        stacks=tuple(threads[:MOST_THREADS]),
        stacks_by=by,
        guilty=redact_text(culprit.place()) if culprit is not None else "",
        notes=tuple(map(redact_text, (*remarks(pid, lines, threads, culprit), *notes))),
        faults=redact_text("\n".join(f"process {number}:\n{text}" for number, text in faults.items()))[:LONGEST_FAULTS],
        log=last_lines(log, printed_by) if log is not None else (),
        fork_warnings=fork_warnings,
        memory=sum(line.resident for line in lines),
    )


def look(pid: int) -> list[ProcessLine]:
    """Return the process and its descendants, parents before their children."""
    lines = []
    for number in proc.tree(pid):
        if (process := proc.look(number)) is not None:
            state = proc.STATES.get(process.state, process.state)
            size, waits = proc.resident(number), waits_in(number)
            lines.append(
                ProcessLine(
                    number, process.parent, state, command(process), size, process.cpu_s, max(1, process.threads), waits
                )
            )
    return lines


def command(process: proc.Process) -> str:
    """Return a command line without secrets; the name alone where there is none."""
    with suppress(OSError):
        text = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode(errors="replace")
        if words := [" ".join(word.split()) for word in text.split("\0") if word]:
            return shortened(redact_text(" ".join(redact(words))), LONGEST_COMMAND)
    return f"[{process.name}]"


def waits_in(pid: int) -> str:
    with suppress(OSError):
        name = Path(f"/proc/{pid}/wchan").read_text()
        return name if name != "0" else ""
    return ""


async def dump_all(lines: Sequence[ProcessLine], until: float) -> tuple[list[Thread], list[str]]:
    """Return the stacks of all processes that have some, and why others have none."""
    turn = asyncio.Semaphore(AT_ONCE)
    ours = proc.ancestors()
    chosen = [line for line in lines if not line.state.startswith("ended")][:MOST_DUMPED]
    if stacks.py_spy() is None:
        return [], [stacks.MISSING]

    async def in_turn(line: ProcessLine) -> list[Thread] | str:
        async with turn:
            return await dump_one(line, line.pid not in ours, until)

    threads: list[Thread] = []
    notes: list[str] = []
    for result in await asyncio.gather(*map(in_turn, chosen)):
        if isinstance(result, str):
            if not (threads and result.endswith(stacks.NO_PYTHON)):  # said with its command elsewhere
                notes.append(result)
        else:
            threads += sorted(result, key=lambda thread: not thread.main)
    return threads, notes


async def dump_one(line: ProcessLine, pause: bool, until: float) -> list[Thread] | str:
    """Read a stack; without pausing what cannot be paused, is stopped anyway, or is this process."""
    stopped = line.state.startswith("stopped")
    ways = (True, False) if pause and not stopped else (False,)
    why = f"no time was left to read process {line.pid}"
    for pausing in ways:
        left = until - time.monotonic()
        if left <= 0.05:
            break
        try:
            return await stacks.dump(line.pid, pause=pausing, within_s=left / 2 if pausing else left)
        except StackError as error:
            why = str(error)
        finally:
            if pausing:
                wake(line.pid)
        if not proc.alive(line.pid):
            return f"process {line.pid} ended while it was looked at"
        if why.endswith(stacks.NO_PYTHON):
            break
    return why


def wake(pid: int) -> None:
    """Continue a process: a debugger that is killed may leave stopped what it was about to pause."""
    if proc.state_of(pid) == "stopped":
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)


def guilty(lines: Sequence[ProcessLine], threads: Sequence[Thread]) -> Thread | None:
    """Return the first thread of the deepest process that is at somebody's work: the others wait for it.

    One that is stopped, or uses a CPU, waits for nobody.
    """
    depth: dict[int, int] = {}
    state = {line.pid: line.state for line in lines}
    for line in lines:
        depth[line.pid] = depth.get(line.parent, -1) + 1

    def weight(thread: Thread) -> tuple[bool, bool, bool, int]:
        stopped = state.get(thread.pid, "").startswith("stopped")
        return thread.works, stopped, thread.active, depth.get(thread.pid, 0)

    return max((thread for thread in threads if thread.main and thread.frames), key=weight, default=None)


def remarks(pid: int, lines: Sequence[ProcessLine], threads: Sequence[Thread], culprit: Thread | None) -> list[str]:
    """Return what the processes' states say beside the stacks."""
    by_pid = {line.pid: line for line in lines}
    python = {thread.pid for thread in threads}
    if pid not in by_pid:
        return [f"process {pid} is gone"]
    notes = []
    for line in lines:
        if line.state == "stopped":
            notes.append(f"process {line.pid} is stopped (SIGSTOP); kill -CONT {line.pid} lets it go on")
        elif line.state.startswith("ended"):
            notes.append(f"process {line.pid} has ended; its parent {line.parent} has not collected it")
        elif line.waits_in.startswith("futex") and line.parent in by_pid and was_forked(line.pid, line.parent):
            if culprit is not None and culprit.pid == line.pid:
                notes.append(
                    f"child {line.pid} was forked and waits for a lock; if a thread of its parent {line.parent} held "
                    "it at the fork, that thread does not exist in the child and nobody will release it"
                )
        elif line.pid not in python and python:
            where = f" in {line.waits_in}" if line.waits_in else ""
            notes.append(f"child {line.pid} ({line.command}) is {line.state}{where}")
    return notes


def was_forked(pid: int, parent: int) -> bool:
    """Return whether a child still runs its parent's program: every exec places its arguments anew."""

    def place(of: int) -> str:
        text = Path(f"/proc/{of}/stat").read_bytes().decode(errors="replace")
        return text.rpartition(")")[2].split()[45]

    with suppress(OSError, IndexError):
        return place(pid) == place(parent) != "0"
    return False


def last_lines(log: Path, work: LoggedWork | None = None) -> tuple[str, ...]:
    """Return the last lines of a log, or of what one piece of work has printed into it."""
    lines = logs.last_lines(log, LOG_TAIL, LOG_TAIL)
    if work is not None:
        lines = work.lines(lines)
    redactor = Redactor()
    return tuple(shortened(line, LONGEST_LINE) for line in [redactor.line(line) for line in lines][-LOG_LINES:])
