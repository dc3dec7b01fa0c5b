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

from scalable.cluster.base import Landlord
from scalable.engine.events import SpendChanged
from scalable.planning.prices import HIRED_AT_LEAST_S
from scalable.quantities import Money, decimal_text, exact
from scalable.session.money.tariffs import BY_WORKER, OBSERVED, Rent, Tariff

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.observe.journal import Journal

EVERY_S = 10.0
HOUR_S = 3600
NO_POOL = "nodes"  # of those that are in none
HAIR = 1e-9  # seven sevenths of a node are a whole one


@dataclass(slots=True)
class MeteredMachine:
    """What is paid by the hour: a worker, or a node."""

    name: str
    pool: str
    since: float
    price: Decimal = Decimal(0)
    tail_s: float = 0.0
    least_s: float = 0.0
    """How long it is paid at least."""
    standing: bool = False
    """It is always there, and paid whoever uses it."""
    until: float | None = None
    workers: dict[str, float] = field(default_factory=dict)
    """Who is on it now, and the part of it that each takes."""
    empty_since: float | None = None

    def cost(self, now: float) -> Decimal:
        end = now if self.until is None else min(now, self.until)
        return self.price * exact(max(0.0, end - self.since)) / HOUR_S

    def due(self, now: float) -> Decimal:
        """What must still be paid if every worker went now."""
        if self.until is not None:
            return self.price * exact(max(0.0, self.until - now)) / HOUR_S
        empty = now if self.workers or self.empty_since is None else self.empty_since
        paid_until = max(empty + self.tail_s, self.since + self.least_s)
        return self.price * exact(max(0.0, paid_until - now)) / HOUR_S


class Meter:
    """What all ways of paying share; ``started``, ``joined``, ``left`` and ``look`` are theirs."""

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
        self.told = 0.0
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
        """Nobody is told any more; the last worker that goes makes the final sum."""
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
        """It was asked for."""

    def joined(self, worker: str, tag: str, now: float) -> None:
        """It is connected."""

    def left(self, worker: str, tag: str, now: float) -> None:
        """It is gone."""
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
            until=machine.until, tail_s=machine.tail_s,
        )  # fmt: skip

    # Money

    def account(self, *, force: bool = False) -> None:
        """Sum up what was paid, every few seconds or at once."""
        if not force and time.monotonic() - self.told < EVERY_S:
            return
        self.told, now = time.monotonic(), time.time()
        self.look(now)
        there = [machine for machine in self.machines.values() if machine.until is None]
        self.write(
            sum((machine.cost(now) for machine in self.machines.values()), Decimal(0)),
            sum((machine.price for machine in there), Decimal(0)),
            sum((machine.due(now) for machine in self.machines.values()), Decimal(0)),
        )

    def conclude(self) -> None:
        """What is paid in the end: machines that are still there are kept for a while."""
        now = time.time()
        self.look(now)
        total = sum((one.cost(now) + one.due(now) for one in self.machines.values()), Decimal(0))
        self.write(total, Decimal(0), Decimal(0))

    def write(self, spent: Decimal, per_hour: Decimal, due: Decimal) -> None:
        if not self.tariff.currency:
            return
        currency = self.tariff.currency
        beside = self.tariff.others.since() if self.tariff.others is not None else None
        told = SpendChanged(Money(spent, currency), Money(per_hour, currency), Money(due, currency), elsewhere=beside)
        self.spent = told.spent
        amounts = {"spent": told.spent, "per_hour": told.per_hour, "due": told.wind_down}
        self.journal.write(
            "cost", exact=decimal_text(round(spent, 9)), **{name: one.to_dict() for name, one in amounts.items()}
        )
        if not self.closing:
            self.tell(told)


class WorkerMeter(Meter):
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


class NodeMeter(Meter):
    """Nodes are paid. Where the backend does not tell of them, workers are put on nodes as a plan does it."""

    def started(self, worker: str, tag: str, now: float) -> None:
        if tag not in self.tariff.places:
            return
        self.look(now)
        pool, fill = self.tariff.places[tag]
        there = (one for one in self.machines.values() if one.pool == pool and one.until is None)
        machine = next((one for one in there if sum(one.workers.values()) + 1 / fill <= 1 + HAIR), None)
        if machine is None:
            number = sum(one.pool == pool for one in self.machines.values()) + 1
            standing = number <= self.tariff.pools[pool].standing
            machine = self.node(f"{pool}-{number}", pool, now, standing=standing)
        self.put(worker, tag, machine, 1 / fill)

    def look(self, now: float) -> None:
        for machine in self.machines.values():
            if machine.until is None and machine.empty_since is not None and not machine.standing:
                gone = machine.empty_since + machine.tail_s
                if now >= gone:
                    self.end(machine, gone)

    def node(self, name: str, pool: str, since: float, *, standing: bool) -> MeteredMachine:
        rent = self.tariff.pools.get(pool, Rent(None, 0.0))
        price = rent.price.amount if rent.price is not None and not standing else Decimal(0)
        return self.open(MeteredMachine(name, pool, since, price, 0.0 if standing else rent.tail_s, standing))


class ObservedMeter(NodeMeter):
    """The backend says which nodes there are, and who is on them."""

    def started(self, worker: str, tag: str, now: float) -> None:
        """It has no node yet."""

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
                machine = self.node(node.name, node.pool or NO_POOL, max(node.since, self.began), standing=standing)
            known = (max(node.since, self.began), node.until)
            if known != (machine.since, machine.until):  # it is gone, or something about it is known better
                machine.since, machine.until = known
                self.record(machine)
        for member in self.cluster.members.values():
            self.locate(member.name, member.tag)

    def locate(self, worker: str, tag: str) -> None:
        home = self.machines.get(self.landlord.node_of(worker) or "")
        if home is not None and worker not in self.homes:
            self.put(worker, tag, home, 1 / self.tariff.places[tag][1] if tag in self.tariff.places else 1.0)

    def standing_left(self, pool: str) -> bool:
        """Whether another node that was there before may be one that is always there."""
        known = sum(one.pool == pool and one.standing for one in self.machines.values())
        return known < self.tariff.pools.get(pool, Rent(None, 0.0)).standing

    @property
    def landlord(self) -> Landlord:
        launcher = self.cluster.launcher
        assert isinstance(launcher, Landlord), "only a launcher that tells of nodes is asked for them"
        return launcher


def meter(cluster: TaggedCluster, journal: Journal, tariff: Tariff, tell: Callable[[SpendChanged], None]) -> Meter:
    kind = {BY_WORKER: WorkerMeter, OBSERVED: ObservedMeter}.get(tariff.basis, NodeMeter)
    return kind(cluster, journal, tariff, tell)
