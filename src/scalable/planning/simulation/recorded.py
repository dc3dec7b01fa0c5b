"""A simulated world that answers the engine as a recorded one did: workers come and jobs end after the same time.

What happens to jobs and workers follows from the engine's instructions, as in any simulation. What came from outside
(submissions, pauses, bounds, what was paid, tasks handed to Dask directly) comes again at its recorded time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TypeGuard

from scalable.engine import Rules
from scalable.engine.ending import OVERRULED
from scalable.engine.events import (
    NEVER,
    Event,
    JobFinished,
    JobLost,
    Loss,
    Progressed,
    WorkerLost,
    WorkersRefused,
    WorkersWithdrawn,
)
from scalable.engine.rules import Room
from scalable.engine.view import JobView
from scalable.planning.placement import PoolRoom
from scalable.planning.simulation.cluster import Computation, ModelPool, SimulatedNode
from scalable.planning.simulation.execution import Execution
from scalable.planning.simulation.faults import FaultKind, Faults, JobFault
from scalable.planning.simulation.world import World

OUTLASTS = 10  # times as long as it was seen, for an attempt that would have gone on had it not been stopped


@dataclass(slots=True)
class RecordedAttempt:
    """An attempt that began, as the driver saw it."""

    begun: float
    seconds: float = 0.0
    """From its beginning to its end; its way to the worker and back is part of it."""
    ending: JobFinished | JobLost | None = None
    """The worker's report, if it ended by itself."""
    worker_lost: Loss | None = None
    """Why its worker was lost, if it ended with that."""
    killed_for: Loss | None = None
    """Why the engine killed it, if it did."""
    last_sign_s: float = 0.0
    """After how long it gave its last sign of life, if it was killed as stuck."""
    dying_s: float = 0.0
    """Between the order to kill it and the report of its death."""
    deaf: bool = False
    """It died only with its worker, which was sent away for that."""
    usual: bool = False
    """It was not recorded; it takes as long as others did."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The answer to a request for workers: a worker, or the news that some will not come."""

    seconds: float
    worker: str = ""
    news: WorkersRefused | WorkersWithdrawn | None = None
    allocation: str = ""
    """What the worker shared with others."""
    left_s: float | None = None
    """For how long work could run on the worker."""

    @property
    def count(self) -> int:
        return self.news.count if self.news is not None else 1


@dataclass(slots=True)
class Recorded:
    """The part of a recorded run that the engine did not decide."""

    attempts: dict[str, list[RecordedAttempt]] = field(default_factory=dict)
    """Attempts of each job that began, in order."""
    arrivals: dict[str, list[Arrival]] = field(default_factory=dict)
    """What came of requests for workers of each tag, in order."""
    script: list[tuple[float, Event]] = field(default_factory=list)
    """What came from outside, and losses of workers that had no job."""

    @property
    def usual_s(self) -> float:
        """The mean length of attempts that finished."""
        attempts = [attempt for recorded in self.attempts.values() for attempt in recorded]
        seconds = [attempt.seconds for attempt in attempts if isinstance(attempt.ending, JobFinished)]
        return fmean(seconds) if seconds else 0.0

    def startup_s(self, tag: str) -> float:
        """Return the mean time after which workers of a tag came."""
        seconds = [arrival.seconds for arrival in self.arrivals.get(tag, ()) if arrival.news is None]
        return fmean(seconds) if seconds else 0.0


