"""A view in the shapes that machines read: ``scalable report --format json``, and ``scalable status`` while it runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scalable.observe.bills import Bill
from scalable.observe.costs import left_of_budget
from scalable.observe.fields import UNTAGGED, count, mapping, memory, money, number
from scalable.observe.folders import RunFolder
from scalable.observe.hours import figures
from scalable.observe.journal import read
from scalable.observe.liveness import LastSign, RunState, state_in
from scalable.observe.sweep_progress import SweepProgress
from scalable.observe.view import RunView, TagTasks
from scalable.quantities import Money

DECISION = ("t", "direction", "tag", "count", "reason")
FACTS = (
    "project", "manifest", "manifest_digest", "target", "provider", "host", "pid", "scheduler", "version", "python",
    "command", "driver",
)  # fmt: skip


def report_of(view: RunView, state: RunState, now: float, sign: LastSign | None = None) -> dict[str, Any]:
    """Return all there is to say about a run; ``now`` and ``sign`` are for runs that have not ended."""
    until = end_of(view, state, now, sign)
    bill = view.bill(until, over=state.over)
    return {
        "run": run(view, state, until),
        "workers": {tag: workers(view, tag) for tag in sorted(view.fleet.kinds)},
        "scaling": {"up": view.scaled["up"], "down": view.scaled["down"], "decisions": decisions(view)},
        "tasks": {tag: tasks(work, view.fleet.busy_share(tag, until)) for tag, work in sorted(view.work.items())},
        "fan_outs": fan_outs(view),
        "sweeps": {name: sweep(entry) for name, entry in sorted(view.sweeps.items())},
        "failures": sorted(
            view.failures, key=lambda entry: (entry["t"], entry["task"], entry["error"], entry["worker"])
        ),
        "retries": {"count": view.retries.total(), "by_cause": dict(sorted(view.retries.items()))},
        "losses": dict(sorted(view.losses.items())),
        "peaks": {
            tag: peak(work, view.memory_limit(tag)) for tag, work in sorted(view.work.items()) if work.peak is not None
        },
        "cost": bill.to_dict() if bill is not None else cost(view.spent),
        "hours": view.hours.to_dict(),
        "plan_vs_actual": plan_vs_actual(view, until, bill) if view.plan else None,
        "findings": [
            known.to_dict()
            for known in sorted(view.findings.values(), key=lambda known: (known.first, known.finding.code))
        ],
        "alerts": view.alerts,
        "incidents": incidents(view),
        "timeline": [{"t": t, "tag": tag, "workers": live} for t, tag, live in view.fleet.timeline],
    }


def recorded_report(folder: RunFolder, now: float) -> tuple[RunView, dict[str, Any]]:
    """Read a run's journal; return its view, and the report with what the journal itself is like."""
    records = read(folder.journal)
    view = RunView.of(records)
    report = report_of(view, state_in(folder, view), now, None if view.ended else LastSign.of(folder))
    report["run"] |= {"run_id": folder.run_id, "records": view.records}
    report["run"] |= {"damaged_lines": records.damaged, "torn": records.torn}
    return view, report


def decisions(view: RunView) -> list[dict[str, Any]]:
    return [{name: decision[name] for name in DECISION} for decision in view.decisions]


def end_of(view: RunView, state: RunState, now: float, sign: LastSign | None = None) -> float:
    """Return the moment up to which things are counted: the end, the last sign of one that is gone, or now."""
    if view.ended:
        return float(view.ended["t"])
    if state is RunState.RUNNING:
        return now
    return float(max(view.last or 0.0, (sign.at if sign else None) or 0.0) or now)


def run(view: RunView, state: RunState, until: float) -> dict[str, Any]:
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
        "recalled": work.recalled,
        "retries": work.retries.total(),
        "seconds": {
            "total": rounded(work.seconds.total),
            "mean": rounded(work.seconds.mean),
            "p50": rounded(work.seconds.quantile(0.5)),
            "p95": rounded(work.seconds.quantile(0.95)),
        },
        "busy_share": rounded(busy_share),
    }


def fan_outs(view: RunView) -> dict[str, dict[str, Any]]:
    """Return how far tasks over axes are."""
    return {task: each.progress(view.jobs, view.recalled) for task, each in view.fan_outs.items()}


