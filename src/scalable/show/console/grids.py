"""The grid of each sweep as letters, one for a row: what the heat map shows. A record changes only the rows it is of.

``.`` waits, ``r`` runs, ``d`` was computed, ``t`` was there before, ``f`` failed, ``m`` is missing now that the sweep
is over, ``-`` is no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from scalable.observe.cells import AXES, positions
from scalable.observe.fields import mapping, text
from scalable.observe.summary import FINISHED

WAITS, RUNS, COMPUTED, THERE, FAILED, MISSING, NO_PART = (ord(letter) for letter in ".rdtfm-")
MOST_CELLS = 100_000  # a journal that tells of more is not one of ours
UNTOLD = "its journal does not tell the grid: the sweep is too large to be drawn, or was run by an earlier version"
KINDS = frozenset(
    {"sweep-started", "sweep-units", "attempt-started", "attempt-ended", "run-ended", "rows", "sweep-ended"}
)


class Grid:
    def __init__(self, record: Mapping[str, Any]) -> None:
        self.sweep, self.factor = text(record.get("sweep")), text(record.get("factor"))
        given = mapping(record.get("axes"))
        axes = {name: labels(given.get(name)) for name in AXES}
        size = prod(len(axis) for axis in axes.values())
        self.axes = axes if 0 < size <= MOST_CELLS else None
        meant = text(record.get("cells"))
        self.cells = bytearray([NO_PART if meant else WAITS]) * (size if self.axes else 0)
        self.changed: dict[int, None] = {}
        for spans, letter in ((meant, WAITS), (text(record.get("cells_there")), THERE)):
            self.put(spans, letter)
        self.put(text(record.get("failed_cells")), FAILED)
        self.changed.clear()

    def put(self, spans: str, letter: int, only: Iterable[int] | None = None) -> None:
        for position in positions(spans, len(self.cells)):
            if self.cells[position] != letter and (only is None or self.cells[position] in only):
                self.cells[position] = letter
                self.changed[position] = None

    def end(self) -> None:
        """What was not computed will not be any more."""
        for position, letter in enumerate(self.cells):
            if letter in (WAITS, RUNS):
                self.cells[position] = MISSING
                self.changed[position] = None

    def to_dict(self) -> dict[str, Any]:
        told = {"sweep": self.sweep, "factor": self.factor, "axes": self.axes, "cells": self.cells.decode("ascii")}
        return told if self.axes else {**told, "why": UNTOLD}


class Grids:
    """The grids of a run's sweeps. A sweep that is run twice in a session has the latest one's."""

    def __init__(self) -> None:
        self.grids: dict[str, Grid] = {}
        self.units: dict[str, tuple[str, str]] = {}
        """Sweep and rows of units that have not ended, by run."""
        self.reshaped = False
        """Whether one came since ``changes`` was asked last."""

    def add(self, record: Mapping[str, Any]) -> None:
        kind, sweep, run = record["kind"], text(record.get("sweep")), text(record.get("run"))
        if kind not in KINDS:
            return
        if kind == "sweep-started":
            self.grids[sweep] = Grid(record)
            self.reshaped = True
        elif kind == "sweep-units":
            told = mapping(record.get("unit_cells"))
            self.units |= {name: (sweep, text(spans)) for name, spans in told.items()}
        elif kind == "rows" and (grid := self.grids.get(sweep)):
            self.units.pop(run, None)
            grid.put(text(record.get("cells")), COMPUTED)
            grid.put(text(record.get("failed_cells")), FAILED)
        elif kind == "sweep-ended" and (grid := self.grids.get(sweep)):
            grid.end()
        elif run in self.units and FINISHED not in (record.get("outcome"), record.get("state")):
            sweep, spans = self.units[run]
            if (grid := self.grids.get(sweep)) is not None:
                begins = kind == "attempt-started"
                grid.put(spans, RUNS if begins else WAITS, only=None if begins else (RUNS,))

    def end(self) -> None:
        """The run is over, with or without having said so."""
        for grid in self.grids.values():
            grid.end()
        self.units.clear()

    def to_list(self) -> list[dict[str, Any]]:
        return [grid.to_dict() for grid in self.grids.values()]

    def changes(self) -> tuple[bool, list[dict[str, Any]]]:
        """Since the last call: whether a grid came, and which cells of those that were there changed."""
        reshaped, self.reshaped = self.reshaped, False
        told = []
        for grid in self.grids.values():
            if grid.changed:
                letters = [[position, chr(grid.cells[position])] for position in grid.changed]
                told.append({"sweep": grid.sweep, "changed": letters})
                grid.changed = {}
        return reshaped, told


def labels(value: object) -> list[str]:
    return [text(label) for label in value] if isinstance(value, list) else []
