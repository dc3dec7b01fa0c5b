"""Replays a recorded run through the engine: the same events must lead to the same instructions.

Then the run is simulated: the same rules, in a world in which workers come and jobs end after the time they took. It
must end when the run did. Together they show that a forecast and a live run are decided by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalable.engine import Engine, Rules
from scalable.engine.events import (
    AddWorkers,
    CpuSeen,
    Event,
    Instruction,
    JobEnded,
    JobFinished,
    JobLost,
    KillJob,
    Loss,
    Progressed,
    RemoveWorker,
    RowPersisted,
    StartJob,
    SweepSubmitted,
    Tick,
    WorkerJoined,
    WorkerLost,
    WorkersRefused,
    WorkersWithdrawn,
)
from scalable.errors import ScalableError
from scalable.garbage import uncollected
from scalable.observe.journal import jsonable
from scalable.observe.redact import redact
from scalable.planning.codec import decoder, encoder
from scalable.planning.simulation.recorded import Arrival, Recorded, RecordedAttempt, RecordedWorld

FORM = 1  # of what is recorded; counts changes that earlier versions cannot read
RULES = "rules"  # the kind of the first record; the others are events
ANSWERED = (
    Tick,
    Progressed,
    CpuSeen,
    RowPersisted,
    WorkerJoined,
    WorkersRefused,
    WorkersWithdrawn,
    JobFinished,
    JobLost,
)
"""Events that the simulated world brings about by itself."""

encode_rules, decode_rules = encoder(Rules), decoder(Rules)
encode_event, decode_event = encoder(Event), decoder(Event)
encode_instruction, decode_instruction = encoder(Instruction), decoder(Instruction)


class ReplayError(ScalableError):
    """A record that cannot be replayed."""


def rules_record(rules: Rules) -> tuple[str, dict[str, Any]]:
    """Return kind and fields of a run's first record."""
    return RULES, {"t": 0.0, "form": FORM, "rules": encode_rules(rules)}


def event_record(now: float, event: Event, instructions: Sequence[Instruction]) -> tuple[str, dict[str, Any]]:
    """Return kind and fields of an event's record; ``out`` is what the engine answered, if it did."""
    ((kind, facts),) = encode_event(event).items()
    facts["t"] = now
    if instructions:
        facts["out"] = [encode_instruction(instruction) for instruction in instructions]
    return kind, facts


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """An event and what the engine answered, as recorded."""

    now: float
    """Seconds by the driver's clock."""
    event: Event
    out: list[dict[str, Any]]
    """The instructions in their recorded form."""

    @property
    def instructions(self) -> list[Instruction]:
        return [decode_instruction(instruction) for instruction in self.out]


@dataclass(frozen=True, slots=True)
class Recording:
    """The rules of a run, and all that its engine was told and answered."""

    rules: Rules
    steps: tuple[RecordedStep, ...]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Recording:
        """Read the records of a run, in their order."""
        remaining = iter(records)
        first = next(remaining, None)
        if first is None:
            raise ReplayError("it has no record of its events")
        if first["kind"] != RULES:
            raise ReplayError(f"the record of its events begins with {first['kind']!r} instead of its rules")
        if first.get("form") != FORM:
            raise ReplayError(f"its events are recorded in form {first.get('form')}; this version reads form {FORM}")
        return cls(
            decode_rules(first["rules"]), tuple(step_of(*numbered) for numbered in enumerate(remaining, start=1))
        )


