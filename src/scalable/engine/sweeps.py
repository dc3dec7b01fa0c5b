"""Sweeps: submitted, admitted side by side or alone, cancelled, and ended when nothing of them is left."""

from __future__ import annotations

from scalable.engine import admission, ending, starting
from scalable.engine.events import Loss, RunState, SweepAdmitted, SweepCancelled, SweepEnded, SweepKind, SweepSubmitted
from scalable.engine.state import RunRecord, State, SweepRecord


def on_submitted(state: State, event: SweepSubmitted, now: float) -> None:
    sweep = event.sweep
    if twice := admission.submitted_before(sweep, state.sweeps, state.runs):
        state.alert("duplicate-sweep", f"the sweep {sweep.id} is ignored: {twice}")
        return
    record = SweepRecord(sweep, sweep.kind, order=len(state.sweeps), left=len(sweep.runs))
    state.sweeps[sweep.id] = state.waiting[sweep.id] = state.closing[sweep.id] = record
    state.admission_due = True
    state.runs |= {run.id: RunRecord(run, run.tag) for run in sweep.runs}
    problem = admission.impossible(sweep, state.rules)
    for run in sweep.runs if problem or state.braked else ():
        final = RunState.REFUSED if problem else RunState.STOPPED
        ending.end(state, state.runs[run.id], final, problem or state.braked)


def on_cancelled(state: State, event: SweepCancelled, now: float) -> None:
    record = state.sweeps.get(event.sweep)
    if record is None or record.ended:
        return
    record.cancelled = True
    for run in record.sweep.runs:
        ending.stop(state, state.runs[run.id], ending.CANCELLED, Loss.OPERATOR)


def admit(state: State) -> None:
    """Give places to waiting sweeps, in the order they came."""
    holders = [(name, sweep.kind) for name, sweep in state.placed.items()]
    before: list[tuple[str, SweepKind]] = []
    for sweep in sorted(state.waiting.values(), key=lambda one: one.order):
        name = sweep.sweep.id
        sweep.waits_for = admission.obstacle(sweep.kind, holders, before, state.rules.policies.concurrency.normal)
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
        for run in sweep.sweep.runs if not climbed else ():
            record = state.runs[run.id]
            if record.state is RunState.HELD:
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
            complete = sweep.counts.get(RunState.FINISHED.value, 0) == len(sweep.sweep.runs)
            state.out.append(SweepEnded(name, complete, dict(sweep.counts)))
            state.admission_due = True
        elif sweep.climbed and sweep.left == len(sweep.climbed) and sweep.running:
            state.place(sweep, running=False)
            sweep.kind = SweepKind.HEAVY
            state.waiting[name] = sweep
            state.admission_due = True
