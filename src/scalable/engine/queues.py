"""The queue of one kind of worker, and the pace of what comes out of it.

A group is the data jobs share (an asset of a sweep). A free worker first continues the group it served last; else it
takes the group that fewest workers serve, the oldest among equals, so that two sweeps side by side both move.

The price of a message does not depend on how long a job takes, so short jobs travel several at a time. The window is
a fraction of a second of work: large enough that a worker never waits for its next job, small enough that little lies
in the wrong place when a worker is lost, another one joins or one of the jobs turns out to be long.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalable.engine.state import JobRecord

AHEAD_S = 0.3  # of work that lies ready on a worker, per slot; a message and its answer take a hundredth of that
MOST_AHEAD = 64  # per slot; more would not make a message cheaper
PATIENCE_S = 4 * AHEAD_S  # after so long without a begin, what waits on a worker is taken back
WEIGHT = 0.2  # of the newest job in the mean

Group = tuple[str, str]


class JobQueue:
    """The jobs that wait for workers of one tag, by group."""

    def __init__(self) -> None:
        self.waiting: dict[Group, deque[JobRecord]] = {}
        """Only groups of which jobs wait: a session may see thousands, one after the other."""
        self.served: dict[Group, int] = {}
        """Jobs on workers, of groups that have some."""
        self.order: dict[Group, int] = {}
        self.choices: list[tuple[int, int, Group]] = []
        """Heap of (jobs on workers, order, group); entries that do not hold are dropped when met."""
        self.offered: set[tuple[int, int, Group]] = set()
        """What is in the heap; the numbers go up and down again, and one entry of a kind is enough."""
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def put(self, record: JobRecord, *, first: bool = False) -> None:
        group = (record.job.sweep, record.job.group)
        if group not in self.order:
            self.order[group] = len(self.order)
        line = self.waiting.get(group)
        if line is None:
            line = self.waiting[group] = deque()
            self.offer(group)
        if first:
            line.appendleft(record)
        else:
            line.append(record)
        self.size += 1

    def choose(self, last: Group | None, allowed: Callable[[JobRecord], bool] | None = None) -> Group | None:
        """Return the group whose first job, if ``allowed``, is next for a worker that served ``last`` before."""
        if not self.size:
            return None
        group = last if last in self.waiting else self.least_served()
        if allowed is None or allowed(self.first(group)):
            return group
        order = sorted(self.waiting, key=lambda g: (g != last, self.served.get(g, 0), self.order[g]))
        return next((g for g in order if allowed(self.first(g))), None)

    def first(self, group: Group) -> JobRecord:
        return self.waiting[group][0]

    def take(self, group: Group) -> JobRecord:
        record = self.waiting[group].popleft()
        self.left(group)
        self.count(group, +1)
        return record

    def done(self, record: JobRecord) -> None:
        """Note that a job taken from here no longer has a worker."""
        self.count((record.job.sweep, record.job.group), -1)

    def remove(self, record: JobRecord) -> None:
        """Take out one job that still waits."""
        group = (record.job.sweep, record.job.group)
        self.waiting[group].remove(record)
        self.left(group)

    def left(self, group: Group) -> None:
        """Note that a job of a group no longer waits."""
        self.size -= 1
        if not self.waiting[group]:
            del self.waiting[group]

    def all(self) -> list[JobRecord]:
        return [record for line in self.waiting.values() for record in line]

    def count(self, group: Group, change: int) -> None:
        served = self.served.get(group, 0) + change
        if served:
            self.served[group] = served
        else:
            del self.served[group]
        if group in self.waiting:
            self.offer(group)

    def offer(self, group: Group) -> None:
        entry = (self.served.get(group, 0), self.order[group], group)
        if entry not in self.offered:
            self.offered.add(entry)
            heapq.heappush(self.choices, entry)

    def least_served(self) -> Group:
        while True:
            served, _, group = self.choices[0]
            if group in self.waiting and served == self.served.get(group, 0):
                return group
            self.offered.discard(heapq.heappop(self.choices))


@dataclass(slots=True)
class Pace:
    """A moving mean that believes a long job at once and a short one slowly."""

    mean: float = 0.0
    known: bool = False
    window: int = 0
    """How many jobs may wait on a worker per slot."""

    def note(self, seconds: float) -> None:
        self.mean = self.mean + WEIGHT * (seconds - self.mean) if self.known else seconds
        self.known = True
        longest = self.mean if self.mean > seconds else seconds
        if longest > AHEAD_S:
            self.window = 0
        else:
            self.window = MOST_AHEAD if longest * MOST_AHEAD <= AHEAD_S else round(AHEAD_S / longest)
