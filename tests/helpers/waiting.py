"""Waiting for something to come true, as long as a loaded machine may need; no test waits for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

LONG_S = 60.0  # nothing that is waited for takes more than some seconds
EVERY_S = 0.01
CLUSTER_S = 90.0  # programs of other makers have to start, notice and end something
ASKED_EVERY_S = 0.05  # since each question starts a program or goes over a connection

Found = TypeVar("Found")


def until(condition: Callable[[], Found], within: float = LONG_S) -> Found:
    """What the condition gave at last: something true, or that which it still gave when time was over."""
    deadline = time.monotonic() + within
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(EVERY_S)
    return found


async def soon(condition: Callable[[], object]) -> None:
    """The same in an event loop, where what waits is part of a scene with a time limit."""
    while not condition():
        await asyncio.sleep(EVERY_S)


def eventually(condition: Callable[[], object], what: Callable[[], str], within: float = CLUSTER_S) -> None:
    """Waits for what a whole cluster has to do, and asks it less often; a failure says what was waited for."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"waited {within:g} s in vain for {what()}"
        time.sleep(ASKED_EVERY_S)
