"""Between a cell of a grid and a row of the store: what a row is called there, and which cell a stored row is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable.axes import Value, value_text
from scalable.store import Row
from scalable.store.marking import no_cost
from scalable.sweeps.grid import Cell, Grid

Place = frozenset[tuple[str, bool, Value]]
"""Where a row stands, as it can be compared with that of another row."""


def identity(sweep: str, grid: Grid, cell: Cell) -> tuple[Any, ...]:
    """Return what a row's key is made of besides the key of its stage.

    Sweeps that earlier versions could have, of one compared axis over assets and folds, keep the form they had.
    """
    over, average = [axis.name for axis in grid.over], [*grid.average]
    if len(grid.compare) == 1 and over == ["asset", "fold"] and average in ([], ["cost_bps"]):
        return (sweep, grid.factor, *cell.variant, *cell.block, *(cell.averaged or (0.0,)))
    return (sweep, tuple(grid.axes_of(cell).items()))


def row_of(sweep: str, grid: Grid, cell: Cell, **facts: Any) -> Row:
    """Return the row of a cell; ``facts`` are what became of it."""
    return Row(sweep=sweep, axes=grid.axes_of(cell), compared=tuple(grid.compare), **facts)


def place_of(row: Row) -> Place:
    """Return where a stored row stands in its sweep."""
    return place_on(row.axes)


def place(grid: Grid, cell: Cell) -> Place:
    """Return where a cell's row would stand."""
    return place_on(grid.axes_of(cell))


def place_on(axes: Mapping[str, Value]) -> Place:
    return frozenset((name, isinstance(value, bool), value) for name, value in axes.items() if not no_cost(name, value))


def row_axes(row: Row) -> dict[str, Value]:
    """Return what a stored row can be asked for by: its values on all axes, and its variant."""
    return {**row.axes, **({"variant": row.variant} if row.variant is not None else {})}


def matches(axes: Mapping[str, Value], where: Mapping[str, str]) -> bool:
    """Return whether a row has the values that somebody asks for; ``20`` and ``20.0`` are one number."""
    return all(name in axes and reads_as(axes[name], text) for name, text in where.items())


def reads_as(value: Value, text: str) -> bool:
    if value_text(value) == text:
        return True
    try:
        return not isinstance(value, bool) and float(value) == float(text)
    except ValueError:
        return False