class RecordedWorld(World):
    """A world in which workers come, and jobs end, after the time they took in a recorded run."""

    def __init__(self, rules: Rules, recorded: Recorded) -> None:
        # Nodes are there at once, and nobody shares their CPUs: both are part of what was recorded.
        rooms = {name: replace(room, provision_s=0.0) for name, room in rules.pools.items() if is_pool(room)}
        pools = {name: ModelPool(room, cpus=NEVER) for name, room in rooms.items()}
        super().__init__(rules, pools, dict.fromkeys(rules.kinds, 1.0), {}, seed=0, faults=Faults())
        self.recorded = recorded
        self.execution = RecordedExecution(self, recorded)
        self.left = {tag: arrivals[::-1] for tag, arrivals in recorded.arrivals.items()}
        """Arrivals that no request has met yet, the next one last."""
        self.startups: dict[str, float] = {}
        self.shared: dict[str, str] = {}
        """What workers shared with others."""
        self.left_of: dict[str, float | None] = {}
        """For how long work can run on each worker."""
        for when, event in recorded.script:
            if isinstance(event, WorkerLost):
                self.at(when, self.remove_worker, event.worker, event.cause)
            else:
                self.at(when, self.deliver, event)

    def add_workers(self, tag: str, count: int) -> None:
        self.requests += 1
        workers: list[str] = []
        while count > 0:
            arrival = self.next_arrival(tag)
            if arrival.news is None:
                self.startups[arrival.worker] = arrival.seconds
                self.shared[arrival.worker] = arrival.allocation
                self.left_of[arrival.worker] = arrival.left_s
                workers.append(arrival.worker)
            else:
                self.at(self.now + arrival.seconds, self.deliver, arrival.news)
            count -= arrival.count
        self.place(self.pools[self.rules.kinds[tag].pool], workers, tag)

    def next_arrival(self, tag: str) -> Arrival:
        if left := self.left.get(tag):
            return left.pop()
        self.made[tag] = self.made.get(tag, 0) + 1
        return Arrival(self.recorded.startup_s(tag), f"{tag} beyond the recorded {self.made[tag]}")

    def startup_s(self, worker: str, node: SimulatedNode) -> float:
        return self.startups[worker]

    def allocation(self, worker: str, tag: str, node: SimulatedNode) -> str:
        return self.shared[worker]

    def left_s(self, worker: str, tag: str) -> float | None:
        return self.left_of[worker]

    def end_after(self, worker: str, left_s: float) -> None:
        """Do nothing: notice is in the script, and losses are part of what was recorded."""

    def report_spend(self) -> None:
        """Do nothing: what was paid is in the script."""


class RecordedExecution(Execution):
    def __init__(self, world: World, recorded: Recorded) -> None:
        super().__init__(world)
        self.left = {job: attempts[::-1] for job, attempts in recorded.attempts.items()}
        """Recorded attempts that were not repeated yet, the next one last."""
        self.more = RecordedAttempt(0.0, recorded.usual_s, usual=True)
        """Stands for attempts that the recorded run did not need."""
        self.repeated: dict[str, RecordedAttempt] = {}
        """The recorded attempt that each job's present one repeats."""

    def begin(self, record: JobView, attempt: int, worker: str, node: SimulatedNode) -> None:
        left = self.left.get(record.job.id)
        self.repeated[record.job.id] = left.pop() if left else self.more
        super().begin(record, attempt, worker, node)

    def length(self, record: JobView) -> float:
        recorded = self.repeated[record.job.id]
        return recorded.seconds if recorded.ending or recorded.usual else recorded.seconds * OUTLASTS

    def fault(self, job: str, attempt: int) -> JobFault | None:
        recorded = self.repeated[job]
        if recorded.killed_for in OVERRULED:
            return JobFault(FaultKind.DEAF if recorded.deaf else FaultKind.STUCK)
        return JobFault(FaultKind.WORKER_DIES) if recorded.worker_lost else None

    def inject(self, fault: JobFault, job: str, attempt: int, worker: str, seconds: float) -> float:
        world, recorded = self.world, self.repeated[job]
        if recorded.worker_lost:
            world.at(world.now + recorded.seconds, self.lose_worker, worker, job, attempt, recorded.worker_lost)
        else:
            sign = Progressed(job, attempt, world.now + recorded.last_sign_s, reported=False)
            world.at(world.now, world.report, sign)
        return seconds

    def kill(self, job: str, attempt: int, worker: str, cause: Loss) -> None:
        if self.live(job, attempt):
            self.world.at(self.world.now + self.repeated[job].dying_s, super().kill, job, attempt, worker, cause)
        else:
            super().kill(job, attempt, worker, cause)

    def ending(self, computation: Computation) -> Event:
        recorded = self.repeated[computation.job].ending
        return replace(recorded, attempt=computation.attempt) if recorded else super().ending(computation)


def is_pool(room: Room) -> TypeGuard[PoolRoom]:
    return isinstance(room, PoolRoom)
