"""Batch jobs of several workers: how many in one, over how many nodes, and which kinds together.

The plan counts jobs and the launcher hands them in by the same rules, those of ``Allocations``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalable.manifest.targets import SlurmTarget, Target
from scalable.planning.packing import pack
from scalable.planning.resources import Size

BatchNode = dict[str, int]
"""How many workers of each tag one node of a batch job holds."""


@dataclass(frozen=True, slots=True)
class Allocations:
    """The workers that one batch job holds."""

    workers: int | None = None
    """Workers of one kind in a job; nothing where whole nodes are filled, or each worker has a job of its own."""
    nodes: int = 1
    """Nodes of a job; its workers are spread over them evenly."""
    exclusive: bool = False
    """Jobs have whole nodes."""
    node: Size | None = None
    """What a node has, where that is known; without it whole nodes cannot be filled."""

    @classmethod
    def of(cls, target: Target | None, node: Size | None = None) -> Allocations:
        """Return what a target says; anything but Slurm has one worker in a job."""
        if not isinstance(target, SlurmTarget):
            return cls()
        return cls(target.workers_per_job, target.nodes_per_job, target.exclusive, node)

    @property
    def alone(self) -> bool:
        """Tell whether every worker is a batch job of its own."""
        return self.workers in (None, 1) and not self.exclusive

    @property
    def fills(self) -> bool:
        """Tell whether as many workers as fit are put on a node."""
        return self.exclusive and self.workers is None

    def per_job(self, size: Size) -> int:
        """Return how many workers of one size a whole job holds."""
        if not self.fills:
            return self.workers or 1
        fitting = size.times_in(self.node) if self.node is not None else 1
        return max(1, fitting) * self.nodes

    def held(self, wanted: Iterable[tuple[str, Size, int]]) -> tuple[float, int]:
        """Return the CPUs and nodes of the jobs that hold these workers: all CPUs of whole nodes, else their own."""
        wanted = list(wanted)
        nodes = sum(map(len, self.jobs(wanted)))
        own = sum(size.cpu.cores * count for _, size, count in wanted)
        if not self.exclusive or self.node is None or not all(size.fits(self.node) for _, size, _ in wanted):
            return own, nodes
        return self.node.cpu.cores * nodes, nodes

    def jobs(self, wanted: Iterable[tuple[str, Size, int]]) -> list[tuple[BatchNode, ...]]:
        """Put workers, given as tag, size and count, into as few jobs as can be; what each node of a job holds."""
        wanted = [(tag, size, count) for tag, size, count in wanted if count]
        if self.fills and self.node is not None:
            small = [entry for entry in wanted if entry[1].fits(self.node)]
            large = [entry for entry in wanted if not entry[1].fits(self.node)]
            nodes = filled(small, self.node) + [{tag: 1} for tag, _, count in large for _ in range(count)]
            return [tuple(nodes[first : first + self.nodes]) for first in range(0, len(nodes), self.nodes)]
        per_job = self.workers or 1
        return [
            self.spread(tag, min(per_job, count - first))
            for tag, _, count in wanted
            for first in range(0, count, per_job)
        ]

    def spread(self, tag: str, count: int) -> tuple[BatchNode, ...]:
        """Spread workers of one kind evenly over the nodes of a job; a few workers need fewer nodes."""
        per_node = -(-(self.workers or 1) // self.nodes)
        nodes = -(-count // per_node)
        each, over = divmod(count, nodes)
        return tuple({tag: each + (place < over)} for place in range(nodes))


def filled(wanted: Sequence[tuple[str, Size, int]], node: Size) -> list[BatchNode]:
    """Put workers of several kinds on as few nodes as can be."""
    tags = [tag for tag, _, _ in wanted]
    packing = pack([(size, count) for _, size, count in wanted], node)
    return [{tag: number for tag, number in zip(tags, held, strict=True) if number} for held in packing.nodes]
