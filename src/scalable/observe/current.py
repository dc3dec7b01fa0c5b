"""What is going on in a run right now, in the shape of ``scalable status --format json``; pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scalable.observe.costs import left_of_budget
from scalable.observe.fields import UNTAGGED, count, mapping, money
from scalable.observe.liveness import State
from scalable.observe.report import cost, end_of, rounded
from scalable.observe.view import RunView

WINDOW_S = 300.0  # a rate is that of the last five minutes
ENOUGH = 3  # ended tasks that make a rate
MOST_RUNS = 20  # of which it is told how far they are
SHOWN = 5  # findings, the latest ones
NOT_CONNECTED = "starting"  # why a worker is not here if its backend says nothing


def current(view: RunView, state: State, now: float) -> dict[str, Any]:
    until = end_of(view, state, now)
    tasks = queue(view, state)
    rate = rate_s(view, until)
    left = sum(each["waiting"] + each["running"] for each in tasks.values())
    held = [one for one in view.findings.values() if not one["over"]]
    found = sorted(held, key=lambda one: one["last"], reverse=True)[:SHOWN]
    return {
        "run_id": view.run_id,
        "project": view.started.get("project"),
        "target": view.started.get("target"),
        "state": state.value,
        "elapsed_s": rounded(max(0.0, until - view.began)) if view.began is not None else None,
        "host": view.started.get("host"),
        "silent_s": rounded(max(0.0, until - view.last)) if view.last is not None else None,
        "workers": {} if state.over else {tag: workers(view, tag) for tag in sorted(view.fleet.kinds)},
        "tasks": tasks,
        "sweeps": {name: sweep.to_dict() for name, sweep in view.sweeps.items()},
        "runs": [] if state.over else runs(view),
        "rate_per_min": rounded(rate * 60) if rate is not None else None,
        "left_s": rounded(left / rate) if rate and left and not state.over else None,
        "cost": cost(view.spent),
        "budget_left": cost(left_of_budget(view.costs, view.spent)),
        "per_hour": cost(view.per_hour or money(view.gauge.get("per_hour"))),
        "findings": found,
        "paused": "" if state.over else view.paused,
        "incidents": len(view.recorded),
        "retries": view.retries.total(),
        "alerts": [] if state.over else list(view.firing.values()),
    }


def workers(view: RunView, tag: str) -> dict[str, Any]:
    """Who is here is known from their coming and going; who is busy from the last gauge, else from attempts."""
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
    """Runs that say how far they are."""
    return [
        {"run": run, "worker": view.running[run][0], **told}
        for run, told in list(view.progress.items())[:MOST_RUNS]
        if run in view.running
    ]


def queue(view: RunView, state: State) -> dict[str, dict[str, int]]:
    gauge = {tag or UNTAGGED: told for tag, told in mapping(view.gauge.get("tasks")).items()}
    running = Counter(tag for _, tag in view.running.values())
    found = {}
    for tag in sorted({*gauge, *view.work, *running}):
        told, work = mapping(gauge.get(tag)), view.work.get(tag)
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


def rate_s(view: RunView, now: float) -> float | None:
    """Tasks ended per second, lately."""
    recent = [moment for moment in view.recent if now - WINDOW_S < moment <= now]
    if len(recent) < ENOUGH:
        return None
    return len(recent) / max(now - min(recent), 1.0)
