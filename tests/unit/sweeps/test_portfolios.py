"""A stage over several assets gets a result of each, shared with everyone else who needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.manifest.load import load_text
from scalable.sweeps import units
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.units import Unit
from tests.helpers.sweeps.builders import CALLS


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    units.RECENT.clear()
    CALLS.clear()


def portfolios(assets: str) -> Compiled:
    text = f"""
version: 1
project: {{name: proof}}
groups: {{pair: [A, BB], all: [A, BB, CCC]}}
sweeps:
  mine:
    run: "tests.helpers.sweeps.builders:PORTFOLIO"
    factor: weight
    variants: [1.0, 2.0]
    assets: {assets}
    folds: 2
"""
    return compiled(load_text(text, "scalable.yaml", env={}).manifest, "mine", {})


def computed(made: Compiled, folder: Path) -> list[units.Computed]:
    return [one for place in made.units for one in Unit(made.workload.path, str(folder), place.cells)()]


def test_a_row_rests_on_every_asset_of_its_universe(tmp_path: Path) -> None:
    made = portfolios("[pair, all]")
    assert len(made.cells) == 8 and len(made.units) == 4
    found = {made.where[one.run_key]: one.metrics for one in computed(made, tmp_path)}
    by = {(cell.block[0], *cell.variant, cell.block[1]): metrics for cell, metrics in found.items()}
    assert by["pair", 1.0, 0] == {"score": 2 + 3.0, "of": 2.0}
    assert by["all", 2.0, 1] == {"score": 2 * (3 + 4 + 5.0), "of": 3.0}


def test_what_an_asset_gives_is_computed_once_for_all_universes(tmp_path: Path) -> None:
    computed(portfolios("[pair, all]"), tmp_path)
    assert sorted(CALLS) == sorted(
        [f"table {asset}" for asset in ("A", "BB", "CCC")] + ["fitted 1 0", "fitted 1 1"] * 3
    )


def test_another_universe_is_another_key_and_what_it_shares_is_not() -> None:
    pair, both = (portfolios(f"[{name}]") for name in ("pair", "all"))
    assert {cell.keys["summed"] for cell, _ in pair.cells}.isdisjoint(cell.keys["summed"] for cell, _ in both.cells)
    assert pair.artefact_keys() < both.artefact_keys()
