"""What the page shows of a run: a fold of its journal, and of what ``live.json`` says this moment, into sections.

Pure: records and moments come in, sections go out. Taking in a record costs the same however long the run is, and a
section is bounded however large it is. Whatever ``scalable status`` and ``scalable report`` say, too, comes from the
same functions.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from scalable.observe.bills import Bill
from scalable.observe.current import WINDOW_S, current
from scalable.observe.fields import count, memory, money, tag_of, text
from scalable.observe.liveness import State
from scalable.observe.report import cost, end_of, plan_vs_actual, rounded, run
from scalable.observe.view import RunView
from scalable.show.console.grids import Grids
from scalable.show.console.series import Series
from scalable.show.console.trouble import Troubles
from scalable.show.console.workers import workers

MOST_DECISIONS = 100
RECENT = 500  # units whose rows a sweep's rate is computed from
NOTHING_YET = "nothing has run yet"
RUN_FIELDS = (
    "run_id", "project", "target", "provider", "state", "reason", "paused", "started", "ended", "elapsed_s", "host",
    "silent_s", "rate_per_min", "left_s", "command", "now",
)  # fmt: skip


class View:
    """``add`` every record, then ask for ``sections``; ``grids`` tells its changes by itself."""

    def __init__(self) -> None:
        self.summary = RunView()
        self.grids = Grids()
        self.series = Series()
        self.troubles = Troubles()
        self.decisions: deque[dict[str, Any]] = deque(maxlen=MOST_DECISIONS)
        self.wanted: Counter[str] = Counter()
        """Workers by tag that were asked for and not told to go."""
        self.members: dict[str, str] = {}
        """Their tags, by name."""
        self.paused = ""
        self.recent: dict[str, deque[tuple[float, int]]] = {}
        """By sweep, when rows came lately and how many."""
        self.aside = 0
        """Records of rows that became dead letters."""
        self.bill: Bill | None = None
        """Made once nothing more comes of a run that is over: it takes every unit of the run."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one record that has a time ``t`` and a ``kind``."""
        kind = record["kind"]
        self.bill = None
        self.summary.take(record)
        self.grids.add(record)
        self.series.add(record, self.summary.memory_limit(tag_of(record)) if kind == "progress" else None)
        self.troubles.add(record)
        match kind:
            case "scale":
                self.decide(record)
            case "worker-started":
                self.come(text(record.get("worker")), tag_of(record))
            case "worker-leaving" | "worker-removed" | "worker-lost":
                self.go(text(record.get("worker")))
            case "rows":
                recent = self.recent.setdefault(text(record.get("sweep")), deque(maxlen=RECENT))
                recent.append((record["t"], count(record.get("count"))))
                self.aside += record.get("aside") is True
            case "operator" if record.get("ask") in ("pause", "resume"):
                by = text(record.get("by")) or "an operator"
                self.paused = f"paused by {by}" if record["ask"] == "pause" else ""

    def come(self, worker: str, tag: str) -> None:
        self.go(worker)
        self.members[worker] = tag
        self.wanted[tag] += 1

    def go(self, worker: str) -> None:
        if (tag := self.members.pop(worker, None)) is not None:
            self.wanted[tag] -= 1

    def decide(self, record: Mapping[str, Any]) -> None:
        """A decision with the number of workers before and after it."""
        tag, up, by = tag_of(record), record.get("direction") == "up", count(record.get("count"))
        before = self.wanted[tag]
        counts = {"from": before, "to": before + by if up else max(0, before - by)}
        told = {"t": record["t"], "direction": "up" if up else "down", "tag": tag, **counts}
        self.decisions.append({**told, "reason": text(record.get("reason"))})

    def sections(self, state: State, now: float, live: Mapping[str, Any], run_id: str = "") -> dict[str, Any]:
        """Everything but the grids, which are told by their changes."""
        summary = self.summary
        if state.over:
            self.grids.end()
        here = [] if state.over else workers(summary, live)
        for one in here:
            self.series.use(memory(one["memory"]), memory(one["memory_limit"]))
        told = current(summary, state, now)
        until = end_of(summary, state, now)
        paused = text(live.get("paused")) if live else self.paused
        facts = {**run(summary, state, until), **told, "paused": "" if state.over else paused, "now": now}
        sweeps = [self.sweep(name, until, over=state.over) for name in summary.sweeps]
        facts |= {"run_id": run_id or told["run_id"]}
        facts |= {"left_s": max((one["left_s"] for one in sweeps if one["left_s"] is not None), default=told["left_s"])}
        return {
            "run": {name: facts.get(name) for name in RUN_FIELDS},
            "sweeps": sweeps,
            "workers": here,
            "series": self.series.to_dict(),
            "decisions": list(self.decisions),
            "cost": self.cost(told),
            "trouble": self.troubles.to_dict(summary, live, over=state.over),
            "plan": self.plan(state, until),
        }

    def sweep(self, name: str, until: float, *, over: bool) -> dict[str, Any]:
        one = self.summary.sweeps[name]
        names = ("factor", "tag", "status", "reason", "expected", "there", "rows", "failed", "units", "units_done")
        told = {"name": name, **{each: getattr(one, each) for each in names}, "began": one.began, "left_s": None}
        if one.status != "running":
            return told
        if over:
            return {**told, "status": "interrupted"}
        known = self.recent.get(name, ())
        recent = [(moment, rows) for moment, rows in known if until - WINDOW_S < moment <= until]
        left, came = one.expected - one.there - one.rows, sum(rows for _, rows in recent)
        if recent and came and left > 0:
            first = recent[0][0] if len(known) == RECENT else one.began or 0.0  # earlier ones are forgotten
            since = max(until - recent[0][0], until - max(first, until - WINDOW_S), 1.0)
            told["left_s"] = rounded(left * since / came)
        return told

    def cost(self, told: Mapping[str, Any]) -> dict[str, Any]:
        planned = cost(money(self.summary.plan.get("cost")))
        spent = {"spent": told["cost"], "per_hour": told["per_hour"]}
        budget = {"budget": cost(self.summary.costs.budget), "budget_left": told["budget_left"]}
        return {**spent, **budget, "planned": planned}

    def plan(self, state: State, until: float) -> dict[str, Any] | None:
        """Beside what came; while it runs, money is what was spent so far."""
        if state.over and self.bill is None:
            self.bill = self.summary.costs.bill(until, over=True)
        bill = self.bill if state.over else None
        return plan_vs_actual(self.summary, until, bill) if self.summary.plan else None


def empty(now: float) -> dict[str, Any]:
    """The section ``run`` where nothing has run."""
    return {**dict.fromkeys(RUN_FIELDS), "run_id": "", "state": NOTHING_YET, "reason": "", "paused": "", "now": now}
