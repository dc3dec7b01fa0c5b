"""How entries become durable: first the outbox, then the database, then the outbox is emptied.

Whatever happens in between, an entry is in one of the two, and storing it again changes nothing. What the database
refuses for good becomes a dead letter, and holds up nothing else. Used by one thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from scalable.store.database import Database
from scalable.store.entries import Entry
from scalable.store.errors import RefusedError, StoreError
from scalable.store.interface import Damage, Fate, Recovery
from scalable.store.letters import DeadLetters, letter_of
from scalable.store.outbox import MIDDLE, Outbox, OutboxError, OutboxHeldError
from scalable.wording import plural

PAUSES_S = (0.05, 0.25)  # between the three tries of a write; waiting for another writer comes on top
TRIES = len(PAUSES_S) + 1
GROUP = 1000  # entries of one transaction: enough to make an fsync cheap, few enough not to hold up other writers

logger = logging.getLogger("scalable.store")


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a group of entries."""

    fate: Fate
    reason: str = ""
    """Why they are not in the database."""
    dead: dict[Any, str] = field(default_factory=dict)
    """Identities of entries that are dead letters now, with the reasons."""


class Pipeline:
    """``beside`` is the path that outboxes lie beside and take their names from."""

    def __init__(self, database: Database, beside: Path) -> None:
        self.database = database
        self.beside = beside
        self.letters = DeadLetters(database, beside)
        self._dead: dict[Any, str] = {}
        self._left = list(self._find_left())
        self._own: Outbox | None = None

    def write(self, entries: Sequence[Entry]) -> Written:
        self._dead = {}
        try:
            if entries:
                self._outbox().append(entries)
        except OutboxError as unsafe:
            failure = self._store(entries)
            return Written(Fate.REFUSED if failure else Fate.COMMITTED, failure and f"{failure}; {unsafe}", self._dead)
        if self.waiting > len(entries):
            failure, _ = self._replay()
        else:
            failure = self._store(entries) if entries else ""
            if self._own and not failure:
                self._own.clear()
        return Written(Fate.KEPT if failure else Fate.COMMITTED, failure, self._dead)

    @property
    def waiting(self) -> int:
        """Entries in outboxes."""
        return sum(outbox.waiting for outbox in self._outboxes())

    def recover(self) -> Recovery:
        """Move what others left behind into the database."""
        found = self.waiting
        reason, damaged = self._replay()
        return Recovery(found - len(damaged), tuple(damaged), reason)

    def close(self) -> None:
        if self.waiting:
            failure, _ = self._replay()
            if failure:
                logger.warning(
                    "%s in %s*: %s", plural(self.waiting, "unwritten row"), f"{self.beside}{MIDDLE}", failure
                )
        for outbox in self._outboxes():
            outbox.close()

    def _find_left(self) -> Iterator[Outbox]:
        for path in Outbox.beside(self.beside):
            try:
                yield Outbox(path)
            except OutboxHeldError:
                continue
            except OutboxError as error:
                logger.warning("rows of an earlier process stay where they are: %s", error)

    def _outbox(self) -> Outbox:
        if self._own is None:
            try:
                self.beside.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutboxError(f"outbox folder {self.beside.parent} cannot be made: {error.strerror}") from None
            self._own = Outbox.new(self.beside)
        return self._own

    def _outboxes(self) -> list[Outbox]:
        return [*self._left, self._own] if self._own else self._left

    def _store(self, entries: Sequence[Entry], tries: int = 0) -> str:
        """Write to the database, what it refuses to the dead letters; why that failed, if no try succeeded.

        ``tries`` is how often all of these were refused before. A refused group is halved until it is found who is to
        blame: the others are stored.
        """
        failure = ""
        for pause in (None, *PAUSES_S):
            if pause:
                time.sleep(pause)
            try:
                self.database.write(entries)
                return ""
            except RefusedError as error:
                tries += 1
                failure = str(error)
                if len(entries) > 1:
                    middle = len(entries) // 2
                    return self._store(entries[:middle], tries) or self._store(entries[middle:], tries)
                if tries >= TRIES:
                    return self._bury(entries[0], failure, tries)
            except StoreError as error:
                failure = str(error)
        return failure

    def _bury(self, entry: Entry, reason: str, tries: int) -> str:
        """Make the entry a dead letter; why that failed."""
        letter = letter_of(entry, reason, tries, time.time())
        try:
            self.letters.add([letter])
        except StoreError as error:
            return str(error)
        self._dead[entry.identity] = reason
        logger.warning("%s became dead letter %s: %s", entry.place[1], letter.id, reason)
        return ""

    def _replay(self) -> tuple[str, list[Damage]]:
        """Everything in the outboxes, the oldest first; stops at the first group that is not taken."""
        damaged: list[Damage] = []
        for outbox in list(self._outboxes()):
            here: list[Damage] = []
            try:
                for group in groups(outbox, here):
                    if failure := self._store(group):
                        return failure, damaged
            except OutboxError as error:
                return str(error), damaged
            damaged += here
            self._emptied(outbox, here)
        return "", damaged

    def _emptied(self, outbox: Outbox, damaged: list[Damage]) -> None:
        """Its rows are in the database, and lines that cannot be read are dead letters. Our own is used further."""
        where = ""
        if damaged:
            where = self._kept(damaged)
            logger.warning("%s; %s", "; ".join(map(str, damaged)), where or "see  scalable dlq list")
        if not where:
            outbox.clear()
            if outbox is self._own:
                return
            outbox.close()
        else:
            outbox.set_aside()
        if outbox is self._own:
            self._own = None
        else:
            self._left.remove(outbox)

    def _kept(self, damaged: list[Damage]) -> str:
        """Make dead letters of lines; where else they are if that cannot be done."""
        try:
            self.letters.add([letter_of(each, str(each), 1, time.time()) for each in damaged])
        except StoreError as error:
            return f"{error}; the file is kept with the ending .damaged"
        return ""


def groups(outbox: Outbox, damaged: list[Damage]) -> Iterator[list[Entry]]:
    """The entries of an outbox in groups; lines that cannot be read are put into ``damaged``."""

    def readable() -> Iterator[Entry]:
        for found in outbox.read():
            if isinstance(found, Damage):
                damaged.append(found)
            else:
                yield found

    entries = readable()
    while group := list(islice(entries, GROUP)):
        yield group
