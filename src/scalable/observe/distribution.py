"""Durations in bounded memory: exact while they are few, then counted in steps of two per cent.

The result depends on the values only, not on their order, and is never off by more than a per cent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil, exp, log

STEP = log(1.02)
EXACT = 200  # values that are kept as they are; as many as the history remembers
SHORTEST_S = 1e-6


class Distribution:
    """Positive numbers and their quantiles."""

    __slots__ = ("_few", "_micros", "_steps", "count")

    def __init__(self) -> None:
        self.count = 0
        self._micros = 0
        self._few: list[float] | None = []
        self._steps: Counter[int] = Counter()

    def add(self, value: float) -> None:
        value = max(value, SHORTEST_S)
        self.count += 1
        self._micros += round(value * 1e6)  # whole numbers add up to the same in any order
        self._steps[round(log(value) / STEP)] += 1
        if self._few is not None:
            self._few.append(value)
            if len(self._few) > EXACT:
                self._few = None

    @property
    def total(self) -> float:
        return self._micros / 1e6

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """The value that ``share`` of all values do not exceed."""
        if not self.count:
            return None
        return next(self._at([max(1, ceil(share * self.count))]))

    def sample(self, most: int = EXACT) -> list[float]:
        """At most so many values that stand for all of them, from small to large."""
        size = min(most, self.count)
        return list(self._at([max(1, ceil((place + 0.5) * self.count / size)) for place in range(size)]))

    def _at(self, ranks: list[int]) -> Iterator[float]:
        """The values with these ranks, which rise and count from 1."""
        if self._few is not None:
            ordered = sorted(self._few)
            yield from (ordered[rank - 1] for rank in ranks)
            return
        steps = iter(sorted(self._steps.items()))
        step, seen = next(steps)
        for rank in ranks:
            while seen < rank:
                step, more = next(steps)
                seen += more
            yield exp(step * STEP)
