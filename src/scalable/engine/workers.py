"""The bookkeeping of single workers: they join, get work, are vacated, retire and are gone."""

from __future__ import annotations

from scalable.engine.events import NEVER, OutsideWork, RemoveWorker, RunState, TakeBack
from scalable.engine.state import RunRecord, State, WorkerRecord


def join(state: State, worker: str, tag: str, now: float) -> None:
    tags = state.tags[tag]
    if worker in state.workers:
        return
    state.fleet += 1
    state.workers[worker] = WorkerRecord(worker, tag, state.rules.kinds[tag].slots, joined=now)
    tags.workers += 1
    tags.requested = max(0, tags.requested - 1)
    tags.requested_at = now if tags.requested else NEVER
    tags.refusals = 0
    tags.idle[worker] = now


def retire(state: State, record: WorkerRecord) -> None:
    """From now on the worker gets no work and does not count, nor does the work that will end with it."""
    if not record.leaving:
        for run in record.runs:
            state.count(state.runs[run], active=False)
        record.leaving = True
        state.fleet += 1
        tags = state.tags[record.tag]
        tags.workers -= 1
        tags.leaving += 1
        tags.busy -= record.busy
        tags.idle.pop(record.id, None)
        tags.roomy.pop(record.id, None)


def dismiss(state: State, record: WorkerRecord, reason: str, *, forced: bool = False) -> RemoveWorker:
    retire(state, record)
    record.told = True
    return RemoveWorker(record.id, record.tag, reason, forced)


def release(state: State, record: WorkerRecord) -> None:
    """Do not keep, and pay, a worker that had notice until it is taken away."""
    if record.leaving and not record.told and not record.busy:
        state.out.append(dismiss(state, record, "had notice to leave", forced=True))


def gone(state: State, record: WorkerRecord) -> None:
    """The worker no longer exists."""
    retire(state, record)
    state.fleet += 1
    state.tags[record.tag].leaving -= 1
    state.last_gone[state.rules.kinds[record.tag].pool] = state.handled
    del state.workers[record.id]


def occupy(state: State, worker: WorkerRecord, run: str) -> None:
    """A run begins."""
    if worker.runs or worker.outside:
        worker.runs[run] = None
        moved(state, worker, was_busy=True)
    else:
        worker.runs[run] = None
        moved(state, worker, was_busy=False)


def vacate(state: State, worker: WorkerRecord, run: str, now: float) -> None:
    """A run that had begun is over."""
    worker.runs.pop(run, None)
    moved(state, worker, was_busy=True, now=now)


def moved(state: State, worker: WorkerRecord, *, was_busy: bool, now: float = 0.0) -> None:
    """Keep count after a worker's work changed."""
    if worker.leaving:
        return
    tags = state.tags[worker.tag]
    busy = worker.outside or bool(worker.runs)
    if busy != was_busy:
        if busy:
            worker.served = True
            tags.busy += 1
            tags.idle.pop(worker.id, None)
        else:
            tags.busy -= 1
            tags.idle[worker.id] = now
    if worker.slots > 1:
        if worker.runs and worker.free:
            tags.roomy[worker.id] = None
        else:
            tags.roomy.pop(worker.id, None)


def put_ahead(state: State, worker: WorkerRecord, record: RunRecord) -> None:
    """A run waits on a worker behind others."""
    tags = state.tags[worker.tag]
    record.state = RunState.GIVEN
    worker.ahead[record.run.id] = None
    tags.ahead += 1
    if worker.id not in tags.loaded:
        tags.loaded[worker.id] = max(state.runs[run].started for run in worker.runs)


def leave_line(state: State, worker: WorkerRecord, run: str) -> None:
    """A run no longer waits on a worker."""
    tags = state.tags[worker.tag]
    del worker.ahead[run]
    tags.ahead -= 1
    if not worker.ahead:
        tags.loaded.pop(worker.id, None)


def take_back(state: State, worker: WorkerRecord) -> None:
    """Ask for all runs back that wait on a worker; the last first, since each that comes goes before the rest."""
    state.tags[worker.tag].loaded.pop(worker.id, None)
    for run in reversed(worker.ahead):
        record = state.runs[run]
        if record.state is RunState.GIVEN:
            state.out.append(TakeBack(run, record.attempt, worker.id))


def outside(state: State, event: OutsideWork, now: float) -> None:
    """Note which workers of a tag do work that is not ours, and how much of it waits."""
    tags = state.tags[event.tag]
    tags.outside, tags.lent = event.waiting, len(event.busy)
    for worker in state.workers.values():
        if worker.tag != event.tag:
            continue
        worker.holding = worker.id in event.holding
        if worker.outside != (worker.id in event.busy):
            was = worker.busy
            worker.outside = not worker.outside
            moved(state, worker, was_busy=was, now=now)
