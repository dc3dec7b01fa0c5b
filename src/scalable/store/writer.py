"""The way of entries to disk: first the outbox, then the database, then the outbox is emptied.

Whatever happens in between, an entry is in one of the two, and storing it again changes nothing. What the database
refuses for good becomes a dead letter, and holds up nothing else. One thread writes for all: what arrives while it is
busy is written together, for one fsync instead of many.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from scalable.store.database import Database
from scalable.store.dead_letters import DeadLetters, letter_of
from scalable.store.errors import RefusedError, StoreError
from scalable.store.interface import Damage, Fate, Receipt, Recovery
from scalable.store.outbox import MIDDLE, Entry, Outbox, OutboxError, OutboxHeldError, same_device, spares
from scalable.wording import plural

PAUSES_S = (0.05, 0.25)  # between the three tries of a write; waiting for another writer comes on top
TRIES = len(PAUSES_S) + 1
GROUP = 1000  # entries of one transaction: enough to make an fsync cheap, few enough not to hold up other writers

logger = logging.getLogger("scalable.store")


class Writing(NamedTuple):
    entries: Sequence[Entry]
    receipt: Future[Receipt]


class Writer:
    """The thread that writes, started with the first job. It asks the database again while rows wait in the outbox."""

    def __init__(self, pipeline: Pipeline, ask_again_s: float) -> None:
        self.pipeline = pipeline
        self.ask_again_s = ask_again_s
        self._jobs: deque[Writing] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def submit(self, entries: Sequence[Entry]) -> Future[Receipt]:
        job = Writing(entries, Future())
        job.receipt.set_running_or_notify_cancel()  # a caller that gives up waiting must not undo the writing
        with self._changed:
            if self._closing:
                raise StoreError("the store is closed; open it again to write to it")
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="scalable-store", daemon=True)
                self._thread.start()
            self._changed.notify()
        return job.receipt

    def close(self) -> None:
        """Return when everything submitted is written."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while (jobs := self._next()) is not None:
            try:
                written = self.pipeline.write([entry for job in jobs for entry in job.entries])
            except BaseException as error:  # noqa: BLE001  whoever waits must hear of it, and others may go on
                for job in jobs:
                    job.receipt.set_exception(error)
                continue
            for job in jobs:
                job.receipt.set_result(receipt(job, written))

    def _next(self) -> list[Writing] | None:
        """Return the jobs of one group; none when it is time to ask the database again; None at the end."""
        with self._changed:
            patience = self.ask_again_s if self.pipeline.waiting else None
            self._changed.wait_for(lambda: self._jobs or self._closing, patience)
            if self._closing and not self._jobs:
                return None
            jobs: list[Writing] = []
            size = 0
            while self._jobs and (not jobs or size + len(self._jobs[0].entries) <= GROUP):
                jobs.append(self._jobs.popleft())
                size += len(jobs[-1].entries)
            return jobs


