"""A file that keeps rows safe until the database has them.

One line of JSON per row, each with a checksum; a batch is durable when ``append`` returns, for one fsync. Every process
has its own file and holds a lock on it while it lives, so a file without a holder is what a crash left behind. An
``Entry`` is a record on its way into the store: it knows its line here, and which of two with one key is kept.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any
from zlib import crc32

from scalable.store.errors import StoreError
from scalable.store.interface import Damage
from scalable.store.json_values import from_json
from scalable.store.rows import AttemptRow, IncidentRow, Row, SweepRun, content, digest

MIDDLE = "-outbox-"
ENDING = ".jsonl"
DAMAGED = ".damaged"
CACHE = "SCALABLE_CACHE_DIR"
LONGEST_NAME = 100  # characters of a database's name in that of an outbox elsewhere
BLOCK = 1 << 20  # bytes read at once when lines are counted


class OutboxError(StoreError):
    """The outbox cannot be opened or written; the message names the file and the reason."""


class OutboxHeldError(OutboxError):
    """Another process, or another store of this one, uses this outbox."""


def private_mode(folder: Path) -> int:
    """Return the mode of an outbox, whose rows are its user's, and of the group that a folder is shared with."""
    return 0o660 if folder.stat().st_mode & stat.S_ISGID else 0o600


class Outbox:
    """Opens or creates the file and takes its lock. What it holds already is there to be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private_mode(path.parent))
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
        """Make an outbox of our own beside a database that others may use too."""
        while True:
            with suppress(OutboxHeldError):  # another process took the new file for a left one before we had its lock
                outbox = cls(database.with_name(f"{database.name}{MIDDLE}{token_hex(8)}{ENDING}"))
                sync_folder(database.parent)
                return outbox

    @staticmethod
    def beside(database: Path) -> list[Path]:
        """Return the outboxes beside a database, held or left, the oldest first."""
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
        """Yield every entry in the order it came, and a damage in the place of a line that cannot be read."""
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
        """Return where the last whole line ends, and how many there are. What follows was not acknowledged."""
        end = lines = position = 0
        while block := os.pread(self._file, BLOCK, position):
            lines += block.count(b"\n")
            if (last := block.rfind(b"\n")) >= 0:
                end = position + last + 1
            position += len(block)
        return end, lines


Stored = Row | AttemptRow | SweepRun | IncidentRow
KINDS: dict[str, type[Row] | type[AttemptRow] | type[SweepRun] | type[IncidentRow]] = {
    "row": Row,
    "attempt": AttemptRow,
    "sweep": SweepRun,
    "incident": IncidentRow,
}
WORDS = {kind: word for word, kind in KINDS.items()}
HEAD = len('{"sum":"01234567",')


@dataclass(frozen=True, slots=True)
class Entry:
    """A record on its way into the store."""

    record: Stored
    written_at: float
    text: str
    """The record's content as JSON."""
    digest: str
    token: int | None = None
    """Of the lease that its writer must still have when it is stored."""

    @classmethod
    def of(cls, record: Stored, now: float, token: int | None = None) -> Entry:
        text = content(record)
        given = record.written_at if isinstance(record, Row) else None
        return cls(record, now if given is None else given, text, digest(text), token)

    @property
    def kind(self) -> str:
        return WORDS[type(self.record)]

    @property
    def key(self) -> tuple[type[Stored], str]:
        """The table and the row it is for."""
        record = self.record
        if isinstance(record, AttemptRow):
            return AttemptRow, f"{record.run_key} {record.attempt}"
        return type(record), record.run_key if isinstance(record, Row) else record.id

    @property
    def identity(self) -> tuple[type[Stored], str, str]:
        """The same for an entry that was written and read again, and for no other content."""
        return (*self.key, self.digest)

    @property
    def rank(self) -> tuple[float, int, bool, str]:
        """Of two entries with one key the higher rank is kept.

        Failed rows come first, then per attempt its result and above that the mark that it does not count.
        """
        if isinstance(self.record, Row):
            row = self.record
            return row.finished or row.marked, row.attempt, row.marked, self.digest
        if isinstance(self.record, SweepRun | AttemptRow):
            return -1 if self.record.ended is None else self.record.ended, 0, False, self.digest
        return self.written_at, 0, False, self.digest

    def to_line(self) -> bytes:
        fence = "" if self.token is None else f'"token":{self.token},'
        body = f'"at":{self.written_at!r},{fence}"{self.kind}":{self.text}}}'.encode("ascii")
        return b'{"sum":"%08x",%s\n' % (crc32(body), body)

    @classmethod
    def from_line(cls, line: bytes) -> Entry:
        """Read the entry written as this line; ValueError says what is wrong with it."""
        body = line[HEAD:].rstrip(b"\n")
        if line[:HEAD] != b'{"sum":"%08x",' % crc32(body):
            raise ValueError("the checksum does not match")
        text = (b"{" + body).decode("ascii")
        content = from_json(text)
        try:
            written_at = content.pop("at")
            token = content.pop("token", None)
            [(kind, values)] = content.items()
            return cls.of(KINDS[kind].from_dict(values), written_at, token)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it was written by another version of scalable ({error})") from None


def merged(entries: Iterable[Entry]) -> list[Entry]:
    """Return one entry per key, in the order the keys first came."""
    kept: dict[tuple[Any, str], Entry] = {}
    for entry in entries:
        if entry.key not in kept or kept[entry.key].rank < entry.rank:
            kept[entry.key] = entry
    return list(kept.values())


def spares(database: Path, *, make: bool = False) -> list[Path]:
    """Return paths on other places beside which outboxes of this database may lie when its own disk is full.

    They are in folders that nobody else can write to: what lies there is taken for ours. Without ``make``, as for who
    only looks, nothing is made.
    """
    name = f"{blake2b(os.fsencode(database), digest_size=8).hexdigest()}-{database.name[:LONGEST_NAME]}"
    mine = Path(tempfile.gettempdir(), f"scalable-{os.geteuid()}")
    folders = [Path(named).expanduser().absolute()] if (named := os.environ.get(CACHE)) else []
    with suppress(OSError):
        if make:
            mine.mkdir(mode=0o700, exist_ok=True)
        about = mine.lstat()
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077:
            folders.append(mine)
    return [folder / "outbox" / name for folder in folders]


def same_device(folder: Path, other: Path) -> bool:
    """Return whether two folders, or what is there above them, are on one disk."""

    def device(path: Path) -> int:
        return next((each.stat().st_dev for each in (path, *path.parents) if each.exists()), 0)

    try:
        return device(folder) == device(other)
    except OSError:
        return True


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
