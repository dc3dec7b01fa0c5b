"""Events, which the engine is told, and instructions, which it answers with. Nothing else passes its door."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from scalable.findings import Finding
from scalable.machine_hours import MachineHours
from scalable.manifest.work import Retry
from scalable.quantities import Memory, Money

NEVER = float("inf")  # the time of what is not due


class Loss(Enum):
    """The reason why an attempt ended without a result. The value is the word people see."""

    RAISED = "raised"  # the code raised an error that would come again: bad input, assertion, type
    TRANSIENT = "transient"  # the code raised an error that may pass: a connection, a time-out
    OUT_OF_MEMORY = "out of memory"  # over its limit; only a larger profile can help
    STUCK = "stuck"  # we killed it because it gave no sign of life
    TIMED_OUT = "over its walltime"  # we killed it because it ran longer than the policy allows, without a report
    WORKER_LOST = "worker lost"  # its worker vanished without notice
    WORKER_CRASHED = "worker crashed"  # by a plain task in its process, which is not the job's; costs no retry
    NODE_LOST = "node lost"  # its machine vanished; neighbours on it are lost too
    KILLED = "killed by another"  # a signal that was not ours ended its process, such as the system's for memory
    CRASHED = "crashed"  # its process aborted or went without an answer: bad luck once, its own fault if it comes again
    PREEMPTED = "preempted"  # the machine was taken back with notice; costs no retry
    WALLTIME = "walltime"  # the batch job's time ended; costs no retry
    CANNOT_START = "cannot start"  # a missing module or file: it would fail everywhere
    STOPPED = "stopped"  # we stopped it for the budget or on request; costs no retry
    OPERATOR = "killed by operator"  # a person killed it; not run again


class JobState(Enum):
    """The state that a job is in. The last four are final."""

    HELD = "held"  # its sweep is not admitted yet, or it waits for heavy work to be allowed
    QUEUED = "queued"  # could start now if a worker were free
    ELSEWHERE = "computed by another run"  # is not started here unless that run gives it up
    DELAYED = "delayed"  # waits out a retry's delay
    GIVEN = "given"  # lies on a worker behind others and has not begun
    RUNNING = "running"  # has begun on a worker
    KILLING = "killing"  # was told to die and has not been reported dead
    FINISHED = "finished"
    FAILED = "failed"  # will not be tried again
    REFUSED = "refused"  # was never started: cannot be met, or over the memory check
    STOPPED = "stopped"  # not started again: budget used up or sweep cancelled; can be resumed later

    @property
    def final(self) -> bool:
        return self in FINAL


FINAL = (JobState.FINISHED, JobState.FAILED, JobState.REFUSED, JobState.STOPPED)


class SweepKind(Enum):
    NORMAL = "normal"  # a few at once
    HEAVY = "heavy"  # alone among sweeps
    FREE = "free"  # discovery, backtests: beside anything


@dataclass(frozen=True, slots=True)
class Job:
    """Work that is started and retried as a whole."""

    id: str
    sweep: str
    tag: str
    group: str = ""
    """Jobs of one group share data; they are kept on one worker while that costs nothing."""
    expected_s: float | None = None
    memory: Memory | None = None
    """The peak expected by the memory check."""
    charged: int = 0
    """Attempts that count against the retry policy and were made before, by drivers that are gone."""
    checkpoints: bool = False
    """It goes on where it stopped, so it may take longer than a worker lives."""


@dataclass(frozen=True, slots=True)
class SubmittedSweep:
    id: str
    kind: SweepKind
    jobs: tuple[Job, ...]
    workers: int
    """How many workers it asks for at most."""
    retry: Retry | None = None
    """How its jobs are retried; as the policies say when not given."""


# What can happen


@dataclass(frozen=True, slots=True)
class SweepSubmitted:
    sweep: SubmittedSweep


@dataclass(frozen=True, slots=True)
class SweepCancelled:
    sweep: str


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    worker: str
    tag: str
    allocation: str = ""
    """What it shares with other workers, such as a batch job; empty if it came alone."""
    left_s: float | None = None
    """For how long work can run on it before its allocation ends; nothing if that is not known."""


@dataclass(frozen=True, slots=True)
class WorkerEnds:
    """News of when a worker's allocation ends: it was not known, or was changed."""

    worker: str
    left_s: float
    """For how long work can still run on it."""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    worker: str
    cause: Loss = Loss.WORKER_LOST
    peak: Memory | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class WorkerLeaving:
    """Notice that a worker will go soon (spot, eviction, walltime): it gets no more work."""

    worker: str


@dataclass(frozen=True, slots=True)
class WorkersRefused:
    """Workers that were asked for will not come: a quota, a refused batch job, a bad image."""

    tag: str
    count: int
    reason: str
    cause: Loss | None = None
    """Of what a worker ended that was started and never joined; nothing if the request itself was refused."""


@dataclass(frozen=True, slots=True)
class WorkersWithdrawn:
    """Workers that were asked for were sent away, by someone else's wish, before they came."""

    tag: str
    count: int


@dataclass(frozen=True, slots=True)
class JobFinished:
    job: str
    attempt: int
    peak: Memory | None = None
    seconds: float | None = None
    """How long it ran, as its runner measured it; several short jobs are given to a worker at once."""


