"""The dead-letter queue: what a database refuses for good is kept in a table of it, or beside the outboxes if need be.

A letter is known by its content: set aside again, after a crash or by another process, it is one letter with more
tries.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from scalable.store.database import Database
from scalable.store.errors import RefusedError, StoreError
from scalable.store.interface import Damage, DeadLetter, ReplayOutcome
from scalable.store.outbox import Entry, sync_folder
from scalable.store.rows import digest, storable
from scalable.store.tables import letters
from scalable.wording import undefined

ENDING = "-dead-letters.jsonl"
LINE = "line"
ID_LENGTH = 16  # hexadecimal digits


def letter_of(source: Entry | Damage, reason: str, tries: int, now: float) -> DeadLetter:
    """Make a letter; ``tries`` is how often it was refused."""
    if isinstance(source, Damage):
        kind, text, same = LINE, source.content, source.content
    else:
        kind, text, same = source.kind, source.to_line().decode("ascii").rstrip("\n"), source.digest
    return DeadLetter(digest(f"{kind} {same}")[:ID_LENGTH], now, storable(reason), tries, kind, text)


class DeadLetters:
    """``beside`` is the path that outboxes lie beside."""

    def __init__(self, database: Database, beside: Path) -> None:
        self.database = database
        self.file = LetterFile(beside.with_name(beside.name + ENDING))

    def add(self, new: Sequence[DeadLetter]) -> None:
        """Keep the letters; StoreError if neither database nor file takes them."""
        try:
            self._add_to_table(new)
        except StoreError as refused:
            try:
                self.file.change(add=new)
            except OSError as error:
                raise StoreError(f"{refused}; {self.file.path} cannot be written: {error.strerror}") from None

    def list(self) -> Sequence[DeadLetter]:
        """Return the letters, the oldest first."""
        columns = [letters.c[name] for name in DeadLetter.__slots__]
        with self.database.reading() as connection:
            by_id = {each.id: DeadLetter(*each) for each in connection.execute(select(*columns))}
        for letter in self.file.read():
            there = by_id.get(letter.id)
            by_id[letter.id] = replace(letter, tries=letter.tries + there.tries) if there else letter
        return sorted(by_id.values(), key=lambda letter: (letter.written_at, letter.id))

    def chosen(self, ids: Collection[str] | None) -> Sequence[DeadLetter]:
        every = self.list()
        if ids is None:
            return every
        known = {letter.id for letter in every}
        if unknown := [each for each in ids if each not in known]:
            raise StoreError(undefined("dead letter", unknown[0], known))
        return [letter for letter in every if letter.id in ids]

    def replay(self, ids: Collection[str] | None) -> ReplayOutcome:
        replayed: list[DeadLetter] = []
        left: list[DeadLetter] = []
        for letter in self.chosen(ids):
            try:
                self.database.write([Entry.from_line(letter.content.encode("ascii", "backslashreplace"))])
            except (ValueError, RefusedError) as error:  # it is unreadable, or refused again
                left.append(replace(letter, reason=storable(str(error)), tries=letter.tries + 1))
                self.add([replace(left[-1], tries=1)])
            except StoreError as error:
                return ReplayOutcome(len(replayed), tuple(left), str(error))
            else:
                self.drop([letter.id])
                replayed.append(letter)
        return ReplayOutcome(len(replayed), tuple(left))

    def drop(self, ids: Collection[str] | None) -> int:
        dropped = self.chosen(ids)
        gone = [letter.id for letter in dropped]
        with self.database.writing() as connection:
            for each in gone:
                connection.execute(delete(letters).where(letters.c.id == each))
        if gone and self.file.path.exists():
            try:
                self.file.change(drop=gone)
            except OSError as error:
                raise StoreError(f"{self.file.path} cannot be written: {error.strerror}") from None
        return len(gone)

    def _add_to_table(self, new: Sequence[DeadLetter]) -> None:
        insert = sqlite.insert if self.database.engine.dialect.name == "sqlite" else postgresql.insert
        statement = insert(letters)
        excluded = statement.excluded
        statement = statement.on_conflict_do_update(
            index_elements=[letters.c.id], set_={"reason": excluded.reason, "tries": letters.c.tries + excluded.tries}
        )
        with self.database.writing() as connection:
            for letter in new:
                connection.execute(statement, asdict(letter))


class LetterFile:
    """The file of letters that the database does not take even as letters. One line of JSON each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Iterator[DeadLetter]:
        try:
            text = self.path.read_text(encoding="ascii", errors="replace")
        except OSError:
            return
        for line in text.splitlines():
            try:
                yield DeadLetter(**json.loads(line))
            except (ValueError, TypeError):  # the torn end of a process that was killed while it wrote
                continue

    def change(self, add: Sequence[DeadLetter] = (), drop: Collection[str] = ()) -> None:
        """Write a new file beside the old one and put it in its place, alone."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._alone():
            kept = {letter.id: letter for letter in self.read() if letter.id not in drop}
            for letter in add:
                tries = letter.tries + (kept[letter.id].tries if letter.id in kept else 0)
                kept[letter.id] = replace(letter, tries=tries)
            new = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            with new.open("w", encoding="ascii") as file:
                file.writelines(json.dumps(asdict(letter)) + "\n" for letter in kept.values())
                file.flush()
                os.fsync(file.fileno())
            if kept:
                new.replace(self.path)
            else:
                new.unlink()
                self.path.unlink(missing_ok=True)
            sync_folder(self.path.parent)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)