def step_of(number: int, record: Mapping[str, Any]) -> RecordedStep:
    if record["kind"] == "alert":  # the journal's own: a disk did not take what was written before
        raise ReplayError(f"the record of its events has a gap after event {number - 1}: {record.get('text')}")
    facts = {name: value for name, value in record.items() if name not in ("kind", "t", "out")}
    try:
        return RecordedStep(record["t"], decode_event({record["kind"]: facts}), list(record.get("out", ())))
    except (KeyError, TypeError, ValueError) as error:
        raise ReplayError(f"event {number} ({record['kind']}) cannot be read: {error!r}") from None


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event to which the engine now gives another answer."""

    number: int
    """Of the event, from 1."""
    at_s: float
    event: dict[str, Any]
    then: list[dict[str, Any]]
    now: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        return {"number": self.number, "at_s": self.at_s, "event": self.event, "then": self.then, "now": self.now}


@dataclass(frozen=True, slots=True)
class Simulated:
    """The recorded run, and its simulation with what was measured; seconds count from the first submission."""

    actual_s: float
    simulated_s: float

    @property
    def off(self) -> float:
        """By what part of the actual time the simulation ends later."""
        return self.simulated_s / self.actual_s - 1 if self.actual_s else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {"actual_s": self.actual_s, "simulated_s": self.simulated_s, "off": self.off}


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay."""

    events: int
    instructions: int
    difference: Difference | None
    simulated: Simulated | None
    why_not: str = ""
    """Why nothing was simulated."""

    @property
    def same(self) -> bool:
        return self.difference is None

    def to_dict(self) -> dict[str, Any]:
        return {
            "same": self.same,
            "events": self.events,
            "instructions": self.instructions,
            "difference": self.difference.to_dict() if self.difference else None,
            "simulated": self.simulated.to_dict() if self.simulated else None,
            "why_not": self.why_not,
        }


def replay(recording: Recording) -> Replay:
    """Compare every decision with the recorded one, and simulate the run with what was measured."""
    instructions = sum(len(step.out) for step in recording.steps)
    simulated, why_not = None, ""
    try:
        simulated = simulate_again(recording)
    except ScalableError as error:
        why_not = str(error)
    return Replay(len(recording.steps), instructions, first_difference(recording), simulated, why_not)


def first_difference(recording: Recording) -> Difference | None:
    """Return the first event whose instructions are not the recorded ones."""
    engine = Engine(recording.rules)
    for number, step in enumerate(recording.steps, start=1):
        now = [encode_instruction(instruction) for instruction in engine.handle(step.event, step.now)]
        if now != step.out and (now := redact(jsonable(now))) != step.out:  # texts were recorded without secrets
            return Difference(number, step.now, encode_event(step.event), step.out, now)
    return None


def simulate_again(recording: Recording) -> Simulated:
    """Simulate a run with its measured times; raise ``ReplayError`` if it has no end to compare with."""
    measured = Measurements(recording.rules)
    for step in recording.steps:
        measured.take(step)
    if not measured.jobs:
        raise ReplayError("no job was submitted")
    if open_jobs := len(measured.jobs - measured.ended):
        raise ReplayError(f"{open_jobs} of {len(measured.jobs)} jobs had not ended when the record ends")
    with uncollected():
        outcome = RecordedWorld(recording.rules, measured.recorded).run()
    return Simulated(measured.last_end - measured.first, outcome.ended - measured.first)


