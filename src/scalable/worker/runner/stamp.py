"""The progress stamp: a page of memory that a run writes and its supervisor reads, also while the run holds the GIL.

Nothing here locks, so neither a fork nor a kill at any moment can leave something locked. A record is written into the
one of two slots that is not the newest, with a checksum, and then named the newest by one aligned store; a reader
takes the newest that is whole. When several threads or forked children of a run write at the same moment, one of their
records may be lost, but never mixed with another.
"""

from __future__ import annotations

import fcntl
import mmap
import operator
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite, nan
from sys import byteorder
from time import monotonic
from typing import Any
from zlib import crc32

Record = tuple[int, float, float | None, float | None, str]

SIZE = 4096  # one page
SEQUENCE, COUNT, UNTIL, FORKS, BEGUN = range(5)  # words of 8 bytes at the start of the page; each is stored at once
WORDS = 64
SLOT = 1024
RECORD = struct.Struct("=QQdddBH")  # sequence, count, at, step, of, which numbers are whole, length of the note
CHECKSUM = 4
PACK, PACK_CHECKSUM = RECORD.pack, struct.Struct("=I").pack
STARTS = (WORDS, WORDS + SLOT)
LONGEST_NOTE = 480  # bytes; a line on a wide terminal, in any script
LONGEST_STEP_S = 7 * 86_400.0  # a longer declaration would protect a hung run for good
READS = 50  # a record takes less than a microsecond to write, so the second reading finds one whole
NOTHING: Record = (0, 0.0, None, None, "")
LARGEST_WHOLE = 2.0**63  # what a message to the driver can hold
PLAIN = frozenset({int, float, type(None)})


@dataclass(frozen=True, slots=True)
class Progress:
    """The latest report of a run on itself."""

    count: int = 0
    """How often progress was reported; 0 for a run that says nothing."""
    at: float = 0.0
    """``time.monotonic()`` of the last sign of life, the begin and end of a long step included; 0 before the first."""
    step: float | None = None
    of: float | None = None
    note: str = ""
    until: float | None = None
    """Up to this moment a long step was declared."""
    fork_warnings: int = 0
    """Forks with other threads that were seen, whether refused or let through."""


def progress(step: float, of: float | None = None, note: str = "") -> None:
    """Say how far a run is. Costs a microsecond; outside a runner it does nothing."""
    if _attached is not None:
        _attached.mark(step, of, note)


@contextmanager
def long_step(seconds: float) -> Iterator[None]:
    """Declare that the block may take so long without a sign of life."""
    stamp = _attached
    declared = stamp.declare(seconds) if stamp else None
    try:
        yield
    finally:
        if stamp:
            stamp.withdraw(declared)


_attached: Stamp | None = None


def use(stamp: Stamp | None) -> None:
    """Let ``progress`` and ``long_step`` of this process write to this stamp."""
    global _attached
    _attached = stamp


def attached() -> Stamp | None:
    return _attached


