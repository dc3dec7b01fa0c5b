"""A world in a few words: an engine, what it was told, and what it answered."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any, TypeVar

from scalable.engine import Engine, Rules, WorkerKind
from scalable.engine.events import (
    AddWorkers,
    Event,
    Instruction,
    Job,
    JobEnded,
    JobFinished,
    JobLost,
    JobState,
    KillJob,
    Loss,
    RemoveWorker,
    StartJob,
    SubmittedSweep,
    SweepAdmitted,
    SweepKind,
    SweepSubmitted,
    Tick,
    WorkerJoined,
    WorkerLost,
)
from scalable.findings import Finding
from scalable.machine_hours import MachineHours
from scalable.manifest.policies import Policies
from scalable.manifest.work import Retry
from scalable.planning.placement import UNLIMITED, OpenRoom, PoolRoom
from scalable.planning.resources import Size
from scalable.quantities import Cpu, Memory, Money

NODE = Size(Cpu.of(15.6), Memory.of_gib(60))
REQUESTS = {
    "standard": Size(Cpu.of(2), Memory.of_gib(2)),
    "heavy": Size(Cpu.of(2), Memory.of_gib(12)),
    "huge": Size(Cpu.of(2), Memory.of_gib(30)),
    "wfrb": Size(Cpu.of(1), Memory.of_gib(2)),
}
KINDS = {
    "standard": WorkerKind("standard", "compute", Memory.of_gib(8)),
    "heavy": WorkerKind("heavy", "compute", Memory.of_gib(24), alone=True),
    "huge": WorkerKind("huge", "compute", Memory.of_gib(48), alone=True),
    "wfrb": WorkerKind("wfrb", "compute", Memory.of_gib(4)),
}
LADDER = ("standard", "heavy", "huge")  # where a job climbs after running out of memory

T = TypeVar("T", bound=Instruction)


def gib(number: float) -> Memory:
    return Memory.of_gib(number)


def money(text: str) -> Money:
    return Money.parse(text)


def a_world() -> World:
    return World()


@dataclass
class World:
    """Describe it with ``with_…``, let things happen to it, then look at what the engine answered."""

    profiles: tuple[str, ...] = ("standard", "heavy", "wfrb")
    nodes: int = 6
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    kinds: dict[str, dict[str, Any]] = field(default_factory=dict)
    budget: Money | None = None
    price: Money | None = None
    most_workers: int | None = None
    per_job: int = 0
    """Workers of a kind in one batch job, on a queue without an end; 0 for a pool of nodes."""
    allocation: MachineHours | None = None
    most_at_once: int | None = None
    now: float = 0.0
    log: list[tuple[float, Instruction]] = field(default_factory=list)
    made: int = 0
    obliging: bool = False
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.rebuild()

    def rebuild(self) -> World:
        rungs = [name for name in LADDER if name in self.profiles]
        above = dict(pairwise(rungs))
        kinds = {
            name: replace(KINDS[name], **{"larger": above.get(name), **self.kinds.get(name, {})})
            for name in self.profiles
        }
        room = PoolRoom(
            "compute",
            NODE,
            self.nodes,
            {name: REQUESTS[name] for name in self.profiles},
            price=self.price,
            provision_s=180.0,
            idle_s=600.0,
        )
        if self.per_job:
            together = dict.fromkeys(self.profiles, self.per_job)
            room = OpenRoom("compute", NODE, UNLIMITED, room.requests, per_job=together)
        policies = Policies.model_validate(self.policies)
        rules = Rules(
            kinds, {"compute": room}, policies, self.budget, self.most_workers, self.allocation, self.most_at_once
        )
        self.engine = Engine(rules)
        return self

    # What it is

    def with_profiles(self, *names: str) -> World:
        self.profiles = names
        return self.rebuild()

    def with_nodes(self, most: int) -> World:
        self.nodes = most
        return self.rebuild()

    def with_jobs_of(self, workers: int) -> World:
        """Let workers come in batch jobs of so many."""
        self.per_job = workers
        return self.rebuild()

    def with_most_workers(self, most: int) -> World:
        self.most_workers = most
        return self.rebuild()

    def with_policy(self, section: str, **values: Any) -> World:
        self.policies[section] = values
        return self.rebuild()

    def with_kind(self, tag: str, **values: Any) -> World:
        self.kinds[tag] = values
        return self.rebuild()

    def with_budget(self, budget: str, price: str = "1 EUR") -> World:
        self.budget, self.price = money(budget), money(price)
        return self.rebuild()

    def with_allocation(self, hours: str, held: int = 4) -> World:
        """Every worker holds so many cores, nodes or GPUs of the allocation."""
        self.allocation = MachineHours.parse(hours)
        for tag in self.profiles:
            self.kinds[tag] = {**self.kinds.get(tag, {}), "held": Decimal(held)}
        return self.rebuild()

    def with_willing_cluster(self) -> World:
        """Workers come and go, and jobs die, the moment they are told to."""
        self.obliging = True
        return self

    def with_sweep(
        self,
        name: str,
        jobs: int = 1,
        *,
        kind: SweepKind = SweepKind.NORMAL,
        on: str | None = None,
        workers: int | None = None,
        expected_s: float | None = None,
        memory: Memory | None = None,
        charged: int = 0,
        retry: Retry | None = None,
        checkpoints: bool = False,
    ) -> World:
        """Submit a sweep now; its jobs are called ``name/1``, ``name/2``, …"""
        tag = on or {SweepKind.NORMAL: "standard", SweepKind.HEAVY: "heavy", SweepKind.FREE: "wfrb"}[kind]
        made = tuple(
            Job(
                f"{name}/{n}", name, tag, expected_s=expected_s, memory=memory, charged=charged, checkpoints=checkpoints
            )
            for n in range(1, jobs + 1)
        )
        self.happens(SweepSubmitted(SubmittedSweep(name, kind, made, workers or max(1, jobs), retry)))
        return self

    def with_job(self, name: str, on: str = "standard") -> World:
        """A sweep of one job, which is running on a worker of its own: ``w1``, ``w2``, …"""
        kind = SweepKind.HEAVY if KINDS[on].alone else SweepKind.NORMAL
        self.happens(SweepSubmitted(SubmittedSweep(f"sweep of {name}", kind, (Job(name, f"sweep of {name}", on),), 1)))
        return self.with_workers(1, on)

    def with_workers(self, count: int, tag: str = "standard") -> World:
        for _ in range(count):
            self.made += 1
            self.happens(WorkerJoined(f"w{self.made}", tag))
        return self

    # What happens to it

    def happens(self, *events: Event) -> list[Instruction]:
        """Tell the engine, and let a willing cluster answer. Returns what the engine decided on the way."""
        since = len(self.log)
        pending = list(events)
        while pending:
            event = pending.pop(0)
            instructions = self.engine.handle(event, self.now)
            self.log += [(self.now, instruction) for instruction in instructions]
            if self.obliging:
                pending += [answer for instruction in instructions for answer in self.answers(instruction)]
        return [instruction for _, instruction in self.log[since:]]

    def answers(self, instruction: Instruction) -> list[Event]:
        match instruction:
            case AddWorkers(tag, count):
                self.made += count
                made = range(self.made - count, self.made)
                jobs = {
                    n: f"job {self.made}.{place // self.per_job}" if self.per_job else ""
                    for place, n in enumerate(made)
                }
                return [WorkerJoined(f"w{n + 1}", tag, job) for n, job in jobs.items()]
            case RemoveWorker(worker):
                return [WorkerLost(worker, Loss.STOPPED)]
            case KillJob(job, attempt, _, cause):
                return [JobLost(job, attempt, cause)]
        return []

    def passes(self, seconds: float) -> list[Instruction]:
        """Let time go by; the engine is woken exactly when it asked to be."""
        since, end = len(self.log), self.now + seconds
        while (wake := self.engine.next_wake()) <= end:
            assert wake > self.now, "the engine asked to be woken in the past"
            self.now = wake
            self.happens(Tick())
        self.now = end
        self.happens(Tick())
        return [instruction for _, instruction in self.log[since:]]

    def finishes(self, *jobs: str) -> list[Instruction]:
        return [i for job in jobs for i in self.happens(JobFinished(job, self.attempt(job)))]

    def loses(self, job: str, cause: Loss, peak: Memory | None = None, message: str = "") -> list[Instruction]:
        return self.happens(JobLost(job, self.attempt(job), cause, peak, message))

    # What it came to

    def attempt(self, job: str) -> int:
        return self.engine.state.jobs[job].attempt

    def state(self, job: str) -> JobState:
        return self.engine.state.jobs[job].state

    def all(self, kind: type[T]) -> list[T]:
        return only(kind, [instruction for _, instruction in self.log])

    def admitted(self) -> list[str]:
        return [one.sweep for one in self.all(SweepAdmitted)]

    def starts(self, job: str) -> list[StartJob]:
        return [one for one in self.all(StartJob) if one.job == job]

    def started_at(self, job: str, attempt: int) -> float:
        return next(t for t, i in self.log if isinstance(i, StartJob) and (i.job, i.attempt) == (job, attempt))

    def failure(self, job: str) -> JobEnded:
        return next(one for one in self.all(JobEnded) if one.job == job)

    def alerts(self, code: str) -> list[Finding]:
        return [finding for finding in self.all(Finding) if finding.code == code]

    def asked(self, tag: str = "standard") -> list[int]:
        return [one.count for one in self.all(AddWorkers) if one.tag == tag]

    def removed(self) -> list[str]:
        return [one.worker for one in self.all(RemoveWorker)]

    def explains(self, job: str) -> list[str]:
        return self.engine.view.explain(job, self.now)


def only(kind: type[T], instructions: list[Instruction]) -> list[T]:
    return [one for one in instructions if isinstance(one, kind)]
