"""The workers of a run for the page: what the session says this moment, else what its journal amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable.observe.current import NOT_CONNECTED
from scalable.observe.fields import listed, mapping
from scalable.observe.fleet import Worker
from scalable.observe.view import RunView

MOST_WORKERS = 1000
FIELDS = (
    "worker", "tag", "state", "why", "host", "job", "memory", "memory_limit", "cpu", "cpus", "idle_s", "rows_per_min",
    "runs", "tasks", "task_count",
)  # fmt: skip
RUN_FIELDS = ("run", "note", "step", "of", "seconds", "memory")


def workers(view: RunView, live: Mapping[str, Any]) -> list[dict[str, Any]]:
    told = live.get("workers")
    if isinstance(told, list):
        return [told_by_session(mapping(one)) for one in told[:MOST_WORKERS]]
    runs: dict[str, list[dict[str, Any]]] = {}
    for run, (worker, _) in view.running.items():
        how_far = view.progress.get(run, {})
        runs.setdefault(worker, []).append({**dict.fromkeys(RUN_FIELDS), "run": run, **how_far})
    here = {name: one for name, one in view.fleet.workers.items() if not one.gone}
    return [told_by_journal(name, here[name], runs.get(name, []), view) for name in sorted(here)[:MOST_WORKERS]]


def told_by_session(one: Mapping[str, Any]) -> dict[str, Any]:
    runs = [mapping(run) for run in listed(one.get("runs"))]
    return {
        **{name: one.get(name) for name in FIELDS},
        "runs": [{name: run.get(name) for name in RUN_FIELDS} for run in runs],
    }


def told_by_journal(name: str, one: Worker, runs: list[dict[str, Any]], view: RunView) -> dict[str, Any]:
    """Without a ``live.json``, as of runs of earlier versions: who is there and what each runs."""
    state = "busy" if runs else "idle"
    if one.leaving or one.joined is None:
        state = "leaving" if one.leaving else "starting"
    why = one.leaving or ("" if one.joined is not None else one.waits or NOT_CONNECTED)
    used = [run["memory"] for run in runs if isinstance(run["memory"], int)]
    facts = {"worker": name, "tag": one.tag, "state": state, "why": why, "host": one.host or None, "job": one.job}
    memory = {"memory": sum(used) if used else None, "memory_limit": view.memory_limit(one.tag)}
    return {**dict.fromkeys(FIELDS), **facts, **memory, "runs": runs, "tasks": [], "task_count": 0}
