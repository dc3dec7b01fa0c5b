"""The bookkeeping of single workers: they join, get work, are vacated, retire and are gone."""

from __future__ import annotations

from scalable.engine import allocations
from scalable.engine.events import NEVER, JobState, OutsideWork, RemoveWorker, TakeBack
from scalable.engine.state import JobRecord, State, WorkerRecord


def join(state: State, worker: str, tag: str, now: float, allocation: str = "") -> None:
    tag_record = state.tags[tag]
    if worker in state.workers:
        return
    if tag_record.requested:
        tag_record.took_s = now - tag_record.requested_at
    state.fleet += 1
    state.workers[worker] = WorkerRecord(worker, tag, state.rules.kinds[tag].slots, joined=now)
    allocations.join(state, state.workers[worker], allocation)
    tag_record.workers += 1
    tag_record.requested = max(0, tag_record.requested - 1)
    tag_record.requested_at = now if tag_record.requested else NEVER
    tag_record.refusals = 0
    tag_record.idle[worker] = now


def retire(state: State, record: WorkerRecord) -> None:
    """Give a worker no more work; neither it nor the work that will end with it counts any longer."""
    if not record.leaving:
        for job in record.jobs:
            state.count(state.jobs[job], active=False)
        record.leaving = True
        allocations.leave(state, record)
        state.fleet += 1
        tag_record = state.tags[record.tag]
        tag_record.workers -= 1
        tag_record.leaving += 1
        tag_record.busy -= record.busy
        tag_record.idle.pop(record.id, None)
        tag_record.roomy.pop(record.id, None)
        tag_record.ending.pop(record.id, None)


def dismiss(state: State, record: WorkerRecord, reason: str, *, forced: bool = False) -> RemoveWorker:
    retire(state, record)
    record.dismissed = True
    return RemoveWorker(record.id, record.tag, reason, forced)


def release(state: State, record: WorkerRecord) -> None:
    """Send a worker without work away that had notice, instead of paying for it until it is taken."""
    if record.leaving and not record.dismissed and not record.busy:
        state.out.append(dismiss(state, record, "had notice to leave", forced=True))


def forget(state: State, record: WorkerRecord) -> None:
    """Strike a worker off that no longer exists."""
    retire(state, record)
    state.fleet += 1
    state.tags[record.tag].leaving -= 1
    state.last_gone[state.rules.kinds[record.tag].pool] = state.handled
    del state.workers[record.id]


def occupy(state: State, worker: WorkerRecord, job: str) -> None:
    """Note that a job begins on a worker."""
    if worker.jobs or worker.outside:
        worker.jobs[job] = None
        recount(state, worker, was_busy=True)
    else:
        worker.jobs[job] = None
        recount(state, worker, was_busy=False)


def vacate(state: State, worker: WorkerRecord, job: str, now: float) -> None:
    """Note that a job that had begun is over."""
    worker.jobs.pop(job, None)
    recount(state, worker, was_busy=True, now=now)


def recount(state: State, worker: WorkerRecord, *, was_busy: bool, now: float = 0.0) -> None:
    """Keep count after a worker's work changed."""
    if worker.leaving:
        return
    tag_record = state.tags[worker.tag]
    busy = worker.outside or bool(worker.jobs)
    if busy != was_busy:
        if busy:
            worker.served = True
            tag_record.busy += 1
            tag_record.idle.pop(worker.id, None)
        else:
            tag_record.busy -= 1
            tag_record.idle[worker.id] = now
    if worker.slots > 1:
        if worker.jobs and worker.free:
            tag_record.roomy[worker.id] = None
        else:
            tag_record.roomy.pop(worker.id, None)


def put_ahead(state: State, worker: WorkerRecord, record: JobRecord) -> None:
    """Let a job wait on a worker behind others."""
    tag_record = state.tags[worker.tag]
    record.state = JobState.GIVEN
    worker.ahead[record.job.id] = None
    tag_record.ahead += 1
    if worker.id not in tag_record.loaded:
        tag_record.loaded[worker.id] = max(state.jobs[job].started for job in worker.jobs)


def leave_line(state: State, worker: WorkerRecord, job: str) -> None:
    """Note that a job no longer waits on a worker."""
    tag_record = state.tags[worker.tag]
    del worker.ahead[job]
    tag_record.ahead -= 1
    if not worker.ahead:
        tag_record.loaded.pop(worker.id, None)


def take_back(state: State, worker: WorkerRecord) -> None:
    """Ask for all jobs back that wait on a worker; the last first, since each that comes goes before the rest."""
    state.tags[worker.tag].loaded.pop(worker.id, None)
    for job in reversed(worker.ahead):
        record = state.jobs[job]
        if record.state is JobState.GIVEN:
            state.out.append(TakeBack(job, record.attempt, worker.id))


def note_outside_work(state: State, event: OutsideWork, now: float) -> None:
    """Note which workers of a tag do work that is not ours, and how much of it waits."""
    tag_record = state.tags[event.tag]
    tag_record.outside, tag_record.lent = event.waiting, len(event.busy)
    for worker in state.workers.values():
        if worker.tag != event.tag:
            continue
        worker.holding = worker.id in event.holding
        if worker.outside != (worker.id in event.busy):
            was_busy = worker.busy
            worker.outside = not worker.outside
            recount(state, worker, was_busy=was_busy, now=now)
