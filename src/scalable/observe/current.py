"""What is going on in a run right now, in the shape of ``scalable status --format json``; pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scalable.observe.costs import left_of_budget
from scalable.observe.fields import UNTAGGED, count, mapping, money
from scalable.observe.liveness import State
from scalable.observe.report import cost, end_of, rounded
from scalable.observe.summary import Summary

WINDOW_S = 300.0  # a rate is that of the last five minutes
ENOUGH = 3  # ended tasks that make a rate
MOST_RUNS = 20  # of which it is told how far they are
SHOWN = 5  # findings, the latest ones
NOT_CONNECTED = "starting"  # why a worker is not here if its backend says nothing


def current(summary: Summary, state: State, now: float) -> dict[str, Any]:
    until = end_of(summary, state, now)
    tasks = queue(summary, state)
    rate = rate_s(summary, until)
    left = sum(each["waiting"] + each["running"] for each in tasks.values())
    held = [one for one in summary.findings.values() if not one["over"]]
    found = sorted(held, key=lambda one: one["last"], reverse=True)[:SHOWN]
    return {
        "run_id": summary.run_id,
        "project": summary.started.get("project"),
        "target": summary.started.get("target"),
        "state": state.value,
        "elapsed_s": rounded(max(0.0, until - summary.began)) if summary.began is not None else None,
        "host": summary.started.get("host"),
        "silent_s": rounded(max(0.0, until - summary.last)) if summary.last is not None else None,
        "workers": {} if state.over else {tag: workers(summary, tag) for tag in sorted(summary.fleet.kinds)},
        "tasks": tasks,
        "sweeps": {name: sweep.to_dict() for name, sweep in summary.sweeps.items()},
        "runs": [] if state.over else runs(summary),
        "rate_per_min": rounded(rate * 60) if rate is not None else None,
        "left_s": rounded(left / rate) if rate and left and not state.over else None,
        "cost": cost(summary.spent),
        "budget_left": cost(left_of_budget(summary.costs, summary.spent)),
        "per_hour": cost(summary.per_hour or money(summary.gauge.get("per_hour"))),
        "findings": found,
        "alerts": [] if state.over else list(summary.firing.values()),
    }


def workers(summary: Summary, tag: str) -> dict[str, Any]:
    """Who is here is known from their coming and going; who is busy from the last gauge, else from attempts."""
    gauge = mapping(mapping(summary.gauge.get("workers")).get(tag))
    live = summary.fleet.kinds[tag].live
    running = {worker for worker, of in summary.running.values() if of == tag}
    awaited = summary.fleet.awaited(tag)
    return {
        "live": live,
        "busy": min(live, count(gauge["busy"]) if "busy" in gauge else len(running)),
        "pending": len(awaited),
        "reasons": dict(Counter(worker.waits or NOT_CONNECTED for worker in awaited).most_common()),
    }


def runs(summary: Summary) -> list[dict[str, Any]]:
    """Runs that say how far they are."""
    return [
        {"run": run, "worker": summary.running[run][0], **told}
        for run, told in list(summary.progress.items())[:MOST_RUNS]
        if run in summary.running
    ]


def queue(summary: Summary, state: State) -> dict[str, dict[str, int]]:
    gauge = {tag or UNTAGGED: told for tag, told in mapping(summary.gauge.get("tasks")).items()}
    running = Counter(tag for _, tag in summary.running.values())
    found = {}
    for tag in sorted({*gauge, *summary.work, *running}):
        told, work = mapping(gauge.get(tag)), summary.work.get(tag)
        done = max(count(told.get("done")), work.finished if work else 0)
        failed = max(count(told.get("failed")), work.failed if work else 0)
        then = count(told.get("done")) + count(told.get("failed"))
        since = done + failed - then if "done" in told else 0  # ended after the gauge was read
        waiting = max(0, count(told.get("waiting")) - since)
        busy = max(0, count(told.get("running")) - max(0, since - count(told.get("waiting"))))
        began = max(0, running[tag] - busy) if not state.over else 0  # after the gauge was read
        found[tag] = {
            "waiting": max(0, waiting - began),
            "running": max(busy, running[tag]) if not state.over else 0,
            "done": done,
            "failed": failed,
        }
    return found


def rate_s(summary: Summary, now: float) -> float | None:
    """Tasks ended per second, lately."""
    recent = [moment for moment in summary.recent if now - WINDOW_S < moment <= now]
    if len(recent) < ENOUGH:
        return None
    return len(recent) / max(now - min(recent), 1.0)
