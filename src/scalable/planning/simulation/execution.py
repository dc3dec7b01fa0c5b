"""Modelled workers at work: they begin what they are given in order, share the CPUs of their node, and report ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalable.engine.events import (
    Event,
    Instruction,
    KillRun,
    Loss,
    Progressed,
    RunFinished,
    RunLost,
    StartRun,
    TakeBack,
    WorkerLeaving,
)
from scalable.engine.view import RunView
from scalable.planning.simulation.cluster import Node, Work, shares
from scalable.planning.simulation.durations import Fixed, Measured
from scalable.planning.simulation.faults import LOSSES, Kind, RunFault

if TYPE_CHECKING:
    from scalable.planning.simulation.world import World

NOTICE_S = 30.0  # between a preemption notice and the end


class Execution:
    def __init__(self, world: World) -> None:
        self.world = world
        self.runs = world.engine.view.runs
        self.works: dict[str, Work] = {}
        self.computing: dict[str, int] = {}
        """How many runs a worker has begun."""
        self.lines: dict[str, dict[str, int]] = {}
        """What waits on a worker, in order: run and attempt."""
        self.decks: dict[str, list[float]] = {}
        """Measured durations of a sweep that were not dealt yet."""

    def obey(self, instruction: Instruction) -> None:
        match instruction:
            case StartRun(run, attempt, worker):
                self.start(run, attempt, worker)
            case KillRun(run, attempt, worker, cause):
                self.kill(run, attempt, worker, cause)
            case TakeBack(run, attempt, worker):
                if self.forget(run, attempt, worker):
                    self.world.at(self.world.now, self.world.report, RunLost(run, attempt, Loss.STOPPED))

    def start(self, run: str, attempt: int, worker: str) -> None:
        record = self.runs[run]
        node = self.world.where.get(worker)
        if node is None:  # it is gone, and the engine is about to hear of it
            self.count(record)
        elif self.computing.get(worker, 0) >= self.world.rules.kinds[node.workers[worker]].slots:
            self.lines.setdefault(worker, {})[run] = attempt
        else:
            self.begin(record, attempt, worker, node)

    def begin(self, record: RunView, attempt: int, worker: str, node: Node) -> None:
        self.count(record)
        world, run = self.world, record.run.id
        seconds = self.length(record)
        fault = self.fault(run, attempt)
        if fault is not None:
            seconds = self.inject(fault, run, attempt, worker, seconds)
        kind = world.rules.kinds[record.tag]
        there = world.caps[record.tag] / kind.slots
        used = world.uses.get(record.run.sweep, there)
        cap = min(used, there)
        what = fault.kind if fault is not None else None
        work = Work(run, attempt, worker, node, seconds * used, cap, what, world.now, since=world.now)
        self.works[run] = node.works[run] = work
        self.computing[worker] = self.computing.get(worker, 0) + 1
        node.load += cap
        cpus = world.pools[node.pool].model.cpus
        if node.load <= cpus:
            self.set_rate(work, cap)
        else:
            self.share_out(node, cpus)

    def fault(self, run: str, attempt: int) -> RunFault | None:
        """Return what goes wrong with an attempt that begins, if anything does."""
        return self.world.faults.of(run, attempt, self.world.chance)

    def length(self, record: RunView) -> float:
        """Return how long a run takes with all the cores it can use."""
        name, chance = record.run.sweep, self.world.chance
        source = self.world.durations.get(name) or Fixed(record.run.expected_s or 60.0)
        if not isinstance(source, Measured):
            return source.draw(chance)
        deck = self.decks.setdefault(name, [])
        if not deck:
            deck += source.shuffled(chance)
        return deck.pop()

    def count(self, record: RunView) -> None:
        outcome, now = self.world.outcome, self.world.now
        outcome.attempts += 1
        outcome.retries += bool(record.past)
        outcome.started = min(outcome.started, now)
        span = outcome.sweeps[record.run.sweep]
        span.started = min(span.started, now)

    def inject(self, fault: RunFault, run: str, attempt: int, worker: str, seconds: float) -> float:
        """Arrange for a fault; returns how long the attempt would now take by itself."""
        world = self.world
        half = world.now + seconds / 2
        match fault.kind:
            case Kind.SLOW:
                return seconds * fault.factor
            case Kind.STUCK | Kind.DEAF | Kind.DOZES:
                return seconds  # it never ends by itself
            case Kind.WORKER_DIES:
                world.at(half, self.lose_worker, worker, run, attempt, Loss.WORKER_LOST)
            case Kind.PREEMPTED:
                world.at(half, self.notice, worker, run, attempt)
            case _:
                world.at(half, self.fail, run, attempt, fault)
        return seconds * 10

    def live(self, run: str, attempt: int) -> Work | None:
        work = self.works.get(run)
        return work if work is not None and work.attempt == attempt else None

    def fail(self, run: str, attempt: int, fault: RunFault) -> None:
        if work := self.live(run, attempt):
            self.finish_work(work)
            peak = fault.peak if fault.kind is Kind.OUT_OF_MEMORY else None
            text = f"injected: {fault.kind.value}"
            seconds = self.world.now - work.begun
            self.world.report(RunLost(run, attempt, LOSSES[fault.kind], peak, text, seconds))

    def kill(self, run: str, attempt: int, worker: str, cause: Loss) -> None:
        """A run dies when told to, unless it is deaf; one that only dozed is left alive and says so."""
        world = self.world
        work = self.live(run, attempt)
        if work is None:
            if self.forget(run, attempt, worker) or not world.faults.latency_s:
                world.at(world.now, world.report, RunLost(run, attempt, cause))
        elif work.fault is Kind.DOZES and cause is Loss.STUCK:
            work.fault = None
            world.at(world.now, world.report, Progressed(run, attempt))
            self.set_rate(work, work.rate)
        elif work.fault is not Kind.DEAF:
            self.finish_work(work)
            world.at(world.now, world.report, RunLost(run, attempt, cause))

    def forget(self, run: str, attempt: int, worker: str) -> bool:
        """Return whether the run waited on the worker and had not begun."""
        line = self.lines.get(worker, {})
        if line.get(run) != attempt:
            return False
        del line[run]
        return True

    def abandon(self, worker: str, node: Node) -> None:
        """The worker is gone with all it was given."""
        self.lines.pop(worker, None)
        for work in [work for work in node.works.values() if work.worker == worker]:
            self.finish_work(work)

    def lose_worker(self, worker: str, run: str, attempt: int, cause: Loss) -> None:
        if self.live(run, attempt) and worker in self.world.where:
            self.world.remove_worker(worker, cause)

    def notice(self, worker: str, run: str, attempt: int) -> None:
        world = self.world
        if self.live(run, attempt) and worker in world.where:
            world.deliver(WorkerLeaving(worker))
            world.at(world.now + NOTICE_S, self.reclaim, worker)

    def reclaim(self, worker: str) -> None:
        if worker in self.world.where:
            self.world.remove_worker(worker, Loss.PREEMPTED)

    def share_out(self, node: Node, cpus: float) -> None:
        works = list(node.works.values())
        for work, rate in zip(works, shares(works, cpus), strict=True):
            if rate != work.rate:
                self.set_rate(work, rate)

    def set_rate(self, work: Work, rate: float) -> None:
        """Let a work go on at another speed and foresee its new end."""
        world = self.world
        done = work.rate * (world.now - work.since)
        world.outcome.busy_core_s += done
        work.left -= done
        work.rate, work.since = rate, world.now
        work.version += 1
        if work.silent:
            return
        seconds = max(0.0, work.left) / rate
        world.at(world.now + seconds, self.end_work, work, work.version)
        age = world.now - work.begun
        stuck = world.rules.policies.stuck
        if stuck.walltime is not None or age + seconds >= stuck.after.seconds:  # a shorter one is never looked for
            world.at(world.now, self.progress, work, world.now + seconds)

    def progress(self, work: Work, until: float) -> None:
        if self.works.get(work.run) is work:
            self.world.report(Progressed(work.run, work.attempt, until))

    def end_work(self, work: Work, version: int) -> None:
        if work.version != version or self.works.get(work.run) is not work:
            return
        self.finish_work(work)
        self.world.report(self.ending(work))

    def ending(self, work: Work) -> Event:
        """Return what the worker reports of work that ended by itself."""
        return RunFinished(work.run, work.attempt, None, self.world.now - work.begun)

    def finish_work(self, work: Work) -> None:
        """Stop computing, for whatever reason: the next in line begins, what shared the node goes on faster."""
        world, node = self.world, work.node
        node.worked_until = world.now
        world.outcome.busy_core_s += work.rate * (world.now - work.since)
        del self.works[work.run]
        del node.works[work.run]
        self.computing[work.worker] -= 1
        cpus = world.pools[node.pool].model.cpus
        crowded = node.load > cpus
        node.load -= work.cap
        if crowded:
            self.share_out(node, cpus)
        if line := self.lines.get(work.worker):
            run = next(iter(line))
            self.begin(self.runs[run], line.pop(run), work.worker, node)
