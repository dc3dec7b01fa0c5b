"""The shipped workloads as sweeps: every factor compiles to the units the planner counts, every variant gives a row."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from scalable.axes import Value
from scalable.manifest.load import load_text
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.units import Unit
from scalable_finetune.catalogue import FACTORS
from scalable_finetune.settings import MODELS

YEARS = 2.0  # with fewer, bars of four hours give no trade
VARIANTS = [(name, variant) for name, factor in FACTORS.items() for variant in factor.variants]


def a_sweep(words: str, base: dict[str, Value] | None = None) -> Compiled:
    text = f"version: 1\nproject: {{name: proof}}\nsweeps:\n  mine: {{{words}}}\n"
    return compiled(load_text(text, "scalable.yaml", env={}).manifest, "mine", base or {})


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What variants share is computed once for all tests of this file."""
    return tmp_path_factory.mktemp("artefacts")


@pytest.mark.parametrize("factor", FACTORS)
def test_the_planner_counts_the_units_that_are_run(factor: str) -> None:
    made = a_sweep(f"factor: {factor}, assets: defi_top5, folds: 5")
    assert len(made.cells) == len(made.grid)
    assert len(made.units) == made.grid.searches
    assert {place.group for place in made.units} == set(made.grid.groups)


@pytest.mark.parametrize(("factor", "variant"), VARIANTS)
def test_every_variant_gives_a_row(factor: str, variant: Value, kept: Path) -> None:
    made = a_sweep(
        f"factor: {factor}, variants: [{variant!r}], assets: [UNIUSDC], folds: 1, costs_bps: [10], trials: 1, "
        f"settings: {{years: {YEARS}}}"
    )
    [place] = made.units
    [row] = Unit(made.workload.path, str(kept), place.cells)()
    assert not row.error
    assert row.metrics["trades"] > 0 and all(math.isfinite(value) for value in row.metrics.values())


def test_a_locked_variant_is_the_base_of_the_next_factor() -> None:
    sweep = "factor: timeframe, assets: [UNIUSDC], folds: 1"
    plain, locked = a_sweep(sweep), a_sweep(sweep, {"calibration": "isotonic"})
    assert plain.baseline == "1h"
    assert {cell.configuration["calibration"] for cell, _ in locked.cells} == {"isotonic"}
    before, after = (made.cells[0][0].keys for made in (plain, locked))
    assert before["search"] == after["search"] and before["calibrated"] != after["calibrated"]
    assert a_sweep(sweep, {"timeframe": "4h"}).baseline == "4h"


@pytest.mark.parametrize("model", MODELS)
def test_discovery_screens_families_of_models(model: str, kept: Path) -> None:
    made = a_sweep(
        f"factor: model, variants: [{model}], assets: [UNIUSDC], folds: 1, costs_bps: [10], "
        f"settings: {{years: {YEARS}}}, run: 'scalable_finetune.discovery:WORKLOAD'"
    )
    [row] = Unit(made.workload.path, str(kept), made.units[0].cells)()
    assert not row.error and row.metrics["trades"] > 0


def test_a_portfolio_is_made_of_models_that_are_kept(kept: Path) -> None:
    words = "factor: rebalance, variants: [1d, 7d], assets: [defi_top5], folds: 1, costs_bps: [10, 20], trials: 1"
    made = a_sweep(f"{words}, settings: {{years: {YEARS}}}, run: 'scalable_finetune.portfolio:WORKLOAD'")
    [place] = made.units
    first = Unit(made.workload.path, str(kept), place.cells)()
    assert [row.error for row in first] == [""] * 4
    assert first[0].metrics["turnover"] > first[2].metrics["turnover"], "rebalancing daily moves more than weekly"
    assert first[0].metrics["total_return"] > first[1].metrics["total_return"], "the same trades at a higher cost"