def sweep(progress: SweepProgress) -> dict[str, Any]:
    seconds = {"mean": rounded(progress.took.mean), "measured": progress.took.count}
    return {**progress.to_dict(), "unit_seconds": seconds, "cores": rounded(progress.cores), "peak": progress.peak}


def peak(work: TagTasks, limit: int | None) -> dict[str, Any]:
    share = work.peak / limit if work.peak and limit else None
    return {"bytes": work.peak, "task": work.peak_of, "limit": limit, "share": rounded(share)}


def incidents(view: RunView) -> list[dict[str, Any]]:
    """Return those that have a file of their own, and losses that none of them tells of."""

    def subject(record: dict[str, Any]) -> tuple[Any, Any]:
        return record["kind"], record["run"] or record["worker"]

    known = {subject(incident) for incident in view.recorded.values()}
    known |= {(incident["kind"], incident["worker"]) for incident in view.recorded.values()}  # of a worker and its run
    known |= {("raised", run) for kind, run in known if kind == "fork refused"}  # the error is how the run ended
    others = [incident for incident in view.incidents if subject(incident) not in known]
    return sorted((*view.recorded.values(), *others), key=lambda incident: (incident["started"], incident["id"]))


def plan_vs_actual(view: RunView, until: float, bill: Bill | None = None) -> dict[str, Any]:
    """Return what was predicted beside what came. Nothing stands where one of them is not known."""
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
        "hours": pair(figures(plan.get("hours")) or None, view.hours.used.to_dict() if view.hours.open else None),
        "node_hours": pair(number(plan.get("node_hours")), rounded(bill.hours) if bill is not None else None),
        "tasks": {
            tag: pair(count(known_tasks[tag]), work[tag].finished + work[tag].failed if tag in work else 0)
            for tag in sorted(known_tasks)
        },
        "peaks": {
            tag: pair(memory(known_peaks[tag]), work[tag].peak if tag in work else None) for tag in sorted(known_peaks)
        },
        "retries": pair(0, view.retries.total()),
        "there": sum(progress.there for progress in view.sweeps.values()),
    }


def wall(view: RunView, until: float) -> float | None:
    """Return seconds from the first task's start to the last one's end, as plans count; the whole run without tasks."""
    if view.work_began is not None and view.work_ended is not None:
        return view.work_ended - view.work_began
    return until - view.began if view.began is not None else None


def pair(planned: Any, actual: Any) -> dict[str, Any]:
    return {"planned": planned, "actual": actual}


def cost(amount: Money | None) -> dict[str, Any] | None:
    return amount.to_dict() if amount is not None else None


def rounded(value: float | None) -> float | None:
    return round(value, 3) if value is not None else None


WINDOW_S = 300.0  # a rate is that of the last five minutes
ENOUGH = 3  # ended tasks that make a rate
MOST_RUNS = 20  # of which it is told how far they are
SHOWN = 5  # findings, the latest ones
NOT_CONNECTED = "starting"  # why a worker is not here if its backend says nothing


def current(view: RunView, state: RunState, now: float, sign: LastSign | None = None) -> dict[str, Any]:
    until = end_of(view, state, now, sign)
    tasks = queue(view, state)
    rate = rate_s(view, until)
    left = sum(each["waiting"] + each["running"] for each in tasks.values())
    return {
        "run_id": view.run_id,
        "project": view.started.get("project"),
        "target": view.started.get("target"),
        "state": state.value,
        "elapsed_s": rounded(max(0.0, until - view.began)) if view.began is not None else None,
        "host": view.started.get("host"),
        "driver": dict(mapping(view.started.get("driver"))) or None,
        "silent_s": rounded(silent_s(view, state, until, sign)),
        "stopped": sign.stopped if sign is not None and not state.over else None,
        "workers": {} if state.over else {tag: workers_now(view, tag) for tag in sorted(view.fleet.kinds)},
        "tasks": tasks,
        "recalled": {tag: work.recalled for tag, work in sorted(view.work.items()) if work.recalled},
        "sweeps": {name: sweep.to_dict() for name, sweep in view.sweeps.items()},
        "fan_outs": fan_outs(view),
        "runs": [] if state.over else runs(view),
        "rate_per_min": rounded(rate * 60) if rate is not None else None,
        "left_s": rounded(left / rate) if rate and left and goes_on(view, state, sign) else None,
        "cost": cost(view.spent),
        "budget_left": cost(left_of_budget(view.costs, view.spent)),
        "hours": view.hours.to_dict(),
        "per_hour": cost(view.per_hour or money(view.gauge.get("per_hour"))),
        "findings": holding(view, SHOWN),
        "paused": "" if state.over else view.paused,
        "incidents": view.incident_count,
        "failures": view.failed,
        "retries": view.retries.total(),
        "alerts": [] if state.over else list(view.firing.values()),
    }


