"""The needs of a worker and the offer of a node, and the records providers are asked and answer with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.manifest.machines import NodeType, Pool, Profile
from scalable.manifest.machines import Resources as Written
from scalable.quantities import HOURS_PER_MONTH, Cpu, Memory, Price


@dataclass(frozen=True, slots=True)
class Origin:
    """The manifest and target that a plan was made for."""

    manifest: str
    """The absolute path of the file."""
    target: str | None

    def __str__(self) -> str:
        return f"target {self.target} of {self.manifest}" if self.target is not None else self.manifest


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """CPU, memory and GPUs taken together, in exact integers."""

    cpu: Cpu
    memory: Memory
    gpus: int = 0

    def fits(self, room: Size) -> bool:
        return self.cpu <= room.cpu and self.memory <= room.memory and self.gpus <= room.gpus

    def __add__(self, other: Size) -> Size:
        return Size(self.cpu + other.cpu, self.memory + other.memory, self.gpus + other.gpus)

    def __sub__(self, other: Size) -> Size:
        return Size(self.cpu - other.cpu, self.memory - other.memory, self.gpus - other.gpus)

    def __mul__(self, count: int) -> Size:
        return Size(self.cpu * count, self.memory * count, self.gpus * count)

    def times_in(self, room: Size) -> int:
        """Return how many of these fit side by side in a room."""
        pairs = (
            (self.cpu.millis, room.cpu.millis),
            (self.memory.bytes, room.memory.bytes),
            (self.gpus, room.gpus),
        )
        return max(0, min((there // needed for needed, there in pairs if needed > 0), default=0))

    @classmethod
    def of(cls, written: Written | NodeType) -> Size:
        return cls(written.cpu, written.memory, written.gpus)


NOTHING = Size(Cpu(0), Memory(0))


def nominal(node: NodeType) -> Size:
    return Size.of(node)


def offered(node: NodeType, pool: Pool) -> Size:
    """Return what a node nominally has for work: all but what other services use of it."""
    used = Size(pool.used.cpu, pool.used.memory) if pool.used else NOTHING
    return nominal(node) - used


def allocatable(node: NodeType, pool: Pool | None = None) -> Size:
    """Return what pods can have of a node: without the system's share, and without what other services use."""
    left = node.allocatable
    room = Size(left.cpu, left.memory, node.gpus) if left else nominal(node)
    if pool and pool.used:
        room -= Size(pool.used.cpu, pool.used.memory)
    return room


def equal_part(cpus: float, workers: int) -> int:
    """Return the CPUs of one of so many workers on a machine: whole ones, as thread pools are sized, never none."""
    return max(1, int(cpus) // max(1, workers))


def burst(profile: Profile, peak: Memory | None = None) -> Size:
    """Return what a worker takes at its worst: all CPUs of its limit, and the memory it was seen to use."""
    return Size(profile.limit.cpu, peak or profile.memory_peak, profile.limit.gpus)


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """The request of one worker of a tag to a provider."""

    cpus: float = 1
    memory: str | None = None
    walltime: str | None = None
    gpus: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"cpus": self.cpus, "memory": self.memory, "walltime": self.walltime, "gpus": self.gpus}


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """The number of workers of each tag there should be, and how big each is."""

    workers_by_tag: dict[str, int] = field(default_factory=dict)
    resources_by_tag: dict[str, ResourceRequest] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    """Tags of which so few workers stand on a node that each node by itself keeps the margins."""

    def __str__(self) -> str:
        parts = []
        for tag, count in self.workers_by_tag.items():
            size = self.resources_by_tag.get(tag)
            detail = f" × {size.cpus:g} CPU / {size.memory or 'any memory'}" if size else ""
            parts.append(f"{tag}: {count}{detail}")
        return ", ".join(parts) or "no workers"


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The cost of a plan, in the shape providers answer with."""

    provider: str
    region: str | None
    currency: str
    total_hourly: float
    total_monthly: float
    line_items: tuple[dict[str, Any], ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def by_cpu(cls, provider: str, price: Price, workers: Mapping[str, tuple[int, float]]) -> CostEstimate:
        """Price CPUs by the hour, as batch systems charge; ``workers`` are how many of a tag with how many CPUs."""
        lines: list[dict[str, Any]] = []
        for tag, (count, cpus) in workers.items():
            amount = float((price.hourly * (cpus * count)).amount)
            what = f"{count} × {tag}, {cpus:g} CPU each"
            lines.append({"what": what, "tag": tag, "workers": count, "hourly": amount})
        total = sum(line["hourly"] for line in lines)
        facts = {"cpu_price": str(price)}
        return cls(provider, None, price.hourly.currency, total, total * HOURS_PER_MONTH, tuple(lines), facts)
