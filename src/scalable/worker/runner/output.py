"""The output of jobs: each line is marked with its runner's process and the job's number in it: ``[4711.3] epoch 4``.

By the mark, lines of jobs that share a log can be told apart. Only what goes through Python's streams has it; what C
code or a program that the job has started prints stands in the log without. A line is written when it is complete.
"""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import suppress

STREAMS = (("stdout", 1), ("stderr", 2))
MARK = re.compile(r"\[\d+\.\d+\] ")

Output = tuple[str, int, int]
"""Name and number of a stream, and a copy of what it writes to."""


class MarkedStream(io.TextIOWrapper):
    """A text stream that writes the present job's mark before each line."""

    mark = ""
    """The same for all streams of a process; forks of it are the same job."""
    amid_line = False

    def write(self, text: str) -> int:
        if not isinstance(text, str) or not text:
            return super().write(text)
        ended = text.endswith("\n")
        body = (text[:-1] if ended else text).replace("\n", f"\n{self.mark}")
        super().write(f"{'' if self.amid_line else self.mark}{body}{chr(10) if ended else ''}")
        self.amid_line = not ended
        return len(text)


def mark_of(pid: int, number: int) -> str:
    return f"[{pid}.{number}] "


def begin(number: int) -> None:
    """Mark what is printed from now on as that of another job, on a line of its own."""
    for name, _ in STREAMS:
        stream = getattr(sys, name)
        if isinstance(stream, MarkedStream) and stream.amid_line:
            with suppress(OSError, ValueError):  # closed
                stream.write("\n")
    MarkedStream.mark = mark_of(os.getpid(), number)


def marked(number: int) -> MarkedStream:
    binary = open(number, "wb", closefd=False)  # noqa: SIM115
    return MarkedStream(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def take_over() -> list[Output]:
    """Mark what this process prints, unless a person reads it on a terminal."""
    outputs = []
    for name, number in STREAMS:
        if (stream := getattr(sys, name)) is not None:
            stream.reconfigure(line_buffering=True)  # what is said before a hang is to be in the log
            if not os.isatty(number):
                setattr(sys, name, marked(number))
            outputs.append((name, number, os.dup(number)))
    return outputs
