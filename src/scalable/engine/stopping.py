"""Stopping jobs early: stuck ones, those an operator kills, and everything when the money is used up.

An attempt is stuck when it gave no sign for ``after`` and its worker persisted no row meanwhile. A job that reports
progress is judged by its reports; a declared long step is not due before its end. Code that never reports is judged by
the CPU use of its process tree, and by a walltime if one is set. Who is stuck is told to die, then takes its worker
with it. The worker looks once more before it kills: a sign of life instead of a report of death withdraws the verdict.
"""

from __future__ import annotations

import heapq

from scalable import stuck
from scalable.engine import budget, ending, workers
from scalable.engine.events import (
    NEVER,
    CpuSeen,
    HoursChanged,
    JobCancelled,
    JobState,
    Loss,
    Paused,
    Progressed,
    Resumed,
    RowPersisted,
    SpendChanged,
)
from scalable.engine.rules import KILL_WITHIN_S
from scalable.engine.state import JobRecord, State, WorkerRecord
from scalable.findings import Severity

# The operator and the budget


def on_paused(state: State, event: Paused, now: float) -> None:
    """Begin nothing more, and take back what only waits on workers."""
    state.paused, state.dropping = event.reason, event.drop_workers
    for tag_record in state.tags.values():
        for name in list(tag_record.loaded):
            workers.take_back(state, state.workers[name])
    state.touched.update(state.tags)


def on_resumed(state: State, event: Resumed, now: float) -> None:
    state.paused, state.dropping = "", False
    state.touched.update(state.tags)


def on_job_cancelled(state: State, event: JobCancelled, now: float) -> None:
    record = state.jobs.get(event.job)
    if record is None or record.state.final:
        known = f"it is {record.state.value} already" if record else "no job has this name"
        state.alert("unknown-run", f"{event.job} was not killed: {known}", event.job)
    elif record.state not in ending.LIVE:
        ending.withdraw(state, record)
        ending.fail(state, record, ending.operator_text(event.reason))
    elif record.killed_for is None or record.killed_for in ending.OVERRULED:
        record.reason = event.reason
        ending.kill(state, record, Loss.OPERATOR)


def on_spend(state: State, event: SpendChanged, now: float) -> None:
    state.spending.report(event, now)


def on_hours(state: State, event: HoursChanged, now: float) -> None:
    state.hours.report(event, now)


def brake(state: State, now: float) -> None:
    """Stop everything when a budget is used up, or when nothing more can be started with what is left."""
    for account in state.accounts:
        if now >= account.used_up_at():
            pull_brake(state, f"the budget of {account.budget} is used up: {account.figures(now)}")
            return
    if budget.out_of_money(state, now):
        left = budget.short_of(state, now).budget
        pull_brake(state, f"what is left of the budget of {left} is not enough for another job")


def pull_brake(state: State, reason: str) -> None:
    state.braked = reason
    state.alert("budget", reason, severity=Severity.ERROR)
    for record in state.jobs.values():
        ending.stop(state, record, reason, Loss.STOPPED)
    state.delayed.clear()


# Signs of life


def on_progress(state: State, event: Progressed, now: float) -> None:
    record = ending.current(state, event.job, event.attempt)
    if record is not None and record.state is not JobState.GIVEN:
        earlier = record.sign
        record.sign, record.reports = max(now, event.until or now), record.reports or event.reported
        if event.step is not None:
            record.step = event.step if record.step is None else max(record.step, event.step)
        if record.sign < earlier:  # a long step that was declared is over: the next look is due earlier
            look_again(state, record)
        withdraw_verdict(state, record, now)


def on_cpu(state: State, event: CpuSeen, now: float) -> None:
    record = ending.current(state, event.job, event.attempt)
    if record is not None and record.state is not JobState.GIVEN and not record.reports:
        record.sign = max(record.sign, now)
        withdraw_verdict(state, record, now)


def on_row(state: State, event: RowPersisted, now: float) -> None:
    worker = state.workers.get(event.worker)
    if worker is not None:
        worker.last_row = now


def withdraw_verdict(state: State, record: JobRecord, now: float) -> None:
    """Let a job live that was to be killed and moves after all, unless it has reached its walltime."""
    if record.state is not JobState.KILLING or record.killed_for not in ending.OVERRULED:
        return
    worker = state.workers[record.worker]
    if not worker.dismissed and record.stuck_at(worker.last_row, state.rules.policies.stuck) > now:
        record.state, record.killed_for = JobState.RUNNING, None
        look_again(state, record)
        text = f"{record.job.id} moves after all and is not killed"
        state.alert("stuck-withdrawn", text, record.job.id, Severity.NOTE)


def look_again(state: State, record: JobRecord) -> None:
    worker = state.workers[record.worker]
    state.watch(record.stuck_at(worker.last_row, state.rules.policies.stuck), worker)


def kill_stuck(state: State, now: float) -> None:
    """Look at every worker whose jobs are due for a look."""
    while state.watched and state.watched[0][0] <= now:
        when, _, name = heapq.heappop(state.watched)
        worker = state.workers.get(name)
        if worker is not None and worker.look_due == when:
            worker.look_due = NEVER
            for job in (*worker.jobs, *worker.ahead):
                state.watch(next_look(state, state.jobs[job], worker, now), worker)


def next_look(state: State, record: JobRecord, worker: WorkerRecord, now: float) -> float:
    """Kill a job that is stuck or over its walltime; return when it must be looked at again."""
    if record.state is JobState.GIVEN:
        return NEVER
    if record.state is JobState.KILLING:
        return remove_deaf(state, record, worker, now)
    policy = state.rules.policies.stuck
    when = record.stuck_at(worker.last_row, policy)
    if when > now:
        return when
    silence = stuck.silence(now, record.sign, worker.last_row)
    if stuck.is_stuck(silence, policy.after.seconds):
        text = f"{record.job.id} gave no sign of life for {silence:.0f} s on {worker.id}"
        state.alert("stuck", text, record.job.id)
        ending.kill(state, record, Loss.STUCK)
    else:
        text = f"{record.job.id} never reported progress and reached the walltime of {policy.walltime} on {worker.id}"
        state.alert("walltime", text, record.job.id)
        ending.kill(state, record, Loss.TIMED_OUT)
    return record.kill_due


def remove_deaf(state: State, record: JobRecord, worker: WorkerRecord, now: float) -> float:
    """Remove the worker of a job that was told to die and is not reported dead in time."""
    if now < record.kill_due:
        return record.kill_due
    if not worker.dismissed:
        text = f"{record.job.id} was not killed within {KILL_WITHIN_S:.0f} s; its worker {worker.id} is removed"
        state.alert("kill-late", text, record.job.id)
        state.out.append(workers.dismiss(state, worker, "did not kill its job", forced=True))
    return NEVER
