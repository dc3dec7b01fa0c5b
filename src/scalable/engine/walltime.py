"""Walltime: workers whose allocation ends, what still fits before its end, and what fits into none.

A job starts on a worker only if it can end there in time. How long it takes is learned from jobs of its sweep, or was
foreseen; a job of unknown length needs half of what a new worker has. One that was cut off by the end of a worker is
tried once more on a new worker; if a whole allocation is not enough, it is given up with the figures. A job with
declared checkpoints goes on where it stopped, so it may be cut off as often as it gets further. Before a worker ends,
another is asked for if work waits; an idle worker whose rest is too short for everything that waits is sent away.
"""

from __future__ import annotations

import heapq

from scalable.engine import workers
from scalable.engine.events import NEVER, Loss, WorkerEnds
from scalable.engine.rules import Walltime, WorkerKind
from scalable.engine.state import Attempt, JobRecord, State, TagRecord, WorkerRecord
from scalable.quantities import Duration
from scalable.walltime import EARLY_S, advised_s, for_work_s

MARGIN = 1.1  # times the expected length that must be left: jobs of a sweep differ
NEW = 0.9  # of a worker's time: with so much of it left, any job that is not refused may start there
UNKNOWN = 0.5  # of a worker's time for a job of unknown length: at least half of what could be had is worth a try
STRETCH = 0.25  # of a worker's time for a job that goes on from checkpoints: less is spent on reading them
WHOLE = 0.8  # of a worker's time: a job that had so much and did not finish does not fit into an allocation
START_S = 60.0  # what a new worker is expected to take until it joins, before one was seen
MOST_LEAD = 0.25  # of a worker's time: the next one is asked for no earlier than that before it is needed
USELESS = "nothing that waits fits into the rest of its walltime"


# What fits


def refusal(walltime: Walltime | None, seconds: float | None) -> str:
    """Say that a job of this length fits into no allocation, and what to write; empty if it fits."""
    if walltime is None or seconds is None or seconds <= for_work_s(walltime.seconds):
        return ""
    least = Duration(advised_s(seconds)).walltime
    return (
        f"a job of {seconds:.0f} s does not fit a walltime of {walltime.seconds:.0f} s; "
        f"raise {walltime.key} to at least {least} or declare checkpoints: true"
    )


def too_long(kind: WorkerKind, ran_s: float, had_s: float) -> str:
    """Say that a job did not finish although it had a whole allocation."""
    where = f"raise {kind.walltime.key} above {Duration(kind.walltime.seconds).walltime}" if kind.walltime else ""
    remedy = f"{where or 'ask for a longer walltime'} or declare checkpoints: true"
    return f"it ran for {ran_s:.0f} s of the {had_s:.0f} s that an allocation gives and did not finish; {remedy}"


def expected_s(state: State, record: JobRecord) -> float | None:
    """Return how long a job may take: the longest of its sweep there, else as foreseen; None if nothing is known."""
    experience = state.sweeps[record.job.sweep].experience.get(record.tag)
    if experience is not None and experience.pace.known:
        return max(experience.pace.mean, experience.longest_s)
    return record.job.expected_s


def needs_s(state: State, record: JobRecord, worker: WorkerRecord) -> float:
    """Return how much of a worker's time must be left for a job to start there."""
    span, expected = worker.span, expected_s(state, record)
    if record.job.checkpoints:
        return min(span * STRETCH, NEVER if expected is None else expected * MARGIN)
    if record.cut_s:
        return span * NEW
    if expected is None:
        return span * UNKNOWN
    return min(expected * MARGIN, span * NEW)


def fits(state: State, record: JobRecord, worker: WorkerRecord, now: float) -> bool:
    """Tell whether a job can end on a worker before the worker does."""
    return worker.ends_at is None or worker.ends_at - now >= needs_s(state, record, worker)


# When workers end


def note_end(state: State, worker: WorkerRecord, left_s: float, now: float) -> None:
    """Note for how long work can run on a worker, and look at it again when another must be asked for.

    One that came much later than others of its allocation has the rest of their time.
    """
    worker.ends_at, worker.span = now + left_s, max(worker.span, left_s)
    peers = state.allocations.get(worker.allocation, ())
    whole = max((state.workers[peer].span for peer in peers), default=0.0)
    if worker.span < WHOLE * whole:
        worker.span = whole
    tag_record = state.tags[worker.tag]
    tag_record.finite = True
    tag_record.ending.pop(worker.id, None)
    look_at(state, worker, now)


