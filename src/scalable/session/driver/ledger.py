"""The attempts of jobs, counted in the store: whoever starts a driver again goes on counting where the last one died.

An attempt that a worker begins at once is noted before the worker is given it. One that waits on its worker behind
others, as short ones do, is noted when it is seen to have begun: a driver that dies charges nothing that never ran. A
result needs no further note, since the row that is written closes all attempts up to its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from scalable.engine.ending import UNCHARGED
from scalable.store import AttemptRow, Receipt, Row, Store, StoreError

if TYPE_CHECKING:
    from scalable.session.driver.keeping import Keeping

NOTE_WITHIN_S = 10.0  # after which a job is handed over all the same: a database that hangs must not hold up workers
FREE = frozenset(cause.value for cause in UNCHARGED)


class Ledger:
    """``keys`` are the rows that may be computed, ``before`` what the store has of them."""

    def __init__(self, store: Store, run_id: str, keys: Iterable[str], before: Mapping[str, Row]) -> None:
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
        for key, attempts in store.attempts(keys).items():
            later = [attempt for attempt in attempts if attempt.attempt > self.closed.get(key, 0)]
            self.made[key] = max((attempt.attempt for attempt in later), default=0)
            self.used[key] = sum(attempt.cause not in FREE for attempt in later)

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
