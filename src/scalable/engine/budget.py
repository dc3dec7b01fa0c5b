"""The budget brake: what has been paid, what is already promised, and what can still be paid.

Cost accrues linearly between two reports of the world. ``committed`` is what would be paid in all if everything
stopped this instant; it must never pass the budget. Stopping takes time, so the brake works early enough to pay for it.
Money and the hours of an allocation are two accounts of the same kind; what is done must be within both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from scalable.engine.events import HoursChanged, SpendChanged
from scalable.engine.rules import KILL_WITHIN_S
from scalable.machine_hours import MachineHours
from scalable.quantities import Money, exact

if TYPE_CHECKING:
    from scalable.engine.state import JobRecord, State


@dataclass(slots=True)
class Spending:
    """One account, of money or of an allocation's hours: what is spent, promised and left."""

    budget: Money | MachineHours | None = None
    spent: Money | MachineHours | None = None
    per_hour: Decimal = Decimal(0)
    wind_down: Decimal = Decimal(0)
    at: float = 0.0
    elsewhere: Decimal = Decimal(0)
    """What others have taken from the same budget."""
    asked: int = 0
    """How often workers were asked for."""
    promised: dict[int, Decimal] = field(default_factory=dict)
    """What requests that no report covers yet can cost, by their number."""

    def promise(self, amount: Decimal | None) -> None:
        self.asked += 1
        if amount is not None:
            self.promised[self.asked] = amount

    def report(self, event: SpendChanged | HoursChanged, now: float) -> None:
        """Take new figures; requests they do not include still count, since a report may be older than the last one."""
        self.spent, self.at = event.spent, now
        self.per_hour, self.wind_down = event.per_hour.amount, event.wind_down.amount
        self.elsewhere = event.elsewhere.amount if event.elsewhere is not None else Decimal(0)
        self.promised = {number: amount for number, amount in self.promised.items() if number > event.covered}

    def paid(self, now: float) -> Decimal:
        """Return what this session has paid by now."""
        return (self.spent.amount if self.spent else Decimal(0)) + self.per_hour * exact(now - self.at) / 3600

    def committed(self, now: float) -> Decimal:
        return self.elsewhere + self.paid(now) + self.wind_down + sum(self.promised.values())

    def figures(self, now: float) -> str:
        """Say where the budget went: what is spent, by whom, and what is kept for ending what runs."""
        assert self.budget is not None
        paid = self.paid(now)
        kept = max(Decimal(0), self.budget.amount - self.elsewhere - paid)
        spent, elsewhere, rest = (replace(self.budget, amount=each) for each in (paid, self.elsewhere, kept))
        others = f"{elsewhere} spent by other sessions, " if self.elsewhere else ""
        return f"{spent} spent, {others}{rest} kept for ending what runs"

    def affords(self, now: float, more: Decimal = Decimal(0), seconds: float = 0.0) -> bool:
        """Tell whether going on for so long, and ``more`` on top, stays within the budget."""
        if self.budget is None:
            return True
        extra = self.per_hour * exact(seconds + KILL_WITHIN_S) / 3600 + more
        return self.committed(now) + extra <= self.budget.amount

    def used_up_at(self) -> float:
        """Return when going on any longer could not be paid if nothing changes."""
        if self.budget is None or not self.per_hour:
            return float("inf")
        left = self.budget.amount - self.committed(self.at) - self.per_hour * exact(KILL_WITHIN_S) / 3600
        return self.at + float(max(left, Decimal(0)) * 3600 / self.per_hour)

    def left_share(self, now: float) -> float:
        """Return the part of the budget that is left."""
        if self.budget is None or not self.budget.amount:
            return 0.0
        return 1.0 - float(self.committed(now) / self.budget.amount)


def startable(state: State, now: float, record: JobRecord) -> bool:
    """Tell whether every budget covers a job to its expected end."""
    seconds = expected_s(state, record)
    return all(account.affords(now, seconds=seconds) for account in state.accounts)


def affordable(state: State, tag: str, count: int, now: float) -> int:
    """Return how many of the workers the budgets allow to start and to do one job each."""
    expected = shortest_expected(state, tag) + KILL_WITHIN_S
    low, high = 0, count
    if not list(commitments(state, tag, 1, expected, now)):
        return count
    while low < high:
        middle = (low + high + 1) // 2
        if all(
            account.affords(now, more, seconds=expected)
            for account, more in commitments(state, tag, middle, expected, now)
        ):
            low = middle
        else:
            high = middle - 1
    return low


def promise(state: State, tag: str, count: int, now: float) -> None:
    """Count a request for workers in every account until a report covers it."""
    promised = {id(account): amount for account, amount in commitments(state, tag, count, 0.0, now)}
    for account in (state.spending, state.hours):
        account.promise(promised.get(id(account)))


def commitments(state: State, tag: str, count: int, busy_s: float, now: float) -> Iterator[tuple[Spending, Decimal]]:
    """Yield the most that asking for workers can take from each account that they take something from."""
    kind = state.rules.kinds[tag]
    if state.spending.budget is not None:
        idle = state.may_have_idle_nodes(kind.pool, now)
        cost = state.rules.pools[kind.pool].commitment(tag, count, busy_s, idle_nodes=idle)
        if cost is not None:
            yield state.spending, cost.amount
    if state.hours.budget is not None and kind.held:
        yield state.hours, kind.held * count * exact(busy_s) / 3600


def out_of_money(state: State, now: float) -> bool:
    """Tell whether work or a minimum of workers waits, nothing runs, and neither a start nor a worker can be paid."""
    waiting = [tag for tag, record in state.tags.items() if record.queue.size or record.outside or record.minimum]
    if not waiting or state.paused or state.live or any(record.lent for record in state.tags.values()):
        return False
    for tag in waiting:
        record = state.tags[tag]
        seconds = shortest_expected(state, tag)
        startable = not record.queue.size or all(account.affords(now, seconds=seconds) for account in state.accounts)
        if record.requested or (record.workers and startable):
            return False
        if not record.workers and affordable(state, tag, 1, now):
            return False
    return True


def short_of(state: State, now: float) -> Spending:
    """Return the account that is used up, or nearest to it."""
    return min(state.accounts, key=lambda account: account.left_share(now))


def expected_s(state: State, record: JobRecord) -> float:
    """Return how long a job will take: as others of its sweep did there, else as foreseen."""
    experience = state.sweeps[record.job.sweep].experience.get(record.tag)
    return experience.pace.mean if experience is not None and experience.pace.known else record.job.expected_s or 0.0


def shortest_expected(state: State, tag: str) -> float:
    """Return the shortest expected time of the jobs that are next in their groups."""
    queue = state.tags[tag].queue
    return min((expected_s(state, line[0]) for line in queue.waiting.values()), default=0.0)
