"""The budget brake: what has been paid, what is already promised, and what can still be paid.

Cost accrues linearly between two reports of the world. ``committed`` is what would be paid in all if everything
stopped this instant; it must never pass the budget. Stopping takes time, so the brake works early enough to pay for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from scalable.engine.events import SpendChanged
from scalable.engine.rules import KILL_WITHIN_S
from scalable.quantities import Money, exact

if TYPE_CHECKING:
    from scalable.engine.state import JobRecord, State


@dataclass(slots=True)
class Spending:
    """The money that is spent, promised and left."""

    budget: Money | None = None
    spent: Money | None = None
    per_hour: Decimal = Decimal(0)
    wind_down: Decimal = Decimal(0)
    at: float = 0.0
    elsewhere: Decimal = Decimal(0)
    """What others have taken from the same budget."""
    asked: int = 0
    """How often workers were asked for."""
    promised: dict[int, Decimal] = field(default_factory=dict)
    """What requests that no report covers yet can cost, by their number."""

    def promise(self, amount: Money | None) -> None:
        self.asked += 1
        if amount is not None:
            self.promised[self.asked] = amount.amount

    def report(self, event: SpendChanged, now: float) -> None:
        """Take new figures; requests they do not include still count, since a report may be older than the last one."""
        self.spent, self.at = event.spent, now
        self.per_hour, self.wind_down = event.per_hour.amount, event.wind_down.amount
        self.elsewhere = event.elsewhere.amount if event.elsewhere is not None else Decimal(0)
        self.promised = {number: amount for number, amount in self.promised.items() if number > event.covered}

    def committed(self, now: float) -> Decimal:
        paid = self.elsewhere + (self.spent.amount if self.spent else 0)
        return paid + self.per_hour * exact(now - self.at) / 3600 + self.wind_down + sum(self.promised.values())

    def affords(self, now: float, more: Money | None = None, seconds: float = 0.0) -> bool:
        """Tell whether going on for so long, and ``more`` on top, stays within the budget."""
        if self.budget is None:
            return True
        extra = self.per_hour * exact(seconds + KILL_WITHIN_S) / 3600 + (more.amount if more else 0)
        return self.committed(now) + extra <= self.budget.amount

    def used_up_at(self) -> float:
        """Return when going on any longer could not be paid if nothing changes."""
        if self.budget is None or not self.per_hour:
            return float("inf")
        left = self.budget.amount - self.committed(self.at) - self.per_hour * exact(KILL_WITHIN_S) / 3600
        return self.at + float(max(left, Decimal(0)) * 3600 / self.per_hour)


def startable(state: State, now: float, record: JobRecord) -> bool:
    """Tell whether the money covers a job to its expected end."""
    return state.spending.affords(now, seconds=expected_s(state, record))


def affordable(state: State, tag: str, count: int, now: float) -> int:
    """Return how many of the workers the budget allows to start and to do one job each."""
    pool = state.rules.pools[state.rules.kinds[tag].pool]
    if state.spending.budget is None or pool.commitment(tag, 1) is None:
        return count
    expected = shortest_expected(state, tag) + KILL_WITHIN_S
    idle = state.may_have_idle_nodes(pool.name, now)
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if state.spending.affords(now, pool.commitment(tag, middle, expected, idle_nodes=idle), seconds=expected):
            low = middle
        else:
            high = middle - 1
    return low


def out_of_money(state: State, now: float) -> bool:
    """Tell whether work or a minimum of workers waits, nothing runs, and neither a start nor a worker can be paid."""
    waiting = [tag for tag, record in state.tags.items() if record.queue.size or record.outside or record.minimum]
    if not waiting or state.paused or state.live or any(record.lent for record in state.tags.values()):
        return False
    for tag in waiting:
        record = state.tags[tag]
        startable = not record.queue.size or state.spending.affords(now, seconds=shortest_expected(state, tag))
        if record.requested or (record.workers and startable):
            return False
        if not record.workers and affordable(state, tag, 1, now):
            return False
    return True


def expected_s(state: State, record: JobRecord) -> float:
    """Return how long a job will take: as others of its sweep did there, else as foreseen."""
    experience = state.sweeps[record.job.sweep].experience.get(record.tag)
    return experience.pace.mean if experience is not None and experience.pace.known else record.job.expected_s or 0.0


def shortest_expected(state: State, tag: str) -> float:
    """Return the shortest expected time of the jobs that are next in their groups."""
    queue = state.tags[tag].queue
    return min((expected_s(state, line[0]) for line in queue.waiting.values()), default=0.0)
