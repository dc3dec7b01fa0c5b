"""The engine itself: takes an event, changes the state, answers with instructions.

Read ``handle`` first: it hands the event to its handler and then lets ``settle`` do whatever has become possible,
always in the same order: due retries, stuck jobs, ends of allocations, ends and admission of sweeps, the budget brake,
starts, scaling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalable.engine import elsewhere, ending, events, fleet, starting, stopping, sweeps, walltime
from scalable.engine.events import NEVER, Event, Instruction
from scalable.engine.rules import Rules
from scalable.engine.state import State
from scalable.engine.view import View

HANDLERS: dict[type, Callable[[State, Any, float], None]] = {
    events.SweepSubmitted: sweeps.on_submitted,
    events.SweepCancelled: sweeps.on_cancelled,
    events.WorkerJoined: fleet.on_joined,
    events.WorkerEnds: walltime.on_ends,
    events.WorkerLost: fleet.on_lost,
    events.WorkerLeaving: fleet.on_leaving,
    events.WorkersRefused: fleet.on_refused,
    events.WorkersWithdrawn: fleet.on_withdrawn,
    events.OutsideWork: fleet.on_outside,
    events.BoundsSet: fleet.on_bounds,
    events.JobFinished: ending.on_finished,
    events.JobLost: ending.on_lost,
    events.Progressed: stopping.on_progress,
    events.CpuSeen: stopping.on_cpu,
    events.RowPersisted: stopping.on_row,
    events.JobCancelled: stopping.on_job_cancelled,
    events.JobsElsewhere: elsewhere.on_elsewhere,
    events.JobsReturned: elsewhere.on_returned,
    events.JobsDoneElsewhere: elsewhere.on_done,
    events.SpendChanged: stopping.on_spend,
    events.HoursChanged: stopping.on_hours,
    events.Paused: stopping.on_paused,
    events.Resumed: stopping.on_resumed,
    events.Tick: lambda state, event, now: None,
}


class Engine:
    """A state machine: events in, instructions out."""

    def __init__(self, rules: Rules) -> None:
        self.state = State(rules)
        self.view = View(self.state)
        """What others may read of it."""

    def handle(self, event: Event, now: float) -> list[Instruction]:
        state = self.state
        state.handled = now
        HANDLERS[type(event)](state, event, now)
        settle(state, now)
        out, state.out = state.out, []
        return out

    def next_wake(self) -> float:
        """Return when a ``Tick`` is due if nothing else happens before; always later than the last event handled."""
        state = self.state
        when = state.delayed[0][0] if state.delayed else NEVER
        if state.watched and state.watched[0][0] < when:
            when = state.watched[0][0]
        if state.endings and state.endings[0][0] < when:
            when = state.endings[0][0]
        for tag, record in state.tags.items():
            if record.idle or record.requested or record.queue.size or record.outside or record.minimum or record.ahead:
                when = min(when, fleet.wake(state, tag, record, state.handled))
        if not state.braked:
            when = min((when, *(account.used_up_at() for account in state.accounts)))
        return when


def settle(state: State, now: float) -> None:
    """Do whatever has become possible."""
    if state.delayed:
        starting.release_due(state, now)
    if state.watched and state.watched[0][0] <= now:
        stopping.kill_stuck(state, now)
    if state.endings:
        walltime.look_at_ends(state, now)
    if state.closing:
        sweeps.close(state)
    while state.admission_due and not state.braked:
        state.admission_due = False
        sweeps.admit(state)
        sweeps.close(state)
    if state.accounts and not state.braked:
        stopping.brake(state, now)
    if state.braked:
        sweeps.close(state)
        state.out += fleet.remove_all(state)
    elif not state.paused:
        starting.start_jobs(state, now)
        walltime.drain(state, now)
    elif state.dropping:
        fleet.drop_idle(state)
    state.vacated.clear()
    scale(state, now)


def scale(state: State, now: float) -> None:
    """Ask for workers and give them back, starved tags first: room made for one is not taken for another's minimum."""
    starved = [tag for tag, record in state.tags.items() if record.starved]
    for tag in dict.fromkeys((*starved, *state.tags)):
        record = state.tags[tag]
        if record.loaded:
            starting.take_back_late(state, record, now)
        due = tag in state.touched or record.queue.size or record.outside or record.idle or record.minimum
        if due and not state.braked:
            state.out += fleet.rescale(state, tag, now)
        late = record.requested and now >= record.requested_at + fleet.LATE_AFTER_S
        if late and not record.late_reported:
            record.late_reported = True
            text = f"{record.requested} × {tag} asked for {now - record.requested_at:.0f} s ago have not come"
            state.alert("scale-up-late", text)
    if starved and not (state.paused or state.braked):
        state.out += fleet.make_room(state, now)
    state.touched.clear()
