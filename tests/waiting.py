"""Waiting for something to come true, as long as a loaded machine may need; no test waits for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LONG_S = 60.0  # nothing that is waited for takes more than some seconds
EVERY_S = 0.01

Found = TypeVar("Found")


def until(condition: Callable[[], Found], within: float = LONG_S) -> Found:
    """What the condition gave at last: something true, or that which it still gave when time was over."""
    deadline = time.monotonic() + within
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(EVERY_S)
    return found
