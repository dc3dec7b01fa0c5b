"""The workers of a run as its journal tells it: who was asked for, who joined, who went and why.

A worker that comes back under its name starts another life. One that goes because the session closes was there to the
end, so it does not count as removed. Everything is kept per name, so workers may be told of in any order among each
other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.observe.fields import count, number, tag_of, text

CLOSED = "session closed"  # the reason of a removal that is the end of the run, not a change in it
MOST_POINTS = 4000  # of the timeline; when it gets longer every other one of each tag is dropped

Point = tuple[float, str, int]  # a moment, a tag, and how many workers of it there are from then on


@dataclass(slots=True)
class Worker:
    tag: str
    asked: float | None = None
    joined: float | None = None
    """Since when it is connected; nothing while it is not."""
    wanted: bool = False
    """It was asked for and not told to go."""
    pid: int | None = None
    joined_first: float | None = None
    contact: float = 0.0
    """When it last said that it is connected, and as which process: one may come back before it was missed."""
    lives: int = 0
    slots: int = 1
    host: str = ""
    job: str = ""
    waits: str = ""
    """Why it is not here yet, in the backend's words."""
    leaving: str = ""
    gone: bool = False
    lost_by: str = ""
    """The cause, if it is gone and nobody here wanted it."""


@dataclass(slots=True)
class TagWorkers:
    """All workers of a tag, counted. ``started`` is always ``removed`` and ``final`` together."""

    started: int = 0
    removed: int = 0
    wanted: int = 0
    """Those that were asked for and not told to go."""
    live: int = 0
    most: int = 0
    """At any one time."""
    lost: Counter[str] = field(default_factory=Counter)
    """Those among the removed that went without our wish, by cause."""
    refused: int = 0
    slot_seconds: float = 0.0
    """Time offered by workers that are gone, for as many tasks as they take at once."""

    @property
    def final(self) -> int:
        return self.started - self.removed


@dataclass(slots=True)
class WorkerPeak:
    """The most memory one worker was seen to use."""

    tag: str
    bytes: int = 0
    task: str = ""