def holding(view: RunView, most: int) -> list[dict[str, Any]]:
    """Return the latest findings that were not withdrawn."""
    held = [known for known in view.findings.values() if not known.over]
    return [known.to_dict() for known in sorted(held, key=lambda known: known.last, reverse=True)[:most]]


def goes_on(view: RunView, state: RunState, sign: LastSign | None) -> bool:
    """Return whether its rate says something about its end: not if it is paused, stopped, or gives no sign."""
    return not (state.over or view.paused or (sign is not None and sign.missing))


def silent_s(view: RunView, state: RunState, until: float, sign: LastSign | None) -> float | None:
    """Return for how long nothing was heard of it: of one that is over, before its end."""
    if sign is not None and not state.over:
        return sign.silent_s
    return max(0.0, until - view.last) if view.last is not None else None


def workers_now(view: RunView, tag: str) -> dict[str, Any]:
    """Return who is here, by coming and going, and who is busy, by the last gauge, else by attempts."""
    gauge = mapping(mapping(view.gauge.get("workers")).get(tag))
    live = view.fleet.kinds[tag].live
    running = {worker for worker, of in view.running.values() if of == tag}
    awaited = view.fleet.awaited(tag)
    return {
        "live": live,
        "busy": min(live, count(gauge["busy"]) if "busy" in gauge else len(running)),
        "pending": len(awaited),
        "reasons": dict(Counter(worker.waits or NOT_CONNECTED for worker in awaited).most_common()),
    }


def runs(view: RunView) -> list[dict[str, Any]]:
    """Return runs that say how far they are."""
    return [
        {"run": run, "worker": view.running[run][0], **progress}
        for run, progress in list(view.progress.items())[:MOST_RUNS]
        if run in view.running
    ]


def queue(view: RunView, state: RunState) -> dict[str, dict[str, int]]:
    gauge = {tag or UNTAGGED: counts for tag, counts in mapping(view.gauge.get("tasks")).items()}
    running = Counter(tag for _, tag in view.running.values())
    queues = {}
    for tag in sorted({*gauge, *view.work, *running}):
        counts, work = mapping(gauge.get(tag)), view.work.get(tag)
        failed = max(count(counts.get("failed")), work.failed if work else 0)
        then = count(counts.get("done")) + count(counts.get("failed"))
        ended = max(then, work.finished + work.failed if work else 0)
        since = ended - then if "done" in counts else 0  # ended after the gauge was read
        waiting = max(0, count(counts.get("waiting")) - since)
        busy = max(0, count(counts.get("running")) - max(0, since - count(counts.get("waiting"))))
        began = max(0, running[tag] - busy) if not state.over else 0  # after the gauge was read
        waiting, busy = max(0, waiting - began), max(busy, running[tag]) if not state.over else 0
        if busy and not has_workers(view, tag):  # their workers went after the gauge was read
            waiting, busy = waiting + busy, 0
        done = ended - failed  # rows may fail after the gauge counted their job as done
        queues[tag] = {"waiting": waiting, "running": busy, "done": done, "failed": failed}
    return queues


def has_workers(view: RunView, tag: str) -> bool:
    """Return whether a worker of a tag is there; of any tag for work that may run anywhere."""
    kinds = view.fleet.kinds
    return any(kind.live for kind in ([kinds[tag]] if tag in kinds else kinds.values())) or not kinds


def rate_s(view: RunView, now: float) -> float | None:
    """Return the tasks ended per second, lately."""
    recent = [moment for moment in view.recent if now - WINDOW_S < moment <= now]
    if len(recent) < ENOUGH:
        return None
    return len(recent) / max(now - min(recent), 1.0)
