"""Crashes of a worker's process by a signal: in which task, and where, as its log tells after its death.

Plain tasks run in threads of the worker, so that one that crashes takes the others along. Each runs below a frame that
has the task's key for a name; faulthandler prints the frames of the thread that crashed into the worker's log, and
``crash_in`` reads them from there. Nothing is known of a crash that left fewer than all frames (a stack of more than
100) or no log.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from distributed.threadpoolexecutor import ThreadPoolExecutor

from scalable.observe.logs import last_lines, without_time
from scalable.worker.runner.stacks import TOLD_FRAME, place_of

TASK_FILE = "<task>"
"""The file of the frames that are named after tasks."""
LONGEST_NAME = 400  # characters of a key; faulthandler cuts names at 500
LAST_LINES = 400  # of a log, where the stacks of all threads of a worker stand
CRASHES = tuple(signal.Signals[f"SIG{name}"] for name in ("SEGV", "ABRT", "BUS", "FPE", "ILL"))
"""Signals that a process gets for what its own code does."""
FATAL = re.compile(r"Fatal Python error: (.+)")
CURRENT = re.compile(r"Current thread \S+ .*most recent call first")
OTHER = re.compile(r"Thread \S+ .*most recent call first|Extension modules:")

current: ContextVar[str] = ContextVar("task", default="")
"""The key of the task that is about to be run."""


class TaskThreadPoolExecutor(ThreadPoolExecutor):
    """The threads of a worker for tasks; each task runs below a frame of its name."""

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        key = current.get()
        return super().submit(frame_called(key) if key else call, fn, args, kwargs)


def call(function: Callable[..., Any], args: Sequence[Any], kw: dict[str, Any]) -> Any:
    return function(*args, **kw)


def frame_called(key: str) -> Callable[..., Any]:
    """Return ``call`` under another name, which is what a stack shows."""
    return FunctionType(call.__code__.replace(co_name=printed(key), co_filename=TASK_FILE), globals())


def printed(key: str) -> str:
    """Return a key as faulthandler prints it."""
    return key.encode("ascii", "backslashreplace").decode().replace("\n", "\\n")[:LONGEST_NAME]


@dataclass(frozen=True, slots=True)
class Crash:
    """The thread that crashed, as faulthandler wrote it down."""

    error: str
    """In Python's words: ``Segmentation fault``."""
    task: str = ""
    """The key of the task as ``printed``; empty if it was none, or is not known."""
    place: str = ""
    """The innermost function with its file and line; empty if none is known."""

    def __str__(self) -> str:
        return f"{f' in {self.place}' if self.place else ''}{f', task {self.task}' if self.task else ''}"


def crash_in(log: Path) -> Crash | None:
    """Return the last crash that a worker's log tells of."""
    return last_crash([without_time(line) for line in last_lines(log, LAST_LINES)])


def last_crash(lines: Sequence[str]) -> Crash | None:
    begins = [at for at, line in enumerate(lines) if FATAL.match(line)]
    if not begins:
        return None
    fatal = FATAL.match(lines[begins[-1]])
    assert fatal is not None
    frames = stack_of_current(lines[begins[-1] + 1 :])
    task = next((frame[3] for frame in frames if frame[1] == TASK_FILE), "")
    place = next((place_of(frame) for frame in frames if frame[1] != TASK_FILE), "")
    return Crash(fatal[1], task, place)


def stack_of_current(lines: Sequence[str]) -> list[re.Match[str]]:
    """Return the frames of the thread that crashed, the innermost first."""
    inside, frames = False, []
    for line in lines:
        if CURRENT.match(line):
            inside = True
        elif inside and OTHER.match(line):
            break
        elif inside and (frame := TOLD_FRAME.search(line)):
            frames.append(frame)
    return frames


def signal_called(number: int) -> str:
    """Return a signal by name, with what it means: ``SIGSEGV (segmentation fault)``."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    meaning = (signal.strsignal(number) or "").lower()
    return f"{name} ({meaning})" if meaning else name
