"""A read-only view of an engine: its jobs, workers, sweeps and tags, and why a job is where it is.

The classes below name what may be read of the engine's records; a type checker rejects any change through them. Nobody
outside this package reads the state itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from scalable.engine import fleet
from scalable.engine.budget import startable
from scalable.engine.events import Job, JobState
from scalable.engine.rules import Rules
from scalable.engine.state import Attempt, JobRecord, State
from scalable.quantities import Duration
from scalable.wording import plural


class JobView(Protocol):
    """A job, where it is and what became of its attempts."""

    @property
    def job(self) -> Job:
        """The job as it was submitted."""

    @property
    def tag(self) -> str:
        """The kind of worker that it runs on next, or ran on last."""

    @property
    def state(self) -> JobState:
        """The state of the job."""

    @property
    def attempt(self) -> int:
        """The number of its present or last attempt."""

    @property
    def worker(self) -> str:
        """The worker that has it or had it last."""

    @property
    def sign(self) -> float:
        """The last sign of life, or the moment up to which a long step was declared."""

    @property
    def past(self) -> Sequence[Attempt]:
        """The attempts that were lost."""


class WorkerView(Protocol):
    """A worker that joined and is not gone."""

    @property
    def jobs(self) -> Collection[str]:
        """Jobs that have begun on it."""


class SweepView(Protocol):
    """A sweep that was submitted."""

    @property
    def ended(self) -> bool:
        """Nothing of it is left."""


class TagView(Protocol):
    """The workers of one tag, those that were asked for, and the jobs that wait for them."""

    @property
    def minimum(self) -> int:
        """The fewest workers that are kept."""

    @property
    def maximum(self) -> int | None:
        """The most workers there may be; None for as many as the pool holds."""

    @property
    def workers(self) -> int:
        """Workers that joined and stay."""

    @property
    def idle(self) -> Mapping[str, float]:
        """Workers without work, with the moment they became idle."""

    @property
    def requested(self) -> int:
        """Workers that were asked for and have not joined."""

    @property
    def requested_at(self) -> float:
        """The time at which those were asked for."""

    @property
    def refusals(self) -> int:
        """Refused requests in a row."""

    @property
    def queued(self) -> int:
        """Jobs that wait for a worker."""

    @property
    def ahead(self) -> int:
        """Jobs that wait on a worker behind others."""

    @property
    def returning(self) -> int:
        """Jobs that wait out a retry's delay."""


class View:
    """The readable side of an engine, always as it is now."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.rules: Rules = state.rules
        self.jobs: Mapping[str, JobView] = state.jobs
        self.workers: Mapping[str, WorkerView] = state.workers
        self.sweeps: Mapping[str, SweepView] = state.sweeps
        self.tags: Mapping[str, TagView] = state.tags

    @property
    def handled(self) -> float:
        """The time of the last event."""
        return self._state.handled

    @property
    def paused(self) -> str:
        """The reason why nothing starts until the operator resumes; empty if nobody paused."""
        return self._state.paused

    @property
    def braked(self) -> str:
        """The reason why the budget stopped everything; empty if it did not."""
        return self._state.braked

    def cooled_down(self, tag: str) -> float:
        """Return when workers of a tag may be asked for again after idle ones were given back."""
        return fleet.cooled_down(self._state, tag)

    def explain(self, job: str, now: float) -> list[str]:
        """Say why a job is where it is: past attempts first, the present last."""
        return explain(self._state, job, now)


def explain(state: State, job: str, now: float) -> list[str]:
    record = state.jobs.get(job)
    if record is None:
        return [f"no job is called {job}"]
    lines = [
        f"attempt {a.number} on {a.worker} ({a.tag}) was lost after {Duration(a.ended - a.started)}: {a.cause.value}"
        + (f", peak {a.peak}" if a.peak else "")
        + (f", {a.message}" if a.message else "")
        for a in record.past
    ]
    return [*lines, present(state, record, now)]


def present(state: State, record: JobRecord, now: float) -> str:
    sweep = state.sweeps[record.job.sweep]
    match record.state:
        case JobState.HELD if record in sweep.climbed:
            why = sweep.waits_for or "the rest of its sweep must end first"
            return f"waits for {record.tag} workers, which run alone: {why}"
        case JobState.HELD:
            return f"waits for its sweep {record.job.sweep} to be admitted: {sweep.waits_for or 'not looked at yet'}"
        case JobState.QUEUED:
            return f"queued for a {record.tag} worker: {queue_reason(state, record, now)}"
        case JobState.ELSEWHERE:
            return "another run of the same sweep computes it; its rows are waited for"
        case JobState.DELAYED:
            return f"is tried again in {Duration(max(0.0, record.not_before - now))} on {record.tag}"
        case JobState.GIVEN:
            worker = state.workers[record.worker]
            before = len(worker.jobs) + list(worker.ahead).index(record.job.id)
            return f"waits on {worker.id} behind {before} other{'s' if before > 1 else ''}"
        case JobState.RUNNING:
            silent = max(0.0, now - record.sign)
            ran = Duration(now - record.started)
            return f"runs on {record.worker} for {ran}, attempt {record.attempt}, last sign of life {silent:.0f} s ago"
        case JobState.KILLING:
            cause = record.killed_for.value if record.killed_for else "stopped"
            return f"is being killed on {record.worker}: {cause}"
    ended: str = record.state.value
    return f"{ended}: {record.reason}" if record.reason else ended


def queue_reason(state: State, record: JobRecord, now: float) -> str:
    tag_record = state.tags[record.tag]
    kind = state.rules.kinds[record.tag]
    if state.paused:
        return state.paused
    if tag_record.requested:
        ago = now - tag_record.requested_at
        return f"{tag_record.requested} workers were asked for {ago:.0f} s ago and have not joined"
    if now < tag_record.ask_again:
        return f"the last request was refused; asking again in {tag_record.ask_again - now:.0f} s"
    cooled = fleet.cooled_down(state, record.tag)
    if not tag_record.workers and now < cooled:
        return f"no worker; idle ones were given back and may be asked for again in {cooled - now:.0f} s"
    if tag_record.workers >= fleet.room_for(state, record.tag):
        taken = f"all {tag_record.workers} workers are busy" if tag_record.workers else "no worker"
        return f"{taken} and the pool {kind.pool} is full"
    if not startable(state, now, record):
        return "what is left of the budget does not cover it"
    return f"{tag_record.busy} of {tag_record.workers} workers are busy, {plural(tag_record.queue.size, 'job')} waiting"