@dataclass(slots=True)
class WorkerHistory:
    workers: dict[str, Worker] = field(default_factory=dict)
    kinds: defaultdict[str, TagWorkers] = field(default_factory=lambda: defaultdict(TagWorkers))
    timeline: list[Point] = field(default_factory=list)
    busy: Counter[str] = field(default_factory=Counter)
    """Microseconds each worker spent on tasks, also on those that failed."""
    worked_from: dict[str, float] = field(default_factory=dict)
    worked_until: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, WorkerPeak] = field(default_factory=dict)
    """By worker."""
    slowest_start_s: float | None = None
    slowest_end_s: float | None = None
    """From a removed worker's last task to its end."""

    def started(self, record: Mapping[str, Any]) -> None:
        worker = self.known(record)
        worker.asked = number(record.get("t"))
        worker.job = str(record.get("job") or "")
        worker.gone = False
        self.want(worker, True)

    def want(self, worker: Worker, wanted: bool) -> None:
        self.kinds[worker.tag].wanted += wanted - worker.wanted
        worker.wanted = wanted

    def pending(self, record: Mapping[str, Any]) -> None:
        self.known(record).waits = text(record.get("reason"))

    def joined(self, record: Mapping[str, Any]) -> None:
        worker = self.known(record)
        pid = number(record.get("pid"))
        worker.host, worker.contact = text(record.get("host")), record["t"]
        worker.pid = int(pid) if pid is not None else None
        if worker.joined is not None:
            return
        worker.joined, worker.waits, worker.leaving, worker.gone, worker.lost_by = record["t"], "", "", False, ""
        worker.joined_first = min(record["t"], worker.joined_first or record["t"])
        worker.lives += 1
        worker.slots = count(record.get("slots")) or 1
        took = number(record.get("took_s"))
        if took is not None and took > 0:
            self.slowest_start_s = max(took, self.slowest_start_s or 0.0)
        kind = self.kinds[worker.tag]
        kind.started += 1
        kind.live += 1
        kind.most = max(kind.most, kind.live)
        self.point(record["t"], worker.tag)

    def going(self, record: Mapping[str, Any]) -> None:
        worker = self.known(record)
        worker.leaving = text(record.get("reason"))
        self.want(worker, False)

    def removed(self, record: Mapping[str, Any]) -> None:
        worker = self.known(record)
        closed = record.get("reason") == CLOSED
        worked_until = self.worked_until.get(text(record.get("worker")))
        if self.left(worker, record["t"], counted=not closed) and not closed and worked_until is not None:
            self.slowest_end_s = max(record["t"] - worked_until, self.slowest_end_s or 0.0)

    def lost(self, record: Mapping[str, Any]) -> None:
        worker = self.known(record)
        worker.lost_by = text(record.get("cause")) or "worker lost"
        if self.left(worker, record["t"], counted=True):
            self.kinds[worker.tag].lost[worker.lost_by] += 1

    def lost_with(self, worker: str, cause: str) -> bool:
        """Return whether what ended on a worker for this cause went with the worker, which is lost."""
        return worker in self.workers and self.workers[worker].lost_by == cause

    def refused(self, record: Mapping[str, Any]) -> None:
        self.kinds[tag_of(record)].refused += count(record.get("count"))

    def worked(self, name: str, begin: float, end: float) -> None:
        self.busy[name] += round((end - begin) * 1e6)  # whole numbers add up to the same in any order
        self.worked_from[name] = min(begin, self.worked_from.get(name, begin))
        self.worked_until[name] = max(end, self.worked_until.get(name, end))

    def use_memory(self, name: str, tag: str, used: int | None, task: str) -> None:
        if name and used is not None:
            peak = self.peaks.setdefault(name, WorkerPeak(tag))
            if used > peak.bytes:
                peak.bytes, peak.task = used, task

    def left(self, worker: Worker, moment: float, *, counted: bool) -> bool:
        """Return whether it was connected; one that never joined, or went before, changes no count."""
        since, worker.joined, worker.gone, worker.waits = worker.joined, None, True, ""
        self.want(worker, False)
        if since is None:
            return False
        kind = self.kinds[worker.tag]
        kind.live -= 1
        kind.removed += counted
        kind.slot_seconds += max(0.0, moment - since) * worker.slots
        self.point(moment, worker.tag)
        return True

    def known(self, record: Mapping[str, Any]) -> Worker:
        name = text(record.get("worker"))
        if name not in self.workers:
            self.workers[name] = Worker(tag_of(record))
            _ = self.kinds[self.workers[name].tag]  # a tag is listed from the moment it is asked for
        return self.workers[name]

    def point(self, moment: float, tag: str) -> None:
        self.timeline.append((moment, tag, self.kinds[tag].live))
        if len(self.timeline) > MOST_POINTS:
            self.timeline = thinned(self.timeline)

    def busy_share(self, tag: str, until: float) -> float | None:
        """Return which part of the time they were there the workers of a tag spent on tasks."""
        offered, busy = self.kinds[tag].slot_seconds if tag in self.kinds else 0.0, 0
        for name, worker in self.workers.items():
            if worker.tag == tag:
                busy += self.busy[name]
                offered += max(0.0, until - worker.joined) * worker.slots if worker.joined is not None else 0.0
        return min(1.0, busy / 1e6 / offered) if offered > 0 else None

    def never_joined(self, tag: str) -> int:
        return sum(worker.tag == tag and not worker.lives for worker in self.workers.values())

    def awaited(self, tag: str) -> list[Worker]:
        """Return who was asked for, is not here, and was not given up."""
        return [w for w in self.workers.values() if w.tag == tag and w.joined is None and not w.gone]


def by_tag(timeline: list[Point]) -> dict[str, list[tuple[float, float]]]:
    """Return how many workers of each tag there are over time."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for moment, tag, live in timeline:
        lines.setdefault(tag, []).append((moment, float(live)))
    return lines


def thinned(timeline: list[Point]) -> list[Point]:
    """Return every other point of each tag, and its last one."""
    whole, seen, kept = Counter(tag for _, tag, _ in timeline), Counter[str](), []
    for point in timeline:
        tag = point[1]
        seen[tag] += 1
        if seen[tag] % 2 or seen[tag] == whole[tag]:
            kept.append(point)
    return kept
