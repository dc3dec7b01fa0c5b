"""What a worker measures: itself with all it has started, and its machine, by the clock it is given."""

from __future__ import annotations


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now
