"""The differences between two runs: their code, manifest and data, then rows, time and cost.

Both sides are read with the one fold that reports are made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from scalable.observe.folders import RunFolder
from scalable.observe.report import recorded_report
from scalable.observe.sweep_progress import SweepProgress, code_by_stage, finished_rows
from scalable.observe.view import RunView

CODE, MANIFEST, DATA, SETUP = "code", "manifest", "data", "setup"  # what a run was given
STATE, ROWS, TASKS, TIME, COST = OUTCOMES = ("state", "rows", "tasks", "time", "cost")  # what it came to
DIGEST = "digest"
NOT_RUN = "not run"
STATED = ("run", "factor", "settings", "base", "trials")
"""What the start of a sweep states besides its code and its data."""


@dataclass(frozen=True, slots=True)
class RunDifference:
    """One fact about two runs; nothing stands where a run does not record it."""

    about: str
    """One of the words above."""
    name: str
    """What of that: a stage, a setting, finished rows."""
    a: Any
    b: Any
    sweep: str = ""

    @property
    def same(self) -> bool | None:
        """True if both are alike; nothing if that is not known."""
        return None if self.a is None or self.b is None else bool(self.a == self.b)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "same": self.same}


def compare(a: RunFolder, b: RunFolder, now: float) -> list[RunDifference]:
    """Return what is known of both runs, side by side; ``now`` is for runs that have not ended."""
    (view_a, report_a), (view_b, report_b) = (recorded_report(folder, now) for folder in (a, b))
    facts_a, facts_b = report_a["run"], report_b["run"]
    compared = [
        RunDifference(MANIFEST, "file", facts_a.get("manifest"), facts_b.get("manifest")),
        RunDifference(MANIFEST, DIGEST, facts_a.get("manifest_digest"), facts_b.get("manifest_digest")),
        *(RunDifference(SETUP, name, facts_a.get(name), facts_b.get(name)) for name in ("target", "version", "python")),
    ]
    for sweep in sorted({*view_a.sweeps, *view_b.sweeps}):
        compared += of_sweep(sweep, view_a.sweeps.get(sweep), view_b.sweeps.get(sweep))
    if not (view_a.sweeps or view_b.sweeps):
        tasks_a, tasks_b = tasks(view_a), tasks(view_b)
        compared += [RunDifference(TASKS, name, tasks_a[name], tasks_b[name]) for name in tasks_a]
    compared.append(RunDifference(STATE, "state", facts_a["state"], facts_b["state"]))
    compared.append(RunDifference(TIME, "seconds", facts_a["duration_s"], facts_b["duration_s"]))
    return [*compared, RunDifference(COST, "bill", price(report_a["cost"]), price(report_b["cost"]))]


def of_sweep(sweep: str, a: SweepProgress | None, b: SweepProgress | None) -> Iterator[RunDifference]:
    status_a, status_b = (NOT_RUN if side is None else side.status for side in (a, b))
    yield RunDifference(STATE, "status", status_a, status_b, sweep)
    if a is None or b is None:
        return
    stages_a, stages_b = code_by_stage(a.code), code_by_stage(b.code)
    for stage in {**stages_a, **stages_b} or ("workload",):
        code_a, code_b = (stages.get(stage, "" if stages else None) for stages in (stages_a, stages_b))
        yield RunDifference(CODE, stage, code_a, code_b, sweep)
    yield RunDifference(DATA, "data", a.data or None, b.data or None, sweep)
    for name in STATED:
        value_a, value_b = (getattr(side, name) if name in side.recorded else None for side in (a, b))
        yield RunDifference(SETUP, name, value_a, value_b, sweep)
    rows_a, rows_b = rows(a), rows(b)
    for name in rows_a:
        yield RunDifference(ROWS, name, rows_a[name], rows_b[name], sweep)


def rows(sweep: SweepProgress) -> dict[str, int]:
    return {"expected": sweep.expected, "finished": finished_rows(sweep.to_dict()), "failed": sweep.failed}


def tasks(view: RunView) -> dict[str, int]:
    return {"finished": sum(work.finished for work in view.work.values()), "failed": view.failed}


def price(cost: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the amount alone; nothing where nothing is charged."""
    return {name: cost[name] for name in ("amount", "currency")} if cost and cost["currency"] else None
