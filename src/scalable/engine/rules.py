"""The rules an engine starts with: kinds of workers, room in the pools, policies, the money there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from scalable.machine_hours import MachineHours
from scalable.manifest.policies import Policies
from scalable.quantities import Memory, Money

ANY_MEMORY = Memory.parse("1PiB")  # what a kind without a limit may use: all there is
KILL_WITHIN_S = 60.0  # killing takes less than a minute; after that the worker goes too


class Room(Protocol):
    """The room of one pool: how many workers it holds and what more of them may cost."""

    @property
    def name(self) -> str:
        """The pool's name."""

    @property
    def price(self) -> Money | None:
        """The price of a node and hour; None for pools that are paid anyway."""

    @property
    def idle_s(self) -> float:
        """Seconds that an empty node is kept."""

    def together(self, tag: str) -> int:
        """Return how many workers of a tag come in one allocation, which is given back as a whole; 1 where each is
        alone."""

    def most(self, tag: str, counts: Mapping[str, int]) -> int:
        """Return the most workers of a tag that the pool can hold beside the others."""

    def commitment(self, tag: str, count: int, busy_s: float = 0.0, *, idle_nodes: bool = False) -> Money | None:
        """Return the most that asking for more workers can cost, or None where nothing is paid for them."""


@dataclass(frozen=True, slots=True)
class Walltime:
    """The length of an allocation, and the key of the manifest that says so."""

    seconds: float
    key: str = "walltime"


@dataclass(frozen=True, slots=True)
class WorkerKind:
    """All workers of one tag: same size, same pool, same queue."""

    tag: str
    pool: str
    memory: Memory
    """The most a job may be expected to use: its limit, or the share of a node the memory check allows."""
    limit: Memory | None = None
    """What the system lets a worker use, where that may be more than ``memory``."""
    slots: int = 1
    """Jobs a worker executes at once; short ones may wait on it behind those, see ``queues``."""
    minimum: int = 0
    maximum: int | None = None
    alone: bool = False
    """While a sweep runs on it, no other sweep does."""
    larger: str | None = None
    """The tag a job climbs to after running out of memory."""
    within: int | None = None
    """Workers of all tags together beyond which none of this one is added: it takes the place of another's."""
    walltime: Walltime | None = None
    """How long the allocation of a worker lasts; None if it does not end."""

    held: Decimal = Decimal(0)
    """What an hour of a worker uses of the allocation, in the unit of its budget; 0 where there is none."""

    @property
    def has(self) -> Memory:
        """The memory that a worker has."""
        return self.limit or self.memory


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that is fixed for the life of an engine."""

    kinds: Mapping[str, WorkerKind]
    pools: Mapping[str, Room]
    policies: Policies = field(default_factory=Policies)
    budget: Money | None = None
    """What may be spent from now on; nothing means no limit."""
    most_workers: int | None = None
    """Of all kinds together; nothing means as many as the pools hold."""
    allocation: MachineHours | None = None
    """Hours of an allocation that may be used from now on; nothing means no limit."""
    most_at_once: int | None = None
    """Of all kinds together, those about to end included; more only where higher counts are set by hand."""