class Stamp:
    """One page: ``create`` it in the supervisor, hand ``fd`` to the child, ``attach`` it there."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._page = mmap.mmap(fd, SIZE)
        view = memoryview(self._page)[:WORDS]
        self._words, self._times = view.cast("Q"), view.cast("d")
        self._declared: dict[object, float] = {}
        self._last = Progress()

    @classmethod
    def create(cls) -> Stamp:
        return cls(shared_memory())

    @classmethod
    def attach(cls, fd: int) -> Stamp:
        """Map the page in the child, which needs the fd no more; ``use`` it for ``progress``."""
        stamp = cls(fd)
        os.close(fd)
        stamp.fd = -1
        return stamp

    def mark(self, step: Any, of: Any, note: Any) -> None:
        if type(step) not in PLAIN or type(of) not in PLAIN or type(note) is not str:
            step, of, note = number(step), number(of), text(note)
        count = self._words[COUNT] = self._words[COUNT] + 1
        try:
            self._write(count, step, of, note)
        except struct.error:  # a whole number that no float can hold
            self._write(count, number(step), number(of), note)

    def declare(self, seconds: float) -> object:
        length = number(seconds)
        if length is None or not length > 0:  # nan is not
            return None
        declared = object()
        self._declared[declared] = monotonic() + min(length, LONGEST_STEP_S)
        self._allow()
        return declared

    def withdraw(self, declared: object) -> None:
        """Start the clock anew when a long step ends, else the run would count as silent since it began."""
        if self._declared.pop(declared, None) is not None:
            self._allow()

    def forked(self) -> None:
        """Count a fork with other threads."""
        self._words[FORKS] += 1

    def read(self) -> Progress:
        """Return the newest whole record; the one before if a writer was killed in the middle of it."""
        last = self._last
        record = last.count, last.at, last.step, last.of, last.note
        for _ in range(READS):
            newest = self._words[SEQUENCE]
            latest = (self._record(newest) or self._record(newest - 1)) if newest else NOTHING
            if latest:
                record = latest
                break
        until = self._times[UNTIL]
        self._last = Progress(*record, until if until > 0 else None, self._words[FORKS])
        return self._last

    def clear(self) -> None:
        """Forget all but how many runs began, before a new run. The child does it, since it knows what was declared."""
        begun = self._words[BEGUN] + 1
        self._declared.clear()
        self._page[:SIZE] = bytes(SIZE)
        self._words[BEGUN] = begun
        self._last = Progress()

    @property
    def begun(self) -> int:
        """The number of runs that the child has begun."""
        return self._words[BEGUN]

    def close(self) -> None:
        if _attached is self:
            use(None)
        self._words.release()
        self._times.release()
        self._page.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _write(self, count: int, step: float | None, of: float | None, note: str) -> None:
        sequence = self._words[SEQUENCE] + 1
        noted = note[:LONGEST_NOTE].encode("utf-8", "replace")[:LONGEST_NOTE] if note else b""
        whole = (step.__class__ is int) + 2 * (of.__class__ is int)
        step, of = nan if step is None else step, nan if of is None else of
        body = PACK(sequence, count, monotonic(), step, of, whole, len(noted)) + noted
        start = STARTS[sequence & 1]
        self._page[start : start + CHECKSUM + len(body)] = PACK_CHECKSUM(crc32(body)) + body
        self._words[SEQUENCE] = sequence

    def _record(self, sequence: int) -> Record | None:
        start = STARTS[sequence & 1]
        slot = self._page[start : start + SLOT]
        number, count, at, step, of, whole, length = RECORD.unpack_from(slot, CHECKSUM)
        body = slot[CHECKSUM : CHECKSUM + RECORD.size + min(length, LONGEST_NOTE)]
        if number < sequence or crc32(body) != int.from_bytes(slot[:CHECKSUM], byteorder):
            return None
        note = body[RECORD.size :].decode("utf-8", "ignore")
        return count, at, as_given(step, whole & 1), as_given(of, whole & 2), printable(note)

    def _allow(self) -> None:
        """Write the latest moment that anyone declared; again if another thread changed it meanwhile."""
        for _ in range(READS):
            until = max(list(self._declared.values()), default=0.0)
            self._times[UNTIL] = until
            if max(list(self._declared.values()), default=0.0) == until:
                break
        last = self.read()
        self._write(last.count, last.step, last.of, last.note)


def shared_memory() -> int:
    """Make a file of one page that only those have who are given it. Where it can, nobody may make it shorter:
    a reader of memory that is gone dies."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("scalable-stamp", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, SIZE)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return fd
    import tempfile  # hardly ever needed, and a child must start fast

    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    fd, path = tempfile.mkstemp(prefix="scalable-stamp-", dir=folder)
    os.unlink(path)  # noqa: PTH108
    os.ftruncate(fd, SIZE)
    return fd


def number(value: Any) -> float | None:
    """Return what a run gave as a number; None if it is none, since a mistake in a report must not fail a run."""
    for read in (operator.index, float):
        try:
            value_read: float = read(value)
            float(value_read)
        except Exception:  # noqa: BLE001 - it comes from the user's own classes
            continue
        return value_read
    return None


def text(value: Any) -> str:
    try:
        return "" if value is None else str.__getitem__(str(value), slice(LONGEST_NOTE))
    except Exception:  # noqa: BLE001 - as above
        return ""


def as_given(value: float, whole: int) -> float | None:
    return (int(value) if whole and abs(value) < LARGEST_WHOLE else value) if isfinite(value) else None


def printable(note: str) -> str:
    """Replace what would move a terminal's cursor."""
    return note if note.isprintable() else "".join(letter if letter.isprintable() else " " for letter in note)
