"""The budget brake: what has been paid, what is already promised, and when the money will be used up.

Cost accrues linearly between two reports of the world. ``committed`` is what would be paid in all if everything
stopped this instant; it must never pass the budget. Stopping takes time, so the brake works early enough to pay for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from scalable.engine.events import SpendChanged
from scalable.engine.rules import KILL_WITHIN_S
from scalable.quantities import Money, exact


@dataclass(slots=True)
class Spending:
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

    def report(self, told: SpendChanged, now: float) -> None:
        """Requests that the figures do not include are still counted: a report may be older than the last one."""
        self.spent, self.at = told.spent, now
        self.per_hour, self.wind_down = told.per_hour.amount, told.wind_down.amount
        self.elsewhere = told.elsewhere.amount if told.elsewhere is not None else Decimal(0)
        self.promised = {number: amount for number, amount in self.promised.items() if number > told.covered}

    def committed(self, now: float) -> Decimal:
        paid = self.elsewhere + (self.spent.amount if self.spent else 0)
        return paid + self.per_hour * exact(now - self.at) / 3600 + self.wind_down + sum(self.promised.values())

    def affords(self, now: float, more: Money | None = None, seconds: float = 0.0) -> bool:
        """Whether going on for so long, and ``more`` on top, stays within the budget."""
        if self.budget is None:
            return True
        extra = self.per_hour * exact(seconds + KILL_WITHIN_S) / 3600 + (more.amount if more else 0)
        return self.committed(now) + extra <= self.budget.amount

    def used_up_at(self) -> float:
        """When going on any longer could not be paid if nothing changes."""
        if self.budget is None or not self.per_hour:
            return float("inf")
        left = self.budget.amount - self.committed(self.at) - self.per_hour * exact(KILL_WITHIN_S) / 3600
        return self.at + float(max(left, Decimal(0)) * 3600 / self.per_hour)
