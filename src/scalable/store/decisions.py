"""An entry of the ledger: one decision about the variants of a sweep on the rows that were there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalable.axes import Value
from scalable.store.errors import RowError
from scalable.store.rows import axis_value, check_key, check_names, set_count, set_number, stored
from scalable.wording import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """One decision. Written again with the same id it is another look at it, not another decision.

    ``number``, ``looks``, ``first_at`` and ``last_at`` are the store's: what is given for them does not count.
    """

    id: str
    """What the decision is, as at least 32 hexadecimal digits: its sweep, rows, primary metric and method."""
    sweep: str
    decided: bool
    """Whether rows allowed a verdict on any variant; other entries tell of a forced lock and are not counted."""
    data: str | None = None
    """Fingerprint of the rows that were judged."""
    baseline: Value | None = None
    """The variant that the others were compared with at the first look."""
    primary_metric: str | None = None
    method: str | None = None
    level: float | None = None
    """The p below which a variant was proven better; of several looks the largest."""
    variants: int = 0
    """Variants tried, without the baseline."""
    verdicts: Sequence[Mapping[str, Any]] = ()
    """By variant, as of the last look with that baseline: ``{"variant": …, "verdict": …}``."""
    locks: Sequence[Mapping[str, Any]] = ()
    """Locks that rest on it, the oldest first: ``{"variant": …, "forced": …, "reason": …, "at": …}``."""
    number: int | None = None
    """Counted from 1 over all entries of the store."""
    looks: int = 1
    first_at: float | None = None
    """Unix seconds, as is ``last_at``."""
    last_at: float | None = None

    def __post_init__(self) -> None:
        where = f"decision on {shown(self.sweep)}"
        check_key(self.id)
        if not self.sweep:
            raise RowError(f"{where}: sweep is empty; give it a text")
        if not isinstance(self.decided, bool):
            raise RowError(f"{where}: decided is {shown(self.decided)}; write True or False")
        check_names(self, where, "sweep", "data", "primary_metric", "method")
        if self.baseline is not None:
            object.__setattr__(self, "baseline", axis_value(self.baseline, where, "baseline"))
        for name, least in (("variants", 0), ("looks", 1), ("number", 1)):
            set_count(self, name, where, least)
        for name in ("first_at", "last_at", "level"):
            set_number(self, name, where)
        if self.level is not None and not 0 < self.level < 1:
            raise RowError(f"{where}: level is {shown(self.level)}; write a probability, e.g. 0.05")
        if self.decided and (self.data is None or self.level is None or not self.variants):
            raise RowError(f"{where}: a verdict was possible, so it needs data, level and variants")
        for name in ("verdicts", "locks"):
            set_list(self, name, where)


def set_list(row: DecisionRow, name: str, where: str) -> None:
    """Check a list of mappings and keep a copy of it that nobody else can change."""
    value = getattr(row, name)
    if isinstance(value, str) or not all(isinstance(each, Mapping) for each in value):
        raise RowError(f"{where}: {name} is {shown(value)}; write a list of mappings")
    object.__setattr__(row, name, tuple(stored(list(value), where, name)))
