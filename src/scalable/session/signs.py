"""Signs of life of code that never reports progress: the CPU time its worker and the worker's children use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from scalable.engine.events import CpuSeen
from scalable.worker.meter import CPU

if TYPE_CHECKING:
    from scalable.providers.cluster import TaggedCluster

LOOK_EVERY_S = 5.0  # or four times before a run is stuck, if that is sooner
BUSY_SHARE = 0.05  # of one CPU; a Dask worker that does nothing uses 1 to 2 %

Attempt = tuple[str, int]


class SignsOfLife:
    def __init__(self, cluster: TaggedCluster, stuck_after_s: float) -> None:
        self.cluster = cluster
        self.every_s = min(LOOK_EVERY_S, stuck_after_s / 4)
        self.seen: dict[Attempt, tuple[float, float]] = {}
        """When an attempt's worker was last looked at, and what it had used by then."""

    def look(self, attempts: Iterable[tuple[Attempt, str]], now: float) -> Iterator[CpuSeen]:
        """Which of the attempts, given with their workers, used CPU since the last look."""
        before, self.seen = self.seen, {}
        for attempt, worker in attempts:
            used = self.used(worker)
            when, then = self.seen[attempt] = before.get(attempt, (now, used or 0.0))
            if now - when < self.every_s:
                continue
            self.seen[attempt] = (now, used or 0.0)
            if used is None or used - then >= BUSY_SHARE * (now - when):  # what is not measured is not judged
                yield CpuSeen(*attempt)

    def used(self, worker: str) -> float | None:
        """Seconds of CPU by a worker's last heartbeat."""
        member = self.cluster.members.get(worker)
        state = self.cluster.scheduler.workers.get(member.address) if member else None
        found: float | None = state.metrics.get(CPU) if state is not None else None
        return found
