"""The bill of a run, which adds up exactly: money in whole billionths, shared out without a remainder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from scalable.observe.sweep_progress import labelled
from scalable.quantities import Money

GRAINS = 10**9
"""Of one unit of a currency: a second of the smallest machine is still several of them."""
SECOND = 10**6  # times are whole microseconds, as the journal has them
HOUR = 3600 * SECOND
DEAREST = 10  # pieces of work that a report shows to people
TAIL = "tail"
"""Unattributed: what machines cost after the last work on them."""
UNUSED = "unused"
"""Unattributed: machines that nothing was computed on."""
WITHOUT_ROWS = "without_rows"
"""Unattributed: work that was stopped or is under way."""


@dataclass(frozen=True, slots=True)
class CostShare:
    """The cost of the rows of one piece of work together, in grains."""

    run: str
    sweep: str
    rows: int
    busy: int
    idle: int
    """Its part of the time in which its machines waited."""
    lost: int
    """What of ``busy`` went to attempts that came to nothing."""
    axes: Mapping[str, Sequence[str]] | None = None
    """Labels of its sweep's grid, where the journal has them."""
    cells: str = ""
    """Positions of its rows in that grid."""

    @property
    def total(self) -> int:
        return self.busy + self.idle

    @property
    def per_row(self) -> float:
        return self.total / self.rows

    def to_dict(self) -> dict[str, Any]:
        facts = {"run": self.run, "sweep": self.sweep, "rows": self.rows, "per_row": as_float(self.per_row)}
        paid = {"amount": as_float(self.total), "idle": as_float(self.idle), "lost": as_float(self.lost)}
        return {**facts, **paid, "cells": labelled(self.axes, self.cells)}


@dataclass(slots=True)
class PoolBill:
    """All machines of a pool, or all workers of a tag where workers are paid."""

    machines: int = 0
    time: int = 0
    """Microseconds that are charged."""
    standing: int = 0
    """Microseconds of machines that are paid anyway."""
    used: float = 0.0
    """Microseconds in which work was on them, by the part of a machine that it takes."""
    cost: int = 0

    def to_dict(self) -> dict[str, Any]:
        there = self.time + self.standing
        return {
            "machines": self.machines,
            "hours": round(self.time / HOUR, 6),
            "standing_hours": round(self.standing / HOUR, 6),
            "amount": as_float(self.cost),
            "busy_share": round(min(1.0, self.used / there), 4) if there else None,
        }


@dataclass(frozen=True, slots=True)
class Bill:
    """``total`` is what the shares and ``unattributed`` are together, exactly; amounts are in grains."""

    currency: str
    """Empty where machines are counted but have no price."""
    basis: str
    total: int
    shares: tuple[CostShare, ...]
    unattributed: Mapping[str, int]
    foreseen: int
    """What of it is for the time after the run's end, in which machines are still kept."""
    pools: Mapping[str, PoolBill]
    assumed: tuple[str, ...] = ()

    @property
    def money(self) -> Money | None:
        return Money(amount(self.total), self.currency) if self.currency else None

    @property
    def hours(self) -> float:
        """Machine-hours that are charged."""
        return sum(pool.time for pool in self.pools.values()) / HOUR

    def to_dict(self) -> dict[str, Any]:
        rows = sum(share.rows for share in self.shares)
        attributed = sum(share.total for share in self.shares)
        each = [share.to_dict() for share in sorted(self.shares, key=lambda share: (-share.per_row, share.run))]
        return {
            "amount": as_float(self.total),
            "currency": self.currency or None,
            "basis": self.basis,
            "rows": {
                "count": rows,
                "units": len(self.shares),
                "amount": as_float(attributed),
                "mean": as_float(attributed / rows) if rows else None,
                "median": as_float(median(self.shares)) if rows else None,
                "idle": as_float(sum(share.idle for share in self.shares)),
                "lost": as_float(sum(share.lost for share in self.shares)),
                "dearest": each[:DEAREST],
                "each": each,
            },
            "unattributed": {
                "amount": as_float(sum(self.unattributed.values())),
                **{why: as_float(grains) for why, grains in self.unattributed.items()},
            },
            "foreseen": as_float(self.foreseen),
            "pools": {name: pool.to_dict() for name, pool in sorted(self.pools.items())},
            "assumed": list(self.assumed),
        }


def split(whole: int, weights: Sequence[int]) -> list[int]:
    """Share a whole number out by weights: each part within 1 of what is fair, all together exactly the whole."""
    total = sum(weights)
    if not total:
        return [0] * len(weights)
    reached = before = 0
    parts = []
    for weight in weights:
        reached += weight
        parts.append(whole * reached // total - before)
        before += parts[-1]
    return parts


def paid(price: int, time: int) -> int:
    """Return the grains for some microseconds at a price by the hour."""
    return price * max(0, time) // HOUR


def amount(grains: float) -> Decimal:
    return Decimal(round(grains)).scaleb(-9)


def as_float(grains: float) -> float:
    return float(amount(grains))


def median(shares: Sequence[CostShare]) -> float:
    """Return the median cost of single rows; those of one piece of work cost the same."""
    each = sorted((share.per_row, share.rows) for share in shares)
    middle, passed = sum(rows for _, rows in each) / 2, 0
    for cost, rows in each:
        passed += rows
        if passed >= middle:
            return cost
    return 0.0
