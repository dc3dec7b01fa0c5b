"""What the engine remembers as a whole, and what the present event has led to. Changed by the engine's modules only."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from scalable.engine.events import Instruction, SweepKind
from scalable.engine.queueing import RunQueue
from scalable.engine.records import (
    NEVER,
    Attempt,
    Experience,
    RunRecord,
    SweepRecord,
    TagRecord,
    WorkerRecord,
)
from scalable.engine.rules import Rules
from scalable.engine.spending import Spending
from scalable.findings import Finding, Severity

__all__ = ["NEVER", "Attempt", "RunRecord", "State", "SweepRecord", "TagRecord", "WorkerRecord"]


@dataclass
class State:
    rules: Rules
    runs: dict[str, RunRecord] = field(default_factory=dict)
    sweeps: dict[str, SweepRecord] = field(default_factory=dict)
    waiting: dict[str, SweepRecord] = field(default_factory=dict)
    """Sweeps that wait for a place."""
    placed: dict[str, SweepRecord] = field(default_factory=dict)
    """Sweeps whose place keeps others out."""
    workers: dict[str, WorkerRecord] = field(default_factory=dict)
    tags: dict[str, TagRecord] = field(default_factory=dict)
    last_gone: dict[str, float] = field(default_factory=dict)
    """When a worker last went, by pool."""
    spending: Spending = field(default_factory=Spending)
    live: int = 0
    """Runs that have a worker."""
    fleet: int = 0
    """Counts changes in how many workers there are or are to come."""
    paused: str = ""
    dropping: bool = False
    """While paused, workers go as soon as they have nothing to do."""
    braked: str = ""
    """Why the budget stopped everything."""
    delayed: list[tuple[float, int, str]] = field(default_factory=list)
    watched: list[tuple[float, int, str]] = field(default_factory=list)
    """When to look at which worker's runs for signs of life."""
    sequence: int = 0
    """Breaks ties in heaps, so that equal times keep their order."""

    out: list[Instruction] = field(default_factory=list)
    """What the present event has led to so far."""
    touched: set[str] = field(default_factory=set)
    """Tags whose workers or queue changed since they were last scaled."""
    vacated: list[WorkerRecord] = field(default_factory=list)
    """Workers on which a short run has finished, so that more may wait there."""
    closing: dict[str, SweepRecord] = field(default_factory=dict)
    """Sweeps that may have nothing left to start."""
    admission_due: bool = False
    handled: float = 0.0
    """When the last event came."""

    def __post_init__(self) -> None:
        for tag, kind in self.rules.kinds.items():
            self.tags[tag] = TagRecord(RunQueue(), kind.minimum, kind.maximum)
        self.spending.budget = self.rules.budget

    def alert(self, code: str, message: str, run: str = "", severity: Severity = Severity.WARNING) -> None:
        self.out.append(Finding(code, severity, run, message))

    def later(self, when: float, run: str) -> None:
        self.sequence += 1
        heapq.heappush(self.delayed, (when, self.sequence, run))

    def watch(self, when: float, worker: WorkerRecord) -> None:
        """Look at a worker's runs then, if not before."""
        if when < worker.look_due:
            worker.look_due = when
            self.sequence += 1
            heapq.heappush(self.watched, (when, self.sequence, worker.id))

    def place(self, sweep: SweepRecord, *, running: bool) -> None:
        """Let a sweep hold a place, or no longer."""
        if sweep.running == running:
            return
        sign = 1 if running else -1
        for tag, active in sweep.active.items():
            self.tags[tag].asked += sign * self.share(sweep, tag, active)
        sweep.running = running
        if running and sweep.kind is not SweepKind.FREE:
            self.placed[sweep.sweep.id] = sweep
        else:
            self.placed.pop(sweep.sweep.id, None)

    def share(self, sweep: SweepRecord, tag: str, active: int) -> int:
        """Workers that so many active runs of a sweep ask for."""
        return min(sweep.sweep.workers, -(-active // self.rules.kinds[tag].slots))

    def count(self, record: RunRecord, *, active: bool) -> None:
        """Let a run count, or no longer count, as work that needs a worker."""
        if record.counted == active:
            return
        record.counted = active
        sweep, tag = self.sweeps[record.run.sweep], record.tag
        before = sweep.active.get(tag, 0)
        after = sweep.active[tag] = before + (1 if active else -1)
        most = sweep.sweep.workers * self.rules.kinds[tag].slots
        if sweep.running and (before < most or after < most):  # else it asks for all it may either way
            self.tags[tag].asked += self.share(sweep, tag, after) - self.share(sweep, tag, before)

    def experience(self, record: RunRecord) -> Experience:
        """What the sweep of a run has shown on the run's tag."""
        seen = self.sweeps[record.run.sweep].seen
        found = seen.get(record.tag)
        if found is None:
            found = seen[record.tag] = Experience()
        return found

    def may_have_idle_nodes(self, pool: str, now: float) -> bool:
        """Whether nodes may still be kept for workers that have gone."""
        return now <= self.last_gone.get(pool, -NEVER) + self.rules.pools[pool].idle_s
