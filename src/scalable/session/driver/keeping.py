"""The driver's records in a store: the attempts of jobs, counted, and rows that wait for room.

Whoever starts a driver again goes on counting attempts where the last one died. An attempt that a worker begins at once
is noted before the worker is given it. One that waits on its worker behind others, as short ones do, is noted when it
is seen to have begun: a driver that dies charges nothing that never ran. A result needs no further note, since the row
that is written closes all attempts up to its own.

While a store has no room for rows, nothing more is started. What neither the database nor a disk takes is in this
process's memory only. It is given to the store again every second; after ``STORE_WAIT_S`` nobody waits any longer, and
whoever computes is told so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from scalable.engine.ending import UNCHARGED
from scalable.engine.events import Paused
from scalable.store import AttemptRow, Receipt, Row, Store, StoreError
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.session.driver.driver import Driver
    from scalable.session.sweep.sharing import Sharing

NOTE_WITHIN_S = 10.0  # after which a job is handed over all the same: a database that hangs must not hold up workers
FREE = frozenset(cause.value for cause in UNCHARGED)
STORE_WAIT_S = 300.0  # how long a store is waited for that does not answer or has no room: a restart, another writer
ASK_STORE_EVERY_S = 1.0
GIVEN_UP = "the store is not waited for any longer"
NOTHING_YET = "nothing is computed that it could not keep"
logger = logging.getLogger("scalable")


class AttemptLedger:
    """``keys`` are the rows that may be computed, ``before`` what the store has of them.

    Attempts of ``living`` runs that have no end are under way, and count against nobody.
    """

    def __init__(
        self, store: Store, run_id: str, keys: Iterable[str], before: Mapping[str, Row], living: Container[str] = ()
    ) -> None:
        self.store = store
        self.run_id = run_id
        self.rows: dict[str, tuple[str, ...]] = {}
        """By job: the keys of its rows."""
        self.keeping: Keeping | None = None
        """Waits while the store has no room, so that nothing is begun."""
        self.closed = {key: row.attempt for key, row in before.items()}
        """By row: the attempts that led to what the store has of it."""
        self.made: dict[str, int] = {}
        """By row: attempts before this driver, with those that led to nothing."""
        self.used: dict[str, int] = {}
        """By row: how many of those that led to nothing count against the retry policy."""
        self.sharing: Sharing | None = None
        """Leases the jobs of a sweep, so that no other run computes them, too."""
        self.read(keys, living)

    def read(self, keys: Iterable[str], living: Container[str]) -> None:
        """Read from the store what other runs have tried for these rows."""
        for key, attempts in self.store.attempts(keys).items():
            later = [each for each in attempts if each.attempt > self.closed.get(key, 0) and each.run_id != self.run_id]
            charged = [each for each in later if not (unended(each) and each.run_id in living)]
            self.made[key] = max((attempt.attempt for attempt in later), default=0)
            self.used[key] = sum(attempt.cause not in FREE for attempt in charged)

    def charged(self, keys: Iterable[str]) -> int:
        """Return how many attempts at a job with these rows count, and were made by drivers that are gone."""
        return max((self.used.get(key, 0) for key in keys), default=0)

    def number(self, key: str, tries: int) -> int:
        """Return the number of a row's attempt, after so many tries of this driver."""
        return max(self.closed.get(key, 0), self.made.get(key, 0)) + tries

    def final(self, key: str, tries: int) -> int:
        """Return the attempt of a row that is written after so many tries of this driver: later than what is there."""
        return max(self.number(key, tries), self.closed.get(key, 0) + 1)

    async def begin(self, job: str, past: int, started: float) -> None:
        """Note an attempt, and return when no crash can lose the note."""
        with suppress(StoreError):  # the session is being closed
            noted = asyncio.wrap_future(self.note(job, past, started))
            await asyncio.wait({noted}, timeout=NOTE_WITHIN_S)
            if self.keeping is not None and noted.done() and not noted.result().safe:
                await self.keeping.put(lambda: self.note(job, past, started))

    def note(self, job: str, past: int, started: float, cause: str | None = None) -> Future[Receipt]:
        """Note that an attempt began or, with a cause, how it ended; ``past`` counts those of this driver before it."""
        ended = time.time() if cause else None
        return self.store.submit_attempts(
            AttemptRow(
                run_key=key, attempt=self.number(key, past + 1), run_id=self.run_id, started=started, ended=ended,
                cause=cause,
            )
            for key in self.rows[job]
        )  # fmt: skip

    def noted(self, job: str, past: int, started: float, cause: str | None = None) -> None:
        """Note without waiting; a store that was closed meanwhile is not told."""
        with suppress(StoreError):
            self.note(job, past, started, cause)


class Keeping:
    """``give_up`` is called once when the store was waited for in vain."""

    def __init__(self, driver: Driver, give_up: Callable[[], None]) -> None:
        self.driver = driver
        self.give_up = give_up
        self.in_memory: dict[int, int] = {}
        """How many rows each of those has that wait for room."""
        self.since = 0.0
        """Since when there is no room."""
        self.over = False
        """Nobody waits for room any more."""

    async def put(self, submit: Callable[[], Future[Receipt]], rows: int = 0) -> Receipt:
        """Hand something over until the store has it, and return where it is; ``rows`` counts those it has."""
        waiting = id(submit)
        try:
            while True:
                receipt = await asyncio.wrap_future(submit())
                if receipt.safe or self.over:
                    return receipt
                self.refused(waiting, rows, receipt.reason)
                await asyncio.sleep(ASK_STORE_EVERY_S)
        finally:
            if self.in_memory.pop(waiting, None) is not None and not self.in_memory:
                self.driver.halt(self.key, None)
                logger.warning("%s", GIVEN_UP if self.over else "the store has room again; the run goes on")

    @property
    def key(self) -> str:
        """On whose behalf nothing is started: one store that has room does not speak for another."""
        return f"store {id(self)}"

    def refused(self, waiting: int, rows: int, reason: str) -> None:
        """Start nothing more, and say where the rows are; give up after a while."""
        if not self.in_memory:
            self.since = time.monotonic()
        self.in_memory[waiting] = rows
        text = self.text(reason)
        if len(self.in_memory) == 1 and self.key not in self.driver.halts:
            logger.warning("%s", text)
        self.driver.halt(self.key, Paused(text))
        self.driver.store_trouble(text)
        if time.monotonic() - self.since >= STORE_WAIT_S and not self.over:
            self.over = True
            self.give_up()

    def text(self, reason: str) -> str:
        held = sum(self.in_memory.values())
        where = f"{plural(held, 'computed row')} only in this process's memory, do not stop it" if held else NOTHING_YET
        return f"nothing more is started: {where}; {reason}"


def unended(attempt: AttemptRow) -> bool:
    """Tell whether nobody noted an attempt's end: it is under way, or died with its driver."""
    return attempt.cause is None and attempt.ended is None
