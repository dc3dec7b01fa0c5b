"""The journal of a run: one JSON object per line, appended by a thread of its own, and read back at any time.

A caller only encodes its record and puts it in a queue, so it never waits for a disk; it needs no lock, so that a
signal handler may write too. The thread writes five times a second, at once for what matters, and syncs every other
second. A disk that is full or gone does not stop the run: what waits is kept up to a bound and written when the disk
takes it again; what had to be dropped is counted, and the journal says so.

Reading works while a journal is written, and where its writer was killed in the middle of a line. Only whole records
come out: a JSON object with a time ``t`` and a ``kind``. What is not one is counted, never raised.
"""

from __future__ import annotations

import atexit
import errno
import json
import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import Any

from scalable.errors import ScalableError
from scalable.findings import Finding
from scalable.observe.files import open_regular, private_mode
from scalable.observe.redact import redact, suspicious
from scalable.wording import plural

__all__ = ["Journal", "Records", "read"]

logger = logging.getLogger("scalable")

FLUSH_EVERY_S = 0.2
SYNC_EVERY_S = 2.0  # a machine that loses power loses at most these seconds
AT_ONCE = frozenset({"run-started", "worker-lost", "incident", "alert", "ended"})  # what someone may be waiting for
MOST_WAITING = 100_000  # records kept for a disk that does not take them: some 30 MB
CLOSE_WITHIN_S = 10.0  # how long closing waits for a disk that hangs
LONGEST_LINE = 1 << 16  # characters above which long texts in a record are cut
LONGEST_TEXT = 4000  # characters of a text in such a record
DEEPEST = 30  # levels of nesting that are written
Record = dict[str, Any]
CHUNK = 1 << 20  # bytes read at once
LATEST = 1e12  # seconds; no clock shows such a time
LONGEST = 1 << 26  # bytes without an end of line that may still become a record
ENDINGS = 20  # lines among which that of the end is: others may write what they had under way
TAIL = 1 << 16  # bytes at the end of a journal in which its last records are looked for


