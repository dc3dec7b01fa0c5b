"""Amounts as Kubernetes writes them: ``500m``, ``8Gi``, ``1e3``; compared exactly, whatever their units."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}  # fmt: skip
WRITTEN = re.compile(r"([+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18}))(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i))?")


def read(written: object) -> Decimal | None:
    """Nothing for what is no amount."""
    if isinstance(written, int) and not isinstance(written, bool):
        return Decimal(written)
    found = WRITTEN.fullmatch(written.strip()) if isinstance(written, str) else None
    if found is None:
        return None
    number, power, unit = found.groups()
    return Decimal(number) * (Decimal(10) ** int(power) if power else UNITS[unit or ""])


def more(one: object, other: object) -> bool:
    """Whether the first is certainly more than the second."""
    first, second = read(one), read(other)
    return first is not None and second is not None and first > second