def receipt(job: Writing, written: Written) -> Receipt:
    """Return what became of the entries of one job, of those of a group."""
    dead = [reason for entry in job.entries if (reason := written.dead.get(entry.identity))] if written.dead else []
    if dead and written.fate is Fate.COMMITTED:
        return Receipt(Fate.SET_ASIDE, len(job.entries), dead[0], len(dead))
    return Receipt(written.fate, len(job.entries), written.reason, len(dead), written.kept_in)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing a group of entries."""

    fate: Fate
    reason: str = ""
    """Why they are not in the database."""
    kept_in: str = ""
    """The outbox they are in, if that is where they are."""
    dead: dict[Any, str] = field(default_factory=dict)
    """Identities of entries that are dead letters now, with the reasons."""


class Pipeline:
    """The way from the outbox to the database. Outboxes lie beside the path ``beside`` and are named after it.

    Where that disk is full, another one is used; whoever opens the store next looks there, too.
    """

    def __init__(self, database: Database, beside: Path) -> None:
        self.database = database
        self.beside = beside
        self.letters = DeadLetters(database, beside)
        self._dead: dict[Any, str] = {}
        self._left = list(self._find_left())
        self._own: dict[Path, Outbox] = {}
        """By the path that they lie beside."""

    def write(self, entries: Sequence[Entry]) -> Written:
        self._dead = {}
        outbox = None
        try:
            if entries:
                outbox = self._append(entries)
        except OutboxError as unsafe:
            failure = self._store(entries)
            fate = Fate.REFUSED if failure else Fate.COMMITTED
            return Written(fate, failure and f"{failure}; {unsafe}", dead=self._dead)
        if self.waiting > len(entries):
            failure, _ = self._replay()
        else:
            failure = self._store(entries) if entries else ""
            if outbox and not failure:
                outbox.clear()
        if not failure:
            return Written(Fate.COMMITTED, dead=self._dead)
        return Written(Fate.KEPT, failure, str(outbox.path) if outbox else "", self._dead)

    def _places(self) -> Iterator[Path]:
        """Yield the paths that outboxes may lie beside, the usual one first; others are made only if it fails."""
        yield self.beside
        yield from spares(self.beside, make=True)

    def _append(self, entries: Sequence[Entry]) -> Outbox:
        """Make entries durable in the first outbox that takes them."""
        failure = None
        for beside in self._places():
            if failure is not None and same_device(beside.parent, self.beside.parent):
                continue
            try:
                outbox = self._outbox(beside)
                outbox.append(entries)
                return outbox
            except OutboxError as error:
                failure = failure or error
        assert failure is not None
        raise failure

    @property
    def waiting(self) -> int:
        """Entries in outboxes."""
        return sum(outbox.waiting for outbox in self._outboxes())

    def recover(self) -> Recovery:
        """Move what others left behind into the database."""
        waiting = self.waiting
        reason, damaged = self._replay()
        return Recovery(waiting - len(damaged), tuple(damaged), reason)

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
        for path in [path for beside in (self.beside, *spares(self.beside)) for path in Outbox.beside(beside)]:
            try:
                yield Outbox(path)
            except OutboxHeldError:
                continue
            except OutboxError as error:
                logger.warning("rows of an earlier process stay where they are: %s", error)

    def _outbox(self, beside: Path) -> Outbox:
        if beside not in self._own:
            try:
                beside.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutboxError(f"outbox folder {beside.parent} cannot be made: {error.strerror}") from None
            self._own[beside] = Outbox.new(beside)
        return self._own[beside]

    def _outboxes(self) -> list[Outbox]:
        return [*self._left, *self._own.values()]

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
        logger.warning("%s became dead letter %s: %s", entry.key[1], letter.id, reason)
        return ""

    def _replay(self) -> tuple[str, list[Damage]]:
        """Write everything in the outboxes, the oldest first; stop at the first group that is not taken."""
        damaged: list[Damage] = []
        for outbox in list(self._outboxes()):
            unreadable: list[Damage] = []
            try:
                for group in groups(outbox, unreadable):
                    if failure := self._store(group):
                        return failure, damaged
            except OutboxError as error:
                return str(error), damaged
            damaged += unreadable
            self._emptied(outbox, unreadable)
        return "", damaged

    def _emptied(self, outbox: Outbox, damaged: list[Damage]) -> None:
        """Empty an outbox: its rows are in the database, unreadable lines are dead letters. Our own is used further."""
        where = ""
        if damaged:
            where = self._kept(damaged)
            logger.warning("%s; %s", "; ".join(map(str, damaged)), where or "see  scalable admin dlq list")
        if not where:
            outbox.clear()
            if outbox in self._own.values():
                return
            outbox.close()
        else:
            outbox.set_aside()
        self._own = {beside: own for beside, own in self._own.items() if own is not outbox}
        self._left = [left for left in self._left if left is not outbox]

    def _kept(self, damaged: list[Damage]) -> str:
        """Make dead letters of lines; where else they are if that cannot be done."""
        try:
            self.letters.add([letter_of(each, str(each), 1, time.time()) for each in damaged])
        except StoreError as error:
            return f"{error}; the file is kept with the ending .damaged"
        return ""


def groups(outbox: Outbox, damaged: list[Damage]) -> Iterator[list[Entry]]:
    """Yield the entries of an outbox in groups; lines that cannot be read are put into ``damaged``."""

    def readable() -> Iterator[Entry]:
        for entry in outbox.read():
            if isinstance(entry, Damage):
                damaged.append(entry)
            else:
                yield entry

    entries = readable()
    while group := list(islice(entries, GROUP)):
        yield group