class Measurements:
    """The times of everything, gathered from recorded events and instructions."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.recorded = Recorded()
        self.jobs: set[str] = set()
        self.ended: set[str] = set()
        self.first = float("inf")
        """When the first job was submitted."""
        self.last_end = 0.0
        self.requests: dict[str, list[float]] = {}
        """When workers were asked for that have not come, by tag."""
        self.tags: dict[str, str] = {}
        """Of workers that are there."""
        self.dismissed: set[str] = set()
        """Workers that the engine sent away."""
        self.begun: dict[str, dict[str, RecordedAttempt]] = {}
        """By worker: its jobs that have begun."""
        self.lines: dict[str, list[str]] = {}
        """By worker: its jobs that wait there behind others."""
        self.where: dict[str, str] = {}
        """Workers of jobs."""
        self.kills: dict[str, tuple[float, Loss]] = {}
        """When and why jobs were told to die."""

    def take(self, step: RecordedStep) -> None:
        self.happened(step.event, step.now)
        for instruction in step.instructions:
            self.decided(instruction, step.now)

    def happened(self, event: Event, now: float) -> None:
        match event:
            case SweepSubmitted(sweep):
                self.first = min(self.first, now)
                self.jobs |= {job.id for job in sweep.jobs}
            case WorkerJoined(worker, tag):
                self.tags[worker] = tag
                self.arrived(tag, now, worker, allocation=event.allocation, left_s=event.left_s)
            case WorkersRefused(tag) | WorkersWithdrawn(tag):
                self.arrived(tag, now, news=event)
            case JobFinished(job) | JobLost(job):
                self.over(job, event, now)
            case WorkerLost():
                self.worker_lost(event, now)
                return
        if not isinstance(event, ANSWERED) or not self.recorded.script:  # the very first tick starts the engine
            self.recorded.script.append((now, event))

    def arrived(
        self,
        tag: str,
        now: float,
        worker: str = "",
        news: WorkersRefused | WorkersWithdrawn | None = None,
        allocation: str = "",
        left_s: float | None = None,
    ) -> None:
        waiting = self.requests.get(tag, [])
        asked = waiting[0] if waiting else now
        arrival = Arrival(now - asked, worker, news, allocation, left_s)
        del waiting[: arrival.count]
        self.recorded.arrivals.setdefault(tag, []).append(arrival)

    def decided(self, instruction: Instruction, now: float) -> None:
        match instruction:
            case AddWorkers(tag, count):
                self.requests.setdefault(tag, []).extend([now] * count)
            case RemoveWorker(worker):
                self.dismissed.add(worker)
            case StartJob(job, _, worker):
                self.where[job] = worker
                self.kills.pop(job, None)
                self.lines.setdefault(worker, []).append(job)
                self.begin_next(worker, now)
            case KillJob(job, _, _, cause):
                self.kills[job] = now, cause
            case JobEnded(job):
                self.ended.add(job)
                self.last_end = now

    def begin_next(self, worker: str, now: float) -> None:
        """Begin a worker's jobs in their order, as many at once as it has slots."""
        begun, line = self.begun.setdefault(worker, {}), self.lines.get(worker, [])
        slots = self.rules.kinds[self.tags[worker]].slots if worker in self.tags else 0
        while line and len(begun) < slots:
            job = line.pop(0)
            begun[job] = RecordedAttempt(now)
            self.recorded.attempts.setdefault(job, []).append(begun[job])

    def over(self, job: str, event: JobFinished | JobLost, now: float) -> None:
        worker = self.where.pop(job, "")
        attempt = self.begun.get(worker, {}).pop(job, None)
        if attempt is None:  # taken back before it began, or gone with its worker
            if job in (line := self.lines.get(worker, [])):
                line.remove(job)
            return
        killed_at, cause = self.kills.pop(job, (now, None))
        attempt.seconds = now - attempt.begun
        if isinstance(event, JobLost) and event.cause is cause:
            self.killed(attempt, killed_at, cause)
            attempt.dying_s = now - killed_at
        else:
            attempt.ending = event
        self.begin_next(worker, now)

    def killed(self, attempt: RecordedAttempt, at: float, cause: Loss) -> None:
        attempt.killed_for = cause
        attempt.last_sign_s = max(0.0, at - attempt.begun - self.rules.policies.stuck.after.seconds)

    def worker_lost(self, event: WorkerLost, now: float) -> None:
        self.lines.pop(event.worker, None)
        attempts = self.begun.pop(event.worker, {})
        for job, attempt in attempts.items():
            self.where.pop(job, None)
            attempt.seconds = now - attempt.begun
            killed_at, cause = self.kills.pop(job, (now, None))
            if cause is not None:
                self.killed(attempt, killed_at, cause)
                attempt.deaf = True
            elif event.worker not in self.dismissed:
                attempt.worker_lost = event.cause
        if event.worker not in self.dismissed and not attempts:
            self.recorded.script.append((now, event))
