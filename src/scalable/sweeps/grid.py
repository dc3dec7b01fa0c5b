"""A declared sweep as what it consists of: rows (cells of the grid) and searches (what must be computed for them).

The grid is never held in memory; rows have their keys where the sweep is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from scalable.catalogue import FACTORS, TRIALS, Factor, Variant
from scalable.manifest.work import Sweep


class Cell(NamedTuple):
    """One run of the sweep: it yields one row."""

    factor: str
    variant: Variant
    asset: str
    fold: int
    cost_bps: float


MAKE_CELL: Callable[[tuple[Any, ...]], Cell] = partial(tuple.__new__, Cell)  # Cell._make without its length check


@dataclass(frozen=True, slots=True)
class Grid:
    """The rows of a sweep in their order: variant, asset, fold, cost (the last changes fastest)."""

    factor: str
    variants: tuple[Variant, ...]
    assets: tuple[str, ...]
    folds: int
    costs_bps: tuple[float, ...]
    trials: int
    seed: int
    shared: bool
    """Searches are shared between costs, and between variants the search does not see."""

    @classmethod
    def of(cls, sweep: Sweep, groups: Mapping[str, list[str]]) -> Grid:
        factor = FACTORS.get(sweep.factor)
        return cls(
            factor=sweep.factor,
            variants=canonical(sweep.variants, factor) if factor else tuple(sweep.variants or ()),
            assets=tuple(groups[sweep.assets] if isinstance(sweep.assets, str) else sweep.assets),
            folds=sweep.folds,
            costs_bps=tuple(sweep.costs_bps),
            trials=sweep.trials or TRIALS[sweep.power],
            seed=sweep.seed,
            shared=factor is not None and sweep.run is None,
        )

    def __len__(self) -> int:
        return len(self.variants) * len(self.assets) * self.folds * len(self.costs_bps)

    def __iter__(self) -> Iterator[Cell]:
        cells = product((self.factor,), self.variants, self.assets, range(self.folds), self.costs_bps)
        return map(MAKE_CELL, cells)

    @property
    def searches(self) -> int:
        """How many distinct computations serve all rows."""
        if not self.shared:
            return len(self)
        return len(self.assets) * self.folds * (len(self.variants) if FACTORS[self.factor].in_search else 1)

    @property
    def rows_per_search(self) -> int:
        return len(self) // self.searches


def canonical(written: list[Variant] | None, factor: Factor) -> tuple[Variant, ...]:
    """The factor's own variants for those written, so that ``1`` and ``1.0`` are one row with one key."""
    if written is None:
        return factor.variants
    own = {(isinstance(v, bool), v): v for v in factor.variants}
    return tuple(own.get((isinstance(v, bool), v), v) for v in written)
