"""Reads journals back, also while they are written, and also those whose writer was killed in the middle of a line.

Only whole records come out: a JSON object with a time ``t`` and a ``kind``. What is not one is counted, never raised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scalable.observe.files import open_regular

Record = dict[str, Any]

CHUNK = 1 << 20  # bytes read at once
LATEST = 1e12  # seconds; no clock shows such a time
LONGEST = 1 << 26  # bytes without an end of line that may still become a record
ENDINGS = 20  # lines among which that of the end is: others may write what they had under way
TAIL = 1 << 16  # bytes at the end of a journal in which its last records are looked for


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
        """Whether the file has lost what was read of it: another one has its name, or it was cut off."""
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
