"""Modelled pools: an autoscaler that brings a node when a worker finds no room, and takes it away after idling.

Workers on a node share its CPUs: each gets what its limit allows, or its fair part when the node is oversubscribed.
That is why time follows CPUs, not workers.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from scalable.engine.events import NEVER
from scalable.planning.placement import PoolRoom
from scalable.planning.resources import Size
from scalable.planning.simulation.faults import SILENT, FaultKind


@dataclass(frozen=True, slots=True)
class ModelPool:
    room: PoolRoom
    cpus: float
    """Cores of a node that workers share."""
    least: int = 0
    """Nodes that are always there, paid whether used or not."""
    wait_s: float | None = None
    """How long a node takes to come where that was measured; else as long as the room says."""

    @property
    def comes_after_s(self) -> float:
        return self.room.provision_s if self.wait_s is None else self.wait_s


@dataclass(slots=True, eq=False)
class Computation:
    """An attempt that is computing on a node."""

    job: str
    attempt: int
    worker: str
    node: SimulatedNode
    left: float
    """Core-seconds still to do."""
    cap: float
    """Cores it can use at most."""
    fault: FaultKind | None = None
    begun: float = 0.0
    rate: float = 0.0
    since: float = 0.0
    version: int = 0
    """Counts changes of rate; an end foreseen for an older version no longer holds."""

    @property
    def silent(self) -> bool:
        """It reports no progress."""
        return self.fault is not None and self.fault in SILENT


@dataclass(slots=True, eq=False)
class SimulatedNode:
    id: str
    pool: str
    requested: float
    up: float
    free: Size
    gone: float = NEVER
    workers: dict[str, str] = field(default_factory=dict)
    """Worker: tag."""
    computations: dict[str, Computation] = field(default_factory=dict)
    load: float = 0.0
    """Sum of the caps of what computes here."""
    empty_since: float = 0.0
    worked_until: float = 0.0
    permanent: bool = False
    paid_from: float = 0.0
    """When its machine was started, which takes until ``up``: a cloud charges that, too."""


@dataclass(slots=True, eq=False)
class PoolState:
    model: ModelPool
    nodes: dict[str, SimulatedNode] = field(default_factory=dict)
    open: dict[str, SimulatedNode] = field(default_factory=dict)
    """Nodes that may still have room."""
    past: list[SimulatedNode] = field(default_factory=list)
    waiting: list[tuple[str, str]] = field(default_factory=list)
    """Workers (id, tag) that find no room."""
    made: int = 0

    def new_node(self, now: float, *, permanent: bool = False) -> SimulatedNode:
        room = self.model.room
        self.made += 1
        up = now if permanent else now + self.model.comes_after_s
        node = SimulatedNode(
            f"{room.name}-{self.made}", room.name, now, up, room.node, permanent=permanent, empty_since=up
        )
        node.paid_from = max(now, up - room.provision_s)
        self.nodes[node.id] = self.open[node.id] = node
        return node

    def place(self, workers: list[str], tag: str, now: float) -> list[SimulatedNode]:
        """Return nodes for as many of the workers as find room, one each, in their order.

        First as many nodes are asked for as the workers need, then each goes to the emptiest node, which is what an
        autoscaler and a scheduler that scores by least allocation do together.
        """
        room = self.model.room
        request = room.requests[tag]
        there = sum(self.fitting(node, tag) for node in self.open.values())
        missing = -(-max(0, len(workers) - there) // max(1, request.times_in(room.node)))
        for _ in range(min(max(missing, self.missing_apart(tag, len(workers))), room.max_nodes - len(self.nodes))):
            self.new_node(now)
        order = {node.id: place for place, node in enumerate(self.open.values())}
        emptiest = [(-node.free.cpu.millis, order[node.id], node.id) for node in self.open.values()]
        heapq.heapify(emptiest)
        placed: list[SimulatedNode] = []
        while emptiest and len(placed) < len(workers):
            _, place, name = heapq.heappop(emptiest)
            node = self.open.get(name)
            if node is None or not (request.fits(node.free) and room.shares(tag, node.workers.values())):
                continue
            placed.append(self.put(node, workers[len(placed)], tag))
            heapq.heappush(emptiest, (-node.free.cpu.millis, place, name))
        return placed

    def fitting(self, node: SimulatedNode, tag: str) -> int:
        """Return how many more workers of a tag a node holds."""
        room = self.model.room
        return room.requests[tag].times_in(node.free) if room.shares(tag, node.workers.values()) else 0

    def missing_apart(self, tag: str, count: int) -> int:
        """Return how many nodes are missing to spread a tag over as many as it must stand on."""
        room = self.model.room
        spread = room.spread_over.get(tag, 1)
        if spread == 1:
            return 0
        hosts = sum(tag in node.workers.values() for node in self.nodes.values())
        empty = [node for node in self.open.values() if tag not in node.workers.values()]
        return min(spread, count + hosts) - hosts - sum(room.requests[tag].fits(node.free) for node in empty)

    def put(self, node: SimulatedNode, worker: str, tag: str) -> SimulatedNode:
        room = self.model.room
        node.workers[worker] = tag
        node.free = node.free - room.requests[tag]
        if not any(request.fits(node.free) for request in room.requests.values()):
            self.open.pop(node.id, None)
        return node

    def take(self, node: SimulatedNode, worker: str, now: float) -> None:
        tag = node.workers.pop(worker)
        node.free = node.free + self.model.room.requests[tag]
        if node.id in self.nodes:
            self.open[node.id] = node
        if not node.workers:
            node.empty_since = max(now, node.up)

    def drop(self, node: SimulatedNode, now: float) -> None:
        node.gone = now
        self.past.append(self.nodes.pop(node.id))
        self.open.pop(node.id, None)


def shares(computations: list[Computation], cpus: float) -> list[float]:
    """Return cores for each: equal parts, and what one cannot use goes to the others (max-min fair)."""
    order = sorted(range(len(computations)), key=lambda i: computations[i].cap)
    result = [0.0] * len(computations)
    left = cpus
    for place, index in enumerate(order):
        result[index] = min(computations[index].cap, left / (len(computations) - place))
        left -= result[index]
    return result


def paid_so_far(pools: Iterable[PoolState], now: float) -> tuple[float, float, float]:
    """Return what was paid, how fast that grows per hour, and what is still due if every worker left now."""
    spent = growing = due = 0.0
    for pool in pools:
        price = float(pool.model.room.price.amount) if pool.model.room.price else 0.0
        for node in (*pool.past, *pool.nodes.values()):
            if node.permanent or not price:
                continue
            spent += price * max(0.0, min(now, node.gone) - node.paid_from) / 3600
            if node.gone < NEVER:
                continue
            empty = max(now, node.up) if node.workers else node.empty_since
            due += price * (empty + pool.model.room.idle_s - max(now, node.paid_from)) / 3600
            growing += price if node.workers and node.up <= now else 0.0
    return spent, growing, due
