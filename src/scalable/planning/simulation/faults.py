"""Failures to inject: named ones for a job's attempt or a moment, and random ones by rate and seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from scalable.engine.events import Loss
from scalable.quantities import Memory


class FaultKind(Enum):
    OUT_OF_MEMORY = "out of memory"  # dies halfway with a peak over its limit
    STUCK = "stuck"  # never reports nor ends; only the stuck rule gets rid of it
    DEAF = "deaf"  # stuck, and killing it does not help either; only removing its worker does
    DOZES = "dozes"  # looks stuck, and moves on when it is looked at again before being killed
    SLOW = "slow"  # takes several times as long, but reports progress
    RAISES = "raises"  # fails halfway with an error that would come again
    TRANSIENT = "transient"  # fails halfway with an error that may pass
    CANNOT_START = "cannot start"  # its code cannot be loaded
    KILLED = "killed"  # something else on the machine kills its process
    CRASHES = "crashes"  # its process aborts
    WORKER_DIES = "worker dies"  # takes its worker with it
    PREEMPTED = "preempted"  # its worker gets notice, then goes


LOSSES = {
    FaultKind.OUT_OF_MEMORY: Loss.OUT_OF_MEMORY,
    FaultKind.RAISES: Loss.RAISED,
    FaultKind.TRANSIENT: Loss.TRANSIENT,
    FaultKind.CANNOT_START: Loss.CANNOT_START,
    FaultKind.KILLED: Loss.KILLED,
    FaultKind.CRASHES: Loss.CRASHED,
}
SILENT = frozenset({FaultKind.STUCK, FaultKind.DEAF, FaultKind.DOZES})  # they report nothing


@dataclass(frozen=True, slots=True)
class JobFault:
    kind: FaultKind
    factor: float = 3.0
    """How many times slower a slow job is."""
    peak: Memory = field(default_factory=lambda: Memory.of_gib(9))


@dataclass(frozen=True, slots=True)
class NodeFault:
    """At this time the n-th node that is up (counted from 0, modulo how many there are) vanishes."""

    at: float
    nth: int = 0


@dataclass(frozen=True, slots=True)
class Faults:
    jobs: Mapping[tuple[str, int], JobFault] = field(default_factory=dict)
    """By job and attempt."""
    nodes: tuple[NodeFault, ...] = ()
    rates: Mapping[FaultKind, float] = field(default_factory=dict)
    """Probability per attempt."""
    refusals: int = 0
    """How many of the first requests for workers are refused."""
    latency_s: float = 0.0
    """What a message to or from a worker takes, so that orders cross with reports."""

    def of(self, job: str, attempt: int, chance: random.Random) -> JobFault | None:
        if (job, attempt) in self.jobs:
            return self.jobs[job, attempt]
        if self.rates:
            draw = chance.random()
            for kind, rate in self.rates.items():
                draw -= rate
                if draw < 0:
                    return JobFault(kind)
        return None
