"""The outcome of a simulation: when nodes came and went, what ran when, what was retried, what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scalable.engine.events import JobState
from scalable.findings import Finding
from scalable.quantities import Money


@dataclass(frozen=True, slots=True)
class NodeSpan:
    """A node's life; it is paid from when its machine is started until it is gone, as the bill counts it."""

    pool: str
    node: str
    requested: float
    paid_from: float
    up: float
    gone: float
    worked_until: float
    permanent: bool = False

    def to_dict(self) -> dict[str, Any]:
        times = {
            name: round(getattr(self, name), 3) for name in ("requested", "paid_from", "up", "worked_until", "gone")
        }
        return {"pool": self.pool, "node": self.node, **times, "permanent": self.permanent}


@dataclass(slots=True)
class SweepSpan:
    admitted: float = 0.0
    started: float = float("inf")
    ended: float = 0.0
    complete: bool = False


@dataclass(slots=True)
class SimulationOutcome:
    started: float = float("inf")
    """The first job's start."""
    ended: float = 0.0
    """The last job's end."""
    over: float = 0.0
    """When the last node was gone."""
    nodes: list[NodeSpan] = field(default_factory=list)
    sweeps: dict[str, SweepSpan] = field(default_factory=dict)
    states: dict[JobState, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why jobs did not finish, each with the first job it happened to."""
    busy_core_s: float = 0.0
    attempts: int = 0
    retries: int = 0
    peak_workers: dict[str, int] = field(default_factory=dict)
    worker_starts: dict[str, int] = field(default_factory=dict)
    """How many workers of each tag joined, one after the other and at once."""
    worker_s: dict[str, float] = field(default_factory=dict)
    """Seconds that workers of each tag held their place, from their start, before they joined, to their end."""
    worker_steps: list[tuple[float, int]] = field(default_factory=list)
    alerts: list[Finding] = field(default_factory=list)

    @property
    def wall_s(self) -> float:
        """From the first job's start to the last job's end."""
        return max(0.0, self.ended - self.started) if self.attempts else 0.0

    @property
    def complete(self) -> bool:
        return all(sweep.complete for sweep in self.sweeps.values())

    @property
    def unfinished(self) -> str:
        """The first reason why a job did not finish, with that job; empty if all did."""
        if self.complete:
            return ""
        why, which = next(iter(self.reasons.items()), ("no reason was given", "a job"))
        return f"{which}: {why}"

    def node_hours(self, *, computing_only: bool = False) -> dict[str, float]:
        """Return hours paid per pool; ``computing_only`` leaves out the start and the idle tail."""
        hours: dict[str, float] = {}
        for span in self.nodes:
            if span.permanent:
                continue
            begin, end = (span.up, min(span.gone, self.ended)) if computing_only else (span.paid_from, span.gone)
            hours[span.pool] = hours.get(span.pool, 0.0) + max(0.0, end - begin) / 3600
        return hours

    def cost(self, prices: dict[str, Money], currency: str, *, computing_only: bool = False) -> Money:
        total = Money.zero(currency)
        for pool, hours in self.node_hours(computing_only=computing_only).items():
            if pool in prices:
                total += prices[pool] * round(hours, 9)
        return total

    def node_steps(self) -> list[tuple[float, int]]:
        """Return how many nodes were up at which time, permanent ones left out."""
        changes: dict[float, int] = {}
        for span in self.nodes:
            if not span.permanent:
                changes[span.up] = changes.get(span.up, 0) + 1
                changes[span.gone] = changes.get(span.gone, 0) - 1
        return running_total(changes)

    @property
    def peak_nodes(self) -> int:
        return max((count for _, count in self.node_steps()), default=0)


def running_total(changes: dict[float, int]) -> list[tuple[float, int]]:
    total, steps = 0, []
    for when in sorted(changes):
        total += changes[when]
        steps.append((when, total))
    return steps
