"""Sweeps: submitted, admitted side by side or alone, cancelled, and ended when nothing of them is left.

A few normal sweeps at once; a heavy one alone: it waits for those running to end and, while it waits, lets no later
sweep past. Workloads that may overlap anything are always admitted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from scalable.engine import ending, starting, walltime
from scalable.engine.events import (
    JobState,
    Loss,
    SubmittedSweep,
    SweepAdmitted,
    SweepCancelled,
    SweepEnded,
    SweepKind,
    SweepSubmitted,
)
from scalable.engine.rules import Rules
from scalable.engine.state import JobRecord, State, SweepState


def on_submitted(state: State, event: SweepSubmitted, now: float) -> None:
    sweep = event.sweep
    if known := submitted_before(sweep, state.sweeps, state.jobs):
        state.alert("duplicate-sweep", f"the sweep {sweep.id} is ignored: {known}")
        return
    record = SweepState(sweep, sweep.kind, order=len(state.sweeps), left=len(sweep.jobs))
    state.sweeps[sweep.id] = state.waiting[sweep.id] = state.closing[sweep.id] = record
    state.admission_due = True
    state.jobs |= {job.id: JobRecord(job, job.tag, charged=job.charged) for job in sweep.jobs}
    problem = impossible(sweep, state.rules)
    for job in sweep.jobs if problem or state.braked else ():
        final = JobState.REFUSED if problem else JobState.STOPPED
        ending.end(state, state.jobs[job.id], final, problem or state.braked)
    for job in sweep.jobs if not (problem or state.braked) else ():
        if job.charged > state.retry(sweep).times:
            ending.fail(state, state.jobs[job.id], used_up(job.charged))


def on_cancelled(state: State, event: SweepCancelled, now: float) -> None:
    record = state.sweeps.get(event.sweep)
    if record is None or record.ended:
        return
    record.cancelled = True
    for job in record.sweep.jobs:
        ending.stop(state, state.jobs[job.id], ending.CANCELLED, Loss.OPERATOR)


def admit(state: State) -> None:
    """Give places to waiting sweeps, in the order they came."""
    holders = [(name, sweep.kind) for name, sweep in state.placed.items()]
    before: list[tuple[str, SweepKind]] = []
    for sweep in sorted(state.waiting.values(), key=lambda waiting: waiting.order):
        name = sweep.sweep.id
        sweep.waits_for = obstacle(sweep.kind, holders, before, state.rules.policies.concurrency.normal)
        if sweep.waits_for:
            before.append((name, sweep.kind))
            continue
        del state.waiting[name]
        holders.append((name, sweep.kind))
        state.place(sweep, running=True)
        state.out.append(SweepAdmitted(name, sweep.kind))
        climbed, sweep.climbed = sweep.climbed, []
        state.closing[name] = sweep
        for record in climbed:
            starting.enqueue(state, record)
        for job in sweep.sweep.jobs if not climbed else ():
            record = state.jobs[job.id]
            if record.state is JobState.HELD:
                starting.enqueue(state, record)


def close(state: State) -> None:
    """End sweeps with nothing left; give back the place of those that only wait for heavy work."""
    closing, state.closing = state.closing, {}
    for name, sweep in closing.items():
        if sweep.ended:
            continue
        if sweep.left == 0:
            sweep.ended = True
            state.place(sweep, running=False)
            state.waiting.pop(name, None)
            complete = sweep.counts.get(JobState.FINISHED.value, 0) == len(sweep.sweep.jobs)
            state.out.append(SweepEnded(name, complete, dict(sweep.counts)))
            state.admission_due = True
        elif sweep.climbed and sweep.left == len(sweep.climbed) and sweep.running:
            state.place(sweep, running=False)
            sweep.kind = SweepKind.HEAVY
            for tag in {job.tag for job in sweep.sweep.jobs if not state.rules.kinds[job.tag].alone}:
                state.tags[tag].minimum = 0  # workers that nothing is left for would only be in the way
            state.waiting[name] = sweep
            state.admission_due = True


# Which sweeps may run at all, and which side by side


def obstacle(
    kind: SweepKind, holders: Iterable[tuple[str, SweepKind]], before: Sequence[tuple[str, SweepKind]], normal: int
) -> str:
    """Say why a sweep may not start now; empty if it may.

    ``holders`` have a place, ``before`` wait for one and came earlier, ``normal`` is how many may run at once.
    """
    if kind is SweepKind.FREE:
        return ""
    sweeps = [(name, other) for name, other in holders if other is not SweepKind.FREE]
    queue = [name for name, other in before if other is not SweepKind.FREE]
    heavy = [name for name, other in sweeps if other is SweepKind.HEAVY]
    if heavy:
        return f"the heavy sweep {heavy[0]} runs alone"
    if kind is SweepKind.HEAVY and sweeps:
        return f"a heavy sweep runs alone; {', '.join(name for name, _ in sweeps)} must end first"
    if queue:
        return f"{queue[0]} is first in line"
    if len(sweeps) >= normal:
        return f"at most {normal} sweeps run at once: {', '.join(name for name, _ in sweeps)}"
    return ""


def used_up(charged: int) -> str:
    were = "attempt was" if charged == 1 else f"{charged} attempts were"
    return f"its {were} used by drivers that died before it ended; start it again to try it anew"


def submitted_before(sweep: SubmittedSweep, sweeps: Container[str], jobs: Container[str]) -> str:
    """Say what of a sweep is known already, the sweep or one of its jobs; empty if all of it is new."""
    if sweep.id in sweeps:
        return "it was submitted before"
    ids: set[str] = set()
    for job in sweep.jobs:
        if job.id in jobs:
            return f"its job {job.id} was submitted before"
        if job.id in ids:
            return f"its job {job.id} stands in it twice"
        ids.add(job.id)
    return ""


def impossible(sweep: SubmittedSweep, rules: Rules) -> str:
    """Say why no worker can ever serve a sweep; empty if one can."""
    for tag in {job.tag: None for job in sweep.jobs}:
        if tag not in rules.kinds:
            return f"no workers are tagged {tag!r}; known tags: {', '.join(sorted(rules.kinds))}"
        kind = rules.kinds[tag]
        if kind.maximum == 0 or not rules.pools[kind.pool].most(tag, {}):
            return f"the pool {kind.pool} can never hold a worker tagged {tag!r}"
    for job in sweep.jobs:
        allowed = rules.kinds[job.tag].memory
        if job.memory is not None and job.memory > allowed:
            return f"memory check: {job.id} is expected to use {job.memory}, a {job.tag} worker may use {allowed}"
        if not job.checkpoints and (reason := walltime.refusal(rules.kinds[job.tag].walltime, job.expected_s)):
            return reason
    return ""
