"""The driver's clock: it stands still while the driver does.

A laptop that was closed, a machine that was frozen or a driver that was held up for minutes has heard nothing of its
runs meanwhile; that time must not be held against them.
"""

from __future__ import annotations

from collections.abc import Callable

from scalable.stuck import LONGEST_GAP_S


class SteadyClock:
    def __init__(self, source: Callable[[], float]) -> None:
        self.source = source
        self.last = source()
        self.elapsed = 0.0

    def __call__(self) -> float:
        """Seconds since it was made, without those in which nobody looked."""
        now = self.source()
        self.elapsed += min(max(0.0, now - self.last), LONGEST_GAP_S)
        self.last = now
        return self.elapsed