@dataclass(frozen=True, slots=True)
class JobLost:
    job: str
    attempt: int
    cause: Loss
    peak: Memory | None = None
    message: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """The wish of a person that one job ends; it is not run again."""

    job: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobsElsewhere:
    """News that another run computes jobs, none of which a worker of this run has got yet."""

    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobsReturned:
    """News that the other run gave up jobs, or died: they can be started here."""

    charged: dict[str, int]
    """By job: attempts that count against the retry policy and were made by drivers that are gone."""


@dataclass(frozen=True, slots=True)
class JobsDoneElsewhere:
    """News that the rows of jobs are in the store and another run put them there."""

    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progressed:
    """A sign of life. ``until`` declares a long step: no further sign is due before then.

    Instead of a report of death it says that the job moves after all and was not killed as stuck.
    """

    job: str
    attempt: int
    until: float | None = None
    reported: bool = True
    """Not if all it ever said of itself is that a step takes long: then its CPU use still counts."""
    step: float | None = None
    """How far it says that it is."""


@dataclass(frozen=True, slots=True)
class RowPersisted:
    worker: str


@dataclass(frozen=True, slots=True)
class CpuSeen:
    """CPU use of a job's process tree since the last look; the sign of life of code that never reports."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class SpendChanged:
    """The sum paid so far, and what must still be paid for all that was asked for if everything stopped now.

    ``per_hour`` is how fast that sum grows: the nodes that hold workers. Sent right after workers were asked for and
    whenever a node comes, empties, fills or goes.
    """

    spent: Money
    per_hour: Money
    wind_down: Money
    covered: int = 0
    """How many ``AddWorkers`` the figures include; later ones are counted by the engine itself."""
    elsewhere: Money | None = None
    """What others have taken from the same budget since this world began."""


@dataclass(frozen=True, slots=True)
class HoursChanged:
    """The same of an allocation: the hours used so far, and how fast they grow by what is held now."""

    spent: MachineHours
    per_hour: MachineHours
    wind_down: MachineHours
    covered: int = 0
    elsewhere: MachineHours | None = None


@dataclass(frozen=True, slots=True)
class OutsideWork:
    """Work of a tag that the engine did not start, such as tasks handed to Dask directly.

    It is not the engine's to start or to retry, but workers are asked for and kept for its sake.
    """

    tag: str
    waiting: int
    busy: frozenset[str] = frozenset()
    """Workers of the tag that have some of it."""
    holding: frozenset[str] = frozenset()
    """Workers that keep results others may ask for: they stay, and may be given work."""


@dataclass(frozen=True, slots=True)
class BoundsSet:
    """New bounds: from now on there are at least and at most so many workers of a tag."""

    tag: str
    minimum: int
    maximum: int | None
    leaving: tuple[str, ...] = ()
    """Workers that were told to go for it; the engine sends no others away in their place."""


@dataclass(frozen=True, slots=True)
class Paused:
    """A pause: nothing starts until ``Resumed``; what runs may end."""

    reason: str = "paused by the operator"
    drop_workers: bool = False
    """Send every worker away as soon as it has nothing to do and keeps no results; they are asked for again later."""


@dataclass(frozen=True, slots=True)
class Resumed:
    pass


@dataclass(frozen=True, slots=True)
class Tick:
    """The passing of time; see ``Engine.next_wake``."""


Event = (
    SweepSubmitted
    | SweepCancelled
    | WorkerJoined
    | WorkerEnds
    | WorkerLost
    | WorkerLeaving
    | WorkersRefused
    | WorkersWithdrawn
    | JobFinished
    | JobLost
    | JobCancelled
    | JobsElsewhere
    | JobsReturned
    | JobsDoneElsewhere
    | Progressed
    | RowPersisted
    | CpuSeen
    | SpendChanged
    | HoursChanged
    | OutsideWork
    | BoundsSet
    | Paused
    | Resumed
    | Tick
)


# What is to be done


@dataclass(frozen=True, slots=True)
class StartJob:
    """The order to give a job to a worker. It begins what it was given in order, as many at once as it has slots."""

    job: str
    attempt: int
    worker: str


@dataclass(frozen=True, slots=True)
class KillJob:
    """The order to save evidence, kill the job with all its children, and report ``JobLost`` with this cause.

    One that has not begun is forgotten and reported alike. A stuck one that moves after all is left alive and reported
    with ``Progressed`` or ``CpuSeen`` instead.
    """

    job: str
    attempt: int
    worker: str
    cause: Loss


@dataclass(frozen=True, slots=True)
class TakeBack:
    """The order to forget a job and report ``JobLost`` with ``Loss.STOPPED``; ignored if the job has begun."""

    job: str
    attempt: int
    worker: str


@dataclass(frozen=True, slots=True)
class AddWorkers:
    tag: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class RemoveWorker:
    worker: str
    tag: str
    reason: str
    forced: bool = False
    """No decision by need: the budget is used up, a maximum was lowered, or it had notice. No cooldown delays it."""


@dataclass(frozen=True, slots=True)
class WorkersGivenUp:
    """News that no worker of the tag can be had. Its waiting jobs are ended; work from outside should be, too."""

    tag: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    job: str
    state: JobState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SweepAdmitted:
    sweep: str
    kind: SweepKind


@dataclass(frozen=True, slots=True)
class SweepEnded:
    """The end of a sweep, ``complete`` only if every job finished."""

    sweep: str
    complete: bool
    counts: dict[str, int]


Instruction = (
    StartJob
    | KillJob
    | TakeBack
    | AddWorkers
    | RemoveWorker
    | WorkersGivenUp
    | JobEnded
    | SweepAdmitted
    | SweepEnded
    | Finding  # to be told to people; its path is a job or empty
)
