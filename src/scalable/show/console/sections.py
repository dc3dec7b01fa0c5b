"""What the page shows of a run: its view, and what ``live.json`` says this moment, as sections.

Bounded however large the run is. Whatever ``scalable status`` and ``scalable report`` say, too, comes from the same
functions. Only the last ones, about rows that a store has or lacks, read more than they are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from scalable.errors import ScalableError
from scalable.observe import RunFolder
from scalable.observe.fields import UNTAGGED, listed, mapping, memory, money, text
from scalable.observe.fleet import Worker
from scalable.observe.liveness import LastSign, RunState
from scalable.observe.report import (
    NOT_CONNECTED,
    WINDOW_S,
    cost,
    current,
    end_of,
    goes_on,
    holding,
    plan_vs_actual,
    rounded,
    run,
)
from scalable.observe.sweep_progress import RECENT, SweepProgress
from scalable.observe.view import RunView
from scalable.store import Store
from scalable.store.marking import mark
from scalable.sweeps.loading import open_results
from scalable.wording import plural

MOST_DECISIONS = 100
LATEST = 50  # retries, alerts, findings and failures that are listed
MOST_INCIDENTS = 100  # that are listed, the latest
NOTHING_YET = "nothing has run yet"
RUN_FIELDS = (
    "run_id", "project", "target", "provider", "state", "reason", "paused", "started", "ended", "elapsed_s", "host",
    "silent_s", "stopped", "rate_per_min", "left_s", "command", "now",
)  # fmt: skip


def sections(
    view: RunView, state: RunState, now: float, live: Mapping[str, Any], run_id: str = "", sign: LastSign | None = None
) -> dict[str, Any]:
    """Return everything but the grids, which are told by their changes."""
    figures = current(view, state, now, sign)
    until = end_of(view, state, now, sign)
    paused = text(live.get("paused")) if live else view.paused
    facts = {**run(view, state, until), **figures, "paused": "" if state.over else paused, "now": now}
    moves = goes_on(view, state, sign) and not facts["paused"]
    sweeps = [sweep(progress, until, over=state.over, moves=moves) for progress in view.sweeps.values()]
    left = [entry["left_s"] for entry in sweeps if entry["left_s"] is not None]
    facts |= {"run_id": run_id or figures["run_id"]}
    facts |= {"left_s": max(left, default=figures["left_s"] if moves else None)}
    return {
        "run": {name: facts.get(name) for name in RUN_FIELDS},
        "sweeps": sweeps,
        "workers": [] if state.over else workers(view, live),
        "series": view.series.to_dict(),
        "decisions": [decision(entry) for entry in view.decisions[-MOST_DECISIONS:]],
        "cost": money_spent(view, figures),
        "trouble": trouble(view, live, over=state.over),
        "plan": plan_vs_actual(view, until, view.bill(until, over=True) if state.over else None) if view.plan else None,
    }


def use_memory(view: RunView, live: Mapping[str, Any]) -> None:
    """Count what the session says its workers use now to the next point of the series."""
    for worker in map(mapping, listed(live.get("workers"))):
        view.series.use_memory(memory(worker.get("memory")), memory(worker.get("memory_limit")))


def sweep(progress: SweepProgress, until: float, *, over: bool, moves: bool = True) -> dict[str, Any]:
    """Return where a sweep is; how long it will take only if its run goes on at its rate."""
    names = ("factor", "tag", "status", "reason", "expected", "there", "rows", "failed", "units", "units_done", "began")
    facts = {"name": progress.sweep, **{name: getattr(progress, name) for name in names}, "left_s": None}
    if progress.status != "running":
        return facts
    if over:
        return {**facts, "status": "interrupted"}
    recent = [(moment, rows) for moment, rows in progress.recent if until - WINDOW_S < moment <= until]
    left, came = progress.expected - progress.there - progress.rows, sum(rows for _, rows in recent)
    if moves and recent and came and left > 0:
        forgotten = len(progress.recent) == RECENT
        first = recent[0][0] if forgotten else progress.began or 0.0
        since = max(until - recent[0][0], until - max(first, until - WINDOW_S), 1.0)
        facts["left_s"] = rounded(left * since / came)
    return facts


def decision(record: Mapping[str, Any]) -> dict[str, Any]:
    """With the number of workers before and after it."""
    facts = {name: record[name] for name in ("t", "direction", "from", "to")}
    return {**facts, "tag": text(record["tag"]) or UNTAGGED, "reason": text(record["reason"])}


def money_spent(view: RunView, figures: Mapping[str, Any]) -> dict[str, Any]:
    spent = {"spent": figures["cost"], "per_hour": figures["per_hour"]}
    budget = {"budget": cost(view.costs.budget), "budget_left": figures["budget_left"]}
    return {**spent, **budget, "planned": cost(money(view.plan.get("cost"))), "hours": figures["hours"]}


def trouble(view: RunView, live: Mapping[str, Any], *, over: bool) -> dict[str, Any]:
    """Return what went wrong in a run and what is wrong now: retries, alerts, findings, incidents, failures."""
    firing = [{**alert, "since": alert["t"]} for alert in view.firing.values()]
    active = list(map(mapping, live["alerts"])) if isinstance(live.get("alerts"), list) else firing
    retries = {"count": view.retries.total(), "by_cause": dict(view.retries.most_common())}
    return {
        "retries": {**retries, "latest": view.retried[-LATEST:]},
        "alerts": [] if over else active[:LATEST],
        "alerts_past": view.alerts[-LATEST:],
        "findings": holding(view, LATEST),
        "incidents": [incident(view.recorded[number]) for number in sorted(view.recorded)[-MOST_INCIDENTS:]],
        "incident_count": view.incident_count,
        "failures": view.failures[-LATEST:],
        "failure_count": view.failed,
    }


def incident(record: Mapping[str, Any]) -> dict[str, Any]:
    facts = {name: record.get(name) for name in ("id", "kind", "run", "worker", "started", "severity", "outcome")}
    return {**facts, "text": text(mapping(record.get("evidence")).get("detail"))}


def empty(now: float) -> dict[str, Any]:
    """Return the section ``run`` where nothing has run."""
    return {**dict.fromkeys(RUN_FIELDS), "run_id": "", "state": NOTHING_YET, "reason": "", "paused": "", "now": now}


MOST_WORKERS = 1000
FIELDS = (
    "worker", "tag", "state", "why", "host", "job", "memory", "memory_limit", "cpu", "cpus", "idle_s", "rows_per_min",
    "runs", "tasks", "task_count",
)  # fmt: skip
SHOWN_OF_RUN = ("run", "note", "step", "of", "seconds", "memory")


def workers(view: RunView, live: Mapping[str, Any]) -> list[dict[str, Any]]:
    live_workers = live.get("workers")
    if isinstance(live_workers, list):
        return [told_by_session(mapping(worker)) for worker in live_workers[:MOST_WORKERS]]
    runs: dict[str, list[dict[str, Any]]] = {}
    for name, (worker, _) in view.running.items():
        how_far = view.progress.get(name, {})
        runs.setdefault(worker, []).append({**dict.fromkeys(SHOWN_OF_RUN), "run": name, **how_far})
    present = {name: worker for name, worker in view.fleet.workers.items() if not worker.gone}
    return [told_by_journal(name, present[name], runs.get(name, []), view) for name in sorted(present)[:MOST_WORKERS]]


def told_by_session(worker: Mapping[str, Any]) -> dict[str, Any]:
    runs = [mapping(run) for run in listed(worker.get("runs"))]
    return {
        **{name: worker.get(name) for name in FIELDS},
        "runs": [{name: run.get(name) for name in SHOWN_OF_RUN} for run in runs],
    }


def told_by_journal(name: str, worker: Worker, runs: list[dict[str, Any]], view: RunView) -> dict[str, Any]:
    """Without a ``live.json``, as of runs of earlier versions: who is there and what each runs."""
    state = "busy" if runs else "idle"
    if worker.leaving or worker.joined is None:
        state = "leaving" if worker.leaving else "starting"
    why = worker.leaving or ("" if worker.joined is not None else worker.waits or NOT_CONNECTED)
    used = [run["memory"] for run in runs if isinstance(run["memory"], int)]
    facts = {
        "worker": name,
        "tag": worker.tag,
        "state": state,
        "why": why,
        "host": worker.host or None,
        "job": worker.job,
    }
    memory = {"memory": sum(used) if used else None, "memory_limit": view.memory_limit(worker.tag)}
    return {**dict.fromkeys(FIELDS), **facts, **memory, "runs": runs, "tasks": [], "task_count": 0}


@contextmanager
def store_of(run: RunFolder) -> Iterator[Store]:
    from scalable.show.report.material import manifest_of  # takes a second, which no page shall wait for

    manifest, _ = manifest_of(run, run.facts())
    with open_results(manifest, create=False) as store:
        yield store


def dead_letters(run: RunFolder) -> int | None:
    """Return how many there are; nothing where that cannot be known."""
    try:
        with store_of(run) as store:
            return len(store.dead_letters())
    except (ScalableError, OSError):
        return None


def mark_failed(run: RunFolder, name: str, reason: str) -> str:
    with store_of(run) as store:
        done = mark(store, name, reason)
    follows = "the next run computes them again" if done.marked else "nothing changed"
    return f"{done}; {follows}"


def replay(run: RunFolder) -> str:
    with store_of(run) as store:
        letters = store.dead_letters()
        if not letters:
            return "there are no dead letters: the database took everything it was given"
        outcome = store.replay_dead_letters([letter.id for letter in letters])
    phrases = [f"{plural(outcome.replayed, 'dead letter')} stored"]
    if outcome.left:
        phrases.append(f"{plural(len(outcome.left), 'dead letter')} refused again: {outcome.left[0].reason}")
    if outcome.reason:
        phrases.append(f"the rest was not tried: {outcome.reason}")
    return "; ".join(phrases)
