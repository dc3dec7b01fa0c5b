"""How a run went over time, in a bounded number of points: workers, queue, memory and money."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable.observe.fields import UNTAGGED, count, mapping, memory, money, number

MOST_POINTS = 600  # as many as a chart has room for; when there are more, every other one is dropped


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

    def add(self, record: Mapping[str, Any], limit: int | None) -> None:
        """``limit`` is the memory of a worker of the record's tag."""
        if record["kind"] == "progress":
            self.use(memory(record.get("memory")), limit)
        elif record["kind"] == "gauge":
            self.take_gauge(record)

    def use(self, used: int | None, limit: int | None) -> None:
        if used and limit:
            self.share = max(used / limit, self.share or 0.0)

    def take_gauge(self, record: Mapping[str, Any]) -> None:
        workers = mapping(record.get("workers"))
        tasks = [mapping(told) for told in mapping(record.get("tasks")).values()]
        point = {
            "t": record["t"],
            "live": {tag or UNTAGGED: count(mapping(told).get("live")) for tag, told in workers.items()},
            "waiting": sum(count(told.get("waiting")) for told in tasks),
            "running": sum(count(told.get("running")) for told in tasks),
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
                shares = [one["memory_share"] for one in (dropped, later) if one["memory_share"] is not None]
                later["memory_share"] = max(shares, default=None)
            self.points = self.points[::2]
            self.every *= 2

    def to_dict(self) -> dict[str, Any]:
        points = [*self.points, *([self.latest] if self.latest else [])]
        tags = dict.fromkeys(tag for point in points for tag in point["live"])
        lines = {name: [point[name] for point in points] for name in LINES}
        return {**lines, "live": {tag: [point["live"].get(tag, 0) for point in points] for tag in tags}}


LINES = ("t", "waiting", "running", "memory_share", "cost")
