"""The number of nodes that workers need: vector bin packing over CPU, memory and GPUs.

Exact for the cases people have (a few sizes, tens of workers), by a bounded search between a lower bound and the best
of four greedy packings; for thousands of workers the greedy result stands, which is optimal for a single size and
close to the lower bound otherwise. Workers of one size are interchangeable, so everything counts sizes, not workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from scalable.errors import PlanningError
from scalable.planning.resources import Size

SEARCH_STEPS = 20_000  # nodes of the search tree before the greedy packing is taken as it is; some 50 ms

Vector = tuple[int, int, int]
Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """``nodes[i]`` says how many workers of each size node ``i`` holds."""

    nodes: tuple[Counts, ...]
    exact: bool
    """No packing with fewer nodes exists."""

    @property
    def count(self) -> int:
        return len(self.nodes)


def pack(demand: Sequence[tuple[Size, int]], room: Size, *, at_least: int = 0) -> Packing:
    """Put ``count`` workers of each size on as few nodes of ``room`` as can be (never fewer than ``at_least``)."""
    sizes = tuple(vector(size) for size, _ in demand)
    counts = tuple(count for _, count in demand)
    for (size, count), per_node in zip(demand, (size.times_in(room) for size, _ in demand), strict=True):
        if count and not per_node:
            raise PlanningError(
                f"a worker of {size.cpu} CPU / {size.memory} does not fit on a node with {room.cpu} CPU / {room.memory}"
            )
    packing = packed(sizes, counts, vector(room))
    short = min(at_least, sum(counts)) - packing.count
    return spread(packing, short) if short > 0 else packing


@lru_cache(maxsize=4096)
def packed(sizes: tuple[Vector, ...], counts: Counts, room: Vector) -> Packing:
    if not any(counts):
        return Packing((), exact=True)
    alone = max(-(-count // times(size, room)) for size, count in zip(sizes, counts, strict=True) if count)
    bound = max(lower_bound(sizes, counts, room), alone)
    ways = [*(greedy(sizes, counts, room, order) for order in orders(sizes, room)), balanced(sizes, counts, room)]
    best = min(ways, key=len)
    if len(best) > bound:
        search = PackingSearch(sizes, room)
        for target in range(bound, len(best)):
            packing = search.within(counts, target)
            if packing is not None:
                return Packing(packing, exact=True)
            if search.steps_left <= 0:
                return Packing(best, exact=False)
    return Packing(best, exact=True)


def lower_bound(sizes: tuple[Vector, ...], counts: Counts, room: Vector) -> int:
    """Return nodes needed if workers could be cut into pieces, and those that large workers need for themselves."""
    totals = [sum(size[d] * count for size, count in zip(sizes, counts, strict=True)) for d in range(3)]
    fluid = max(-(-total // there) for total, there in zip(totals, room, strict=True) if there)
    halves = 0
    for dimension in range(3):
        large = sum(c for size, c in zip(sizes, counts, strict=True) if size[dimension] * 2 > room[dimension] > 0)
        halves = max(halves, large)
    return max(fluid, halves, 1)


def orders(sizes: tuple[Vector, ...], room: Vector) -> Iterator[list[int]]:
    """Yield sizes from large to small, by three ideas of large."""

    def share(size: Vector) -> list[float]:
        return [size[d] / room[d] for d in range(3) if room[d]]

    everything = range(len(sizes))
    yield sorted(everything, key=lambda i: -max(share(sizes[i])))
    yield sorted(everything, key=lambda i: -sum(share(sizes[i])))
    yield sorted(everything, key=lambda i: tuple(-part for part in share(sizes[i])))


def greedy(sizes: tuple[Vector, ...], counts: Counts, room: Vector, order: list[int]) -> tuple[Counts, ...]:
    """Fill node after node, always with the largest worker that still fits. Equal nodes are filled in one step."""
    left = list(counts)
    nodes: list[Counts] = []
    while any(left):
        node, free = [0] * len(sizes), room
        for index in order:
            number = min(left[index], times(sizes[index], free))
            node[index] = number
            free = minus(free, sizes[index], number)
        repeat = min(left[i] // n for i, n in enumerate(node) if n)
        nodes += [tuple(node)] * repeat
        left = [have - used * repeat for have, used in zip(left, node, strict=True)]
    return tuple(nodes)


def balanced(sizes: tuple[Vector, ...], counts: Counts, room: Vector) -> tuple[Counts, ...]:
    """Fill node after node with a bit of every size, as much of each as there is of it.

    Mixes workers that want memory with those that want CPU, which going through the sizes one by one cannot.
    """
    left = list(counts)
    nodes: list[Counts] = []
    while any(left):
        node, free = [0] * len(sizes), room
        while fitting := [
            (node[i] / left[i], i) for i in range(len(sizes)) if node[i] < left[i] and times(sizes[i], free)
        ]:
            least = min(fitting)[1]
            node[least] += 1
            free = minus(free, sizes[least], 1)
        repeat = min(left[i] // n for i, n in enumerate(node) if n)
        nodes += [tuple(node)] * repeat
        left = [have - used * repeat for have, used in zip(left, node, strict=True)]
    return tuple(nodes)


class PackingSearch:
    """Depth-first search for a packing within a number of nodes; gives up after ``SEARCH_STEPS``."""

    def __init__(self, sizes: tuple[Vector, ...], room: Vector) -> None:
        self.sizes = sizes
        self.room = room
        self.steps_left = SEARCH_STEPS
        self.hopeless: set[tuple[Counts, int]] = set()

    def within(self, counts: Counts, nodes: int) -> tuple[Counts, ...] | None:
        """Search with a stack of its own: thousands of nodes are deeper than Python's."""
        if not self.hopeful(counts, nodes):
            return None
        stack = [(counts, nodes, self.fillings(counts, self.room, 0))]
        chosen: list[Counts] = []
        while stack and self.steps_left > 0:
            counts, nodes, fillings = stack[-1]
            filling = next(fillings, None)
            if filling is None:
                self.hopeless.add((counts, nodes))
                stack.pop()
                del chosen[-1:]
                continue
            rest = tuple(c - f for c, f in zip(counts, filling, strict=True))
            if not any(rest):
                return (*chosen, filling)
            if self.hopeful(rest, nodes - 1):
                chosen.append(filling)
                stack.append((rest, nodes - 1, self.fillings(rest, self.room, 0)))
        return None

    def hopeful(self, counts: Counts, nodes: int) -> bool:
        self.steps_left -= 1
        return (counts, nodes) not in self.hopeless and lower_bound(self.sizes, counts, self.room) <= nodes

    def fillings(self, counts: Counts, free: Vector, index: int) -> Iterator[Counts]:
        """Yield ways to fill a node to which nothing more can be added, fullest with the first size first."""
        if index == len(self.sizes):
            yield ()
            return
        most = min(counts[index], times(self.sizes[index], free))
        last = index == len(self.sizes) - 1
        for number in (most,) if last else range(most, -1, -1):
            for rest in self.fillings(counts, minus(free, self.sizes[index], number), index + 1):
                yield (number, *rest)


def spread(packing: Packing, more: int) -> Packing:
    """Return the same workers on more nodes: one is moved at a time from the fullest node to a new one."""
    nodes = [list(node) for node in packing.nodes]
    for _ in range(more):
        fullest = max(nodes, key=sum)
        index = max(range(len(fullest)), key=lambda i: fullest[i])
        fullest[index] -= 1
        nodes.append([1 if i == index else 0 for i in range(len(fullest))])
    return Packing(tuple(tuple(node) for node in nodes), exact=True)


def vector(size: Size) -> Vector:
    return size.cpu.millis, size.memory.bytes, size.gpus


def times(size: Vector, free: Vector) -> int:
    return min((there // needed for needed, there in zip(size, free, strict=True) if needed), default=0)


def minus(free: Vector, size: Vector, number: int) -> Vector:
    return free[0] - size[0] * number, free[1] - size[1] * number, free[2] - size[2] * number
