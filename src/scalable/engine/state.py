"""The memory of the engine, as a whole and about each job, worker, sweep and tag; only its modules change it."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

from scalable import stuck
from scalable.engine.budget import Spending
from scalable.engine.events import NEVER, Instruction, Job, JobState, Loss, SubmittedSweep, SweepKind
from scalable.engine.queues import JobQueue, Pace
from scalable.engine.rules import Rules
from scalable.findings import Finding, Severity
from scalable.manifest.policies import Stuck
from scalable.manifest.work import Retry
from scalable.quantities import Memory


@dataclass
class State:
    """The memory of an engine, and what the present event has led to."""

    rules: Rules
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    sweeps: dict[str, SweepState] = field(default_factory=dict)
    waiting: dict[str, SweepState] = field(default_factory=dict)
    """Sweeps that wait for a place."""
    placed: dict[str, SweepState] = field(default_factory=dict)
    """Sweeps whose place keeps others out."""
    workers: dict[str, WorkerRecord] = field(default_factory=dict)
    tags: dict[str, TagRecord] = field(default_factory=dict)
    allocations: dict[str, dict[str, None]] = field(default_factory=dict)
    """Workers that share an allocation and are to stay, by its name."""
    last_gone: dict[str, float] = field(default_factory=dict)
    """When a worker last went, by pool."""
    spending: Spending = field(default_factory=Spending)
    """The account of money."""
    hours: Spending = field(default_factory=Spending)
    """The account of the allocation."""
    accounts: tuple[Spending, ...] = ()
    """Those that have a budget."""
    live: int = 0
    """Jobs that have a worker."""
    fleet: int = 0
    """Counts changes in how many workers there are or are to come."""
    paused: str = ""
    dropping: bool = False
    """While paused, workers go as soon as they have nothing to do."""
    braked: str = ""
    """Why the budget stopped everything."""
    delayed: list[tuple[float, int, str]] = field(default_factory=list)
    watched: list[tuple[float, int, str]] = field(default_factory=list)
    """When to look at which worker's jobs for signs of life."""
    endings: list[tuple[float, int, str]] = field(default_factory=list)
    """When to look at which worker's end, so that another is asked for in time."""
    sequence: int = 0
    """Breaks ties in heaps, so that equal times keep their order."""

    out: list[Instruction] = field(default_factory=list)
    """What the present event has led to so far."""
    touched: set[str] = field(default_factory=set)
    """Tags whose workers or queue changed since they were last scaled."""
    vacated: list[WorkerRecord] = field(default_factory=list)
    """Workers on which a short job has finished, so that more may wait there."""
    closing: dict[str, SweepState] = field(default_factory=dict)
    """Sweeps that may have nothing left to start."""
    admission_due: bool = False
    handled: float = 0.0
    """When the last event came."""

    def __post_init__(self) -> None:
        for tag, kind in self.rules.kinds.items():
            self.tags[tag] = TagRecord(JobQueue(), kind.minimum, kind.maximum, kind.within)
        self.spending.budget, self.hours.budget = self.rules.budget, self.rules.allocation
        self.accounts = tuple(account for account in (self.spending, self.hours) if account.budget is not None)

    def alert(self, code: str, message: str, job: str = "", severity: Severity = Severity.WARNING) -> None:
        self.out.append(Finding(code, severity, job, message))

    def later(self, when: float, job: str) -> None:
        self.sequence += 1
        heapq.heappush(self.delayed, (when, self.sequence, job))

    def watch(self, when: float, worker: WorkerRecord) -> None:
        """Look at a worker's jobs then, if not before."""
        if when < worker.look_due:
            worker.look_due = when
            self.sequence += 1
            heapq.heappush(self.watched, (when, self.sequence, worker.id))

    def place(self, sweep: SweepState, *, running: bool) -> None:
        """Let a sweep hold a place, or no longer."""
        if sweep.running == running:
            return
        sign = 1 if running else -1
        for tag, active in sweep.active.items():
            self.tags[tag].asked += sign * self.share(sweep, tag, active)
        sweep.running = running
        if running and sweep.kind is not SweepKind.FREE:
            self.placed[sweep.sweep.id] = sweep
        else:
            self.placed.pop(sweep.sweep.id, None)

    def share(self, sweep: SweepState, tag: str, active: int) -> int:
        """Return how many workers so many active jobs of a sweep ask for."""
        return min(sweep.sweep.workers, -(-active // self.rules.kinds[tag].slots))

    def count(self, record: JobRecord, *, active: bool) -> None:
        """Let a job count, or no longer count, as work that needs a worker."""
        if record.counted == active:
            return
        record.counted = active
        sweep, tag = self.sweeps[record.job.sweep], record.tag
        before = sweep.active.get(tag, 0)
        after = sweep.active[tag] = before + (1 if active else -1)
        most = sweep.sweep.workers * self.rules.kinds[tag].slots
        if sweep.running and (before < most or after < most):  # else it asks for all it may either way
            self.tags[tag].asked += self.share(sweep, tag, after) - self.share(sweep, tag, before)

    def experience(self, record: JobRecord) -> Experience:
        """Return what the sweep of a job has shown on the job's tag."""
        by_tag = self.sweeps[record.job.sweep].experience
        experience = by_tag.get(record.tag)
        if experience is None:
            experience = by_tag[record.tag] = Experience()
        return experience

    def retry(self, sweep: SubmittedSweep) -> Retry:
        return sweep.retry or self.rules.policies.retry

    def may_have_idle_nodes(self, pool: str, now: float) -> bool:
        """Tell whether nodes may still be kept for workers that have gone."""
        return now <= self.last_gone.get(pool, -NEVER) + self.rules.pools[pool].idle_s


@dataclass(frozen=True, slots=True)
class Attempt:
    """A closed attempt, for explanations and for the memory ladder. One that never began leaves none."""

    number: int
    tag: str
    worker: str
    started: float
    ended: float
    cause: Loss
    peak: Memory | None = None
    message: str = ""


@dataclass(slots=True, eq=False)
class JobRecord:
    job: Job
    tag: str
    """Where it runs next; climbs after running out of memory."""
    state: JobState = JobState.HELD
    attempt: int = 0
    """How often it was given to a worker."""
    charged: int = 0
    """How many of the ended attempts count against the retry policy."""
    handovers: int = 0
    """How often it moved for free without getting further: preemption, walltime, a stop."""
    cut_s: float = 0.0
    """The longest it ran on a worker whose allocation ended before it did."""
    too_long: str = ""
    """Why it fits into no allocation, once it had a whole one."""
    step: float | None = None
    """The farthest that it said it was, in any attempt."""
    step_before: float | None = None
    """The same when it last moved."""
    worker: str = ""
    started: float = 0.0
    """When the present or last attempt began, as far as can be deduced."""
    sign: float = 0.0
    """The last sign of life, or the moment up to which a long step was declared."""
    reports: bool = False
    """It has reported progress by itself at least once."""
    not_before: float = 0.0
    counted: bool = False
    """It is among the active jobs of its sweep, for which workers are asked."""
    kill_due: float = 0.0
    """When it must be reported dead after being told to die."""
    killed_for: Loss | None = None
    """Why it was told to die, so that its end is never guessed."""
    reason: str = ""
    past: list[Attempt] = field(default_factory=list)

    def stuck_at(self, last_row: float, policy: Stuck) -> float:
        """Return when the attempt will be stuck if neither a sign of it nor a row of its worker comes any more."""
        ends = None if self.reports or policy.walltime is None else self.started + policy.walltime.seconds
        return stuck.stuck_at(self.sign, last_row, policy.after.seconds, ends)


@dataclass(slots=True, eq=False)
class WorkerRecord:
    id: str
    tag: str
    slots: int
    jobs: dict[str, None] = field(default_factory=dict)
    """Jobs that have begun, at most one per slot."""
    ahead: dict[str, None] = field(default_factory=dict)
    """Jobs that wait on it, in their order; only while every slot is taken."""
    refill: int = 0
    """It may be given more when no more than so many wait."""
    group: tuple[str, str] | None = None
    """The sweep and group it served last, whose data it probably still has."""
    last_row: float = float("-inf")
    look_due: float = NEVER
    """When its jobs are looked at for signs of life."""
    leaving: bool = False
    """Had notice, or was told to go: gets no more work."""
    dismissed: bool = False
    """We told it to go."""
    outside: bool = False
    """It has work that the engine did not start."""
    holding: bool = False
    """It keeps results, so it is not given back."""
    joined: float = 0.0
    ends_at: float | None = None
    """When work on it must be over, since its allocation ends; None if it does not."""
    span: float = 0.0
    """For how long work could run on it when it was new."""
    allocation: str = ""
    """What it shares with other workers; empty if it came alone."""
    served: bool = False
    """It has had work."""

    @property
    def free(self) -> int:
        return 0 if self.leaving or self.outside else self.slots - len(self.jobs)

    @property
    def busy(self) -> bool:
        return self.outside or bool(self.jobs)


@dataclass(slots=True, eq=False)
class Experience:
    """Experience with a sweep's jobs on one tag."""

    pace: Pace = field(default_factory=Pace)
    longest_s: float = 0.0
    """Of those that finished."""
    finished: int = 0
    too_large: set[str] = field(default_factory=set)
    """Jobs that ran out of memory there."""
    peak: Memory | None = None
    """The largest seen of those."""
    reported: bool = False
    """People know that the tag is too small."""


@dataclass(slots=True, eq=False)
class SweepState:
    sweep: SubmittedSweep
    kind: SweepKind
    order: int
    running: bool = False
    """It holds a place."""
    ended: bool = False
    cancelled: bool = False
    """What is still dying is not run again."""
    refused: str = ""
    """Why nothing more of it is started: its code cannot be loaded."""
    active: dict[str, int] = field(default_factory=dict)
    """Jobs per tag that are queued or have a worker that stays."""
    left: int = 0
    """Jobs that are not final."""
    climbed: list[JobRecord] = field(default_factory=list)
    """Jobs that must wait until heavy work may run."""
    experience: dict[str, Experience] = field(default_factory=dict)
    """By tag: what its jobs have shown there."""
    counts: dict[str, int] = field(default_factory=dict)
    waits_for: str = ""


@dataclass(slots=True, eq=False)
class TagRecord:
    """The workers of one tag, those that were asked for, and the jobs that wait for them."""

    queue: JobQueue
    minimum: int
    maximum: int | None
    within: int | None = None
    """Workers of all tags together beyond which none of this one is added."""
    workers: int = 0
    """Joined and not leaving."""
    busy: int = 0
    """Of those, how many have work."""
    asked: int = 0
    """How many workers the running sweeps ask for, by their active jobs."""
    ahead: int = 0
    """Jobs that wait on a worker."""
    loaded: OrderedDict[str, float] = field(default_factory=OrderedDict)
    """Workers on which jobs wait that were not asked back, with the moment a job last began there, oldest first."""
    pace: Pace = field(default_factory=Pace)
    outside: int = 0
    """Waiting work that the engine did not start."""
    lent: int = 0
    """Workers that were last seen with such work."""
    requested: int = 0
    """Asked for and not joined yet."""
    leaving: int = 0
    """Told to go and not gone yet; they still take room."""
    finite: bool = False
    """Workers of it end."""
    ending: dict[str, None] = field(default_factory=dict)
    """Staying workers that end so soon that others are asked for in their place, if work waits."""
    took_s: float | None = None
    """What the last worker took from the request until it joined."""
    returning: int = 0
    """Jobs that wait out a retry's delay; idle workers are kept for them."""
    requested_at: float = NEVER
    idle: OrderedDict[str, float] = field(default_factory=OrderedDict)
    """Workers without work, longest idle first, with the moment they became idle."""
    roomy: dict[str, None] = field(default_factory=dict)
    """Workers with work and a free slot."""
    refusals: int = 0
    """In a row, without a worker joining in between."""
    faltered: bool = False
    """A worker of the latest request ended while it started."""
    died_young: int = 0
    """Requests in a row whose workers joined and died without having worked."""
    ask_again: float = 0.0
    room: int = 0
    room_at: int = -1
    """For which state of the fleet ``room`` was computed."""
    late_reported: bool = False
    last_up: float = float("-inf")
    """When workers were last asked for."""
    last_down: float = float("-inf")
    """When idle ones were last given back by themselves, not to make room for others."""

    @property
    def queued(self) -> int:
        return self.queue.size

    @property
    def starved(self) -> bool:
        """Tell whether work waits and no worker is there or asked for."""
        return not (self.workers or self.requested) and bool(self.queue.size or self.outside)
