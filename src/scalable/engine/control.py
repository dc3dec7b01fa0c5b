"""Who stops what: the operator pauses, resumes and kills single runs; the budget stops everything."""

from __future__ import annotations

from scalable.engine import ending, fleet, retries, workers
from scalable.engine.events import Loss, Paused, Resumed, RunCancelled, SpendChanged
from scalable.engine.state import State
from scalable.findings import Severity


def on_paused(state: State, event: Paused, now: float) -> None:
    """Nothing begins any more, so what only waits on workers comes back."""
    state.paused, state.dropping = event.reason, event.drop_workers
    for tags in state.tags.values():
        for name in list(tags.loaded):
            workers.take_back(state, state.workers[name])
    state.touched.update(state.tags)


def on_resumed(state: State, event: Resumed, now: float) -> None:
    state.paused, state.dropping = "", False
    state.touched.update(state.tags)


def on_run_cancelled(state: State, event: RunCancelled, now: float) -> None:
    record = state.runs.get(event.run)
    if record is None or record.state.final:
        known = f"it is {record.state.value} already" if record else "no run is called so"
        state.alert("unknown-run", f"{event.run} was not killed: {known}", event.run)
    elif record.state not in ending.LIVE:
        ending.withdraw(state, record)
        ending.fail(state, record, retries.by_operator(event.reason))
    elif record.killed_for in (None, Loss.STUCK):
        record.reason = event.reason
        ending.kill(state, record, Loss.OPERATOR)


def on_spend(state: State, event: SpendChanged, now: float) -> None:
    state.spending.report(event, now)


def brake(state: State, now: float) -> None:
    """Stop everything when the money is used up, or when nothing more can be started with what is left."""
    if now >= state.spending.used_up_at():
        pull_brake(state, f"the budget of {state.spending.budget} is used up")
    elif fleet.out_of_money(state, now):
        pull_brake(state, f"what is left of the budget of {state.spending.budget} is not enough for another run")


def pull_brake(state: State, reason: str) -> None:
    state.braked = reason
    state.alert("budget", reason, severity=Severity.ERROR)
    for record in state.runs.values():
        ending.stop(state, record, reason, Loss.STOPPED)
    state.delayed.clear()
