"""A file that keeps rows safe until the database has them.

One line of JSON per row, each with a checksum; a batch is durable when ``append`` returns, for one fsync. Every process
has its own file and holds a lock on it while it lives, so a file without a holder is what a crash left behind.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path
from secrets import token_hex

from scalable.store.entries import Entry
from scalable.store.errors import StoreError
from scalable.store.interface import Damage

MIDDLE = "-outbox-"
ENDING = ".jsonl"
DAMAGED = ".damaged"
BLOCK = 1 << 20  # bytes read at once when lines are counted


class OutboxError(StoreError):
    """The outbox cannot be opened or written; the message names the file and the reason."""


class OutboxHeldError(OutboxError):
    """Another process, or another store of this one, uses this outbox."""


class Outbox:
    """Opens or creates the file and takes its lock. What it holds already is there to be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise failed(path, "cannot be opened", error) from None
        try:
            self._lock()
            self._size, self.waiting = self._count()
            self._torn = os.fstat(self._file).st_size != self._size
        except OSError as error:
            os.close(self._file)
            raise failed(path, "cannot be read", error) from None
        except OutboxError:
            os.close(self._file)
            raise

    @classmethod
    def new(cls, database: Path) -> Outbox:
        """An outbox of our own beside a database that others may use too."""
        while True:
            with suppress(OutboxHeldError):  # another process took the new file for a left one before we had its lock
                outbox = cls(database.with_name(f"{database.name}{MIDDLE}{token_hex(8)}{ENDING}"))
                sync_folder(database.parent)
                return outbox

    @staticmethod
    def beside(database: Path) -> list[Path]:
        """The outboxes beside a database, held or left, the oldest first."""
        return sorted(database.parent.glob(f"{escape(database.name)}{MIDDLE}*{ENDING}"), key=changed)

    def append(self, entries: Sequence[Entry]) -> None:
        """Make the entries durable, or leave the outbox as it was."""
        lines = memoryview(b"".join(entry.to_line() for entry in entries))
        try:
            if self._torn:
                os.ftruncate(self._file, self._size)
            self._torn = True
            written = 0
            while written < len(lines):
                written += os.pwrite(self._file, lines[written:], self._size + written)
            os.fsync(self._file)
        except OSError as error:
            self._cut()
            raise failed(self.path, "cannot be written", error) from None
        self._torn = False
        self._size += written
        self.waiting += len(entries)

    def read(self) -> Iterator[Entry | Damage]:
        """Every entry in the order it came, and a damage in the place of a line that cannot be read."""
        position = 0
        for number, line in enumerate(self._lines(), 1):
            position += len(line)
            if position > self._size:
                return
            try:
                yield Entry.from_line(line)
            except ValueError as error:
                text = line.rstrip(b"\n").decode("ascii", "backslashreplace").replace("\0", "\\x00")
                yield Damage(self.path, number, str(error), text)

    def clear(self) -> None:
        """Forget everything. A crash may bring it back, which does no harm: rows can be stored twice."""
        self._size = self.waiting = 0
        self._torn = True
        self._cut()

    def set_aside(self) -> Path:
        """Keep the file, with lines that cannot be read and could not be kept elsewhere; nothing reads it again."""
        aside = self.path.with_name(self.path.name + DAMAGED)
        with suppress(OSError):
            self.path.rename(aside)
        self.waiting = 0
        os.close(self._file)
        return aside

    def close(self) -> None:
        """Release the file; without rows in it, remove it."""
        if not self.waiting:
            with suppress(OSError):
                self.path.unlink()
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutboxHeldError(f"{self.path} is used by another process") from None
        except OSError as error:
            raise failed(self.path, "cannot be locked; choose a folder on a local disk", error) from None
        if not os.fstat(self._file).st_nlink:
            raise OutboxHeldError(f"{self.path} was just removed by another process")

    def _lines(self) -> Iterator[bytes]:
        try:
            with os.fdopen(os.dup(self._file), "rb") as lines:
                lines.seek(0)
                yield from lines
        except OSError as error:
            raise failed(self.path, "cannot be read", error) from None

    def _cut(self) -> None:
        """Drop what follows the last entry; if it cannot be done now, it is before the next one is added."""
        with suppress(OSError):
            os.ftruncate(self._file, self._size)
            self._torn = False

    def _count(self) -> tuple[int, int]:
        """Where the last whole line ends, and how many there are. What follows was not acknowledged."""
        end = lines = position = 0
        while block := os.pread(self._file, BLOCK, position):
            lines += block.count(b"\n")
            if (last := block.rfind(b"\n")) >= 0:
                end = position + last + 1
            position += len(block)
        return end, lines


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power failure, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def changed(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def failed(path: Path, what: str, error: OSError) -> OutboxError:
    return OutboxError(f"outbox {path} {what}: {error.strerror or error}")
