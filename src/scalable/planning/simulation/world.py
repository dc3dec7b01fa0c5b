"""The simulated world: carries the engine's instructions out on modelled pools and tells it what happened.

The clock jumps from event to event, so hours take milliseconds. All chance comes from one seeded generator and ties
are broken by order, so the same input gives the same outcome to the last bit.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scalable.engine import Engine, Rules
from scalable.engine.events import (
    NEVER,
    AddWorkers,
    Event,
    Instruction,
    JobEnded,
    KillJob,
    Loss,
    RemoveWorker,
    SpendChanged,
    StartJob,
    Sweep,
    SweepAdmitted,
    SweepEnded,
    SweepSubmitted,
    TakeBack,
    Tick,
    WorkerJoined,
    WorkerLost,
    WorkersRefused,
)
from scalable.errors import ScalableError
from scalable.findings import Finding
from scalable.garbage import uncollected
from scalable.planning.simulation.cluster import ModelPool, Node, PoolState, paid_so_far
from scalable.planning.simulation.durations import JobLength
from scalable.planning.simulation.execution import Execution
from scalable.planning.simulation.faults import Faults
from scalable.planning.simulation.outcome import NodeSpan, Outcome, SweepSpan, running_total
from scalable.quantities import Money, exact

MOST_STEPS = 10_000  # with no job at all; each job and attempt allows for 100 more, where 5 are usual

Journal = Callable[[float, Event, list[Instruction]], None]
"""Is shown every event with the instructions it led to, in order."""


def simulate(
    rules: Rules,
    pools: Mapping[str, ModelPool],
    sweeps: Iterable[Sweep],
    *,
    caps: Mapping[str, float],
    durations: Mapping[str, JobLength] | None = None,
    uses: Mapping[str, float] | None = None,
    seed: int = 0,
    faults: Faults | None = None,
    script: Iterable[tuple[float, Event]] = (),
    journal: Journal | None = None,
    startup_s: float = 0.0,
    closes: bool = True,
) -> Outcome:
    """Run the sweeps, all submitted at once, to their end and until the last node is gone.

    ``caps`` are the CPUs of a worker by tag; ``uses``, by sweep, the cores a job's duration was measured with and that
    it can use at most: all of its worker's if nothing is said. A worker joins ``startup_s`` after its node is up. A
    session that ``closes`` ends with its last sweep, and its workers with it.
    """
    world = World(rules, pools, caps, durations or {}, seed, faults or Faults(), journal, uses or {}, startup_s)
    world.closes = closes
    for when, event in [*((0.0, SweepSubmitted(sweep)) for sweep in sweeps), *script]:
        world.scripted += 1
        world.at(when, world.follow_script, event)
    with uncollected():
        return world.run()


class World:
    """A ``Cluster`` on a virtual clock, with the engine it serves."""

    def __init__(
        self,
        rules: Rules,
        pools: Mapping[str, ModelPool],
        caps: Mapping[str, float],
        durations: Mapping[str, JobLength],
        seed: int,
        faults: Faults,
        journal: Journal | None = None,
        uses: Mapping[str, float] | None = None,
        startup_s: float = 0.0,
    ) -> None:
        self.engine = Engine(rules)
        self.rules = rules
        self.caps = caps
        self.durations = durations
        """How long the jobs of a sweep take."""
        self.uses = uses or {}
        """With how many cores they take so long."""
        self.usual_startup_s = startup_s
        self.closes = False
        """The session ends with the last sweep."""
        self.closed = False
        self.scripted = 0
        """Events of the script that are still to come."""
        self.chance = random.Random(seed)
        self.faults = faults
        self.journal = journal
        self.now = 0.0
        self.agenda: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.sequence = 0
        self.pools = {name: PoolState(model) for name, model in pools.items()}
        self.where: dict[str, Node] = {}
        self.execution = Execution(self)
        self.made: dict[str, int] = {}
        self.refusals = faults.refusals
        self.requests = 0
        self.outcome = Outcome()
        self.worker_changes: dict[float, int] = {}
        self.live_workers: dict[str, int] = {}
        for pool in self.pools.values():
            for _ in range(pool.model.least):
                pool.new_node(0.0, permanent=True)
        for fault in faults.nodes:
            self.at(fault.at, self.lose_node, fault.nth)

    def at(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        self.sequence += 1
        heapq.heappush(self.agenda, (when, self.sequence, action, arguments))

    def run(self) -> Outcome:
        engine, agenda = self.engine, self.agenda
        steps = 0
        while True:
            wake = engine.next_wake() if not self.closed else NEVER
            if agenda and agenda[0][0] <= wake:
                when, _, action, arguments = heapq.heappop(agenda)
                self.now = max(self.now, when)
                action(*arguments)
            elif wake < NEVER:
                self.now = max(self.now, wake)
                self.deliver(Tick())
            else:
                break
            steps += 1
            if steps > MOST_STEPS + 100 * (self.outcome.attempts + len(engine.view.jobs)):
                raise ScalableError(f"the simulation does not end: {steps} steps, now {self.now:.0f} s")
        return self.close()

    def follow_script(self, event: Event) -> None:
        self.scripted -= 1
        self.deliver(event)

    def deliver(self, event: Event) -> None:
        if self.closed:
            return
        if isinstance(event, SweepSubmitted):
            self.outcome.sweeps[event.sweep.id] = SweepSpan()
        instructions = self.engine.handle(event, self.now)
        if self.journal is not None:
            self.journal(self.now, event, instructions)
        for instruction in instructions:
            self.apply(instruction)

    def report(self, event: Event) -> None:
        """What a worker says arrives after the time a message takes."""
        if self.faults.latency_s:
            self.at(self.now + self.faults.latency_s, self.deliver, event)
        else:
            self.deliver(event)

    def apply(self, instruction: Instruction) -> None:
        if type(instruction) is JobEnded:  # these two are nearly all there are
            self.end(instruction)
            return
        if type(instruction) is StartJob and not self.faults.latency_s:
            self.execution.start(instruction.job, instruction.attempt, instruction.worker)
            return
        match instruction:
            case StartJob() | KillJob() | TakeBack() if self.faults.latency_s:
                self.at(self.now + self.faults.latency_s, self.execution.obey, instruction)
            case KillJob() | TakeBack():
                self.execution.obey(instruction)
            case AddWorkers(tag, count):
                self.add_workers(tag, count)
            case RemoveWorker(worker):
                self.remove_worker(worker, Loss.STOPPED)
            case SweepAdmitted(sweep):
                self.outcome.sweeps[sweep].admitted = self.now
            case SweepEnded(sweep, complete):
                span = self.outcome.sweeps[sweep]
                span.ended, span.complete = self.now, complete
                if self.closes:
                    self.at(self.now, self.close_session)
            case Finding():
                self.outcome.alerts.append(instruction)

    def end(self, ended: JobEnded) -> None:
        states = self.outcome.states
        states[ended.state] = states.get(ended.state, 0) + 1
        self.outcome.ended = self.now
        if ended.reason:
            self.outcome.reasons.setdefault(ended.reason, ended.job)

    # Workers and nodes

    def add_workers(self, tag: str, count: int) -> None:
        self.requests += 1
        if self.refusals:
            self.refusals -= 1
            self.at(self.now, self.deliver, WorkersRefused(tag, count, "quota exceeded"))
            self.report_spend()
            return
        pool = self.pools[self.rules.kinds[tag].pool]
        first = self.made.get(tag, 0) + 1
        self.made[tag] = first + count - 1
        self.place(pool, [f"{tag}-{number}" for number in range(first, first + count)], tag)
        self.report_spend()

    def place(self, pool: PoolState, workers: list[str], tag: str) -> None:
        """Bring workers onto nodes; those that find no room wait for some."""
        known = set(pool.nodes)
        nodes = pool.place(workers, tag, self.now)
        for node in pool.nodes.values():
            if node.id not in known:
                self.at(node.up, self.node_up, node)
        for worker, node in zip(workers, nodes, strict=False):
            self.where[worker] = node
            self.at(max(self.now, node.up) + self.startup_s(worker), self.join, worker, tag, node)
        pool.waiting += [(worker, tag) for worker in workers[len(nodes) :]]

    def startup_s(self, worker: str) -> float:
        """Return how long a worker takes to join once its node is up."""
        return self.usual_startup_s

    def node_up(self, node: Node) -> None:
        if node.gone == NEVER:
            if not node.workers:
                self.at(node.up + self.pools[node.pool].model.room.idle_s, self.expire, node, node.empty_since)
            self.report_spend()

    def join(self, worker: str, tag: str, node: Node) -> None:
        if node.gone < NEVER or worker not in node.workers:
            return
        self.worker_changes[self.now] = self.worker_changes.get(self.now, 0) + 1
        self.live_workers[tag] = self.live_workers.get(tag, 0) + 1
        peak = self.outcome.peak_workers
        peak[tag] = max(peak.get(tag, 0), self.live_workers[tag])
        self.deliver(WorkerJoined(worker, tag))

    def remove_worker(self, worker: str, cause: Loss) -> None:
        """Take a worker off its node and tell the engine that it is gone, unless it is gone already."""
        node = self.where.pop(worker, None)
        if node is None:
            return
        pool = self.pools[node.pool]
        tag = node.workers[worker]
        self.execution.abandon(worker, node)
        pool.take(node, worker, self.now)
        if worker in self.engine.view.workers:
            self.worker_changes[self.now] = self.worker_changes.get(self.now, 0) - 1
            self.live_workers[tag] -= 1
        if not node.workers and not node.permanent:
            self.at(node.empty_since + pool.model.room.idle_s, self.expire, node, node.empty_since)
        self.at(self.now, self.report, WorkerLost(worker, cause))
        self.place_waiting(pool)
        self.report_spend()

    def close_session(self) -> None:
        """Send all workers away, those that have not joined among them, unless something is still to be done."""
        if self.scripted or not all(sweep.ended for sweep in self.engine.view.sweeps.values()):
            return
        self.closed = True
        for pool in self.pools.values():
            pool.waiting.clear()
        for worker in list(self.where):
            self.remove_worker(worker, Loss.STOPPED)

    def place_waiting(self, pool: PoolState) -> None:
        waiting, pool.waiting = pool.waiting, []
        for tag in dict.fromkeys(tag for _, tag in waiting):
            self.place(pool, [worker for worker, other in waiting if other == tag], tag)

    def expire(self, node: Node, since: float) -> None:
        """The autoscaler takes a node that has been empty all the time."""
        if node.workers or node.gone < NEVER or node.empty_since != since:
            return
        self.pools[node.pool].drop(node, self.now)
        self.report_spend()

    def lose_node(self, nth: int) -> None:
        candidates = [n for p in self.pools.values() for n in p.nodes.values() if n.up <= self.now]
        if not candidates:
            return
        node = candidates[nth % len(candidates)]
        pool = self.pools[node.pool]
        pool.drop(node, self.now)
        if node.permanent:
            pool.new_node(self.now, permanent=True)
        for worker, tag in list(node.workers.items()):
            if worker in self.engine.view.workers:
                self.remove_worker(worker, Loss.NODE_LOST)
            else:  # about to join: it goes elsewhere
                del node.workers[worker]
                pool.waiting.append((worker, tag))
        self.place_waiting(pool)
        self.report_spend()

    # Money

    def report_spend(self) -> None:
        if self.rules.budget is None:
            return
        currency = self.rules.budget.currency
        spent, growing, committed = paid_so_far(self.pools.values(), self.now)
        paid, grows, left = (Money(exact(amount), currency) for amount in (spent, growing, committed))
        self.at(self.now, self.deliver, SpendChanged(paid, grows, left, covered=self.requests))

    def close(self) -> Outcome:
        outcome = self.outcome
        spans = [
            NodeSpan(
                node.pool, node.id, node.requested, node.up, min(node.gone, self.now), node.worked_until, node.permanent
            )
            for pool in self.pools.values()
            for node in (*pool.past, *pool.nodes.values())
        ]
        outcome.nodes = sorted(spans, key=lambda span: (span.requested, span.pool, int(span.node.rpartition("-")[2])))
        outcome.worker_steps = running_total(self.worker_changes)
        outcome.over = max((span.gone for span in spans if not span.permanent), default=self.now)
        return outcome
