"""A view in the shape of ``scalable report --format json``, which ``report.json`` has too."""

from __future__ import annotations

from typing import Any

from scalable.observe.bills import Bill
from scalable.observe.fields import count, mapping, memory, money, number
from scalable.observe.folders import RunFolder
from scalable.observe.liveness import State, state_of
from scalable.observe.reading import read
from scalable.observe.sweeps import SweepProgress
from scalable.observe.view import RunView, TagTasks
from scalable.quantities import Money

DECISION = ("t", "direction", "tag", "count", "reason")
FACTS = ("project", "manifest", "target", "provider", "host", "pid", "scheduler", "version", "python", "command")


def report_of(view: RunView, state: State, now: float) -> dict[str, Any]:
    """All there is to say about a run; ``now`` is for runs that have not ended."""
    until = end_of(view, state, now)
    bill = view.bill(until, over=state.over)
    return {
        "run": run(view, state, until),
        "workers": {tag: workers(view, tag) for tag in sorted(view.fleet.kinds)},
        "scaling": {"up": view.scaled["up"], "down": view.scaled["down"], "decisions": decisions(view)},
        "tasks": {tag: tasks(work, view.fleet.busy_share(tag, until)) for tag, work in sorted(view.work.items())},
        "sweeps": {name: sweep(one) for name, one in sorted(view.sweeps.items())},
        "failures": sorted(view.failures, key=lambda one: (one["t"], one["task"], one["error"], one["worker"])),
        "retries": {"count": view.retries.total(), "by_cause": dict(sorted(view.retries.items()))},
        "losses": dict(sorted(view.losses.items())),
        "peaks": {
            tag: peak(work, view.memory_limit(tag)) for tag, work in sorted(view.work.items()) if work.peak is not None
        },
        "cost": bill.to_dict() if bill is not None else cost(view.spent),
        "plan_vs_actual": plan_vs_actual(view, until, bill) if view.plan else None,
        "findings": sorted(view.findings.values(), key=lambda found: (found["t"], found["code"])),
        "alerts": view.alerts,
        "incidents": incidents(view),
        "timeline": [{"t": t, "tag": tag, "workers": live} for t, tag, live in view.fleet.timeline],
    }


def recorded_report(folder: RunFolder, now: float) -> tuple[RunView, dict[str, Any]]:
    """Read a run's journal; return its view, and the report with what the journal itself is like."""
    records = read(folder.journal)
    view = RunView.of(records)
    report = report_of(view, state_of(view, folder.facts()), now)
    report["run"] |= {"run_id": folder.run_id, "records": view.records}
    report["run"] |= {"damaged_lines": records.damaged, "torn": records.torn}
    return view, report


def decisions(view: RunView) -> list[dict[str, Any]]:
    return [{name: one[name] for name in DECISION} for one in view.decisions]


def end_of(view: RunView, state: State, now: float) -> float:
    """The moment up to which things are counted: the end, the last sign of one that is gone, or now."""
    if view.ended:
        return float(view.ended["t"])
    return now if state is State.RUNNING else float(view.last or now)


def run(view: RunView, state: State, until: float) -> dict[str, Any]:
    began = view.began
    return {
        "run_id": view.run_id,
        **{name: view.started[name] for name in FACTS if name in view.started},
        "state": state.value,
        "reason": view.ended.get("reason") or "",
        "started": began,
        "ended": until if state.over else None,
        "duration_s": rounded(max(0.0, until - began)) if began is not None else None,  # a clock may be set back
    }


def workers(view: RunView, tag: str) -> dict[str, Any]:
    kind = view.fleet.kinds[tag]
    return {
        "started": kind.started,
        "removed": kind.removed,
        "final": kind.final,
        "most": kind.most,
        "requested": view.fleet.never_joined(tag),
        "refused": kind.refused,
        "lost": dict(sorted(kind.lost.items())),
    }


def tasks(work: TagTasks, busy_share: float | None) -> dict[str, Any]:
    return {
        "count": work.finished + work.failed,
        "failed": work.failed,
        "stopped": work.stopped,
        "retries": work.retries.total(),
        "seconds": {
            "total": rounded(work.seconds.total),
            "mean": rounded(work.seconds.mean),
            "p50": rounded(work.seconds.quantile(0.5)),
            "p95": rounded(work.seconds.quantile(0.95)),
        },
        "busy_share": rounded(busy_share),
    }


def sweep(one: SweepProgress) -> dict[str, Any]:
    seconds = {"mean": rounded(one.took.mean), "measured": one.took.count}
    return {**one.to_dict(), "unit_seconds": seconds, "cores": rounded(one.cores), "peak": one.peak}


def peak(work: TagTasks, limit: int | None) -> dict[str, Any]:
    share = work.peak / limit if work.peak and limit else None
    return {"bytes": work.peak, "task": work.peak_of, "limit": limit, "share": rounded(share)}


def incidents(view: RunView) -> list[dict[str, Any]]:
    """Those that have a file of their own, and losses that none of them tells of."""

    def told(one: dict[str, Any]) -> tuple[Any, Any]:
        return one["kind"], one["run"] or one["worker"]

    known = {told(one) for one in view.recorded.values()}
    known |= {("raised", run) for kind, run in known if kind == "fork refused"}  # the error is how the run ended
    others = [one for one in view.incidents if told(one) not in known]
    return sorted((*view.recorded.values(), *others), key=lambda one: (one["started"], one["id"]))


def plan_vs_actual(view: RunView, until: float, bill: Bill | None = None) -> dict[str, Any]:
    """What was predicted beside what came. Nothing stands where one of them is not known."""
    plan = view.plan
    planned, kinds = mapping(plan.get("workers_by_tag")), view.fleet.kinds
    known_tasks, known_peaks = mapping(plan.get("tasks")), mapping(plan.get("peaks"))
    work = view.work
    return {
        "workers": {
            tag: pair(count(planned.get(tag)), kinds[tag].most if tag in kinds else 0)
            for tag in sorted({*planned, *kinds})
        },
        "startup_s": pair(rounded(number(plan.get("ready_s"))), rounded(view.startup_s)),
        "wall_s": pair(rounded(number(plan.get("wall_s"))), rounded(wall(view, until))),
        "cost": pair(cost(money(plan.get("cost"))), cost(bill.money if bill is not None else view.spent)),
        "node_hours": pair(number(plan.get("node_hours")), rounded(bill.hours) if bill is not None else None),
        "tasks": {
            tag: pair(count(known_tasks[tag]), work[tag].finished + work[tag].failed if tag in work else 0)
            for tag in sorted(known_tasks)
        },
        "peaks": {
            tag: pair(memory(known_peaks[tag]), work[tag].peak if tag in work else None) for tag in sorted(known_peaks)
        },
        "retries": pair(0, view.retries.total()),
        "there": sum(one.there for one in view.sweeps.values()),
    }


def wall(view: RunView, until: float) -> float | None:
    """From the first task's start to the last one's end, as plans count it; the whole run if it had no tasks."""
    if view.work_began is not None and view.work_ended is not None:
        return view.work_ended - view.work_began
    return until - view.began if view.began is not None else None


def pair(planned: Any, actual: Any) -> dict[str, Any]:
    return {"planned": planned, "actual": actual}


def cost(amount: Money | None) -> dict[str, Any] | None:
    return amount.to_dict() if amount is not None else None


def rounded(value: float | None) -> float | None:
    return round(value, 3) if value is not None else None
