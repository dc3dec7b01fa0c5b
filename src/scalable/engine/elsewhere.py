"""Jobs that another run of the same sweep computes: set aside here, taken back if that run gives them up, or done.

The engine does not ask who computes what. The driver asks before a worker gets a job, and tells the engine. A job that
is computed elsewhere has no worker and asks for none.
"""

from __future__ import annotations

from scalable.engine import ending, starting
from scalable.engine.events import JobsDoneElsewhere, JobsElsewhere, JobsReturned, JobState
from scalable.engine.state import JobRecord, State
from scalable.engine.sweeps import used_up

DONE = "computed by another run"
STARTED = (JobState.GIVEN, JobState.RUNNING)


def on_elsewhere(state: State, event: JobsElsewhere, now: float) -> None:
    for job in event.jobs:
        record = state.jobs[job]
        if set_aside(state, record, now):
            record.state = JobState.ELSEWHERE


def on_done(state: State, event: JobsDoneElsewhere, now: float) -> None:
    for job in event.jobs:
        record = state.jobs[job]
        if set_aside(state, record, now):
            ending.end(state, record, JobState.FINISHED, DONE)


def on_returned(state: State, event: JobsReturned, now: float) -> None:
    for job, charged in event.charged.items():
        record = state.jobs[job]
        if record.state is not JobState.ELSEWHERE:
            continue
        sweep = state.sweeps[record.job.sweep]
        record.charged = max(record.charged, charged)
        if sweep.refused:
            ending.refuse(state, record, sweep.refused)
        elif record.charged > state.retry(sweep.sweep).times:
            ending.fail(state, record, used_up(record.charged))
        elif sweep.running:
            starting.enqueue(state, record)
        else:
            record.state = JobState.HELD


def set_aside(state: State, record: JobRecord, now: float) -> bool:
    """Take a job out of its queue or off the worker that was to get it; return False if it has ended or is to die."""
    if record.state.final or record.state is JobState.KILLING:
        return False
    if record.state in STARTED:
        ending.detach(state, record, now)
    else:
        ending.withdraw(state, record)
    return True
