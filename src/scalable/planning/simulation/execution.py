"""Modelled workers at work: they begin what they are given in order, share the CPUs of their node, and report ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalable.engine.events import (
    Event,
    Instruction,
    JobFinished,
    JobLost,
    KillJob,
    Loss,
    Progressed,
    StartJob,
    TakeBack,
    WorkerLeaving,
)
from scalable.engine.view import JobView
from scalable.planning.simulation.cluster import Computation, SimulatedNode, shares
from scalable.planning.simulation.durations import Fixed, MeasuredDurations
from scalable.planning.simulation.faults import LOSSES, FaultKind, JobFault

if TYPE_CHECKING:
    from scalable.planning.simulation.world import World

NOTICE_S = 30.0  # between a preemption notice and the end


class Execution:
    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs = world.engine.view.jobs
        self.computations: dict[str, Computation] = {}
        self.computing: dict[str, int] = {}
        """How many jobs a worker has begun."""
        self.lines: dict[str, dict[str, int]] = {}
        """What waits on a worker, in order: job and attempt."""
        self.decks: dict[str, list[float]] = {}
        """Measured durations of a sweep that were not dealt yet."""
        self.loaded: set[tuple[str, str]] = set()
        """Workers and the sweeps whose code they have loaded."""
        self.halves: dict[str, float] = {}
        """Core-seconds that are left of jobs that go on from a checkpoint."""

    def obey(self, instruction: Instruction) -> None:
        match instruction:
            case StartJob(job, attempt, worker):
                self.start(job, attempt, worker)
            case KillJob(job, attempt, worker, cause):
                self.kill(job, attempt, worker, cause)
            case TakeBack(job, attempt, worker):
                if self.forget(job, attempt, worker):
                    self.world.at(self.world.now, self.world.report, JobLost(job, attempt, Loss.STOPPED))

    def start(self, job: str, attempt: int, worker: str) -> None:
        record = self.jobs[job]
        node = self.world.where.get(worker)
        if node is None:  # it is gone, and the engine is about to hear of it
            self.count(record)
        elif self.computing.get(worker, 0) >= self.world.rules.kinds[node.workers[worker]].slots:
            self.lines.setdefault(worker, {})[job] = attempt
        else:
            self.begin(record, attempt, worker, node)

    def begin(self, record: JobView, attempt: int, worker: str, node: SimulatedNode) -> None:
        self.count(record)
        world, job = self.world, record.job.id
        seconds = self.length(record) + self.load_s(worker, record.job.sweep)
        fault = self.fault(job, attempt)
        if fault is not None:
            seconds = self.inject(fault, job, attempt, worker, seconds)
        kind = world.rules.kinds[record.tag]
        there = world.caps[record.tag] / kind.slots
        used = world.uses.get(record.job.sweep, there)
        cap = min(used, there)
        what = fault.kind if fault is not None else None
        left = self.halves.get(job, seconds * used)
        computation = Computation(job, attempt, worker, node, left, cap, what, world.now, since=world.now)
        self.computations[job] = node.computations[job] = computation
        self.computing[worker] = self.computing.get(worker, 0) + 1
        node.load += cap
        cpus = world.pools[node.pool].model.cpus
        if node.load <= cpus:
            self.set_rate(computation, cap)
        else:
            self.share_out(node, cpus)

    def fault(self, job: str, attempt: int) -> JobFault | None:
        """Return what goes wrong with an attempt that begins, if anything does."""
        return self.world.faults.of(job, attempt, self.world.chance)

    def length(self, record: JobView) -> float:
        """Return how long a job takes with all the cores it can use."""
        name, chance = record.job.sweep, self.world.chance
        source = self.world.durations.get(name) or Fixed(record.job.expected_s or 60.0)
        if not isinstance(source, MeasuredDurations):
            return source.draw(chance)
        deck = self.decks.setdefault(name, [])
        if not deck:
            deck += source.shuffled(chance)
        return deck.pop()

    def load_s(self, worker: str, sweep: str) -> float:
        """Return how long a worker takes to load the code of a sweep, which it does once."""
        if (seconds := self.world.loads.get(sweep, 0.0)) and (worker, sweep) not in self.loaded:
            self.loaded.add((worker, sweep))
            return seconds
        return 0.0

    def count(self, record: JobView) -> None:
        outcome, now = self.world.outcome, self.world.now
        outcome.attempts += 1
        outcome.retries += bool(record.past)
        outcome.started = min(outcome.started, now)
        span = outcome.sweeps[record.job.sweep]
        span.started = min(span.started, now)

    def inject(self, fault: JobFault, job: str, attempt: int, worker: str, seconds: float) -> float:
        """Arrange for a fault; returns how long the attempt would now take by itself."""
        world = self.world
        half = world.now + seconds / 2
        match fault.kind:
            case FaultKind.SLOW:
                return seconds * fault.factor
            case FaultKind.STUCK | FaultKind.DEAF | FaultKind.DOZES:
                return seconds  # it never ends by itself
            case FaultKind.WORKER_DIES:
                world.at(half, self.lose_worker, worker, job, attempt, Loss.WORKER_LOST)
            case FaultKind.PREEMPTED:
                world.at(half, self.notice, worker, job, attempt)
            case _:
                world.at(half, self.fail, job, attempt, fault)
        return seconds * 10

    def live(self, job: str, attempt: int) -> Computation | None:
        computation = self.computations.get(job)
        return computation if computation is not None and computation.attempt == attempt else None

    def fail(self, job: str, attempt: int, fault: JobFault) -> None:
        if computation := self.live(job, attempt):
            self.stop_computing(computation)
            peak = fault.peak if fault.kind is FaultKind.OUT_OF_MEMORY else None
            text = f"injected: {fault.kind.value}"
            seconds = self.world.now - computation.begun
            self.world.report(JobLost(job, attempt, LOSSES[fault.kind], peak, text, seconds))

    def kill(self, job: str, attempt: int, worker: str, cause: Loss) -> None:
        """Let a job die, unless it is deaf; one that only dozed is left alive and says so."""
        world = self.world
        computation = self.live(job, attempt)
        if computation is None:
            if self.forget(job, attempt, worker) or not world.faults.latency_s:
                world.at(world.now, world.report, JobLost(job, attempt, cause))
        elif computation.fault is FaultKind.DOZES and cause is Loss.STUCK:
            computation.fault = None
            world.at(world.now, world.report, Progressed(job, attempt))
            self.set_rate(computation, computation.rate)
        elif computation.fault is not FaultKind.DEAF:
            self.stop_computing(computation)
            world.at(world.now, world.report, JobLost(job, attempt, cause))

    def forget(self, job: str, attempt: int, worker: str) -> bool:
        """Return whether the job waited on the worker and had not begun."""
        line = self.lines.get(worker, {})
        if line.get(job) != attempt:
            return False
        del line[job]
        return True

    def abandon(self, worker: str, node: SimulatedNode) -> None:
        """Drop all that a worker was given which is gone."""
        self.lines.pop(worker, None)
        for computation in [computation for computation in node.computations.values() if computation.worker == worker]:
            self.keep_checkpoint(computation)
            self.stop_computing(computation)

    def keep_checkpoint(self, computation: Computation) -> None:
        """Let a job with declared checkpoints go on later from here; it has said how far it is."""
        job, world = computation.job, self.world
        if self.jobs[job].job.checkpoints and not computation.silent:
            left = self.halves[job] = computation.left - computation.rate * (world.now - computation.since)
            world.report(Progressed(job, computation.attempt, step=-left))

    def lose_worker(self, worker: str, job: str, attempt: int, cause: Loss) -> None:
        if self.live(job, attempt) and worker in self.world.where:
            self.world.remove_worker(worker, cause)

    def notice(self, worker: str, job: str, attempt: int) -> None:
        world = self.world
        if self.live(job, attempt) and worker in world.where:
            world.deliver(WorkerLeaving(worker))
            world.at(world.now + NOTICE_S, self.reclaim, worker)

    def warn(self, worker: str) -> None:
        """Tell the engine that an allocation is about to end."""
        if worker in self.world.where:
            self.world.deliver(WorkerLeaving(worker))

    def reclaim(self, worker: str, cause: Loss = Loss.PREEMPTED) -> None:
        if worker in self.world.where:
            self.world.remove_worker(worker, cause)

    def share_out(self, node: SimulatedNode, cpus: float) -> None:
        computations = list(node.computations.values())
        for computation, rate in zip(computations, shares(computations, cpus), strict=True):
            if rate != computation.rate:
                self.set_rate(computation, rate)

    def set_rate(self, computation: Computation, rate: float) -> None:
        """Let a computation go on at another speed and foresee its new end."""
        world = self.world
        done = computation.rate * (world.now - computation.since)
        world.outcome.busy_core_s += done
        computation.left -= done
        computation.rate, computation.since = rate, world.now
        computation.version += 1
        if computation.silent:
            return
        seconds = max(0.0, computation.left) / rate
        world.at(world.now + seconds, self.finish, computation, computation.version)
        age = world.now - computation.begun
        stuck = world.rules.policies.stuck
        if stuck.walltime is not None or age + seconds >= stuck.after.seconds:  # a shorter one is never looked for
            world.at(world.now, self.progress, computation, world.now + seconds)

    def progress(self, computation: Computation, until: float) -> None:
        if self.computations.get(computation.job) is computation:
            self.world.report(Progressed(computation.job, computation.attempt, until))

    def finish(self, computation: Computation, version: int) -> None:
        if computation.version != version or self.computations.get(computation.job) is not computation:
            return
        self.stop_computing(computation)
        world, ending = self.world, self.ending(computation)
        if world.times.hand_s:  # what waits on the worker has begun; the engine cannot give it more before it knows
            world.at(world.now + world.times.hand_s, world.report, ending)
        else:
            world.report(ending)

    def ending(self, computation: Computation) -> Event:
        """Return what the worker reports of a computation that ended by itself."""
        return JobFinished(computation.job, computation.attempt, None, self.world.now - computation.begun)

    def stop_computing(self, computation: Computation) -> None:
        """Stop computing, for whatever reason: the next in line begins, what shared the node goes on faster."""
        world, node = self.world, computation.node
        node.worked_until = world.now
        world.outcome.busy_core_s += computation.rate * (world.now - computation.since)
        del self.computations[computation.job]
        del node.computations[computation.job]
        self.computing[computation.worker] -= 1
        cpus = world.pools[node.pool].model.cpus
        crowded = node.load > cpus
        node.load -= computation.cap
        if crowded:
            self.share_out(node, cpus)
        if line := self.lines.get(computation.worker):
            job = next(iter(line))
            self.begin(self.jobs[job], line.pop(job), computation.worker, node)