def on_ends(state: State, event: WorkerEnds, now: float) -> None:
    worker = state.workers.get(event.worker)
    if worker is not None and not worker.leaving:
        note_end(state, worker, event.left_s, now)
        state.touched.add(worker.tag)


def look_at(state: State, worker: WorkerRecord, now: float) -> None:
    """Count a worker as ending when the next one must be asked for; look again later if that is not now."""
    assert worker.ends_at is not None, "only workers with an end are looked at"
    due = worker.ends_at - lead_s(state, worker) - next_s(state, worker)
    if due <= now:
        state.tags[worker.tag].ending[worker.id] = None
        state.touched.add(worker.tag)
    else:
        state.sequence += 1
        heapq.heappush(state.endings, (due, state.sequence, worker.id))


def look_at_ends(state: State, now: float) -> None:
    """Look at the workers that may have to be replaced by now."""
    while state.endings and state.endings[0][0] <= now:
        worker = state.workers.get(heapq.heappop(state.endings)[2])
        if worker is not None and not worker.leaving and worker.id not in state.tags[worker.tag].ending:
            look_at(state, worker, now)


def lead_s(state: State, worker: WorkerRecord) -> float:
    """Return how long before it is needed a worker is asked for: as the last one took to come."""
    took = state.tags[worker.tag].took_s
    return min(START_S if took is None else took, worker.span * MOST_LEAD)


def next_s(state: State, worker: WorkerRecord) -> float:
    """Return the time that the next job on a worker would need: of those that wait, else as others took there."""
    tag_record = state.tags[worker.tag]
    waiting = [needs_s(state, line[0], worker) for line in tag_record.queue.waiting.values()]
    return max(waiting, default=min(tag_record.pace.mean, worker.span * NEW))


def drain(state: State, now: float) -> None:
    """Send idle workers away whose rest is too short for everything that waits; others come in their place."""
    for tag_record in state.tags.values():
        if tag_record.finite and tag_record.queue.size:
            idle = [state.workers[name] for name in tag_record.idle]
            for worker in idle:
                if not worker.holding and not any_fits(state, tag_record, worker, now):
                    state.out.append(workers.dismiss(state, worker, USELESS, forced=True))
                    state.touched.add(worker.tag)


def any_fits(state: State, tag_record: TagRecord, worker: WorkerRecord, now: float) -> bool:
    return any(fits(state, line[0], worker, now) for line in tag_record.queue.waiting.values())


# What follows for a job whose worker ended


def cause_of_end(worker: WorkerRecord, cause: Loss, now: float) -> Loss:
    """Return why an attempt ended: a worker that leaves at the known end of its allocation reached its walltime."""
    ends = cause is Loss.PREEMPTED and worker.ends_at is not None and now >= worker.ends_at - EARLY_S
    return Loss.WALLTIME if ends else cause


def learn_from_cut(state: State, record: JobRecord, attempt: Attempt, had_s: float) -> bool:
    """Learn from an attempt that was cut off; tell whether it got further than any before and can go on from there."""
    ran_s = attempt.ended - attempt.started
    text = f"{record.job.id} reached the end of {attempt.worker} after {ran_s:.0f} s"
    if record.job.checkpoints:
        further = record.step is not None and (record.step_before is None or record.step > record.step_before)
        if further:
            record.step_before, record.handovers = record.step, 0
        if attempt.cause is Loss.WALLTIME:
            state.alert("walltime-reached", f"{text} and goes on from its checkpoint on another worker", record.job.id)
        return further
    if attempt.cause is Loss.WALLTIME:
        record.cut_s = max(record.cut_s, ran_s)
        if had_s and ran_s >= WHOLE * had_s:
            record.too_long = too_long(state.rules.kinds[record.tag], ran_s, had_s)
        else:
            state.alert("walltime-reached", f"{text} and is run again on a new worker", record.job.id)
    return False
