"""What jobs print: every line begins with the time, in UTC, and the process of its runner, which tells jobs apart.

Only what goes through Python's streams gets that. A line is written when it is complete, in one piece. What C code or
a program that the job has started prints stands in the log as it is.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time

STREAMS = (("stdout", 1), ("stderr", 2))
HEAD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+Z \[(\d+)\] |,\d+ - distributed\.)")
"""The beginning of a line that a runner's streams wrote, with its process; or of one of the worker itself, by Dask."""

Output = tuple[str, int, int]
"""Name and number of a stream, and a copy of what it writes to."""


class StampedStream(io.TextIOWrapper):
    """A text stream that writes a time before each line."""

    owner = 0
    amid_line = False

    def write(self, text: str) -> int:
        if not isinstance(text, str) or not text:
            return super().write(text)
        head = f"{utc(time.time())} [{self.owner}] "
        ended = text.endswith("\n")
        body = (text[:-1] if ended else text).replace("\n", f"\n{head}")
        super().write(f"{'' if self.amid_line else head}{body}{chr(10) if ended else ''}")
        self.amid_line = not ended
        return len(text)


def utc(at: float) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(at))}.{int(at * 1000) % 1000:03d}Z"


def stamped(number: int) -> StampedStream:
    """Return a stream that writes to an open file. Forks that use it print as this process: they are the same job."""
    binary = open(number, "wb", closefd=False)  # noqa: SIM115
    stream = StampedStream(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)
    stream.owner = os.getpid()
    return stream


def take_over() -> list[Output]:
    """Put times before what this process prints, unless a person reads it on a terminal."""
    found = []
    for name, number in STREAMS:
        if (stream := getattr(sys, name)) is not None:
            stream.reconfigure(line_buffering=True)  # what is said before a hang is to be in the log
            if not os.isatty(number):
                setattr(sys, name, stamped(number))
            found.append((name, number, os.dup(number)))
    return found


def log_size() -> int:
    """Return how long the file is by now that this process prints to; 0 if it is none."""
    try:
        return os.fstat(1).st_size
    except OSError:  # closed
        return 0


def lines_of(owner: int, lines: list[str]) -> list[str]:
    """Return those of one runner. A line without a head belongs to the line before it."""
    kept, ours = [], True
    for line in lines:
        if match := HEAD.match(line):
            ours = match[1] == str(owner)
        if ours:
            kept.append(line)
    return kept
