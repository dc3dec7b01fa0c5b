"""The placement of workers: what each must ask for to be placed as promised, and when a pool is full.

A Kubernetes scheduler packs by requests. Requests below the burst put more workers on a node than its CPUs can serve
at full load, so with ``spread`` on the CPU request is raised until exactly as many fit as the burst allows, and leave
no room for smaller workers that the burst has no CPUs for. Where no request within the limit does that, a spread
constraint must.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scalable.errors import PlanningError
from scalable.manifest.machines import NodeType, Pool, Profile
from scalable.manifest.policies import Margins
from scalable.planning.packing import pack
from scalable.planning.resources import Size, allocatable, burst, nominal
from scalable.quantities import Cpu, Memory, Money

UNLIMITED = 1_000_000  # workers, where only the backend knows how many there may be


@dataclass(frozen=True, slots=True)
class Placement:
    """The way workers of one profile share the nodes of one pool."""

    request: Size
    """What a worker asks the scheduler for."""
    raised: bool
    """The request was raised above the profile's to keep the promised number per node."""
    footprint: Size
    """What a worker takes of a node: its request, or more where a spread constraint keeps others away."""
    per_node: int
    """Workers a node holds with this request."""
    per_node_written: int
    """Workers a node would hold with the profile's own request."""


def place(
    profile: Profile,
    node: NodeType,
    pool: Pool,
    *,
    spread: bool,
    peak: Memory | None = None,
    margins: Margins | None = None,
) -> Placement:
    """Place workers; ``margins`` asks for so few on a node that each node by itself keeps them."""
    written, room = Size.of(profile.request), allocatable(node, pool)
    by_request = written.times_in(room)
    taken = burst(profile, peak)
    by_burst = taken.times_in(nominal(node))
    while margins and by_burst > 1 and not keeps(taken * by_burst, nominal(node), margins):
        by_burst -= 1
    if not by_request:
        raise PlanningError(
            f"a worker asking for {written.cpu} CPU / {written.memory} does not fit on a {pool.node}, "
            f"which has {room.cpu} CPU / {room.memory} to give"
        )
    if not spread or not 0 < by_burst <= by_request:
        return Placement(written, False, written, by_request, by_request)
    cpu = min(Cpu(room.cpu.millis // by_burst), profile.limit.cpu)
    memory = min(Memory(room.memory.bytes // by_burst), profile.limit.memory)
    for request in (Size(cpu, written.memory, written.gpus), Size(written.cpu, memory, written.gpus)):
        if written.fits(request) and request.times_in(room) == by_burst:
            return Placement(request, request != written, request, by_burst, by_request)
    kept_apart = Size(Cpu(room.cpu.millis // by_burst), written.memory, written.gpus)
    return Placement(written, False, kept_apart, by_burst, by_request)


def keeps(used: Size, there: Size, margins: Margins) -> bool:
    """Return whether what is left of CPU and memory is over what the policy promises."""
    cpu, ram = margin(used.cpu.millis, there.cpu.millis), margin(used.memory.bytes, there.memory.bytes)
    return cpu > margins.cpu and ram > margins.ram


def margin(used: int, there: int) -> float:
    """Return what is left, as a part of what is there; rounded so that exactly 15 % is not a hair over 15 %."""
    return round(1 - used / there, 9)


@dataclass(frozen=True)
class PoolRoom:
    """The engine's knowledge of a pool: how many workers of which tags it can hold, and what a node costs."""

    name: str
    node: Size
    """What a node has to give."""
    max_nodes: int
    requests: Mapping[str, Size]
    """What a worker of each tag asks for."""
    spread_over: Mapping[str, int] = field(default_factory=dict)
    """Tags that must stand on at least so many nodes."""
    price: Money | None = None
    """For a node and hour; nothing for pools that are paid anyway."""
    provision_s: float = 0.0
    idle_s: float = 0.0

    def together(self, tag: str) -> int:
        """Return how many workers of a tag come in one allocation: here each is alone."""
        return 1

    def shares(self, tag: str, others: Iterable[str]) -> bool:
        """Tell whether a worker may stand on a node that holds workers of other tags."""
        return True

    def nodes(self, counts: Mapping[str, int]) -> int:
        """Return the nodes that so many workers of each tag need."""
        demand = [(self.requests[tag], count) for tag, count in sorted(counts.items()) if count]
        at_least = max((self.spread_over.get(tag, 1) for tag, count in counts.items() if count), default=0)
        return pack(demand, self.node, at_least=at_least).count

    def most(self, tag: str, counts: Mapping[str, int]) -> int:
        """Return the most workers of a tag that the pool can hold beside the others."""
        others = {other: count for other, count in counts.items() if other != tag and count}
        per_node = self.requests[tag].times_in(self.node)
        if not others and self.spread_over.get(tag, 1) <= self.max_nodes:
            return per_node * self.max_nodes
        low, high = 0, per_node * self.max_nodes
        while low < high:
            middle = (low + high + 1) // 2
            if self.nodes({**others, tag: middle}) <= self.max_nodes:
                low = middle
            else:
                high = middle - 1
        return low

    def commitment(self, tag: str, count: int, busy_s: float = 0.0, *, idle_nodes: bool = False) -> Money | None:
        """Return the most that asking for more workers can cost even if they are given back after ``busy_s``.

        Where nodes may be idle each worker may land on another one, and all of these are kept for longer then.
        """
        if self.price is None:
            return None
        apart = self.max_nodes if idle_nodes else self.spread_over.get(tag, 1)
        nodes = max(self.nodes({tag: count}), min(count, apart))
        return self.price * nodes * ((self.provision_s + busy_s + self.idle_s) / 3600)


@dataclass(frozen=True)
class OpenRoom(PoolRoom):
    """Room whose end only the backend knows: this machine, a batch queue, machines that are hired one by one."""

    prices: Mapping[str, Money] = field(default_factory=dict)
    """For an hour of a worker of each tag, where workers are paid."""
    least_s: float = 0.0
    """How long a worker is paid at least."""
    per_job: Mapping[str, int] = field(default_factory=dict)
    """Workers of each tag that one batch job holds, where that is more than one; a node stands for a job then."""
    mixed: bool = True
    """A batch job may hold workers of several tags."""

    def together(self, tag: str) -> int:
        return self.per_job.get(tag, 1)

    def shares(self, tag: str, others: Iterable[str]) -> bool:
        return self.mixed or all(other == tag for other in others)

    def most(self, tag: str, counts: Mapping[str, int]) -> int:
        return UNLIMITED

    def commitment(self, tag: str, count: int, busy_s: float = 0.0, *, idle_nodes: bool = False) -> Money | None:
        price = self.prices.get(tag)
        return price * count * (max(busy_s, self.least_s) / 3600) if price is not None else None
