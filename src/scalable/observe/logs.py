"""The logs of workers: their last lines, merged by the times they carry, and what is added while a run goes on."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

BLOCK = 1 << 16  # bytes read at once from the end of a file
STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[.,]?(\d*)")
Line = tuple[str, str]  # the log's name and the text


def log_files(folder: Path) -> dict[str, Path]:
    """Logs by the name of their worker."""
    try:
        return {path.stem: path for path in sorted(folder.glob("*.log"))}
    except OSError:
        return {}


def merged(logs: dict[str, Sequence[str]]) -> Iterator[Line]:
    """Yield all lines in the order of their times; a line without one follows the line before it in its own log."""

    def stamped(name: str, lines: Sequence[str]) -> Iterator[tuple[str, str, int, str]]:
        latest = ""
        for place, line in enumerate(lines):
            if match := STAMP.match(line):
                latest = max(latest, f"{match[1]} {match[2]}.{match[3]}")
            yield latest, name, place, line

    for _, name, _, line in heapq.merge(*(stamped(name, lines) for name, lines in logs.items())):
        yield name, line


class LogReader:
    """Reads logs from near their end, then on where it stopped, also in logs that appear later.

    A line is given out once it has its end, or when nothing more will come.
    """

    def __init__(self, folder: Path, only: str | None = None) -> None:
        self.folder, self.only = folder, only
        self.at: dict[str, int] = {}
        self.rest: dict[str, bytes] = {}

    def begin(self, most: int, *, last: bool = False) -> dict[str, Sequence[str]]:
        """Return the last lines of each log; with ``last`` also a line that has no end yet."""
        lines_by_log: dict[str, Sequence[str]] = {}
        for name, path in self.files().items():
            data, self.at[name] = ending(path, most)
            lines = self.cut(name, data, last=last)
            lines_by_log[name] = lines[-most:] if most else []
        return lines_by_log

    def new(self, *, last: bool = False) -> dict[str, Sequence[str]]:
        """Return what was added since."""
        lines_by_log: dict[str, Sequence[str]] = {}
        for name, path in self.files().items():
            before, size = self.at.get(name, 0), size_of(path)
            if size < before:
                before = 0  # someone emptied it
            added = read_on(path, before, size) if size > before else b""
            self.at[name] = before + len(added)
            if lines := self.cut(name, self.rest.pop(name, b"") + added, last=last):
                lines_by_log[name] = lines
        return lines_by_log

    def cut(self, name: str, data: bytes, *, last: bool) -> list[str]:
        *lines, rest = data.split(b"\n")
        if rest and last:
            lines.append(rest)
        elif rest:
            self.rest[name] = rest
        return [line.decode("utf-8", "replace") for line in lines]

    def files(self) -> dict[str, Path]:
        return {name: path for name, path in log_files(self.folder).items() if self.only in (None, name)}


def ending(path: Path, most: int) -> tuple[bytes, int]:
    """At least the last so many lines of a file, however long the file is, and where it ends."""
    blocks: list[bytes] = []
    ends = 0
    try:
        with path.open("rb") as file:
            at = size = file.seek(0, 2)
            while at > 0 and ends <= most:
                begin = max(0, at - BLOCK)
                file.seek(begin)
                blocks.append(file.read(at - begin))
                ends += blocks[-1].count(b"\n")
                at = begin
    except OSError:
        return b"", 0
    return b"".join(reversed(blocks)), size


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_on(path: Path, begin: int, end: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(begin)
            return file.read(end - begin)
    except OSError:
        return b""
