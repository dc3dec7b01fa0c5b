"""The part of a ``RunView`` about an allocation: core-, node- and GPU-hours that a run has used, and its budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from scalable.machine_hours import UNITS, HeldResources, MachineHours
from scalable.observe.fields import mapping, number, text


@dataclass(slots=True)
class HoursUsed:
    """The latest figures of the session's meter. Nothing is computed again: the meter counts once."""

    open: bool = False
    """The session counts hours: without that nothing is shown."""
    budget: MachineHours | None = None
    """What could be used when the run began."""
    balance: MachineHours | None = None
    """What the account had left then, as Slurm's accounting said."""
    basis: str = ""
    used: HeldResources = field(default_factory=HeldResources)
    held: HeldResources = field(default_factory=HeldResources)
    """What is held at the moment, which is the rate by the hour."""

    def begin(self, record: Mapping[str, Any]) -> None:
        self.open = True
        self.basis = text(record.get("basis"))
        self.budget, self.balance = (machine_hours(record.get(name)) for name in ("budget", "balance"))

    def take(self, record: Mapping[str, Any]) -> None:
        self.open = True
        used = HeldResources.from_dict(figures(record.get("used")))
        self.used = HeldResources(
            *(max(getattr(used, name), getattr(self.used, name)) for name in HeldResources.__slots__)
        )
        self.held = HeldResources.from_dict(figures(record.get("held")))

    @property
    def left(self) -> MachineHours | None:
        """The rest that may still be used; nothing where there is no budget."""
        if self.budget is None:
            return None
        rest = self.budget.amount - self.used.of(self.budget.unit)
        return MachineHours(max(Decimal(0), rest), self.budget.unit)

    def to_dict(self) -> dict[str, Any] | None:
        """Return the shape of reports: hours used by unit, those held now, and the budget; None if none are counted."""
        if not self.open:
            return None
        budget, left, balance = (
            amount.to_dict() if amount is not None else None for amount in (self.budget, self.left, self.balance)
        )
        return {
            "used": self.used.to_dict(),
            "per_hour": self.held.to_dict(),
            "basis": self.basis,
            "budget": budget,
            "left": left,
            "balance": balance,
        }


def machine_hours(value: object) -> MachineHours | None:
    """Return an amount from its shape ``{"amount", "unit"}``."""
    amount, unit = number(mapping(value).get("amount")), text(mapping(value).get("unit"))
    return MachineHours(Decimal(repr(amount)), unit) if amount is not None and unit in UNITS else None


def figures(value: object) -> dict[str, float]:
    """Return hours by unit; what is no number from 0 is left out."""
    numbers = {unit: number(mapping(value).get(unit)) for unit in UNITS}
    return {unit: amount for unit, amount in numbers.items() if amount is not None and amount >= 0}
