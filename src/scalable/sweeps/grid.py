"""A declared sweep as what it consists of: rows (cells of a grid over axes) and jobs (what must be computed for them).

The grid is never held in memory row by row; rows have their keys where the sweep is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

from scalable.axes import Axis, Value, axis_text, value_text
from scalable.manifest.work import Sweep, alike, excluded
from scalable.store.marking import place_name

Values = tuple[Value, ...]


class Cell(NamedTuple):
    """Where a row stands in the grid: its values on the compared, repeated and averaged axes."""

    variant: Values
    block: Values
    averaged: Values


MAKE_CELL: Callable[[tuple[Any, ...]], Cell] = partial(tuple.__new__, Cell)  # Cell._make without its length check


@dataclass(frozen=True)
class Grid:
    """The rows of a sweep in their order: variant, block, averaged values (the last axis changes fastest)."""

    compare: Mapping[str, Values]
    over: tuple[Axis, ...] = ()
    average: Mapping[str, Values] = field(default_factory=dict)
    baseline: Values = ()
    """The variant that others are compared with where nothing is locked."""
    exclude: tuple[Mapping[str, Value], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What all rows have."""
    shared: frozenset[str] | None = None
    """Axes whose values one job serves, as the workload declares; nothing if that is not known before it is
    compiled."""
    scaled_by: str = "trials"
    """The setting that the time of a job is proportional to, where its workload declares one."""

    @classmethod
    def of(cls, sweep: Sweep, groups: Mapping[str, Sequence[str]]) -> Grid:
        """Return the grid of a sweep; ``groups`` are lists of values that its axes name."""
        plugin = sweep.plugin
        known = plugin is not None and sweep.run is None and all(name in plugin.factors for name in sweep.compare)
        named = {name: canonical(sweep.baseline.get(name, values[0]), values) for name, values in sweep.compare.items()}
        return cls(
            compare=sweep.compare,
            over=tuple(axis.axis(name, groups) for name, axis in sweep.over.items()),
            average=sweep.average,
            baseline=tuple(named.values()),
            exclude=tuple(sweep.exclude),
            settings={**sweep.implied, **sweep.settings},
            shared=plugin.shared_axes(sweep.compare) if plugin is not None and known else None,
            scaled_by=plugin.cost.setting if plugin is not None and plugin.cost is not None else "trials",
        )

    def __len__(self) -> int:
        return len(self.variants) * prod(map(len, self.sizes[1:]))

    def __iter__(self) -> Iterator[Cell]:
        return map(MAKE_CELL, product(self.variants, self.blocks, product(*self.average.values())))

    @property
    def sizes(self) -> tuple[Sequence[object], ...]:
        """The variants, then the values of each other axis, in the order of the rows."""
        return self.variants, *(axis.values for axis in self.over), *self.average.values()

    @cached_property
    def variants(self) -> tuple[Values, ...]:
        """Every combination of compared values that is not left out, in order."""
        every = product(*self.compare.values())
        if not self.exclude:
            return tuple(every)
        return tuple(one for one in every if not excluded(dict(zip(self.compare, one, strict=True)), self.exclude))

    @property
    def blocks(self) -> Iterator[Values]:
        """Every combination of values of the repeated axes, in order."""
        return product(*(axis.values for axis in self.over))

    @property
    def factor(self) -> str:
        """The compared axes by name, as histories and locks call them."""
        return "/".join(self.compare)

    @property
    def names(self) -> tuple[str, ...]:
        return *self.compare, *(axis.name for axis in self.over), *self.average

    def axes_of(self, cell: Cell) -> dict[str, Value]:
        """Return the value of a cell on each axis, by name."""
        return dict(zip(self.names, (*cell.variant, *cell.block, *cell.averaged), strict=True))

    def label(self, variant: Values) -> Value:
        """Return what a variant is called: the value of the only compared axis, else all values, e.g. ``svm/10``."""
        return variant[0] if len(variant) == 1 else "/".join(map(value_text, variant))

    def block_text(self, block: Values) -> str:
        """Return a block for people, e.g. ``digits fold 2``."""
        return " ".join(axis_text(axis.name, value) for axis, value in zip(self.over, block, strict=True))

    def cell_text(self, cell: Cell) -> str:
        """Return a row for people, e.g. ``svm/10 digits fold 2 seed 1``."""
        return place_name(self.axes_of(cell), tuple(self.compare))

    def means_text(self) -> str:
        """Return what a mean is made of, e.g. ``means over dataset × fold, averaged over seed within each``."""
        over, averaged = " × ".join(axis.name for axis in self.over), " × ".join(self.average)
        if not over:
            return f"averaged over {averaged}" if averaged else "one row each"
        return f"means over {over}" + (f", averaged over {averaged} within each" if averaged else "")

    def group_of(self, cell: Cell) -> str:
        """Return the value on the first repeated axis: rows that agree on it share data, as a rule."""
        return value_text(cell.block[0]) if cell.block else ""

    @property
    def groups(self) -> tuple[str, ...]:
        """The values of the first repeated axis; one group if nothing is repeated."""
        return tuple(map(value_text, self.over[0].values)) if self.over else ("",)

    def with_group(self, values: Sequence[Value]) -> Grid:
        """Return the same sweep over other values of the first repeated axis."""
        return replace(self, over=(replace(self.over[0], values=tuple(values)), *self.over[1:]))

    @property
    def trials(self) -> int:
        """The setting that a job's time follows, e.g. its trials; 0 where there is none."""
        trials = self.settings.get(self.scaled_by, 0)
        return trials if isinstance(trials, int) else 0

    @cached_property
    def searches(self) -> int:
        """How many distinct computations serve all rows."""
        if self.shared is None:
            return len(self)
        kept = [at for at, name in enumerate(self.compare) if name not in self.shared]
        seen = len({tuple((type(variant[at]), variant[at]) for at in kept) for variant in self.variants})
        others = (*((axis.name, axis.values) for axis in self.over), *self.average.items())
        return seen * prod(len(values) for name, values in others if name not in self.shared)

    @property
    def rows_per_search(self) -> int:
        return len(self) // self.searches

    def to_dict(self) -> dict[str, Any]:
        """The axes by their side, for machines."""
        sides = {
            "compare": self.compare,
            "over": {axis.name: axis.values for axis in self.over},
            "average": self.average,
        }
        listed = {side: {name: list(values) for name, values in axes.items()} for side, axes in sides.items()}
        return {**listed, "kinds": {axis.name: axis.kind.value for axis in self.over}}


def canonical(value: Value, values: Values) -> Value:
    """Return the value of an axis that somebody wrote in another way: 1 for 1.0."""
    return next(known for known in values if alike(value, known))
