"""A run as a session would record it, of any size and at any pace: journal, ``run.json``, ``live.json``, an incident.

``SimulatedRun`` writes the same files a real session writes, so that the console reads nothing made for tests. Units of
its sweep end when ``advance`` is called; the moments in the journal are those of its own clock, which starts in the
past, so that hours are told in a second.
"""

from __future__ import annotations

import json
import random
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from scalable.observe import Journal, RunFolder
from scalable.observe.files import write_beside
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.observe.sweep_progress import spans

GIB = 1024**3
TAG = "compute"
LIMIT = 8 * GIB
UNIT_S = 40.0  # how long a unit takes
PORTION = 500  # units in one line of the journal
ASSETS = (
    "AAVE", "ADA", "ALGO", "APT", "ARB", "ATOM", "AVAX", "BCH", "BNB", "BTC", "COMP", "CRV", "DOGE", "DOT",
    "EGLD", "ETC", "ETH", "FIL", "FLOW", "FTM", "GALA", "GMX", "GRT", "HBAR", "ICP", "IMX", "INJ", "KAVA",
    "LDO", "LINK", "LTC", "MANA", "MATIC", "MINA", "MKR", "NEAR", "NEO", "OP", "ROSE", "RUNE", "SAND", "SNX",
    "SOL", "SUI", "TRX", "UNI", "VET", "XLM", "XRP", "XTZ",
)  # fmt: skip
VARIANTS = (
    "none", "isotonic", "platt", "beta", "temperature", "histogram", "venn-abers", "spline", "quantile", "mixed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """How many of each axis there are, and how many costs a unit serves."""

    variants: int = 3
    assets: int = 5
    folds: int = 5
    costs: int = 3
    per_unit: int = 3

    @property
    def cells(self) -> int:
        return self.variants * self.assets * self.folds * self.costs

    def axes(self) -> dict[str, list[str]]:
        return {
            "variant": [VARIANTS[at] if at < len(VARIANTS) else f"variant-{at}" for at in range(self.variants)],
            "asset": [f"{ASSETS[at]}USDC" if at < len(ASSETS) else f"ASSET{at}" for at in range(self.assets)],
            "fold": [str(at) for at in range(self.folds)],
            "cost_bps": [str(5 * (at + 1)) for at in range(self.costs)],
        }


LARGE = Shape(variants=10, assets=50, folds=5, costs=4, per_unit=1)  # 10,000 cells in 10,000 runs


@dataclass
class SimulatedRun:
    base: Path
    shape: Shape = field(default_factory=Shape)
    workers: int = 5
    sweep: str = "calibration"
    ago: float = 1200.0
    """How long ago it began."""
    there: int = 0
    """Units whose rows were there before."""

    def __post_init__(self) -> None:
        self.folder = RunFolder.create("ftf", self.base)
        self.journal = Journal(self.folder.journal)
        self.now = time.time() - self.ago
        self.chance = random.Random(7)
        self.units = self.named_units()
        self.waiting = deque(list(self.units)[self.there :])
        self.running: dict[str, tuple[str, float]] = {}
        self.names = [f"w{number + 1}" for number in range(self.workers)]
        self.free = deque(self.names)
        self.ended = self.failed = self.hired = 0
        self.peaks = {name: self.chance.uniform(0.3, 0.75) for name in self.names}
        self.alerts: list[dict[str, Any]] = []
        self.begin()

    def named_units(self) -> dict[str, str]:
        """The cells of each unit, by its name."""
        axes, per = self.shape.axes(), self.shape.per_unit
        found = {}
        for first in range(0, self.shape.cells, per):
            place, cost = divmod(first, self.shape.costs)
            place, fold = divmod(place, self.shape.folds)
            variant, asset = divmod(place, self.shape.assets)
            name = f"{axes['asset'][asset]}/{axes['variant'][variant]}/fold{fold}"
            if per < self.shape.costs:
                name += f"/{axes['cost_bps'][cost]}"
            found[name] = spans(range(first, first + per))
        return found

    def write(self, kind: str, **fields: Any) -> None:
        self.journal.write(kind, t=round(self.now, 3), **fields)

    def begin(self) -> None:
        where = {"pid": 1, "host": "driver-0", "version": "0.1.0"}  # of another machine nobody can say it is gone
        facts = {"run_id": self.folder.run_id, "project": "ftf", "target": "cluster", "provider": "kubernetes", **where}
        facts["command"] = "scalable run --sweep calibration"
        self.folder.write_run({"t": self.now, **facts})
        self.write("run-started", **facts)
        self.write("tariff", basis="node", currency="EUR", assumed=[], budget=euros(20))
        self.write(
            "plan", workers_by_tag={TAG: self.workers}, resources_by_tag={TAG: {"cpus": 4, "memory": LIMIT}},
            wall_s=self.ago * 1.3, ready_s=75.0, cost=euros(6.4), node_hours=12.5,
            tasks={TAG: len(self.units)}, peaks={TAG: 5 * GIB},
        )  # fmt: skip
        self.hire(self.names[: max(1, self.workers // 3)], f"{len(self.waiting)} units wait and no worker is there")
        axes = self.shape.axes()
        self.write(
            "sweep-started", sweep=self.sweep, factor=self.sweep, tag=TAG, expected=self.shape.cells,
            there=self.there * self.shape.per_unit, units=len(self.waiting), all_units=len(self.units), stages={},
            run="", settings={}, trials=30, axes=axes, cells_there=spans(range(self.there * self.shape.per_unit)),
        )  # fmt: skip
        names = list(self.waiting)
        for first in range(0, len(names), PORTION):
            portion = {name: self.units[name] for name in names[first : first + PORTION]}
            self.write("sweep-units", sweep=self.sweep, unit_cells=portion)
        self.now += 90.0
        self.hire(self.names[max(1, self.workers // 3) :], "work for 20 min waits; the pool may grow")
        self.give()
        self.tell()

    def hire(self, names: list[str], reason: str) -> None:
        self.write("scale", direction="up", tag=TAG, count=len(names), reason=reason)
        for name in names:
            self.write("worker-started", worker=name, tag=TAG, job=f"job-{name}")
        self.now += 20.0
        for name in names:
            self.write("worker-joined", worker=name, tag=TAG, slots=1, took_s=20.0, host=f"node-{int(name[1:]) % 25}")
        self.hired += len(names)
        self.gauge()

    def give(self) -> None:
        while self.free and self.waiting:
            worker, run = self.free.popleft(), self.waiting.popleft()
            self.running[run] = (worker, self.now)
            self.write("attempt-started", run=run, attempt=1, worker=worker, tag=TAG)

    def advance(self, units: int = 1, *, fail: bool = False, seconds: float | None = None) -> None:
        """So many units end, others take their places, and everybody is told."""
        self.now = min(time.time(), self.now + (UNIT_S * units / self.workers if seconds is None else seconds))
        for run in list(self.running)[:units]:
            self.end(run, fail=fail)
        self.give()
        self.show_progress()
        self.gauge()
        self.tell()

    def show_progress(self) -> None:
        """As a session writes it down, now and then, of the worker that uses most."""
        if self.running:
            run, (worker, _) = max(self.running.items(), key=lambda one: self.peaks[one[1][0]])
            told = {"run": run, "attempt": 1, "worker": worker, "tag": TAG, "step": 3, "of": 30, "note": "trial"}
            self.write("progress", **told, memory=int(self.peaks[worker] * LIMIT))

    def end(self, run: str, *, fail: bool) -> None:
        worker, began = self.running.pop(run)
        self.free.append(worker)
        peak = int(self.peaks[worker] * LIMIT)
        told = {"run": run, "attempt": 1, "worker": worker, "tag": TAG}
        outcome, message = ("raised", "ValueError: no data") if fail else ("finished", "")
        self.write(
            "attempt-ended", **told, outcome=outcome, seconds=self.now - began, cpu_s=3 * (self.now - began),
            peak=peak, message=message,
        )  # fmt: skip
        self.write("run-ended", run=run, state="failed" if fail else "finished", reason=message)
        rows, cells = self.shape.per_unit, self.units[run]
        known = {"cells": cells, "failed_cells": cells if fail else ""}
        counts = {"count": rows, "failed": rows if fail else 0}
        self.write("rows", sweep=self.sweep, run=run, **counts, fresh=True, **known)
        self.ended += 1
        self.failed += fail

    def gauge(self) -> None:
        tasks = {"waiting": len(self.waiting), "running": len(self.running), "done": self.ended, "failed": self.failed}
        spent = euros(0.0004 * self.ended * self.shape.per_unit)
        self.write(
            "gauge", workers={TAG: {"live": self.hired, "busy": len(self.running)}}, tasks={TAG: tasks}, cost=spent
        )
        self.write("cost", spent=spent, per_hour=euros(3.6))

    def tell(self) -> None:
        """What is true this moment; then everything is on the disk."""
        doing = {worker: (run, began) for run, (worker, began) in self.running.items()}
        told = {"t": time.time(), "paused": "", "nodes": [], "dependencies": {"store": {"up": True, "text": ""}}}
        workers = [self.worker(name, doing.get(name)) for name in self.names if name in {*self.free, *doing}]
        write_beside(self.folder.live_file, json.dumps({**told, "workers": workers, "alerts": self.alerts}))
        self.journal.flush()

    def worker(self, name: str, doing: tuple[str, float] | None) -> dict[str, Any]:
        self.peaks[name] = min(0.97, max(0.2, self.peaks[name] + self.chance.uniform(-0.03, 0.03)))
        used = int(self.peaks[name] * LIMIT)
        since = self.now - doing[1] if doing else 0.0
        step = min(30, int(since / UNIT_S * 30) + self.chance.randrange(1, 30))
        run = {"note": "trial", "step": min(step, 30), "of": 30, "seconds": since, "memory": used}
        return {
            "worker": name, "tag": TAG, "state": "busy" if doing else "idle", "why": "", "task_count": 0, "tasks": [],
            "runs": [{"run": doing[0], **run}] if doing else [], "idle_s": self.chance.uniform(0, 4), "memory": used,
            "memory_limit": LIMIT, "cpu": self.chance.uniform(2.5, 3.9) if doing else 0.1, "cpus": 4,
            "host": f"node-{int(name[1:]) % 25}", "job": f"job-{name}", "rows_per_min": 1.5,
        }  # fmt: skip

    def trouble(self) -> None:
        """A retry, a finding, a firing alert and an incident with evidence."""
        run, (worker, _) = next(iter(self.running.items()))
        self.write("retry", run=run, tag=TAG, cause="stuck")
        self.write("retry", run=run, tag=TAG, cause="out of memory")
        self.write(
            "finding", code="fork", about="cleanlab", text="cleanlab/filter.py:404 forks a process that has threads",
            remedy="pass n_jobs=1, or write  policies.fork: deny",
        )  # fmt: skip
        text = f"{worker} uses 84 % of its memory"
        alert: dict[str, Any] = {"alert": "WorkerMemory", "severity": "warning", "state": "firing", "text": text}
        alert |= {"labels": {"worker": worker}, "remedy": "give the component more memory, or fewer slots"}
        self.write("alert", **alert)
        self.alerts = [{**alert, "since": self.now}]
        stack = {
            "pid": 4711,
            "thread": "MainThread",
            "frames": ["acquire (threading.py:327)", "fork (popen_fork.py:66)"],
        }
        incident = IncidentFolder(self.folder.path).open(
            Incident(
                kind="stuck", run=run, attempt=1, worker=worker, tag=TAG, host="node-1", started=self.now - 302,
                found=self.now, found_after_s=2.1, threshold_s=300.0, guilty="os.fork in cleanlab/filter.py:404",
                evidence={"stacks": [stack], "message": "silent for 302 s"}, done=("stacks saved", "tree killed"),
                outcome="retried: finished in 41 s", prevent=("pass n_jobs=1",),
            )
        )  # fmt: skip
        self.write(
            "incident", id=incident.id, incident="stuck", run=run, worker=worker, tag=TAG, text=incident.guilty,
            severity=incident.severity, outcome=incident.outcome,
        )  # fmt: skip
        self.tell()

    def finish(self) -> None:
        """The session ends."""
        self.folder.live_file.unlink()
        complete = not self.waiting and not self.running
        self.write("sweep-ended", sweep=self.sweep, status="complete" if complete else "incomplete", reason="")
        self.write("ended", status="ok", reason="")
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()


def euros(amount: float) -> dict[str, Any]:
    return {"amount": round(amount, 4), "currency": "EUR"}
