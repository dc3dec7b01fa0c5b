"""How entries become durable: first the outbox, then the database, then the outbox is emptied.

Whatever happens in between, an entry is in one of the two, and storing it again changes nothing. Used by one thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from scalable.store.database import Database
from scalable.store.entries import Entry
from scalable.store.errors import StoreError
from scalable.store.interface import Damage, Fate, Recovery
from scalable.store.outbox import MIDDLE, Outbox, OutboxError, OutboxHeldError
from scalable.wording import plural

PAUSES_S = (0.05, 0.25)  # between the three tries of a write; waiting for another writer comes on top
GROUP = 1000  # entries of one transaction: enough to make an fsync cheap, few enough not to hold up other writers

logger = logging.getLogger("scalable.store")


class Pipeline:
    """``beside`` is the path that outboxes lie beside and take their names from."""

    def __init__(self, database: Database, beside: Path) -> None:
        self.database = database
        self.beside = beside
        self._left = list(self._find_left())
        self._own: Outbox | None = None

    def write(self, entries: Sequence[Entry]) -> tuple[Fate, str]:
        """What became of the entries, and why they are not in the database."""
        try:
            if entries:
                self._outbox().append(entries)
        except OutboxError as unsafe:
            failure = self._try(entries)
            return (Fate.REFUSED, f"{failure}; {unsafe}") if failure else (Fate.COMMITTED, "")
        if self.waiting > len(entries):
            failure, _ = self._replay()
        else:
            failure = self._try(entries) if entries else ""
            if self._own and not failure:
                self._own.clear()
        return (Fate.KEPT, failure) if failure else (Fate.COMMITTED, "")

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
            self._own = Outbox.new(self.beside)
        return self._own

    def _outboxes(self) -> list[Outbox]:
        return [*self._left, self._own] if self._own else self._left

    def _try(self, entries: Sequence[Entry]) -> str:
        """Write to the database; the reason of the last failure if no try succeeded."""
        failure = ""
        for pause in (None, *PAUSES_S):
            if pause:
                time.sleep(pause)
            try:
                self.database.write(entries)
                return ""
            except StoreError as error:
                failure = str(error)
        return failure

    def _replay(self) -> tuple[str, list[Damage]]:
        """Everything in the outboxes, the oldest first; stops at the first group that is not taken."""
        damaged: list[Damage] = []
        for outbox in list(self._outboxes()):
            here: list[Damage] = []
            try:
                for group in groups(outbox, here):
                    if failure := self._try(group):
                        return failure, damaged
            except OutboxError as error:
                return str(error), damaged
            damaged += here
            self._emptied(outbox, here)
        return "", damaged

    def _emptied(self, outbox: Outbox, damaged: list[Damage]) -> None:
        """Its rows are in the database. Our own is used further, unless it has damaged lines that people must see."""
        if outbox is self._own and not damaged:
            outbox.clear()
            return
        if damaged:
            aside = outbox.set_aside()
            logger.warning("%s; the file is kept as %s", "; ".join(map(str, damaged)), aside)
        else:
            outbox.clear()
            outbox.close()
        if outbox is self._own:
            self._own = None
        else:
            self._left.remove(outbox)


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
