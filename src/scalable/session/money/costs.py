"""The meter of a session: which machines are paid, since when, who is on them, and what that amounts to right now.

What it sees goes to the journal: as records ``cost`` what is to be paid, which no reader computes again, and as
``tariff``, ``machine`` and ``placed`` what that is for. The engine hears it as ``SpendChanged``, so that its brake
works with the same figures. It goes on listening while the cluster closes: workers are paid until they are gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from scalable.cluster.base import Landlord, Node, Tenant
from scalable.engine.events import SpendChanged
from scalable.machine_hours import HOUR_S
from scalable.planning.prices import HIRED_AT_LEAST_S
from scalable.quantities import Money, decimal_text, exact
from scalable.session.money.tariffs import BY_JOB, BY_WORKER, OBSERVED, Rent, Tariff

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.observe.journal import Journal

EVERY_S = 10.0
NO_POOL = "nodes"  # of those that are in none
NO_TAG = "jobs"  # whose workers were gone before anybody looked
HAIR = 1e-9  # seven sevenths of a node are a whole one


@dataclass(slots=True)
class MeteredMachine:
    """A worker or a node that is paid by the hour."""

    name: str
    pool: str
    since: float
    """When it is paid from."""
    price: Decimal = Decimal(0)
    tail_s: float = 0.0
    least_s: float = 0.0
    """How long it is paid at least."""
    standing: bool = False
    """It is always there, and paid whoever uses it."""
    until: float | None = None
    up: float | None = None
    """When it appeared, where the backend says so: later than ``since`` if its start is paid."""
    workers: dict[str, float] = field(default_factory=dict)
    """Who is on it now, and the part of it that each takes."""
    empty_since: float | None = None

    def cost(self, now: float) -> Decimal:
        end = now if self.until is None else min(now, self.until)
        return self.price * exact(max(0.0, end - self.since)) / HOUR_S

    def due(self, now: float) -> Decimal:
        """Return what must still be paid if every worker went now."""
        if self.until is not None:
            return self.price * exact(max(0.0, self.until - now)) / HOUR_S
        empty = now if self.workers or self.empty_since is None else self.empty_since
        paid_until = max(empty + self.tail_s, self.since + self.least_s)
        return self.price * exact(max(0.0, paid_until - now)) / HOUR_S


class CostMeter:
    """The base of all ways of paying; ``started``, ``joined``, ``left`` and ``look`` are theirs."""

    def __init__(
        self, cluster: TaggedCluster, journal: Journal, tariff: Tariff, tell: Callable[[SpendChanged], None]
    ) -> None:
        self.cluster = cluster
        self.journal = journal
        self.tariff = tariff
        self.tell = tell
        self.began = time.time()
        self.machines: dict[str, MeteredMachine] = {}
        self.homes: dict[str, MeteredMachine] = {}
        """The machine of each worker that is there."""
        self.accounted = 0.0
        self.spent: Money | None = None
        self.closing = False

    def begin(self) -> None:
        tariff = self.tariff
        self.journal.write(
            "tariff", basis=tariff.basis, currency=tariff.currency, assumed=list(tariff.assumed),
            budget=tariff.budget.to_dict() if tariff.budget else None,
        )  # fmt: skip
        self.cluster.listeners.append(self.heard)

    def close(self) -> None:
        """Tell nobody any more; the last worker that goes makes the final sum."""
        self.closing = True
        if not self.cluster.members:
            self.conclude()

    def heard(self, kind: str, facts: dict[str, Any]) -> None:
        now = time.time()
        match kind:
            case "worker-started":
                self.started(facts["worker"], facts["tag"], now)
            case "worker-joined":
                self.joined(facts["worker"], facts["tag"], now)
                self.account(force=True)
            case "worker-lost" | "worker-removed" | "workers-refused" if "worker" in facts:
                self.left(facts["worker"], facts["tag"], now)
                if not self.closing:
                    self.account(force=True)
                elif not self.cluster.members:
                    self.conclude()

    def started(self, worker: str, tag: str, now: float) -> None:
        """Take note that a worker was asked for."""

    def joined(self, worker: str, tag: str, now: float) -> None:
        """Take note that a worker is connected."""

    def left(self, worker: str, tag: str, now: float) -> None:
        """Take note that a worker is gone."""
        machine = self.homes.pop(worker, None)
        if machine is not None:
            del machine.workers[worker]
            if not machine.workers:
                machine.empty_since = now

    def look(self, now: float) -> None:
        """Bring up to date what no worker tells of."""

    def counts(self, worker: str) -> bool:
        """Tell whether the figures include a worker that the backend accepted; most are paid from then on or later."""
        return True

    # Machines

    def open(self, machine: MeteredMachine) -> MeteredMachine:
        self.machines[machine.name] = machine
        self.record(machine)
        return machine

    def end(self, machine: MeteredMachine, when: float) -> None:
        machine.until = max(machine.since + machine.least_s, when)
        self.record(machine)

    def put(self, worker: str, tag: str, machine: MeteredMachine, part: float) -> None:
        self.homes[worker] = machine
        machine.workers[worker] = part
        machine.empty_since = None
        slots = self.cluster.templates[tag].slots
        self.journal.write("placed", worker=worker, tag=tag, machine=machine.name, part=round(part, 9), slots=slots)

    def record(self, machine: MeteredMachine) -> None:
        self.journal.write(
            "machine", machine=machine.name, pool=machine.pool, price=decimal_text(machine.price), since=machine.since,
            until=machine.until, tail_s=machine.tail_s, **({"up": machine.up} if machine.up is not None else {}),
        )  # fmt: skip

    # Money

    def account(self, *, force: bool = False) -> None:
        """Sum up what was paid, every few seconds or at once."""
        if not force and time.monotonic() - self.accounted < EVERY_S:
            return
        self.accounted, now = time.monotonic(), time.time()
        self.look(now)
        there = [machine for machine in self.machines.values() if machine.until is None]
        self.write(
            sum((machine.cost(now) for machine in self.machines.values()), Decimal(0)),
            sum((machine.price for machine in there), Decimal(0)),
            sum((machine.due(now) for machine in self.machines.values()), Decimal(0)),
        )

    def conclude(self) -> None:
        """Write what is paid in the end: machines that are still there are kept for a while."""
        now = time.time()
        self.look(now)
        total = sum((machine.cost(now) + machine.due(now) for machine in self.machines.values()), Decimal(0))
        self.write(total, Decimal(0), Decimal(0))

    def write(self, spent: Decimal, per_hour: Decimal, due: Decimal) -> None:
        if not self.tariff.currency:
            return
        currency = self.tariff.currency
        beside = self.tariff.others.since() if self.tariff.others is not None else None
        change = SpendChanged(Money(spent, currency), Money(per_hour, currency), Money(due, currency), elsewhere=beside)
        self.spent = change.spent
        amounts = {"spent": change.spent, "per_hour": change.per_hour, "due": change.wind_down}
        self.journal.write(
            "cost", exact=decimal_text(round(spent, 9)), **{name: amount.to_dict() for name, amount in amounts.items()}
        )
        if not self.closing:
            self.tell(change)


class WorkerMeter(CostMeter):
    """Each worker is paid by itself: a hired machine from when it is asked for, else from when it is connected."""

    def started(self, worker: str, tag: str, now: float) -> None:
        if self.tariff.hired:
            self.pay(worker, tag, now, HIRED_AT_LEAST_S)
            self.account(force=True)

    def joined(self, worker: str, tag: str, now: float) -> None:
        if worker not in self.homes:  # a queue costs nothing
            self.pay(worker, tag, now, 0.0)

    def pay(self, worker: str, tag: str, since: float, least_s: float) -> None:
        price = self.tariff.workers.get(tag)
        machine = MeteredMachine(worker, tag, since, price.amount if price else Decimal(0), least_s=least_s)
        self.put(worker, tag, self.open(machine), 1.0)

    def left(self, worker: str, tag: str, now: float) -> None:
        if machine := self.homes.get(worker):
            self.end(machine, now)
        super().left(worker, tag, now)


class JobMeter(CostMeter):
    """Batch jobs are paid for all that they hold, so that the bill is the price of their core-hours."""

    def joined(self, worker: str, tag: str, now: float) -> None:
        self.look(now)

    def left(self, worker: str, tag: str, now: float) -> None:
        self.look(now)
        super().left(worker, tag, now)

    def look(self, now: float) -> None:
        launcher, core = self.cluster.launcher, self.tariff.core
        assert isinstance(launcher, Tenant), "only a launcher that tells of batch jobs is asked for them"
        assert core is not None, "batch jobs are paid by the core"
        members = {member.name: member for member in self.cluster.members.values()}
        jobs = {name: str(member.launched.job) for name, member in members.items()}
        for held in launcher.holdings():
            name, price = f"job {held.name}", core.amount * exact(held.held.cores)
            workers = [members[worker] for worker, job in jobs.items() if job == name]
            machine = self.machines.get(name)
            if machine is None:
                tags = "+".join(dict.fromkeys(member.tag for member in workers)) or NO_TAG
                machine = self.open(MeteredMachine(name, tags, held.since, price, until=held.until))
            elif (machine.price, machine.until) != (price, held.until):  # a lost node makes a job smaller
                machine.price, machine.until = price, held.until
                self.record(machine)
            for member in workers:
                if member.name not in self.homes and member.joined:
                    part = member.template.all_cpus / held.held.cores if held.held.cores else 1.0
                    self.put(member.name, member.tag, machine, min(1.0, part))


class NodeMeter(CostMeter):
    """Nodes are paid. Where the backend does not tell of them, workers are put on nodes as a plan does it."""

    def started(self, worker: str, tag: str, now: float) -> None:
        if tag not in self.tariff.places:
            return
        self.look(now)
        pool, fill = self.tariff.places[tag]
        there = (other for other in self.machines.values() if other.pool == pool and other.until is None)
        machine = next((other for other in there if sum(other.workers.values()) + 1 / fill <= 1 + HAIR), None)
        if machine is None:
            number = sum(other.pool == pool for other in self.machines.values()) + 1
            standing = number <= self.tariff.pools[pool].standing
            machine = self.node(f"{pool}-{number}", pool, now, standing=standing)
        self.put(worker, tag, machine, 1 / fill)

    def look(self, now: float) -> None:
        for machine in self.machines.values():
            if machine.until is None and machine.empty_since is not None and not machine.standing:
                gone = machine.empty_since + machine.tail_s
                if now >= gone:
                    self.end(machine, gone)

    def node(
        self, name: str, pool: str, since: float, *, standing: bool, up: float | None = None
    ) -> MeteredMachine:  # fmt: skip
        rent = self.tariff.pools.get(pool, Rent(None, 0.0))
        price = rent.price.amount if rent.price is not None and not standing else Decimal(0)
        tail_s = 0.0 if standing else rent.tail_s
        return self.open(MeteredMachine(name, pool, since, price, tail_s, standing=standing, up=up))


class ObservedMeter(NodeMeter):
    """The backend says which nodes there are, and who is on them."""

    def started(self, worker: str, tag: str, now: float) -> None:
        """Pay nothing: it has no node yet."""

    def joined(self, worker: str, tag: str, now: float) -> None:
        self.look(now)

    def counts(self, worker: str) -> bool:
        return worker in self.homes  # its node may still have to come

    def left(self, worker: str, tag: str, now: float) -> None:
        self.look(now)
        self.locate(worker, tag)
        super().left(worker, tag, now)

    def look(self, now: float) -> None:
        for node in sorted(self.landlord.nodes(), key=lambda node: (node.since, node.name)):
            machine = self.machines.get(node.name)
            if machine is None:
                standing = node.since < self.began and self.standing_left(node.pool)
                pool, since = node.pool or NO_POOL, self.paid_from(node)
                machine = self.node(node.name, pool, since, standing=standing, up=node.since)
            known = (self.paid_from(node), node.until, node.since)
            if known != (machine.since, machine.until, machine.up):  # it is gone, or something is known better
                machine.since, machine.until, machine.up = known
                self.record(machine)
        for member in self.cluster.members.values():
            self.locate(member.name, member.tag)

    def paid_from(self, node: Node) -> float:
        """Return when this run pays a node from: its machine's start if that was for the run, else the run's own."""
        start_s = self.tariff.pools[node.pool].start_s if node.awaited and node.pool in self.tariff.pools else 0.0
        return max(node.since - start_s, self.began)

    def locate(self, worker: str, tag: str) -> None:
        home = self.machines.get(self.landlord.node_of(worker) or "")
        if home is not None and worker not in self.homes:
            self.put(worker, tag, home, 1 / self.tariff.places[tag][1] if tag in self.tariff.places else 1.0)

    def standing_left(self, pool: str) -> bool:
        """Return whether another node that was there before may be one that is always there."""
        known = sum(machine.pool == pool and machine.standing for machine in self.machines.values())
        return known < self.tariff.pools.get(pool, Rent(None, 0.0)).standing

    @property
    def landlord(self) -> Landlord:
        launcher = self.cluster.launcher
        assert isinstance(launcher, Landlord), "only a launcher that tells of nodes is asked for them"
        return launcher


def meter(cluster: TaggedCluster, journal: Journal, tariff: Tariff, tell: Callable[[SpendChanged], None]) -> CostMeter:
    kind = {BY_WORKER: WorkerMeter, BY_JOB: JobMeter, OBSERVED: ObservedMeter}.get(tariff.basis, NodeMeter)
    return kind(cluster, journal, tariff, tell)
