"""A record on its way into the store: the line it is in the outbox, and which of two with one key is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from scalable.store.incidents import IncidentRow
from scalable.store.plain import from_json
from scalable.store.rows import Row, SweepRun, content, digest

Stored = Row | SweepRun | IncidentRow
KINDS: dict[str, type[Row] | type[SweepRun] | type[IncidentRow]] = {
    "row": Row,
    "sweep": SweepRun,
    "incident": IncidentRow,
}
WORDS = {kind: word for word, kind in KINDS.items()}
HEAD = len('{"sum":"01234567",')


@dataclass(frozen=True, slots=True)
class Entry:
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
    def place(self) -> tuple[type[Stored], str]:
        """Two entries with one place are one row of the store."""
        return type(self.record), self.record.run_key if isinstance(self.record, Row) else self.record.id

    @property
    def identity(self) -> tuple[type[Stored], str, str]:
        """The same for an entry that was written and read again, and for no other content."""
        return (*self.place, self.digest)

    @property
    def rank(self) -> tuple[float, int, bool, str]:
        """Of two entries with one place the higher rank is kept.

        Failed rows come first, then per attempt its result and above that the mark that it does not count.
        """
        if isinstance(self.record, Row):
            row = self.record
            return row.finished or row.marked, row.attempt, row.marked, self.digest
        if isinstance(self.record, SweepRun):
            return -1 if self.record.ended is None else self.record.ended, 0, False, self.digest
        return self.written_at, 0, False, self.digest

    def to_line(self) -> bytes:
        fence = "" if self.token is None else f'"token":{self.token},'
        body = f'"at":{self.written_at!r},{fence}"{self.kind}":{self.text}}}'.encode("ascii")
        return b'{"sum":"%08x",%s\n' % (crc32(body), body)

    @classmethod
    def from_line(cls, line: bytes) -> Entry:
        """The entry written as this line; ValueError says what is wrong with it."""
        body = line[HEAD:].rstrip(b"\n")
        if line[:HEAD] != b'{"sum":"%08x",' % crc32(body):
            raise ValueError("the checksum does not match")
        text = (b"{" + body).decode("ascii")
        found = from_json(text)
        try:
            written_at = found.pop("at")
            token = found.pop("token", None)
            [(kind, values)] = found.items()
            return cls.of(KINDS[kind].from_dict(values), written_at, token)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it was written by another version of scalable ({error})") from None


def merged(entries: Iterable[Entry]) -> list[Entry]:
    """One entry per place, in the order the places first came."""
    kept: dict[tuple[Any, str], Entry] = {}
    for entry in entries:
        place = entry.place
        if place not in kept or kept[place].rank < entry.rank:
            kept[place] = entry
    return list(kept.values())
