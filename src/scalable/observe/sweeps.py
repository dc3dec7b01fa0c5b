"""What a run's journal says of its sweeps: rows expected, there and computed, units done, and how it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.observe.distribution import Distribution
from scalable.observe.fields import count, mapping, memory, number, text

RECENT = 500  # units whose rows a sweep's rate is computed from


@dataclass(slots=True)
class UnitEnd:
    """What the attempts of one unit took, until its rows say what that is worth."""

    seconds: float | None = None
    """Of a first attempt that finished; a later one may have found what an earlier one left."""
    cpu_s: float | None = None
    peak: int | None = None

    def take(self, record: Mapping[str, Any], *, finished: bool) -> None:
        if finished and count(record.get("attempt")) == 1:
            self.seconds, self.cpu_s = number(record.get("seconds")), number(record.get("cpu_s"))
        if peak := memory(record.get("peak")):
            self.peak = max(peak, self.peak or 0)


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
    began: float | None = None
    run: str = ""
    """The workload, as the manifest names it; empty for the shipped one."""
    settings: str = ""
    trials: int = 0
    took: Distribution = field(default_factory=Distribution)
    """Seconds of units that computed what is costly in them and finished at the first attempt."""
    timed_s: float = 0.0
    """Those among them whose CPU time is known, together, and that CPU time."""
    cpu_s: float = 0.0
    rows_per_unit: int = 0
    peak: int | None = None
    """The most a unit used, whatever became of it."""
    recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RECENT))
    """When rows came lately, and how many."""

    @property
    def cores(self) -> float | None:
        """What a unit used on average."""
        return self.cpu_s / self.timed_s if self.timed_s > 0 else None

    def start(self, record: Mapping[str, Any]) -> None:
        """Also again: a session may run a sweep several times, each for what is missing or for one asset."""
        self.began = record["t"] if self.began is None else min(self.began, record["t"])
        self.rows = self.failed = self.units_done = 0
        self.status, self.reason, self.executed = "running", "", {}
        self.run, self.trials = text(record.get("run")), count(record.get("trials"))
        given = mapping(record.get("settings"))
        self.settings = ", ".join(f"{name}={given[name]}" for name in sorted(given))
        self.factor, self.tag = text(record.get("factor")), text(record.get("tag"))
        self.expected, self.there, self.units = (count(record.get(name)) for name in ("expected", "there", "units"))
        self.stages = dict(mapping(record.get("stages")))

    def take_rows(self, record: Mapping[str, Any], end: UnitEnd | None = None) -> None:
        rows, failed = count(record.get("count")), count(record.get("failed"))
        self.recent.append((record["t"], rows))
        self.rows += rows
        self.failed += failed
        self.units_done += 1
        self.rows_per_unit = max(rows, self.rows_per_unit)
        if end is None:
            return
        if end.peak is not None:
            self.peak = max(end.peak, self.peak or 0)
        if end.seconds is not None and end.seconds > 0 and record.get("fresh") is True and not failed:
            self.took.add(end.seconds)
            if end.cpu_s is not None and end.cpu_s >= 0:
                self.timed_s += end.seconds
                self.cpu_s += end.cpu_s

    def end(self, record: Mapping[str, Any]) -> None:
        self.status, self.reason = text(record.get("status")), text(record.get("reason"))
        self.executed = dict(mapping(record.get("executed")))

    def to_dict(self) -> dict[str, Any]:
        names = ("factor", "tag", "expected", "there", "rows", "failed", "units", "units_done", "stages", "executed")
        return {name: getattr(self, name) for name in names} | {"status": self.status, "reason": self.reason}
