"""The course of a run in a bounded number of points: workers, queue, rows, memory and money.

``Distribution`` keeps how long many things took, bounded as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import ceil, exp, log
from typing import Any

from scalable.observe.fields import UNTAGGED, count, mapping, money, number

MOST_POINTS = 600  # as many as a chart has room for; when there are more, every other one is dropped
LINES = ("t", "waiting", "running", "memory_share", "cost")

Points = list[tuple[float, float]]


class Series:
    """A point for each gauge of the journal; what was seen between two of them counts to the later one."""

    def __init__(self) -> None:
        self.points: list[dict[str, Any]] = []
        self.latest: dict[str, Any] | None = None
        """The newest one, if it is not among the points: it is shown until the next comes."""
        self.every = 1
        """One of so many gauges becomes a point."""
        self.skipped = 0
        self.share: float | None = None
        """The highest part of its limit that a worker used since the last point."""
        self.rows: Points = []
        """Rows stored since the run began, all sweeps together; told when they come, not with the gauges."""

    def use_memory(self, used: int | None, limit: int | None) -> None:
        if used and limit:
            self.share = max(used / limit, self.share or 0.0)

    def take_rows(self, moment: float, rows: int) -> None:
        self.rows.append((moment, (self.rows[-1][1] if self.rows else 0.0) + rows))
        if len(self.rows) > 2 * MOST_POINTS:
            self.rows[:] = [*self.rows[:-1:2], self.rows[-1]]

    def take_gauge(self, record: Mapping[str, Any]) -> None:
        workers = mapping(record.get("workers"))
        tasks = [mapping(counts) for counts in mapping(record.get("tasks")).values()]
        point = {
            "t": record["t"],
            "live": {tag or UNTAGGED: count(mapping(counts).get("live")) for tag, counts in workers.items()},
            "waiting": sum(count(counts.get("waiting")) for counts in tasks),
            "running": sum(count(counts.get("running")) for counts in tasks),
            "memory_share": round(self.share, 4) if self.share is not None else None,
            "cost": number(mapping(record.get("cost")).get("amount")) if money(record.get("cost")) else None,
        }
        self.skipped += 1
        self.latest = point
        if self.skipped >= self.every or not self.points:
            self.points.append(point)
            self.latest, self.skipped, self.share = None, 0, None
        if len(self.points) > MOST_POINTS - 1:
            self.latest = self.points[-1]
            for dropped, later in zip(self.points[1::2], self.points[2::2], strict=False):
                shares = [point["memory_share"] for point in (dropped, later) if point["memory_share"] is not None]
                later["memory_share"] = max(shares, default=None)
            self.points = self.points[::2]
            self.every *= 2

    def all_points(self) -> list[dict[str, Any]]:
        return [*self.points, *([self.latest] if self.latest else [])]

    def line(self, name: str) -> Points:
        """Return one figure over time."""
        return [(point["t"], float(point[name])) for point in self.all_points()]

    def to_dict(self) -> dict[str, Any]:
        points = self.all_points()
        tags = dict.fromkeys(tag for point in points for tag in point["live"])
        lines = {name: [point[name] for point in points] for name in LINES}
        return {**lines, "live": {tag: [point["live"].get(tag, 0) for point in points] for tag in tags}}


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
        """Return the value that ``share`` of all values do not exceed."""
        if not self.count:
            return None
        return next(self._at([max(1, ceil(share * self.count))]))

    def sample(self, most: int = EXACT) -> list[float]:
        """Return at most so many values that stand for all of them, from small to large."""
        size = min(most, self.count)
        return list(self._at([max(1, ceil((place + 0.5) * self.count / size)) for place in range(size)]))

    def _at(self, ranks: list[int]) -> Iterator[float]:
        """Yield the values with these ranks, which rise and count from 1."""
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
