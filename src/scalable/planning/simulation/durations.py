"""Durations of jobs: always the same, log-normal with a median and a 95th percentile, or drawn from history.

Beside it, how long a session takes to start and to end around them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from scalable.manifest.work import Minutes

Z95 = 1.6448536269514722  # the 95th percentile of the standard normal distribution


@dataclass(frozen=True, slots=True)
class Fixed:
    seconds: float

    def draw(self, chance: random.Random) -> float:
        return self.seconds

    @property
    def expected(self) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class LogNormal:
    p50: float
    p95: float

    def draw(self, chance: random.Random) -> float:
        return self.p50 * math.exp(self.sigma * chance.gauss(0.0, 1.0))

    @property
    def sigma(self) -> float:
        return math.log(self.p95 / self.p50) / Z95

    @property
    def expected(self) -> float:
        return self.p50 * math.exp(self.sigma**2 / 2)


@dataclass(frozen=True, slots=True)
class MeasuredDurations:
    """Seconds of jobs that ended. They are dealt like cards: as many jobs again take as long together."""

    seconds: Sequence[float]

    def shuffled(self, chance: random.Random) -> list[float]:
        return chance.sample(self.seconds, len(self.seconds))

    @property
    def expected(self) -> float:
        return sum(self.seconds) / len(self.seconds)


JobLength = Fixed | LogNormal | MeasuredDurations


@dataclass(frozen=True, slots=True)
class SessionTimes:
    """The times of the parts of a session's start and end, but for the wait for nodes, which is the pool's."""

    ask_s: float = 0.0
    """From its start until it asks for workers: no node comes, and none is paid for it, before."""
    join_s: float = 0.0
    """From when a node that had to come is up until a worker on it takes jobs."""
    warm_s: float = 0.0
    """From when a worker is asked for that finds its node up until it takes jobs."""
    hand_s: float = 0.0
    """What a job takes beside its own work, on its way to an idle worker and back."""
    close_s: float = 0.0
    """From the last row until its workers are gone."""


def from_minutes(minutes: Minutes) -> JobLength:
    if minutes.p50 == minutes.p95:
        return Fixed(minutes.p50 * 60)
    return LogNormal(minutes.p50 * 60, minutes.p95 * 60)
