"""Why a run is where it is, in sentences for people: why it waits, where it ran, why it was retried, what ended it."""

from __future__ import annotations

from scalable.engine.budget import startable
from scalable.engine.events import RunState
from scalable.engine.fleet import cooled_down, room_for
from scalable.engine.state import RunRecord, State
from scalable.quantities import Duration
from scalable.wording import plural


def explain(state: State, run: str, now: float) -> list[str]:
    record = state.runs.get(run)
    if record is None:
        return [f"no run is called {run}"]
    lines = [
        f"attempt {a.number} on {a.worker} ({a.tag}) was lost after {Duration(a.ended - a.started)}: {a.cause.value}"
        + (f", peak {a.peak}" if a.peak else "")
        + (f", {a.message}" if a.message else "")
        for a in record.past
    ]
    return [*lines, present(state, record, now)]


def present(state: State, record: RunRecord, now: float) -> str:
    sweep = state.sweeps[record.run.sweep]
    match record.state:
        case RunState.HELD if record in sweep.climbed:
            why = sweep.waits_for or "the rest of its sweep must end first"
            return f"waits for {record.tag} workers, which run alone: {why}"
        case RunState.HELD:
            return f"waits for its sweep {record.run.sweep} to be admitted: {sweep.waits_for or 'not looked at yet'}"
        case RunState.QUEUED:
            return f"queued for a {record.tag} worker: {queue_reason(state, record, now)}"
        case RunState.DELAYED:
            return f"is tried again in {Duration(max(0.0, record.not_before - now))} on {record.tag}"
        case RunState.GIVEN:
            worker = state.workers[record.worker]
            before = len(worker.runs) + list(worker.ahead).index(record.run.id)
            return f"waits on {worker.id} behind {before} other{'s' if before > 1 else ''}"
        case RunState.RUNNING:
            silent = max(0.0, now - record.sign)
            ran = Duration(now - record.started)
            return f"runs on {record.worker} for {ran}, attempt {record.attempt}, last sign of life {silent:.0f} s ago"
        case RunState.KILLING:
            cause = record.killed_for.value if record.killed_for else "stopped"
            return f"is being killed on {record.worker}: {cause}"
    ended: str = record.state.value
    return f"{ended}: {record.reason}" if record.reason else ended


def queue_reason(state: State, record: RunRecord, now: float) -> str:
    tags = state.tags[record.tag]
    kind = state.rules.kinds[record.tag]
    if state.paused:
        return state.paused
    if tags.requested:
        return f"{tags.requested} workers were asked for {now - tags.requested_at:.0f} s ago and have not joined"
    if now < tags.ask_again:
        return f"the last request was refused; asking again in {tags.ask_again - now:.0f} s"
    cooled = cooled_down(state, record.tag)
    if not tags.workers and now < cooled:
        return f"no worker; idle ones were given back and may be asked for again in {cooled - now:.0f} s"
    if tags.workers >= room_for(state, record.tag):
        taken = f"all {tags.workers} workers are busy" if tags.workers else "no worker"
        return f"{taken} and the pool {kind.pool} is full"
    if not startable(state, now, record):
        return "what is left of the budget does not cover it"
    return f"{tags.busy} of {tags.workers} workers are busy, {plural(tags.queue.size, 'run')} waiting"
