"""The logs of workers: their last lines, merged by the times they carry, and what is added while a run goes on.

Jobs write what they like, lines of gigabytes as well: no more is read at once than ``most_bytes``, and lines are cut.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from scalable.observe.files import listing, open_regular
from scalable.observe.folders import RunFolderError
from scalable.observe.redact import Redactor

LAST_LINES = 40  # of a log, among which the reason of an end stands
BLOCK = 1 << 16  # bytes read at once from the end of a file
MOST_BYTES = 1 << 26  # read at once, of all logs together
LONGEST_LINE = 1 << 13  # characters that are shown of a line
LONGEST_SECRET = 1 << 11  # characters behind them that are looked at, too: half a secret is not recognised as one
CUT = " … [line cut]"
STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[.,]?(\d*)")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", re.MULTILINE)  # before each line of a worker
Line = tuple[str, str]  # the log's name and the text


def log_files(folder: Path) -> dict[str, Path]:
    """Return logs by the name of their worker. Raise ``RunFolderError`` if nobody here may see which there are."""
    try:
        names = sorted(name for name in listing(folder) if name.endswith(".log"))
    except OSError as error:
        raise RunFolderError.unreadable(folder, error) from None
    return {Path(name).stem: folder / name for name in names}


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


def shown(line: str, redactor: Redactor) -> str:
    """Return a line without its secrets, and without its end if it is too long."""
    text = redactor.line(line[: LONGEST_LINE + LONGEST_SECRET].rstrip("\r"))
    return f"{text[:LONGEST_LINE]}{CUT}" if len(line) > LONGEST_LINE else text


class LogReader:
    """Reads logs from near their end, then on where it stopped, also in logs that appear later.

    A line is given out once it has its end, or when nothing more will come, or when it is longer than is shown.
    """

    def __init__(self, folder: Path, only: str | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self.only, self.most_bytes = folder, only, most_bytes
        self.at: dict[str, int] = {}
        self.rest: dict[str, bytes] = {}
        self.amid: set[str] = set()  # logs that are read on in a line whose beginning was given out, or never read
        self.cut_off: set[str] = set()
        """Logs of which fewer lines were read than asked for, because they are too long."""
        self.unreadable: dict[Path, RunFolderError] = {}
        """Logs that may not be read, and why."""
        self.behind = False
        """Whether more was added than could be read at once: the next ``new`` goes on."""

    def begin(self, most: int, *, last: bool = False) -> dict[str, Sequence[str]]:
        """Return the last lines of each log; with ``last`` also a line that has no end yet."""
        lines_by_log: dict[str, Sequence[str]] = {}
        files = self.files()
        for name, path in files.items():
            end = FileTail(0, b"", 0)
            with self.noting(path):
                end = ending(path, most, self.share(len(files)))
            self.at[name] = end.size
            if end.begin:
                self.amid.add(name)
            lines = self.cut(name, end.data, last=last)
            if end.begin and len(lines) < most:
                self.cut_off.add(name)
            lines_by_log[name] = lines[-most:] if most else []
        return lines_by_log

    def new(self, *, last: bool = False) -> dict[str, Sequence[str]]:
        """Return what was added since."""
        lines_by_log: dict[str, Sequence[str]] = {}
        files = self.files()
        self.behind = False
        for name, path in files.items():
            before = size = self.at.get(name, 0)
            added = b""
            with self.noting(path):
                size = path.stat().st_size
                if size < before:
                    before = 0  # someone emptied it
                added = read_on(path, before, min(size, before + self.share(len(files)))) if size > before else b""
                self.at[name] = before + len(added)
            behind = bool(added) and self.at[name] < size
            self.behind |= behind
            if lines := self.cut(name, self.rest.pop(name, b"") + added, last=last and not behind):
                lines_by_log[name] = lines
        return lines_by_log

    @contextmanager
    def noting(self, path: Path) -> Iterator[None]:
        """Note that a log may not be read; one that is gone has nothing more to say."""
        try:
            yield
        except FileNotFoundError:
            return
        except OSError as error:
            self.unreadable[path] = RunFolderError.unreadable(path, error)

    def share(self, files: int) -> int:
        return max(BLOCK, self.most_bytes // max(1, files))

    def cut(self, name: str, data: bytes, *, last: bool) -> list[str]:
        *lines, rest = data.split(b"\n")
        if name in self.amid:
            if not lines:
                return []
            lines.pop(0)
            self.amid.discard(name)
        if len(rest) > LONGEST_LINE + LONGEST_SECRET:
            self.amid.add(name)
            lines.append(rest)
        elif rest and last:
            lines.append(rest)
        elif rest:
            self.rest[name] = rest
        return [line.decode("utf-8", "replace") for line in lines]

    def files(self) -> dict[str, Path]:
        return {name: path for name, path in log_files(self.folder).items() if self.only in (None, name)}


class FileTail(NamedTuple):
    """The last part of a file: where it begins, what it holds, and the size of the file."""

    begin: int
    data: bytes
    size: int


def ending(path: Path, most_lines: int, most_bytes: int) -> FileTail:
    """Read at least the last so many lines of a file, or as much as may be read."""
    blocks: list[bytes] = []
    ends = 0
    with open_regular(path) as file:
        at = size = file.seek(0, 2)
        while at > 0 and ends <= most_lines and size - at < most_bytes:
            begin = max(0, at - BLOCK)
            file.seek(begin)
            blocks.append(file.read(at - begin))
            ends += blocks[-1].count(b"\n")
            at = begin
    return FileTail(at, b"".join(reversed(blocks)), size)


def last_lines(path: Path, most: int, most_bytes: int = BLOCK) -> list[str]:
    """Return the last lines of a log that hold anything; none if it cannot be read."""
    try:
        end = ending(path, 2 * most, most_bytes)
    except OSError:
        return []
    lines = [line.rstrip() for line in end.data.decode(errors="replace").splitlines() if line.strip()]
    return lines[-most:]


def without_time(line: str) -> str:
    """Return a line of a log as it was printed."""
    return TIME.sub("", line)


def read_on(path: Path, begin: int, end: int) -> bytes:
    with open_regular(path) as file:
        file.seek(begin)
        return file.read(end - begin)
