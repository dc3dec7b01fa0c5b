"""What the journal says of a sweep's grid, so that whoever reads it can draw the grid and see it fill in.

A row is told by its position in the product of variants, assets, folds and costs. A grid that nobody could look at is
not told, and many jobs are told in several records, so that no line of the journal gets long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scalable.observe.sweep_progress import spans
from scalable.sweeps.compiling import Compiled, CompiledJob
from scalable.sweeps.grid import Cell

MOST_CELLS = 20_000  # of a grid that is told; more are finer than the points of a screen
LONGEST_AXES = 40_000  # characters of all labels together
LONGEST_PORTION = 40_000  # characters of jobs in one record; longer lines of a journal are cut


class Cells:
    """Where the rows of a compiled sweep are in its whole grid, also if only some of its rows are meant."""

    def __init__(self, compiled: Compiled) -> None:
        grid = compiled.grid
        self.grid = grid
        places = enumerate(grid)  # in the order of the compiled rows, so that one pass finds all of them
        self.at = {
            work.run_key: next(place for place, cell in places if alike(cell, where)) for work, where in compiled.cells
        }
        self.axes = {
            "variant": [str(variant) for variant in grid.variants],
            "asset": list(grid.assets),
            "fold": [str(fold) for fold in range(grid.folds)],
            "cost_bps": [f"{cost:g}" for cost in grid.costs_bps],
        }
        length = sum(len(label) for axis in self.axes.values() for label in axis)
        self.told = len(grid) <= MOST_CELLS and length <= LONGEST_AXES

    def of(self, keys: Iterable[str]) -> str:
        return spans(self.at[key] for key in keys)

    def start(self, there: Iterable[str], failed: Iterable[str]) -> dict[str, Any]:
        """The grid as it is when the sweep begins: which rows are there, and which failed and are not tried again."""
        if not self.told:
            return {}
        part = {"cells": self.of(self.at)} if len(self.at) < len(self.grid) else {}
        return {"axes": self.axes, **part, "cells_there": self.of(there), "failed_cells": self.of(failed)}

    def rows(self, keys: Iterable[str], failed: Iterable[str]) -> dict[str, Any]:
        return {"cells": self.of(keys), "failed_cells": self.of(failed)} if self.told else {}

    def of_jobs(self, jobs: Mapping[str, CompiledJob]) -> Iterator[dict[str, str]]:
        """Yield the rows of each job by its name, in portions."""
        portion: dict[str, str] = {}
        length = 0
        for job, place in jobs.items() if self.told else ():
            portion[job] = self.of(cell.run_key for cell in place.cells)
            length += len(job) + len(portion[job])
            if length > LONGEST_PORTION:
                yield portion
                portion, length = {}, 0
        if portion:
            yield portion


def alike(cell: Cell, where: Cell) -> bool:
    """Return whether two cells are the same one; 1 and true are variants of their own."""
    return cell == where and type(cell.variant) is type(where.variant)
