"""How a run went over time: workers, waiting work, rows and money, and what each worker's memory reached.

A fold over the journal in bounded memory: what gets too long loses every other point.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.observe.fields import count, mapping, memory, money, tag_of, text

MOST_POINTS = 600  # of one line; a page is not wider
MOST_WORKERS = 10_000  # whose peaks are kept
LATEST = 50  # retries and alerts that are listed

Points = list[tuple[float, float]]


@dataclass(slots=True)
class Peak:
    """The most memory one worker was seen to use."""

    tag: str
    bytes: int = 0
    run: str = ""


@dataclass(slots=True)
class Course:
    live: dict[str, Points] = field(default_factory=dict)
    """Workers that are here, by tag."""
    waiting: Points = field(default_factory=list)
    running: Points = field(default_factory=list)
    rows: Points = field(default_factory=list)
    """Stored since the run began, all sweeps together."""
    spent: Points = field(default_factory=list)
    peaks: dict[str, Peak] = field(default_factory=dict)
    """By worker."""
    retries: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LATEST))
    alerts: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LATEST))
    alerts_count: int = 0
    """All of them, also those that are not listed."""
    here: dict[str, set[str]] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any]) -> None:
        now = record["t"]
        match record["kind"]:
            case "gauge":
                self.take_gauge(now, record)
            case "worker-joined":
                self.here.setdefault(tag_of(record), set()).add(text(record.get("worker")))
                self.count_workers(now, tag_of(record))
            case "worker-removed" | "worker-lost":
                self.take_end(now, text(record.get("worker")))
            case "rows":
                done = self.rows[-1][1] if self.rows else 0.0
                put(self.rows, now, done + count(record.get("count")))
            case "cost":
                self.pay(now, record.get("spent"))
            case "attempt-ended":
                self.raise_peak(record, memory(record.get("peak")), text(record.get("run")))
            case "progress":
                self.raise_peak(record, memory(record.get("memory")), text(record.get("run")))
            case "peaks":
                for task, peak in mapping(record.get("peaks")).items():
                    self.raise_peak(record, memory(peak), task)
            case "retry":
                run = text(record.get("run")) or text(record.get("key"))
                self.retries.append({"t": now, "run": run, "tag": tag_of(record), "cause": text(record.get("cause"))})
            case "alert":
                names = ("t", "alert", "state", "severity", "text", "run")
                self.alerts_count += 1
                self.alerts.append({name: record[name] for name in names if name in record})

    def take_gauge(self, now: float, record: Mapping[str, Any]) -> None:
        tasks = [mapping(one) for one in mapping(record.get("tasks")).values()]
        put(self.waiting, now, float(sum(count(one.get("waiting")) for one in tasks)))
        put(self.running, now, float(sum(count(one.get("running")) for one in tasks)))
        self.pay(now, record.get("cost"))

    def take_end(self, now: float, worker: str) -> None:
        for tag, names in self.here.items():
            if worker in names:
                names.discard(worker)
                self.count_workers(now, tag)

    def count_workers(self, now: float, tag: str) -> None:
        put(self.live.setdefault(tag, []), now, float(len(self.here[tag])))

    def pay(self, now: float, amount: object) -> None:
        if (found := money(amount)) is not None:
            put(self.spent, now, float(found.amount))

    def raise_peak(self, record: Mapping[str, Any], peak: int | None, run: str) -> None:
        worker = text(record.get("worker"))
        if peak is None or not worker or (worker not in self.peaks and len(self.peaks) >= MOST_WORKERS):
            return
        known = self.peaks.setdefault(worker, Peak(tag_of(record)))
        if peak > known.bytes:
            known.bytes, known.run = peak, run


def put(points: Points, now: float, value: float) -> None:
    if points and points[-1][1] == value and len(points) > 1 and points[-2][1] == value:
        points[-1] = (now, value)  # a line that does not move has two ends
        return
    points.append((now, value))
    if len(points) > 2 * MOST_POINTS:
        points[:] = [*points[:-1:2], points[-1]]


def line_until(points: Points, end: float) -> Points:
    """The line on to a moment at which nothing was told."""
    return [*points, (end, points[-1][1])] if points and points[-1][0] < end else points
