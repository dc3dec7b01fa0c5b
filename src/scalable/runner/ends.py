"""The words for how a run ended, the same as the engine's; and which errors of the user's code may pass."""

from __future__ import annotations

import traceback

FINISHED = ""
RAISED = "raised"
TRANSIENT = "transient"
OUT_OF_MEMORY = "out of memory"
STUCK = "stuck"
KILLED = "killed by another"
CRASHED = "crashed"
CANNOT_START = "cannot start"
PREEMPTED = "preempted"
STOPPED = "stopped"

VIOLENT = frozenset({OUT_OF_MEMORY, STUCK, KILLED, CRASHED})
"""Ends that a person will want to look into."""
LONGEST_MESSAGE = 1000  # characters of an error that are kept
PASSING = (ConnectionError, TimeoutError, InterruptedError, BrokenPipeError)


def cause_of(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY
    return TRANSIENT if isinstance(error, PASSING) else RAISED


def said(error: BaseException) -> str:
    """The error as Python would print it, cut to a length that can be read."""
    text = "".join(traceback.format_exception_only(error)).strip()
    text = text.encode(errors="backslashreplace").decode()  # file names may hold what no message can
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"
