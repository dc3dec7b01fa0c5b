"""The words for how a run ended, the same as the engine's; and which errors of the user's code may pass."""

from __future__ import annotations

import errno
import traceback

from scalable.wording import shortened

FINISHED = ""
RAISED = "raised"
TRANSIENT = "transient"
OUT_OF_MEMORY = "out of memory"
STUCK = "stuck"
TIMED_OUT = "over its walltime"
KILLED = "killed by another"
CRASHED = "crashed"
CANNOT_START = "cannot start"
PREEMPTED = "preempted"
STOPPED = "stopped"

VIOLENT = frozenset({OUT_OF_MEMORY, STUCK, TIMED_OUT, KILLED, CRASHED})
"""Ends that a person will want to look into."""
LONGEST_MESSAGE = 1000  # characters of an error that are kept
PASSING = (ConnectionError, TimeoutError, InterruptedError)
NAME_LATER = -3  # socket.EAI_AGAIN: names cannot be looked up now; a name that nobody knows has another number
AWAY = (errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, NAME_LATER)


def cause_of(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY
    return TRANSIENT if isinstance(error, OSError) and passing(error) else RAISED


def passing(error: BaseException | None) -> bool:
    """Return whether an error is, or was raised for, a failed connection: libraries wrap that in their own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, PASSING) or (isinstance(error, OSError) and error.errno in AWAY):
            return True
        seen.add(id(error))
        reason = getattr(error, "reason", None) if isinstance(error, OSError) else None  # where urllib keeps it
        raised_for = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        error = reason if isinstance(reason, BaseException) else raised_for
    return False


def error_text(error: BaseException) -> str:
    """Return the error as Python would print it, cut to a length that can be read."""
    text = "".join(traceback.format_exception_only(error)).strip()
    text = text.encode(errors="backslashreplace").decode()  # file names may hold what no message can
    return shortened(text, LONGEST_MESSAGE)
