"""A declared sweep as rows and searches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.manifest.work import Sweep
from scalable.sweeps.grid import Cell, Grid
from scalable_finetune.catalogue import FACTORS, FULL_FEATURES, GROUPS, TRIALS, baseline
from scalable_finetune.plugin import PLUGIN

NAMED_GROUPS = {name: list(assets) for name, assets in GROUPS.items()}


def grid(factor: str = "calibration", **options: Any) -> Grid:
    sweep = {"factor": factor, "assets": "defi_top5", "folds": 5, "costs_bps": [10, 20, 30], **options}
    return Grid.of(Sweep.model_validate(sweep), NAMED_GROUPS)


@pytest.mark.parametrize(
    ("factor", "rows", "searches"),
    [
        ("calibration", 225, 25),
        ("timeframe", 300, 100),
        ("fold_size", 300, 100),
        ("n_features", 300, 100),
        ("classification_mode", 225, 75),
        ("cusum_training_mode", 225, 75),
        ("btc_features", 150, 50),
        ("cleanlab", 225, 75),
        ("focal_loss", 225, 75),
        ("label_smoothing", 225, 75),
    ],
)
def test_every_factor_has_its_rows_and_searches(factor: str, rows: int, searches: int) -> None:
    sweep = grid(factor)

    assert len(sweep) == len(list(sweep)) == rows
    assert sweep.searches == searches
    assert sweep.rows_per_search == rows // searches


def test_the_five_factors_of_the_first_phases_are_1350_runs() -> None:
    first = ("calibration", "timeframe", "fold_size", "n_features", "classification_mode")

    assert sum(len(grid(factor)) for factor in first) == 1350


def test_one_search_of_calibration_serves_nine_rows() -> None:
    assert grid("calibration").rows_per_search == 9
    assert grid("n_features").rows_per_search == 3


def test_a_workload_of_ones_own_shares_no_search() -> None:
    own = grid("calibration", run="package.module:function")

    assert own.searches == len(own) == 225


def test_a_factor_of_ones_own_shares_no_search() -> None:
    own = grid("learning_rate", variants=[0.1, 0.2])

    assert own.searches == len(own) == 150


@given(st.integers(1, 4), st.integers(1, 17), st.integers(1, 12), st.integers(1, 6))
def test_rows_are_variants_times_assets_times_folds_times_costs(
    variants: int, assets: int, folds: int, costs: int
) -> None:
    sweep = grid(
        "n_features",
        variants=[80, 50, 120, "full"][:variants],
        assets=list(GROUPS["defi_full"][:assets]),
        folds=folds,
        costs_bps=list(range(costs)),
    )

    assert len(sweep) == len(set(sweep)) == variants * assets * folds * costs
    assert sweep.searches == variants * assets * folds


def test_rows_come_in_order_with_the_cost_changing_fastest() -> None:
    rows = list(grid("btc_features", folds=2, costs_bps=[10, 20]))

    assert rows[:3] == [
        Cell(("off",), ("AAVEUSDC", 0), (10.0,)),
        Cell(("off",), ("AAVEUSDC", 0), (20.0,)),
        Cell(("off",), ("AAVEUSDC", 1), (10.0,)),
    ]
    assert rows[-1] == Cell(("on",), ("OPUSDC", 1), (20.0,))


@pytest.mark.parametrize(("options", "trials"), [({"power": "standard"}, 15), ({}, 30), ({"trials": 7}, 7)])
def test_trials_follow_the_power_mode_unless_given(options: dict[str, Any], trials: int) -> None:
    assert grid(**options).trials == trials
    assert TRIALS == {"standard": 15, "deep": 30}


def test_three_factors_are_heavy_and_no_other() -> None:
    heavy = {name for name in FACTORS if PLUGIN.is_heavy({name: FACTORS[name].variants})}
    assert heavy == {"cusum_training_mode", "n_features", "btc_features"}
    assert not PLUGIN.is_heavy({"a factor of ones own": (1,)})


def test_the_catalogue_has_the_variants_of_the_sweeps() -> None:
    assert FACTORS["cusum_training_mode"].variants == ("events", "relaxed", "disabled")
    assert "full" in FACTORS["n_features"].variants and FULL_FEATURES == 272
    assert FACTORS["cleanlab"].variants[0] == "off" and len(FACTORS["cleanlab"].variants) == 3
    assert baseline("btc_features") == "off"
    assert baseline("a factor of ones own") is None


def test_groups_have_five_and_seventeen_assets() -> None:
    assert GROUPS["defi_top5"] == ("AAVEUSDC", "UNIUSDC", "LDOUSDC", "ARBUSDC", "OPUSDC")
    assert len(GROUPS["defi_full"]) == len(set(GROUPS["defi_full"])) == 17
    assert set(GROUPS["defi_top5"]) <= set(GROUPS["defi_full"])