class Journal:
    """Appends records to a file. Use it from any thread; close it, or use ``with``.

    ``later`` leaves encoding to the thread that writes, for callers whose records are many and never change.
    """

    def __init__(self, path: Path | str, *, clock: Callable[[], float] | None = None, later: bool = False) -> None:
        self.path = Path(path)
        self.lost = 0
        """Records that were dropped because the disk did not take them, or written after closing."""
        self.trouble = ""
        """Why the disk did not take them, once that happened."""
        self.listeners: list[Callable[[str, dict[str, Any]], None]] = []
        """Called with the kind and the fields of every record, by whoever writes it; they must not wait."""
        self._clock = clock or time.time
        self._later = later
        self._waiting: deque[bytes | dict[str, Any]] = deque()
        self._wake: queue.SimpleQueue[threading.Event | None] = queue.SimpleQueue()
        self._closing = False
        self._process = os.getpid()
        self._rest = b""
        self._reported = 0
        self._synced, self._dirty = time.monotonic(), False
        try:
            mode = private_mode(self.path.parent) & 0o666
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
        except OSError as error:
            raise ScalableError(f"the journal cannot be opened: {error}") from None
        if ends_in_the_middle(self._file):
            self._rest = b"\n"
        self._thread = threading.Thread(target=self._run, name="scalable-journal", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def write(self, kind: str, /, **fields: Any) -> None:
        """Record that something happened, now unless a field ``t`` says when."""
        if os.getpid() != self._process:
            return  # a forked child has no thread to write with, and its parent tells the story
        if self._closing or len(self._waiting) >= MOST_WAITING:
            self.lost += 1
            return
        record = {"t": round(self._clock(), 6), "kind": kind, **fields}
        self._waiting.append(record if self._later else line_of(record))
        for listener in self.listeners:
            listener(kind, fields)
        if kind in AT_ONCE:
            self._wake.put(None)

    def flush(self, timeout: float = CLOSE_WITHIN_S) -> bool:
        """Wait until all that was written before is in the file; whether it is."""
        if not self._thread.is_alive() or os.getpid() != self._process:
            return not self._waiting
        done = threading.Event()
        self._wake.put(done)
        return done.wait(timeout) and not self._rest

    def close(self) -> None:
        """Write and sync what waits, and stop. Safe to call again."""
        atexit.unregister(self.close)
        if self._closing or os.getpid() != self._process:
            return
        self._closing = True
        self._wake.put(None)
        self._thread.join(CLOSE_WITHIN_S)
        if self._thread.is_alive():
            logger.warning("the journal %s is not written to its end: the disk does not answer", self.path)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            waiter = self._next_call()
            closing = self._closing
            self._drain(sync=closing)
            if waiter is not None:
                waiter.set()
            if closing:
                break
        self.lost += self._rest.count(b"\n") + len(self._waiting)
        os.close(self._file)

    def _next_call(self) -> threading.Event | None:
        try:
            return self._wake.get(timeout=FLUSH_EVERY_S)
        except queue.Empty:
            return None

    def _drain(self, *, sync: bool) -> None:
        """Write what waits. After a failure it goes on at the very byte where the disk stopped taking."""
        if not self._rest:
            self._tell_of_losses()
        if len(self._rest) < LONGEST_LINE:  # else the disk is not taking, and records wait where they are bounded
            lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
            self._rest += lines_of(lines)
        try:
            while self._rest:
                written = os.write(self._file, self._rest)
                self._rest, self._dirty = self._rest[written:], True
            if self._dirty and (sync or time.monotonic() - self._synced >= SYNC_EVERY_S):
                self._synced, self._dirty = time.monotonic(), False
                os.fsync(self._file)
        except OSError as error:
            if error.errno != errno.EINVAL or self._rest:  # devices and pipes cannot be synced
                self._complain(error)

    def _tell_of_losses(self) -> None:
        lost = self.lost
        if lost > self._reported:
            text = (
                f"{plural(lost - self._reported, 'record')} could not be written: {self.trouble or 'too many at once'}"
            )
            self._reported = lost
            gap = Finding.warning("journal-gap", "", text).to_record("alert")
            self._waiting.append(line_of({"t": self._clock(), "kind": "alert", **gap}))

    def _complain(self, error: OSError) -> None:
        if not self.trouble:
            logger.warning("the journal %s cannot be written: %s; the run goes on", self.path, error.strerror)
        self.trouble = error.strerror or str(error)


def ends_in_the_middle(file: int) -> bool:
    """Return whether the last line of a file has no end, because whoever wrote it was killed."""
    try:
        size = os.lseek(file, 0, os.SEEK_END)
        return size > 0 and os.pread(file, 1, size - 1) not in (b"\n", b"")
    except OSError:  # a pipe or a device
        return False


def line_of(record: dict[str, Any]) -> bytes:
    """Return a record as a line of the journal."""
    try:
        text = encode(record)
    except (TypeError, ValueError, RecursionError):
        record = jsonable(record)
        text = encode(record)
    if len(text) > LONGEST_LINE:
        record = jsonable(record)
        text = encode(record)
    if suspicious(text):
        text = encode(redact(jsonable(record, len(text))))
    return (text + "\n").encode("utf-8", "backslashreplace")  # half a surrogate pair stays valid JSON that way


def lines_of(waiting: Sequence[bytes | dict[str, Any]]) -> bytes:
    """Return records as lines; they are searched for secrets one by one only if all together may hold some."""
    if waiting and all(isinstance(record, dict) for record in waiting):
        with suppress(TypeError, ValueError, RecursionError):
            texts = [encode(record) for record in waiting]
            if max(map(len, texts)) <= LONGEST_LINE and not suspicious(whole := "\n".join((*texts, ""))):
                return whole.encode("utf-8", "backslashreplace")
    return b"".join(record if isinstance(record, bytes) else line_of(record) for record in waiting)


def text_of(value: Any) -> str:
    """Return anything as JSON, whole."""
    try:
        text = encode(value)
    except (TypeError, ValueError, RecursionError):
        value = jsonable(value)
        text = encode(value)
    return encode(redact(jsonable(value, len(text)))) if suspicious(text) else text


def jsonable(value: Any, longest: int = LONGEST_TEXT, depth: int = 0) -> Any:
    """Return anything as what JSON has; nothing of an unknown object is called."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value) if len(value) <= longest else f"{value[:longest]}… ({len(value):,} characters)"
    if isinstance(value, Enum):
        return jsonable(value.value, longest, depth + 1)
    if isinstance(value, Integral):
        return int(value) if abs(int(value)) < 1 << 64 else None
    if isinstance(value, Real | Decimal):
        return float(value) if isfinite(value) else None
    if isinstance(value, Path):
        return jsonable(str(value), longest)
    if depth > DEEPEST:
        return f"<{type(value).__name__}>"
    if isinstance(value, Mapping):
        return {
            name if isinstance(name, str) else str(jsonable(name)): jsonable(inner, longest, depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [jsonable(inner, longest, depth + 1) for inner in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name), longest, depth + 1) for field in fields(value)}
    return f"<{type(value).__name__}>"


encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=jsonable).encode


class Records:
    """The records of a journal, in order. Iterate over it, or ask ``new`` again and again."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.torn = False
        """The last line has no end: its writer was killed while writing it, or is about to go on."""
        self.damaged = 0
        """Whole lines that are no records."""
        self._position = 0
        self._rest = b""

    def __iter__(self) -> Iterator[Record]:
        yield from self.new()
        if (last := parsed(self._rest)) is not None:  # all of it was written but the line's end
            self._rest, self.torn = b"", False
            yield last

    @property
    def shrunk(self) -> bool:
        """True if the file has lost what was read of it: another one has its name, or it was cut off."""
        try:
            return self.path.stat().st_size < self._position
        except OSError:
            return False

    def new(self) -> Iterator[Record]:
        """Yield what was written since the last call. A file that does not exist yet has no records."""
        try:
            file = open_regular(self.path)
        except FileNotFoundError:
            return
        with file:
            file.seek(self._position)
            while chunk := file.read(CHUNK):
                self._position += len(chunk)
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                self.torn = bool(self._rest)
                for line in lines:
                    if (record := parsed(line)) is not None:
                        yield record
                    elif line.strip():
                        self.damaged += 1
                if len(self._rest) > LONGEST:
                    self._rest = b""
                    self.damaged += 1


def read(path: Path | str) -> Records:
    """Read a journal."""
    return Records(path)


def ending(path: Path) -> Record | None:
    """Return the record of a run's end if it is among the last lines, which alone are read; none if they cannot be."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    records = (record for line in lines[-ENDINGS:] if (record := parsed(line)) is not None)
    return next((record for record in records if record["kind"] == "ended"), None)


def parsed(line: bytes) -> Record | None:
    """Return the record in a line, if it is one. Bytes that are no UTF-8 do not cost the rest of it."""
    if not line:
        return None
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        return None
    moment = record.get("t")
    if not isinstance(moment, int | float) or isinstance(moment, bool) or not abs(moment) < LATEST:  # not: NaN
        return None
    return record
