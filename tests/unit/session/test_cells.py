"""A sweep's grid in the journal: told in short lines however many rows there are, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalable.manifest import load_text
from scalable.observe.journal import LONGEST_LINE, line_of
from scalable.observe.sweep_progress import positions, spans
from scalable.session.sweep.outcomes import Cells
from scalable.sweeps.compiling import Compiled, CompiledJob, compiled
from scalable.sweeps.loading import importable

CODE = "def score(depth, asset, fold, cost_bps):\n    return {'score': 1.0}\n"


def a_sweep(folder: Path, assets: int, folds: int, **more: Any) -> Compiled:
    (folder / "cells_of_a_sweep.py").write_text(CODE, encoding="utf-8")
    sweep = {"factor": "depth", "variants": [1, 2], "assets": [f"ASSET{n}" for n in range(assets)], "folds": folds,
             "costs_bps": [1, 2.5], "run": "cells_of_a_sweep:score", **more}  # fmt: skip
    text = {"version": 1, "project": {"name": "p"}, "targets": {"local": {"provider": "local"}}, "sweeps": {"s": sweep}}
    manifest = load_text(json.dumps(text), "scalable.yaml", env={}, providers=("local",)).manifest
    with importable(folder):
        return compiled(manifest, "s", {})


def enlarged(small: Compiled, assets: int, folds: int) -> Compiled:
    """The same sweep with more rows, whose stages nobody asks for."""
    asset, fold = small.grid.over
    more = (replace(asset, values=tuple(f"ASSET{n}" for n in range(assets))), replace(fold, values=tuple(range(folds))))
    grid = replace(small.grid, over=more)
    work = small.cells[0][0]
    return replace(
        small, grid=grid, cells=tuple((replace(work, run_key=f"{at}"), cell) for at, cell in enumerate(grid))
    )


def test_ten_thousand_rows_of_as_many_units_are_told_in_lines_that_are_not_cut(tmp_path: Path) -> None:
    made = enlarged(a_sweep(tmp_path, assets=1, folds=1), assets=125, folds=20)
    cells = Cells(made)
    there = [key for key, at in cells.at.items() if at % 2]  # the worst case: no two are beside each other
    started = line_of({"t": 0, "kind": "sweep-started", **cells.start(there, [])})
    units = {f"{cell.block} {cell}": CompiledJob("", "", (work,)) for work, cell in made.cells}
    portions = list(cells.of_jobs(units))
    lines = [line_of({"t": 0, "kind": "sweep-units", "sweep": "s", "unit_cells": one}) for one in portions]
    assert all(len(line) < LONGEST_LINE for line in (started, *lines))
    told = json.loads(started)
    assert list(positions(told["cells_there"], 10_000)) == list(range(1, 10_000, 2)) and "cells" not in told
    assert told["axes"]["cost_bps"] == ["1", "2.5"] and len(told["axes"]["asset"]) == 125
    found = [at for line in lines for text in json.loads(line)["unit_cells"].values() for at in positions(text, 10**6)]
    assert sorted(found) == list(range(10_000))


@pytest.mark.parametrize(("bound", "value"), [("MOST_CELLS", 23), ("LONGEST_AXES", 20)])
def test_a_grid_that_nobody_could_look_at_is_not_told(
    bound: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"scalable.session.sweep.outcomes.{bound}", value)
    made = a_sweep(tmp_path, assets=3, folds=2)
    cells = Cells(made)
    assert cells.start([], []) == {} == cells.rows([made.cells[0][0].run_key], [])
    assert list(cells.of_jobs({place.name: place for place in made.units[:3]})) == []


@pytest.mark.parametrize(
    ("found", "text"), [([], ""), ([3], "3"), ([3, 1, 2, 2], "1-3"), ([0, 1, 5, 7, 8], "0-1,5,7-8")]
)
def test_positions_are_told_as_ranges_and_read_back(found: list[int], text: str) -> None:
    assert spans(found) == text and list(positions(text, 100)) == sorted(set(found))
