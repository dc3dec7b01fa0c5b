"""The way of jobs to workers: into the queue, onto free slots, and, for short ones, ahead of their turn.

A worker begins what it was given in order, as many at once as it has slots. So the engine knows without being told
which of a worker's jobs have begun: when one ends, the next begins. Only those are watched, charged or ever killed as
stuck; the others can be taken back as if they had never been given.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container
from functools import partial
from itertools import chain

from scalable.engine import allocations, budget, walltime, workers
from scalable.engine.events import JobState, StartJob, SweepKind
from scalable.engine.queues import AHEAD_S, PATIENCE_S
from scalable.engine.state import JobRecord, State, TagRecord, WorkerRecord

Allowed = Callable[[JobRecord], bool]


def start_jobs(state: State, now: float) -> None:
    """Give queued jobs to free workers; only when no slot is free, let more of them wait on workers."""
    for tag_record in state.tags.values():
        if tag_record.queue.size:
            allowed = partial(budget.startable, state, now) if state.accounts else None
            if fill_slots(state, tag_record, allowed, now):
                for worker in state.vacated:
                    if state.tags[worker.tag] is tag_record:
                        fill_window(state, tag_record, worker, allowed, now)


def fill_slots(state: State, tag_record: TagRecord, allowed: Allowed | None, now: float) -> bool:
    """Give jobs to free slots; tell whether every slot is taken and jobs are left that may start."""
    short: set[str] = set()
    while tag_record.queue.size:
        worker = free_worker(state, tag_record, short)
        if worker is None:
            return not short
        startable = allowed if worker.ends_at is None else partial(in_time, state, worker, allowed, now)
        for _ in range(worker.free):
            group = tag_record.queue.choose(worker.group, startable)
            if group is None and worker.ends_at is None:
                return False
            if group is None:
                short.add(worker.id)
                break
            give(state, tag_record.queue.take(group), worker, now)
    return False


def free_worker(state: State, tag_record: TagRecord, short: Container[str]) -> WorkerRecord | None:
    """Return a worker with a free slot, an idle one first; not one that has too little time for what waits."""
    free = chain(allocations.fullest_first(state, tag_record), tag_record.roomy)
    return next((state.workers[name] for name in free if name not in short), None)


def in_time(state: State, worker: WorkerRecord, allowed: Allowed | None, now: float, record: JobRecord) -> bool:
    """Tell whether a job may start and can end before its worker does."""
    return walltime.fits(state, record, worker, now) and (allowed is None or allowed(record))


def fill_window(state: State, tag_record: TagRecord, worker: WorkerRecord, allowed: Allowed | None, now: float) -> None:
    """Let short jobs wait on a worker, several at a time.

    Never more than its part of half the queue, so that at the end no worker is idle while another has a pile.
    """
    if len(worker.ahead) > worker.refill or worker.leaving or worker.outside:
        return
    if worker.ends_at is not None:
        allowed = partial(in_time, state, worker, allowed, now)
    share = tag_record.queue.size // (2 * max(1, tag_record.workers + tag_record.requested))
    while (group := tag_record.queue.choose(worker.group, allowed)) is not None:
        most = min(share, window(state, tag_record.queue.first(group), tag_record) * worker.slots)
        worker.refill = most // 2  # half a window at a time makes few messages
        if len(worker.ahead) >= most:
            return
        give(state, tag_record.queue.take(group), worker, now)


def window(state: State, record: JobRecord, tag_record: TagRecord) -> int:
    """Return how many jobs like this one may wait per slot: as its sweep has shown, else as the tag has."""
    experience = state.sweeps[record.job.sweep].experience.get(record.tag)
    if experience is not None and experience.pace.known:
        return experience.pace.window
    expected = record.job.expected_s
    return tag_record.pace.window if expected is None or expected <= AHEAD_S else 0


def give(state: State, record: JobRecord, worker: WorkerRecord, now: float) -> None:
    record.worker = worker.id
    record.attempt += 1
    record.reports, record.killed_for, record.reason = False, None, ""
    worker.group = (record.job.sweep, record.job.group)
    state.live += 1
    if len(worker.jobs) < worker.slots:
        begin(state, record, worker, now)
    else:
        workers.put_ahead(state, worker, record)
    state.out.append(StartJob(record.job.id, record.attempt, worker.id))


def begin(state: State, record: JobRecord, worker: WorkerRecord, now: float) -> None:
    """Begin a job whose turn has come; one that was told to die meanwhile still has to be reported dead."""
    if record.state is not JobState.KILLING:
        record.state = JobState.RUNNING
    record.started = record.sign = now
    workers.occupy(state, worker, record.job.id)
    if worker.leaving:
        state.count(record, active=False)
    state.watch(record.stuck_at(worker.last_row, state.rules.policies.stuck), worker)


def next_in_line(state: State, worker: WorkerRecord, now: float) -> None:
    """Begin the next job that waits on a worker, one of whose slots has become free."""
    job = next(iter(worker.ahead))
    workers.leave_line(state, worker, job)
    begin(state, state.jobs[job], worker, now)
    loaded = state.tags[worker.tag].loaded
    if worker.id in loaded:
        loaded[worker.id] = now
        loaded.move_to_end(worker.id)


def take_back_late(state: State, tag_record: TagRecord, now: float) -> None:
    """Take back jobs that have waited long behind one that turned out to be slow."""
    while tag_record.loaded:
        worker, since = next(iter(tag_record.loaded.items()))
        if now < since + PATIENCE_S:
            return
        workers.take_back(state, state.workers[worker])


def enqueue(state: State, record: JobRecord, *, first: bool = False) -> None:
    """Make a job startable, or hold it back until heavy work may run."""
    sweep = state.sweeps[record.job.sweep]
    if state.rules.kinds[record.tag].alone and sweep.kind is not SweepKind.HEAVY:
        record.state = JobState.HELD
        sweep.climbed.append(record)
        state.closing[sweep.sweep.id] = sweep
        return
    record.state = JobState.QUEUED
    state.tags[record.tag].queue.put(record, first=first)
    state.count(record, active=True)
    state.touched.add(record.tag)


def release_due(state: State, now: float) -> None:
    """Queue the jobs whose delay is over."""
    while state.delayed and state.delayed[0][0] <= now:
        record = state.jobs[heapq.heappop(state.delayed)[2]]
        if record.state is JobState.DELAYED:
            state.tags[record.tag].returning -= 1
            enqueue(state, record, first=not record.cut_s)  # one that needs a new worker keeps no others from old ones
