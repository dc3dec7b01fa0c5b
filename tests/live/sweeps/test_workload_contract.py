"""The contract of workloads: two that keep it, and what it says of those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from scalable.plugins import WorkloadPlugin
from scalable.sweeps.compiling import Compiled
from scalable.testing import WorkloadContract
from scalable.testing.workload import a_sweep
from scalable.workloads import Factor, Workload, stage
from scalable_finetune.plugin import PLUGIN as TRADING
from tests.helpers.sweeps.waves import PLUGIN as WAVES

CALLS = count()
SMALL = {"compare": {"window": [0, 2]}, "over": {"seed": 2}}


class TestWaves(WorkloadContract):
    @pytest.fixture
    def plugin(self) -> WorkloadPlugin:
        return WAVES

    @pytest.fixture
    def sweep(self) -> Mapping[str, Any]:
        return {"workload": "waves", **SMALL}

    @pytest.fixture
    def changed(self) -> Mapping[str, Any]:
        return {"noise": 0.2}

    @pytest.fixture
    def short(self) -> Mapping[str, Any]:
        return {"smoothing": [1, 3], "seeds": 3}


class TestTrading(WorkloadContract):
    @pytest.fixture
    def plugin(self) -> WorkloadPlugin:
        return TRADING

    @pytest.fixture
    def sweep(self) -> Mapping[str, Any]:
        return {
            "factor": "calibration", "variants": ["none", "isotonic"], "assets": ["AAVEUSDC"], "folds": 1, "trials": 1,
            "settings": {"years": 1.2, "fold_size": "60d", "n_features": 20},
        }  # fmt: skip

    @pytest.fixture
    def changed(self) -> Mapping[str, Any]:
        return {"horizon": "6h"}

    @pytest.fixture
    def short(self) -> Mapping[str, Any]:
        return {"factor": "timeframe", "assets": "defi_top5", "folds": 2}


@stage(reads=("window",), keep=False)
def restless(*, window: int) -> dict[str, float]:
    return {"mae": float(next(CALLS)), "worst": float("nan")}


@stage(reads=("seed",))
def table(*, seed: int) -> list[int]:
    return [seed]


@stage(reads=("window",), keep=False)
def greedy(table: list[int], *, window: int) -> dict[str, float]:
    table.append(window)
    return {"mae": float(len(table)), "worst": 0.0}


@stage(reads=("seed",), keep=False)
def deaf(*, seed: int) -> dict[str, float]:
    return {"mae": float(seed), "worst": 0.0}


RESTLESS, GREEDY, DEAF = Workload((restless,)), Workload((table, greedy)), Workload((deaf,))
WELL, CONTRACT = {"window": Factor("window", (0, 2))}, WorkloadContract()


def made(run: str, **axes: Any) -> Compiled:
    return a_sweep({"run": f"{__name__}:{run}", "compare": {"window": [0, 2]}, **axes})


def test_a_stage_that_gives_something_else_each_time_is_found() -> None:
    with pytest.raises(AssertionError, match="stage restless gives something else"):
        CONTRACT.test_stages_are_functions_of_what_they_read(made("RESTLESS"))


def test_a_stage_that_changes_its_inputs_is_found() -> None:
    with pytest.raises(AssertionError, match="stage greedy changes its inputs"):
        CONTRACT.test_stages_are_functions_of_what_they_read(made("GREEDY", over={"seed": 1}))


def test_a_metric_that_is_not_finite_or_not_there_is_found() -> None:
    with pytest.raises(AssertionError, match="worst is nan"):
        CONTRACT.test_rows_have_all_metrics_and_all_are_finite(WAVES, made("RESTLESS"))
    more = replace(WAVES, metrics=TRADING.metrics)
    with pytest.raises(AssertionError, match="the row has no sharpe"):
        CONTRACT.test_rows_have_all_metrics_and_all_are_finite(more, made("GREEDY", over={"seed": 1}))


def test_a_factor_that_no_stage_reads_is_found() -> None:
    with pytest.raises(AssertionError, match="no stage reads the factor window"):
        CONTRACT.test_its_factors_have_variants_and_stages_that_read_them(replace(WAVES, factors=WELL), DEAF)


def test_a_setting_that_does_not_change_the_key_is_found() -> None:
    with pytest.raises(AssertionError, match="would be taken for rows without"):
        CONTRACT.test_a_changed_setting_changes_the_key(made("RESTLESS"), {"unread": 1})


def test_a_declaration_that_contradicts_itself_is_found() -> None:
    for wrong in (replace(WAVES, primary="speed"), replace(WAVES, guards={"speed": 0.1}), replace(WAVES, metrics=())):
        with pytest.raises(AssertionError):
            CONTRACT.test_its_metrics_are_declared_once_and_the_primary_is_one_of_them(wrong)
