"""The simulated world: carries the engine's instructions out on modelled pools and tells it what happened.

The clock jumps from event to event, so hours take milliseconds. All chance comes from one seeded generator and ties
are broken by order, so the same input gives the same outcome to the last bit.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from scalable.engine import Engine, Rules
from scalable.engine.events import (
    NEVER,
    AddWorkers,
    Event,
    HoursChanged,
    Instruction,
    JobEnded,
    KillJob,
    Loss,
    RemoveWorker,
    SpendChanged,
    StartJob,
    SubmittedSweep,
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
from scalable.machine_hours import MachineHours
from scalable.planning.simulation.cluster import ModelPool, PoolState, SimulatedNode, paid_so_far
from scalable.planning.simulation.durations import JobLength, SessionTimes
from scalable.planning.simulation.execution import Execution
from scalable.planning.simulation.faults import Faults
from scalable.planning.simulation.outcome import NodeSpan, SimulationOutcome, SweepSpan, running_total
from scalable.quantities import Money, exact
from scalable.walltime import GRACE_S, for_work_s

MOST_STEPS = 10_000  # with no job at all; each job and attempt allows for 100 more, where 5 are usual

Journal = Callable[[float, Event, list[Instruction]], None]
"""Is shown every event with the instructions it led to, in order."""


@dataclass(frozen=True, slots=True)
class NextSession:
    """A session that starts when the one before has closed."""

    rules: Rules
    pools: Mapping[str, ModelPool]
    """Those of the first session, or some of them, as its workers are placed on them."""
    sweeps: Sequence[SubmittedSweep]


def simulate(
    rules: Rules,
    pools: Mapping[str, ModelPool],
    sweeps: Iterable[SubmittedSweep],
    *,
    caps: Mapping[str, float],
    durations: Mapping[str, JobLength] | None = None,
    uses: Mapping[str, float] | None = None,
    loads: Mapping[str, float] | None = None,
    seed: int = 0,
    faults: Faults | None = None,
    script: Iterable[tuple[float, Event]] = (),
    journal: Journal | None = None,
    times: SessionTimes | None = None,
    closes: bool = True,
    later: Iterable[NextSession] = (),
) -> SimulationOutcome:
    """Run the sweeps, all submitted as soon as a session takes them, to their end and until the last node is gone.

    ``caps`` are the CPUs of a worker by tag; ``uses``, by sweep, the cores a job's duration was measured with and that
    it can use at most: all of its worker's if nothing is said; ``loads``, by sweep, what its first job on a worker
    takes longer. ``times`` are what a session takes to start and to end.
    A session that ``closes`` ends with its last sweep, and its workers with it. ``later`` are sessions that follow:
    each starts when the last one has closed, and finds the nodes that are still there.
    """
    times = times or SessionTimes()
    world = World(rules, pools, caps, durations or {}, seed, faults or Faults(), journal, uses, loads, times)
    world.closes = closes
    world.later = list(later)
    for when, event in [*((times.ask_s, SweepSubmitted(sweep)) for sweep in sweeps), *script]:
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
        loads: Mapping[str, float] | None = None,
        times: SessionTimes | None = None,
    ) -> None:
        self.engine = Engine(rules)
        self.rules = rules
        self.caps = caps
        self.durations = durations
        """How long the jobs of a sweep take."""
        self.uses = uses or {}
        """With how many cores they take so long."""
        self.loads = loads or {}
        """By sweep: what its first job on a worker takes longer."""
        self.times = times or SessionTimes()
        self.closes = False
        """The session ends with the last sweep."""
        self.later: list[NextSession] = []
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
        self.where: dict[str, SimulatedNode] = {}
        self.begun: dict[str, tuple[str, float]] = {}
        """Tag of each worker that has a place, and since when it holds that."""
        self.execution = Execution(self)
        self.made: dict[str, int] = {}
        self.refusals = faults.refusals
        self.requests = 0
        self.outcome = SimulationOutcome()
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

    def run(self) -> SimulationOutcome:
        agenda = self.agenda
        steps = 0
        while True:
            wake = self.engine.next_wake() if not self.closed else NEVER
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
            if steps > MOST_STEPS + 100 * (self.outcome.attempts + len(self.execution.jobs)):
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
        """Deliver what a worker says after the time a message takes."""
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
            case RemoveWorker(worker) if self.times.close_s:
                self.at(self.now + self.times.close_s, self.remove_worker, worker, Loss.STOPPED)
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
            self.begun[worker] = tag, max(self.now, node.up)
            self.at(max(self.now, node.up) + self.startup_s(worker, node), self.join, worker, tag, node)
        pool.waiting += [(worker, tag) for worker in workers[len(nodes) :]]

    def startup_s(self, worker: str, node: SimulatedNode) -> float:
        """Return how long a worker takes to join once its node is up."""
        return self.times.join_s if node.up > self.now else self.times.warm_s

    def node_up(self, node: SimulatedNode) -> None:
        if node.gone == NEVER:
            if not node.workers:
                self.at(node.up + self.pools[node.pool].model.room.idle_s, self.expire, node, node.empty_since)
            self.report_spend()

    def join(self, worker: str, tag: str, node: SimulatedNode) -> None:
        if node.gone < NEVER or worker not in node.workers:
            return
        self.worker_changes[self.now] = self.worker_changes.get(self.now, 0) + 1
        self.live_workers[tag] = self.live_workers.get(tag, 0) + 1
        starts = self.outcome.worker_starts
        starts[tag] = starts.get(tag, 0) + 1
        peak = self.outcome.peak_workers
        peak[tag] = max(peak.get(tag, 0), self.live_workers[tag])
        left_s = self.left_s(worker, tag)
        if left_s is not None:
            self.end_after(worker, left_s)
        self.deliver(WorkerJoined(worker, tag, self.allocation(worker, tag, node), left_s))

    def end_after(self, worker: str, left_s: float) -> None:
        """Let a worker's allocation end, with notice."""
        self.at(self.now + max(0.0, left_s - GRACE_S), self.execution.warn, worker)
        self.at(self.now + left_s, self.execution.reclaim, worker, Loss.WALLTIME)

    def left_s(self, worker: str, tag: str) -> float | None:
        """Return for how long work can run on a worker that joins; its allocation began before it was started."""
        walltime = self.rules.kinds[tag].walltime
        return (
            max(0.0, for_work_s(walltime.seconds) - self.startup_s(worker, self.where[worker]))
            if walltime is not None
            else None
        )

    def allocation(self, worker: str, tag: str, node: SimulatedNode) -> str:
        """Return what a worker shares with others: a node stands for a batch job where jobs hold several."""
        return node.id if self.rules.pools[node.pool].together(tag) > 1 else ""

    def remove_worker(self, worker: str, cause: Loss) -> None:
        """Take a worker off its node and tell the engine that it is gone, unless it is gone already."""
        node = self.where.pop(worker, None)
        if node is None:
            return
        pool = self.pools[node.pool]
        tag = node.workers[worker]
        self.release(worker)
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
        """Close the session unless something is still to be done: nothing is decided while its workers go."""
        if self.closed or self.scripted or not all(sweep.ended for sweep in self.engine.view.sweeps.values()):
            return
        self.closed = True
        for pool in self.pools.values():
            pool.waiting.clear()
        self.at(self.now + self.times.close_s, self.dismiss_all)

    def dismiss_all(self) -> None:
        """Send all workers away, those that have not joined among them; then the next session starts, if any does."""
        for worker in list(self.where):
            self.remove_worker(worker, Loss.STOPPED)
        if self.later:
            self.at(self.now + self.times.ask_s, self.open_session, self.later.pop(0))

    def open_session(self, session: NextSession) -> None:
        """Start another session, whose engine knows nothing of the last one's; no worker is there."""
        self.rules, self.engine, self.closed, self.requests = session.rules, Engine(session.rules), False, 0
        self.execution.jobs = self.engine.view.jobs
        for name, model in session.pools.items():
            self.pools[name].model = model
        for sweep in session.sweeps:
            self.deliver(SweepSubmitted(sweep))

    def place_waiting(self, pool: PoolState) -> None:
        waiting, pool.waiting = pool.waiting, []
        for tag in dict.fromkeys(tag for _, tag in waiting):
            self.place(pool, [worker for worker, other in waiting if other == tag], tag)

    def expire(self, node: SimulatedNode, since: float) -> None:
        """Take away a node that has been empty all the time, as an autoscaler does."""
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
                self.release(worker)
                pool.waiting.append((worker, tag))
        self.place_waiting(pool)
        self.report_spend()

    # Money and hours

    def release(self, worker: str) -> None:
        """Count the time for which a worker held its place."""
        tag, since = self.begun.pop(worker)
        held = self.outcome.worker_s
        held[tag] = held.get(tag, 0.0) + max(0.0, self.now - since)

    def report_hours(self, allocation: MachineHours) -> None:
        kinds, unit = self.rules.kinds, allocation.unit
        ended = sum((kinds[tag].held * exact(held) for tag, held in self.outcome.worker_s.items()), Decimal(0))
        there = [(kinds[tag].held, self.now - since) for tag, since in self.begun.values() if since <= self.now]
        used = ended + sum((held * exact(seconds) for held, seconds in there), Decimal(0))
        grows = sum((held for held, _ in there), Decimal(0))
        change = HoursChanged(MachineHours(used / 3600, unit), MachineHours(grows, unit), MachineHours.zero(unit))
        self.at(self.now, self.deliver, replace(change, covered=self.requests))

    def report_spend(self) -> None:
        if self.rules.allocation is not None:
            self.report_hours(self.rules.allocation)
        if self.rules.budget is None:
            return
        currency = self.rules.budget.currency
        spent, growing, committed = paid_so_far(self.pools.values(), self.now)
        paid, grows, left = (Money(exact(amount), currency) for amount in (spent, growing, committed))
        self.at(self.now, self.deliver, SpendChanged(paid, grows, left, covered=self.requests))

    def close(self) -> SimulationOutcome:
        outcome = self.outcome
        spans = [
            NodeSpan(
                node.pool,
                node.id,
                node.requested,
                node.paid_from,
                node.up,
                min(node.gone, self.now),
                node.worked_until,
                node.permanent,
            )
            for pool in self.pools.values()
            for node in (*pool.past, *pool.nodes.values())
        ]
        outcome.nodes = sorted(spans, key=lambda span: (span.requested, span.pool, int(span.node.rpartition("-")[2])))
        for worker in list(self.begun):
            self.release(worker)
        outcome.worker_steps = running_total(self.worker_changes)
        outcome.over = max((span.gone for span in spans if not span.permanent), default=self.now)
        return outcome
