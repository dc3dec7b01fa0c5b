"""What must hold whatever happens, checked from outside: only events and instructions are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice

from scalable.engine import Engine
from scalable.engine.ending import FREE, OVERRULED
from scalable.engine.events import (
    AddWorkers,
    BoundsSet,
    Event,
    Instruction,
    JobCancelled,
    JobEnded,
    JobFinished,
    JobLost,
    JobState,
    KillJob,
    Loss,
    OutsideWork,
    Paused,
    Progressed,
    RemoveWorker,
    Resumed,
    SpendChanged,
    StartJob,
    SubmittedSweep,
    SweepAdmitted,
    SweepCancelled,
    SweepEnded,
    SweepKind,
    SweepSubmitted,
    TakeBack,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkersRefused,
    WorkersWithdrawn,
)
from scalable.engine.fleet import NEEDED
from scalable.engine.queues import AHEAD_S, MOST_AHEAD
from scalable.engine.rules import Rules
from scalable.engine.walltime import NEW, USELESS, WHOLE
from scalable.findings import Finding
from scalable.planning.placement import PoolRoom
from scalable.quantities import Money
from scalable.walltime import for_work_s

ROUNDING = Decimal("0.000001")


@dataclass
class Worker:
    tag: str
    slots: int
    given: dict[str, None] = field(default_factory=dict)
    """Its jobs in the order it got them; the first ones, as many as it has slots, have begun."""
    leaving: bool = False
    told: bool = False
    outside: bool = False
    holding: bool = False
    ends_at: float | None = None
    span: float = 0.0
    """For how long work could run on it when it joined."""

    @property
    def begun(self) -> list[str]:
        return list(islice(self.given, self.slots))


@dataclass
class Invariants:
    """A journal for ``simulate``; raises at the first step that breaks a rule."""

    rules: Rules
    sweeps: dict[str, SubmittedSweep] = field(default_factory=dict)
    admitted: dict[str, SweepKind] = field(default_factory=dict)
    sweep_of: dict[str, str] = field(default_factory=dict)
    tag_of: dict[str, str] = field(default_factory=dict)
    live: dict[str, tuple[int, str]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    begun: set[tuple[str, int]] = field(default_factory=set)
    """Attempts that have begun."""
    losses: dict[str, list[Loss]] = field(default_factory=dict)
    """Of attempts that had begun."""
    began: dict[str, float] = field(default_factory=dict)
    """When jobs were last seen to begin."""
    cut: dict[str, float] = field(default_factory=dict)
    """Jobs that the end of a worker cut off, with the part of its whole time that they had."""
    experienced: set[str] = field(default_factory=set)
    """Sweeps of which a job has finished."""
    short: set[str] = field(default_factory=set)
    """Tags on which a job has finished in less than a unit."""
    cancelled: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Sweeps whose code could not be loaded."""
    stopped: set[str] = field(default_factory=set)
    """Sweeps that were cancelled."""
    paused: bool = False
    dropping: bool = False
    final: dict[str, JobState] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    workers: dict[str, Worker] = field(default_factory=dict)
    requested: dict[str, int] = field(default_factory=dict)
    last_up: dict[str, float] = field(default_factory=dict)
    last_down: dict[str, float] = field(default_factory=dict)
    killed_for: dict[str, Loss] = field(default_factory=dict)
    waiting_outside: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    braked: bool = False
    now: float = 0.0
    seen: set[str] = field(default_factory=set)
    """Situations that came up at least once, so that tests can tell whether they did."""

    def __post_init__(self) -> None:
        self.bounds = {tag: (kind.minimum, kind.maximum) for tag, kind in self.rules.kinds.items()}

    def __call__(self, now: float, event: Event, instructions: list[Instruction]) -> None:
        self.now = now
        self.happened(event, now)
        for instruction in instructions:
            self.decided(instruction, now)

    def happened(self, event: Event, now: float) -> None:
        match event:
            case SweepSubmitted(sweep):
                self.sweeps[sweep.id] = sweep
                self.sweep_of |= {job.id: sweep.id for job in sweep.jobs}
                self.tag_of |= {job.id: job.tag for job in sweep.jobs}
            case SweepCancelled(sweep):
                self.stopped |= {sweep} & set(self.sweeps)
            case Paused(_, dropping):
                self.paused, self.dropping = True, dropping
            case Resumed():
                self.paused = self.dropping = False
            case JobCancelled(job):
                if job in self.sweep_of and job not in self.final:
                    self.cancelled.add(job)
                    self.seen.add("killed by operator")
            case WorkerJoined(worker, tag, left_s=left_s):
                ends_at = None if left_s is None else now + left_s
                self.workers[worker] = Worker(tag, self.rules.kinds[tag].slots, ends_at=ends_at, span=left_s or 0.0)
                self.requested[tag] -= 1
            case WorkersRefused(tag, count) | WorkersWithdrawn(tag, count):
                self.requested[tag] -= count
            case OutsideWork(tag, waiting, busy, holding):
                self.waiting_outside[tag] = waiting
                for name, record in self.workers.items():
                    if record.tag == tag:
                        record.outside, record.holding = name in busy, name in holding
                        self.seen |= {"outside work"} if record.outside else set()
            case BoundsSet(tag, minimum, maximum):
                self.bounds[tag] = (minimum, maximum)
            case WorkerLeaving(worker):
                self.workers[worker].leaving = True
            case WorkerLost(worker, cause):
                record = self.workers.pop(worker)
                begun = record.begun
                for job in begun if cause is Loss.WALLTIME and not record.told else ():
                    self.note_cut(job, record, now)
                for job in record.given:
                    why = self.killed_for.pop(job, Loss.STOPPED if record.told else cause)
                    self.close(job, why if job in begun else None)
            case Progressed(job, attempt):
                if self.is_live(job, attempt) and self.killed_for.get(job) in OVERRULED:
                    del self.killed_for[job]
                    self.seen.add("verdict withdrawn")
            case JobFinished(job, attempt, _, seconds):
                if self.is_live(job, attempt):
                    assert self.has_begun(job), "finished before its turn"
                    self.experienced.add(self.sweep_of[job])
                    if seconds is not None and seconds <= AHEAD_S:
                        self.short.add(self.workers[self.live[job][1]].tag)
                    self.close(job, None)
            case JobLost(job, attempt, cause):
                if self.is_live(job, attempt):
                    self.job_lost(job, cause)
            case SpendChanged(spent, _, wind_down):
                assert self.rules.budget is not None
                assert spent.amount + wind_down.amount <= self.rules.budget.amount + ROUNDING, (
                    "committed over the budget"
                )

    def note_cut(self, job: str, record: Worker, now: float) -> None:
        self.seen.add("cut off")
        if not self.may_go_on(job) and job not in self.killed_for:
            self.cut[job] = (now - self.began[job]) / record.span

    def may_go_on(self, job: str) -> bool:
        return next(one for one in self.sweeps[self.sweep_of[job]].jobs if one.id == job).checkpoints

    def is_live(self, job: str, attempt: int) -> bool:
        return self.live.get(job, (0, ""))[0] == attempt

    def has_begun(self, job: str) -> bool:
        return job in self.workers[self.live[job][1]].begun

    def job_lost(self, job: str, cause: Loss) -> None:
        sweep = self.sweep_of[job]
        begun = self.has_begun(job)
        if not begun:
            assert cause in (Loss.STOPPED, Loss.OPERATOR), "something happened to a job that had not begun"
            self.seen.add("came back")
        if self.killed_for.get(job) is Loss.OPERATOR:
            cause = Loss.OPERATOR
        if cause is Loss.CANNOT_START and sweep not in self.stopped and not self.braked:
            self.refused.add(sweep)
            self.seen.add("refused sweep")
        self.close(job, cause if begun else None)

    def close(self, job: str, cause: Loss | None) -> None:
        """An attempt is over; ``cause`` is why it was lost, if it had begun and was."""
        _, worker = self.live.pop(job)
        self.killed_for.pop(job, None)
        if worker in self.workers:
            del self.workers[worker].given[job]
            self.note_begun(worker, self.now)
        if cause is not None:
            self.losses.setdefault(job, []).append(cause)

    def note_begun(self, worker: str, now: float) -> None:
        for job in self.workers[worker].begun:
            if (job, self.live[job][0]) not in self.begun:
                self.begun.add((job, self.live[job][0]))
                self.began[job] = now

    def decided(self, instruction: Instruction, now: float) -> None:
        match instruction:
            case SweepAdmitted(sweep, kind):
                self.admitted[sweep] = kind
            case SweepEnded(sweep):
                assert all(job.id in self.final for job in self.sweeps[sweep].jobs), "a sweep ended with open jobs"
                self.ended.add(sweep)
            case StartJob(job, attempt, worker):
                self.started(job, attempt, worker, now)
            case KillJob(job, attempt, worker, cause):
                assert self.live[job] == (attempt, worker), "killed what is not there"
                assert cause not in OVERRULED or self.has_begun(job), "stuck before it began"
                self.killed_for[job] = cause
                self.seen |= set() if self.has_begun(job) else {"killed before it began"}
            case TakeBack(job, attempt, worker):
                assert self.live[job] == (attempt, worker), "taken back from where it is not"
                assert not self.has_begun(job), "taken back after it began"
                assert job not in self.killed_for
                self.seen.add("taken back")
            case JobEnded(job, state):
                assert state.final
                assert job not in self.final, "two final states"
                assert job not in self.live, "ended while an attempt is live"
                self.final[job] = state
            case AddWorkers(tag, count):
                self.asked(tag, count, now)
            case RemoveWorker(worker, tag, reason, forced):
                self.dismissed(worker, tag, forced, now, reason)
            case Finding("budget"):
                self.braked = True

    def dismissed(self, worker: str, tag: str, forced: bool, now: float, reason: str) -> None:
        record, made_room, useless = self.workers[worker], reason == NEEDED, reason == USELESS
        if useless:
            self.seen.add("drained")
            assert record.ends_at is not None, "a worker that does not end was drained"
            assert record.ends_at - now < NEW * record.span, "a new worker was sent away"
        deaf = forced and any(job in self.killed_for for job in record.given)
        assert not record.given or deaf, "a busy worker was removed"
        assert not record.outside or deaf or self.braked, "a worker with work from outside was removed"
        noticed = record.leaving
        assert not record.holding or deaf or self.braked or noticed, "a worker that keeps results was removed"
        assert not record.told, "removed twice"
        assert forced or not record.leaving
        record.leaving = record.told = True
        minimum, maximum = self.bounds[tag]
        if forced and not (deaf or self.braked or noticed or self.dropping or useless):
            self.seen.add("over the maximum")
            assert maximum is not None
            assert self.staying(tag) >= max(maximum, minimum), "sent away without need"
        if made_room:
            self.seen.add("made room")
            starved = [other for other in self.rules.kinds if other != tag and not self.staying(other)]
            waiting = [job for job in self.sweep_of if job not in self.live]
            needy = (self.waiting_outside.get(t) or any(self.may_run_on(r, t) for r in waiting) for t in starved)
            assert any(needy), "made room for nobody"
        elif not forced:
            self.cooled(now, self.last_up.get(tag), "scaled down right after scaling up")
            self.last_down[tag] = now

    def staying(self, tag: str) -> int:
        """Workers that are there or to come and were not told to go."""
        return sum(w.tag == tag and not w.leaving for w in self.workers.values()) + self.requested.get(tag, 0)

    def started(self, job: str, attempt: int, worker: str, now: float) -> None:
        assert job not in self.final, "a final job was started"
        assert job not in self.live, "two live attempts of one job"
        assert attempt == self.starts.get(job, 0) + 1
        self.starts[job] = attempt
        sweep = self.sweep_of[job]
        assert job not in self.cancelled, "a job that a person killed was started"
        assert sweep not in self.refused, "more of a sweep was started whose code cannot be loaded"
        assert sweep not in self.stopped, "more of a cancelled sweep was started"
        assert not self.paused, "started while paused"
        lost = self.losses.get(job, [])
        assert sum(cause not in FREE for cause in lost) <= self.rules.policies.retry.times, "too many retries"
        assert lost.count(Loss.CRASHED) <= 1, "tried again after it crashed twice"
        record = self.workers[worker]
        assert not record.leaving, "work for a worker that is leaving"
        assert not record.outside, "work for a worker that has some from outside"
        if record.ends_at is not None:
            self.started_in_time(job, record, now)
        record.given[job] = None
        ahead = len(record.given) - record.slots
        if ahead > 0:
            self.seen.add("given ahead")
            assert record.tag in self.short, "given ahead before anything short was seen"
            assert ahead <= MOST_AHEAD * record.slots, "too many wait on one worker"
            free = [w for w in self.workers.values() if w.tag == record.tag and len(w.given) < w.slots]
            assert all(w.leaving or w.outside for w in free), "given ahead while a slot is free"
        self.live[job] = (attempt, worker)
        self.note_begun(worker, now)
        ruled, heavy = set(), set()
        for other, (_, where) in self.live.items():
            if self.admitted[self.sweep_of[other]] is not SweepKind.FREE:
                ruled.add(self.sweep_of[other])
            if self.rules.kinds[self.workers[where].tag].alone:
                heavy.add(self.sweep_of[other])
        assert not heavy or ruled == heavy, "heavy work is not alone"
        assert len(heavy) <= 1, "two heavy sweeps at once"
        assert len(ruled) <= self.rules.policies.concurrency.normal, "too many sweeps at once"

    def started_in_time(self, job: str, record: Worker, now: float) -> None:
        """A job starts only where it can end, as far as that is known."""
        assert record.ends_at is not None
        known, left = self.rules.kinds[record.tag].walltime, record.ends_at - now
        submitted = next(one for one in self.sweeps[self.sweep_of[job]].jobs if one.id == job)
        if submitted.checkpoints:
            self.seen |= {"went on"} if self.losses.get(job) and self.losses[job][-1] is Loss.WALLTIME else set()
            return
        assert self.cut.get(job, 0.0) < WHOLE, "tried again after it had a whole allocation"
        if job in self.cut:
            self.seen.add("tried on a new worker")
            assert left >= NEW * record.span - 1e-6, "what was cut off needs a new worker"
        if submitted.expected_s is not None and known is not None and record.tag == submitted.tag:
            assert submitted.expected_s <= for_work_s(known.seconds), "started what fits no allocation"
            if self.sweep_of[job] not in self.experienced:
                assert left >= min(submitted.expected_s, NEW * record.span) - 1e-6, "started what cannot end in time"

    def asked(self, tag: str, count: int, now: float) -> None:
        kind = self.rules.kinds[tag]
        minimum, maximum = self.bounds[tag]
        self.requested[tag] = self.requested.get(tag, 0) + count
        staying = self.staying(tag)
        if staying <= minimum:
            self.seen.add("raised to the minimum")
        else:
            self.cooled(now, self.last_down.get(tag), "scaled up right after scaling down")
        self.last_up[tag] = now
        needed = -(-sum(self.may_run_on(job, tag) for job in self.sweep_of) // kind.slots)
        half_used = sum(len(w.given) < kind.slots for w in self.workers.values() if w.tag == tag and w.given)
        lent = sum(w.tag == tag and w.outside and not w.leaving for w in self.workers.values())
        others = lent + -(-self.waiting_outside.get(tag, 0) // kind.slots)
        self.seen |= {"asked for outside work"} if staying > needed + half_used else set()
        finite = sum(w.tag == tag and not w.leaving and w.ends_at is not None for w in self.workers.values())
        most = max(minimum, needed + half_used + others)
        self.seen |= {"replaced ahead"} if staying > most or (maximum is not None and staying > maximum) else set()
        assert staying <= most + finite, "more workers than runnable work needs"
        if self.rules.most_workers is not None:
            everyone = len(self.workers) + sum(self.requested.values())
            assert everyone <= self.rules.most_workers, "more workers than the target allows"
        if maximum is not None:
            assert staying <= max(maximum, minimum) + finite, "over the maximum"
        room = self.rules.pools[kind.pool]
        counts: dict[str, int] = {}
        for worker in self.workers.values():
            counts[worker.tag] = counts.get(worker.tag, 0) + 1
        for other, number in self.requested.items():
            counts[other] = counts.get(other, 0) + number
        here = {t: n for t, n in counts.items() if self.rules.kinds[t].pool == kind.pool}
        assert isinstance(room, PoolRoom) and room.nodes(here) <= room.max_nodes, "over the pool's capacity"

    def may_run_on(self, job: str, tag: str) -> bool:
        """A job that is open, admitted, and was submitted for the tag or may have climbed to it."""
        sweep = self.sweep_of[job]
        if job in self.final or sweep not in self.admitted or sweep in self.ended:
            return False
        own = self.tag_of[job]
        return own == tag or (self.rules.kinds[own].larger == tag and self.starts.get(job, 0) > 0)

    def cooled(self, now: float, before: float | None, message: str) -> None:
        wait = self.rules.policies.scaling.cooldown.seconds
        assert before is None or now >= before + wait - 1e-6, message

    def at_the_end(self, cost: Money, engine: Engine | None = None) -> None:
        if self.rules.budget is not None:
            assert cost.amount <= self.rules.budget.amount + ROUNDING, "the bill is over the budget"
        assert set(self.final) == set(self.sweep_of), "jobs without a final state"
        assert self.ended == set(self.sweeps), "sweeps that did not end"
        assert not self.live
        for job in self.cancelled:
            assert self.final[job] is not JobState.REFUSED
        for job, record in engine.state.jobs.items() if engine else ():
            lost = self.losses.get(job, [])
            ends = {Loss.PREEMPTED: Loss.WALLTIME}  # the engine knows when a notice is the end of an allocation
            causes = [[ends.get(cause, cause) for cause in some] for some in ([one.cause for one in record.past], lost)]
            assert causes[0] == causes[1], "counted what did not begin"
            if record.state is JobState.FINISHED:
                assert (job, record.attempt) in self.begun
            if record.state is JobState.REFUSED:
                assert not any((job, attempt) in self.begun for attempt in range(1, record.attempt + 1))
        for tags in engine.state.tags.values() if engine else ():
            assert (tags.ahead, tags.busy, tags.asked, tags.returning) == (0, 0, 0, 0), "miscounted"
            assert not tags.loaded
            assert not tags.roomy
            assert not (tags.queue.waiting or tags.queue.served), "groups that nobody needs any more are remembered"
