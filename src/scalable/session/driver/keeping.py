"""Rows on their way into a store that may have no room for them: nothing more is started until it has.

What neither the database nor a disk takes is in this process's memory only. It is given to the store again every
second; after ``STORE_WAIT_S`` nobody waits any longer, and whoever computes is told so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from scalable.engine.events import Paused
from scalable.store import Receipt
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.session.driver.driver import Driver

STORE_WAIT_S = 300.0  # how long a store is waited for that does not answer or has no room: a restart, another writer
ASK_STORE_EVERY_S = 1.0
GIVEN_UP = "the store is not waited for any longer"
NOTHING_YET = "nothing is computed that it could not keep"

logger = logging.getLogger("scalable")


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
        text = self.told(reason)
        if len(self.in_memory) == 1 and self.key not in self.driver.halts:
            logger.warning("%s", text)
        self.driver.halt(self.key, Paused(text))
        self.driver.store_trouble(text)
        if time.monotonic() - self.since >= STORE_WAIT_S and not self.over:
            self.over = True
            self.give_up()

    def told(self, reason: str) -> str:
        held = sum(self.in_memory.values())
        where = f"{plural(held, 'computed row')} only in this process's memory, do not stop it" if held else NOTHING_YET
        return f"nothing more is started: {where}; {reason}"
