"""What the engine remembers. Changed by the engine's own handlers only."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

from scalable.engine.events import Loss, Run, RunState, Sweep, SweepKind
from scalable.engine.queueing import RunQueue
from scalable.engine.rules import Rules
from scalable.engine.spending import Spending
from scalable.quantities import Memory

NEVER = float("inf")


@dataclass(slots=True)
class Attempt:
    """A closed attempt, for explanations and for the memory ladder."""

    number: int
    tag: str
    worker: str
    started: float
    ended: float
    cause: Loss
    peak: Memory | None = None
    message: str = ""


@dataclass(slots=True, eq=False)
class RunRecord:
    run: Run
    tag: str
    """Where it runs next; climbs after running out of memory."""
    state: RunState = RunState.HELD
    attempt: int = 0
    """How often it was started."""
    charged: int = 0
    """How many of the ended attempts count against the retry policy."""
    handovers: int = 0
    """How often it moved for free: preemption, walltime, a stop."""
    worker: str = ""
    started: float = 0.0
    sign: float = 0.0
    """The last sign of life, or the moment up to which a long step was declared."""
    reports: bool = False
    """It has reported progress by itself at least once."""
    not_before: float = 0.0
    counted: bool = False
    """It is among the active runs of its sweep, for which workers are asked."""
    kill_due: float = 0.0
    """When it must be reported dead after being told to die."""
    killed_for: Loss | None = None
    """Why it was told to die, so that its end is never guessed."""
    reason: str = ""
    past: list[Attempt] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class WorkerRecord:
    id: str
    tag: str
    slots: int
    runs: set[str] = field(default_factory=set)
    group: tuple[str, str] | None = None
    """The sweep and group it served last, whose data it probably still has."""
    last_row: float = float("-inf")
    leaving: bool = False
    """Had notice, or was told to go: gets no more work."""
    told: bool = False
    """We told it to go."""
    outside: bool = False
    """It has work that the engine did not start."""
    holding: bool = False
    """It keeps results, so it is not given back."""
    joined: float = 0.0
    served: bool = False
    """It has had work."""

    @property
    def free(self) -> int:
        return 0 if self.leaving or self.outside else self.slots - len(self.runs)

    @property
    def busy(self) -> bool:
        return self.outside or bool(self.runs)


@dataclass(slots=True, eq=False)
class SweepRecord:
    sweep: Sweep
    kind: SweepKind
    order: int
    running: bool = False
    """It holds a place."""
    ended: bool = False
    cancelled: bool = False
    """What is still dying is not run again."""
    active: dict[str, int] = field(default_factory=dict)
    """Runs per tag that are queued or have a worker that stays."""
    left: int = 0
    """Runs that are not final."""
    live: int = 0
    """Runs that have a worker."""
    climbed: list[RunRecord] = field(default_factory=list)
    """Runs that must wait until heavy work may run."""
    counts: dict[str, int] = field(default_factory=dict)
    waits_for: str = ""


@dataclass(slots=True, eq=False)
class TagRecord:
    """The workers of one tag."""

    queue: RunQueue
    minimum: int
    maximum: int | None
    workers: int = 0
    """Joined and not leaving."""
    busy: int = 0
    """Of those, how many have work."""
    outside: int = 0
    """Waiting work that the engine did not start."""
    lent: int = 0
    """Workers that were last seen with such work."""
    requested: int = 0
    """Asked for and not joined yet."""
    leaving: int = 0
    """Told to go and not gone yet; they still take room."""
    returning: int = 0
    """Runs that wait out a retry's delay; idle workers are kept for them."""
    requested_at: float = NEVER
    idle: OrderedDict[str, float] = field(default_factory=OrderedDict)
    """Workers without work, longest idle first, with the moment they became idle."""
    refusals: int = 0
    """In a row, without a worker joining in between."""
    faltered: bool = False
    """A worker of the latest request ended while it started."""
    died_young: int = 0
    """Requests in a row whose workers joined and died without having worked."""
    ask_again: float = 0.0
    room: int = 0
    room_at: int = -1
    """For which state of the fleet ``room`` was computed."""
    late_reported: bool = False


@dataclass(slots=True, eq=False)
class PoolRecord:
    """When a pool last grew and last shrank, whatever the tag."""

    last_up: float = float("-inf")
    last_down: float = float("-inf")


@dataclass
class State:
    rules: Rules
    runs: dict[str, RunRecord] = field(default_factory=dict)
    sweeps: dict[str, SweepRecord] = field(default_factory=dict)
    workers: dict[str, WorkerRecord] = field(default_factory=dict)
    tags: dict[str, TagRecord] = field(default_factory=dict)
    pools: dict[str, PoolRecord] = field(default_factory=dict)
    spending: Spending = field(default_factory=Spending)
    fleet: int = 0
    """Counts changes in how many workers there are or are to come."""
    paused: str = ""
    braked: str = ""
    """Why the budget stopped everything."""
    delayed: list[tuple[float, int, str]] = field(default_factory=list)
    watched: list[tuple[float, int, str, int]] = field(default_factory=list)
    """When to look at which attempt for signs of life."""
    sequence: int = 0
    """Breaks ties in heaps, so that equal times keep their order."""

    def __post_init__(self) -> None:
        for tag, kind in self.rules.kinds.items():
            self.tags[tag] = TagRecord(RunQueue(), kind.minimum, kind.maximum)
        self.pools = {name: PoolRecord() for name in self.rules.pools}
        self.spending.budget = self.rules.budget

    def later(self, when: float, run: str) -> None:
        self.sequence += 1
        heapq.heappush(self.delayed, (when, self.sequence, run))

    def watch(self, when: float, run: str, attempt: int) -> None:
        self.sequence += 1
        heapq.heappush(self.watched, (when, self.sequence, run, attempt))

    def count(self, record: RunRecord, *, active: bool) -> None:
        """Let a run count, or no longer count, as work that needs a worker."""
        if record.counted != active:
            record.counted = active
            numbers = self.sweeps[record.run.sweep].active
            numbers[record.tag] = numbers.get(record.tag, 0) + (1 if active else -1)

    def counts(self, pool: str) -> dict[str, int]:
        """Workers per tag that a pool holds or was asked for."""
        kinds = self.rules.kinds
        return {tag: t.workers + t.requested + t.leaving for tag, t in self.tags.items() if kinds[tag].pool == pool}
