"""How runs get to workers: into the queue, onto free slots, and, short ones, ahead of their turn.

A worker begins what it was given in order, as many at once as it has slots. So the engine knows without being told
which of a worker's runs have begun: when one ends, the next begins. Only those are watched, charged or ever killed as
stuck; the others can be taken back as if they had never been given.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial

from scalable.engine import budget, workers
from scalable.engine.events import RunState, StartRun, SweepKind
from scalable.engine.queues import PATIENCE_S, UNIT_S
from scalable.engine.state import RunRecord, State, TagRecord, WorkerRecord

Allowed = Callable[[RunRecord], bool]


def start_runs(state: State, now: float) -> None:
    """Give queued runs to free workers; only when no slot is free, let more of them wait on workers."""
    for tags in state.tags.values():
        if tags.queue.size:
            allowed = partial(budget.startable, state, now) if state.spending.budget is not None else None
            if fill_slots(state, tags, allowed, now):
                for worker in state.vacated:
                    if state.tags[worker.tag] is tags:
                        fill_window(state, tags, worker, allowed, now)


def fill_slots(state: State, tags: TagRecord, allowed: Allowed | None, now: float) -> bool:
    """Whether every slot is taken and runs are left that may start."""
    while tags.queue.size:
        if tags.idle:
            worker = state.workers[next(reversed(tags.idle))]
        elif tags.roomy:
            worker = state.workers[next(iter(tags.roomy))]
        else:
            return True
        for _ in range(worker.free):
            group = tags.queue.choose(worker.group, allowed)
            if group is None:
                return False
            give(state, tags.queue.take(group), worker, now)
    return False


def fill_window(state: State, tags: TagRecord, worker: WorkerRecord, allowed: Allowed | None, now: float) -> None:
    """Let short runs wait on a worker, several at a time.

    Never more than its part of half the queue, so that at the end no worker is idle while another has a pile.
    """
    if len(worker.ahead) > worker.refill or worker.leaving or worker.outside:
        return
    share = tags.queue.size // (2 * max(1, tags.workers + tags.requested))
    while (group := tags.queue.choose(worker.group, allowed)) is not None:
        most = min(share, window(state, tags.queue.first(group), tags) * worker.slots)
        worker.refill = most // 2  # half a window at a time makes few messages
        if len(worker.ahead) >= most:
            return
        give(state, tags.queue.take(group), worker, now)


def window(state: State, record: RunRecord, tags: TagRecord) -> int:
    """How many runs like this one may wait per slot: by what its sweep has shown, else by what the tag has."""
    seen = state.sweeps[record.run.sweep].seen.get(record.tag)
    if seen is not None and seen.pace.known:
        return seen.pace.window
    expected = record.run.expected_s
    return tags.pace.window if expected is None or expected <= UNIT_S else 0


def give(state: State, record: RunRecord, worker: WorkerRecord, now: float) -> None:
    record.worker = worker.id
    record.attempt += 1
    record.reports, record.killed_for, record.reason = False, None, ""
    worker.group = (record.run.sweep, record.run.group)
    state.live += 1
    if len(worker.runs) < worker.slots:
        begin(state, record, worker, now)
    else:
        workers.put_ahead(state, worker, record)
    state.out.append(StartRun(record.run.id, record.attempt, worker.id))


def begin(state: State, record: RunRecord, worker: WorkerRecord, now: float) -> None:
    """A run's turn has come; one that was told to die meanwhile still has to be reported dead."""
    if record.state is not RunState.KILLING:
        record.state = RunState.RUNNING
    record.started = record.sign = now
    workers.occupy(state, worker, record.run.id)
    if worker.leaving:
        state.count(record, active=False)
    state.watch(record.stuck_at(worker.last_row, state.rules.policies.stuck), worker)


def next_in_line(state: State, worker: WorkerRecord, now: float) -> None:
    """A slot of a worker on which runs wait has become free."""
    run = next(iter(worker.ahead))
    workers.leave_line(state, worker, run)
    begin(state, state.runs[run], worker, now)
    loaded = state.tags[worker.tag].loaded
    if worker.id in loaded:
        loaded[worker.id] = now
        loaded.move_to_end(worker.id)


def take_back_late(state: State, tags: TagRecord, now: float) -> None:
    """No run waits long behind one that turned out to be slow."""
    while tags.loaded:
        worker, since = next(iter(tags.loaded.items()))
        if now < since + PATIENCE_S:
            return
        workers.take_back(state, state.workers[worker])


def enqueue(state: State, record: RunRecord, *, first: bool = False) -> None:
    """Make a run startable, or hold it back until heavy work may run."""
    sweep = state.sweeps[record.run.sweep]
    if state.rules.kinds[record.tag].alone and sweep.kind is not SweepKind.HEAVY:
        record.state = RunState.HELD
        sweep.climbed.append(record)
        state.closing[sweep.sweep.id] = sweep
        return
    record.state = RunState.QUEUED
    state.tags[record.tag].queue.put(record, first=first)
    state.count(record, active=True)
    state.touched.add(record.tag)


def release_due(state: State, now: float) -> None:
    """Queue the runs whose delay is over."""
    while state.delayed and state.delayed[0][0] <= now:
        record = state.runs[heapq.heappop(state.delayed)[2]]
        if record.state is RunState.DELAYED:
            state.tags[record.tag].returning -= 1
            enqueue(state, record, first=True)
