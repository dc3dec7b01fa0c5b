"""What a run's journal says of its sweeps: rows expected, there and computed, units done, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.telemetry.fields import count, mapping, text


@dataclass
class SweepProgress:
    """One sweep of a run."""

    sweep: str
    factor: str = ""
    tag: str = ""
    expected: int = 0
    there: int = 0
    """Rows that were there before it began."""
    rows: int = 0
    """Rows computed and stored since."""
    failed: int = 0
    units: int = 0
    """Units of work it began with, each of which serves several rows."""
    units_done: int = 0
    stages: dict[str, Any] = field(default_factory=dict)
    """By stage: for how many rows it is asked for, and how many distinct ones there are."""
    executed: dict[str, Any] = field(default_factory=dict)
    """By stage: how often it was computed; known at the end."""
    status: str = "running"
    reason: str = ""

    def start(self, record: Mapping[str, Any]) -> None:
        self.factor, self.tag = text(record.get("factor")), text(record.get("tag"))
        self.expected, self.there, self.units = (count(record.get(name)) for name in ("expected", "there", "units"))
        self.stages = dict(mapping(record.get("stages")))

    def take_rows(self, record: Mapping[str, Any]) -> None:
        self.rows += count(record.get("count"))
        self.failed += count(record.get("failed"))
        self.units_done += 1

    def end(self, record: Mapping[str, Any]) -> None:
        self.status, self.reason = text(record.get("status")), text(record.get("reason"))
        self.executed = dict(mapping(record.get("executed")))

    def to_dict(self) -> dict[str, Any]:
        names = ("factor", "tag", "expected", "there", "rows", "failed", "units", "units_done", "stages", "executed")
        return {name: getattr(self, name) for name in names} | {"status": self.status, "reason": self.reason}
