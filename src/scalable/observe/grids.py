"""The grid of each sweep as letters, one for a row: what the heat map shows. A record changes only the rows it is of.

``.`` waits, ``r`` runs, ``d`` was computed, ``t`` was there before, ``f`` failed, ``m`` is missing now that the sweep
is over, ``-`` is no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from scalable.observe.cells import AXES, positions
from scalable.observe.fields import listed, mapping, text

WAITS, RUNS, COMPUTED, THERE, FAILED, NO_PART = (ord(letter) for letter in ".rdtf-")
OVER = bytes.maketrans(b".r", b"mm")  # what was not computed will not be any more
MOST_CELLS = 100_000  # a journal that tells of more is not one of ours
UNTOLD = "its journal does not tell the grid: the sweep is too large to be drawn, or was run by an earlier version"


class Grid:
    """The rows of one sweep."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.sweep, self.factor = text(record.get("sweep")), text(record.get("factor"))
        given = mapping(record.get("axes"))
        axes = {name: [text(label) for label in listed(given.get(name))] for name in AXES}
        size = prod(len(axis) for axis in axes.values())
        self.axes = axes if 0 < size <= MOST_CELLS else None
        meant = text(record.get("cells"))
        self.cells = bytearray([NO_PART if meant else WAITS]) * (size if self.axes else 0)
        self.ended = False
        self.put(meant, WAITS)
        self.put(text(record.get("cells_there")), THERE)
        self.put(text(record.get("failed_cells")), FAILED)

    def put(self, spans: str, letter: int, only: Iterable[int] | None = None) -> None:
        for position in positions(spans, len(self.cells)):
            if only is None or self.cells[position] in only:
                self.cells[position] = letter

    def letters(self, *, over: bool = False) -> bytes:
        """The rows as they stand; ``over`` says that the run has ended, with or without having said so."""
        return bytes(self.cells.translate(OVER) if over or self.ended else self.cells)

    def to_dict(self, *, over: bool = False) -> dict[str, Any]:
        letters = self.letters(over=over).decode("ascii")
        facts = {"sweep": self.sweep, "factor": self.factor, "axes": self.axes, "cells": letters}
        return facts if self.axes else {**facts, "why": UNTOLD}


class Grids:
    """The grids of a run's sweeps. A sweep that is run twice in a session has the latest one's."""

    def __init__(self) -> None:
        self.by_sweep: dict[str, Grid] = {}
        self.units: dict[str, tuple[str, str]] = {}
        """Sweep and rows of units that have not ended, by name."""

    def start_sweep(self, record: Mapping[str, Any]) -> None:
        self.by_sweep[text(record.get("sweep"))] = Grid(record)

    def take_units(self, record: Mapping[str, Any]) -> None:
        sweep, units = text(record.get("sweep")), mapping(record.get("unit_cells"))
        self.units |= {name: (sweep, text(spans)) for name, spans in units.items()}

    def start_unit(self, name: str) -> None:
        self.change_unit(name, RUNS)

    def lose_unit(self, name: str) -> None:
        """Its rows wait again."""
        self.change_unit(name, WAITS, only=(RUNS,))

    def change_unit(self, name: str, letter: int, only: Iterable[int] | None = None) -> None:
        sweep, spans = self.units.get(name, ("", ""))
        if sweep in self.by_sweep:
            self.by_sweep[sweep].put(spans, letter, only)

    def take_rows(self, record: Mapping[str, Any]) -> None:
        self.units.pop(text(record.get("run")), None)
        if (grid := self.by_sweep.get(text(record.get("sweep")))) is not None:
            grid.put(text(record.get("cells")), COMPUTED)
            grid.put(text(record.get("failed_cells")), FAILED)

    def end_sweep(self, record: Mapping[str, Any]) -> None:
        if (grid := self.by_sweep.get(text(record.get("sweep")))) is not None:
            grid.ended = True

    def to_list(self, *, over: bool = False) -> list[dict[str, Any]]:
        return [grid.to_dict(over=over) for grid in self.by_sweep.values()]
