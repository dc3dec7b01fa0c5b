"""Hours of machines as an allocation counts them: core-hours, node-hours and GPU-hours.

``MachineHours`` is an amount in one of these units, as the manifest has it; amounts in two units never combine.
``HeldResources`` is what a worker or a batch job keeps others from using, in all three of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

from scalable.errors import QuantityError
from scalable.quantities import Amount, bounded, decimal, decimal_text, exact
from scalable.wording import shown

CORE_HOURS, NODE_HOURS, GPU_HOURS = "core-hours", "node-hours", "gpu-hours"
UNITS = (CORE_HOURS, NODE_HOURS, GPU_HOURS)
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class MachineHours(Amount):
    """An amount of hours in one unit."""

    amount: Decimal
    unit: str
    unit_field: ClassVar[str] = "unit"
    apart: ClassVar[tuple[str, str]] = ("different units", "write all budgets in one")
    noun: ClassVar[str] = "an amount of an allocation"
    written: ClassVar[str] = "50000 core-hours, 400 node-hours or 200 gpu-hours"
    pattern: ClassVar[str] = r"^\s*[0-9][0-9.,]*\s*(core|node|gpu|GPU)[- ]hours?\s*$"

    @classmethod
    def read(cls, value: object) -> Self:
        number, unit = cls.match(value, r"\s*(\d[\d.,]*)\s*([A-Za-z][A-Za-z -]*?)?\s*", "unit").groups()
        if not unit:
            raise cls.refuse(value, ": it has no unit")
        name = re.sub(r"[ -]+", "-", unit.lower())
        name = name if name.endswith("s") else f"{name}s"
        if name not in UNITS:
            raise QuantityError(
                f"{shown(value)} is not {cls.noun}: {unit} is no unit of it",
                f"write {', '.join(UNITS[:-1])} or {UNITS[-1]}, e.g. {number} {CORE_HOURS}",
            )
        plain = number.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d*)?", number) else number
        return cls(bounded(decimal(plain, cls, value), cls, value), name)

    def __str__(self) -> str:
        return f"{hours_text(self.amount)} {self.unit}"

    def to_dict(self) -> dict[str, Any]:
        """Return the shape ``{"amount", "unit"}`` of every JSON output."""
        return {"amount": round(float(self.amount), 4), "unit": self.unit}


@dataclass(frozen=True, slots=True)
class HeldResources:
    """Cores, nodes and GPUs that are kept from others."""

    cores: float = 0.0
    nodes: float = 0.0
    gpus: float = 0.0

    def __add__(self, other: HeldResources) -> HeldResources:
        return HeldResources(self.cores + other.cores, self.nodes + other.nodes, self.gpus + other.gpus)

    def __mul__(self, factor: float) -> HeldResources:
        return HeldResources(self.cores * factor, self.nodes * factor, self.gpus * factor)

    def of(self, unit: str) -> Decimal:
        """Return the amount in one unit; by the hour for what is held, in hours for what was used."""
        return exact({CORE_HOURS: self.cores, NODE_HOURS: self.nodes, GPU_HOURS: self.gpus}[unit])

    def for_seconds(self, seconds: float) -> HeldResources:
        """Return the hours that holding this for so long uses."""
        return self * (seconds / HOUR_S)

    def to_dict(self) -> dict[str, float]:
        """Return the shape ``{"core-hours", "node-hours", "gpu-hours"}`` of journals and reports."""
        return {unit: round(float(self.of(unit)), 6) for unit in UNITS}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        amounts = (record.get(unit) for unit in UNITS)
        return cls(*(float(amount) if isinstance(amount, int | float) else 0.0 for amount in amounts))


def hours_text(amount: Decimal | float) -> str:
    """Write an amount to three places below 10, to one above."""
    number = exact(amount)
    return decimal_text(round(number, 3 if abs(number) < 10 else 1))
