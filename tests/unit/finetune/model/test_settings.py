"""What a configuration may say, and what is refused before anything starts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from scalable.errors import ScalableError
from scalable_finetune.catalogue import FACTORS
from scalable_finetune.settings import DEFAULTS, OF_OTHERS, SettingError, check
from scalable_finetune.workload import WORKLOAD


def test_the_baselines_of_all_factors_are_the_defaults_and_are_accepted() -> None:
    assert {name: DEFAULTS[name] for name in FACTORS} == {name: each.variants[0] for name, each in FACTORS.items()}
    check({**DEFAULTS, "asset": "AAVEUSDC"})


def test_there_is_a_default_for_everything_a_stage_reads_and_for_nothing_else() -> None:
    assert WORKLOAD.reads == set(DEFAULTS) - OF_OTHERS | {"asset"}


@pytest.mark.parametrize(
    ("factor", "variant"), [(name, variant) for name, each in FACTORS.items() for variant in each.variants]
)
def test_every_variant_of_the_catalogue_is_accepted_on_top_of_the_defaults(factor: str, variant: object) -> None:
    check({**DEFAULTS, factor: variant})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"calibration": "beta"}, "calibration: 'beta' is not known; choose one of none, sigmoid, isotonic"),
        ({"cleanlab": True}, "cleanlab: true is not known; choose one of off, prune, weight"),
        ({"classification_mode": "Binary"}, "classification_mode: 'Binary' is not known"),
        ({"cusum_training_mode": True}, "cusum_training_mode: true is not known; choose one of events, relaxed"),
        ({"btc_features": "yes"}, "btc_features: 'yes' is not known; choose one of off, on"),
        ({"market_seed": -1}, "market_seed: -1 is not a whole number of 0 or more"),
        ({"folds": 0}, "folds: 0 is not a whole number of 1 or more"),
        ({"model": "lightgbm"}, "model: 'lightgbm' is not known; choose one of xgboost, logistic"),
        ({"n_features": 300}, "n_features: 300 is not a whole number of 1 … 272; write 272 or full"),
        ({"n_features": "all"}, "n_features: 'all' is not a whole number"),
        ({"trials": 0}, "trials: 0 is not a whole number of 1 or more"),
        ({"trials": 2.5}, "trials: 2.5 is not a whole number"),
        ({"cost_bps": -1.0}, "cost_bps: -1.0 is not a number from 0"),
        ({"cost_bps": float("nan")}, "cost_bps: nan is not a number"),
        ({"label_smoothing": 0.9}, "label_smoothing: 0.9 is not a number from 0 to under 0.5; write 0.05"),
        ({"focal_loss": -1.0}, "focal_loss: -1.0 is not a number from 0 to under 5; write off or 2.0"),
        ({"focal_loss": 0.0}, "focal_loss: 0 is plain cross entropy under another name; write off"),
        ({"focal_loss": 2.0, "label_smoothing": 0.1}, "write focal_loss: off or label_smoothing: 0.0"),
        ({"classification_mode": "meta", "cusum_training_mode": "disabled"}, "write cusum_training_mode: events"),
        ({"fold": 5}, "fold: 5 is not one of 5 folds; they count from 0"),
        ({"callibration": "none"}, "setting 'callibration' is not defined"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_write(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError) as error:
        check({**DEFAULTS, **changed})
    assert said in str(error.value)


def test_what_the_data_stages_cannot_do_is_refused_here_too() -> None:
    with pytest.raises(ScalableError, match="timeframe"):
        check({**DEFAULTS, "timeframe": "7m"})


def test_a_branch_that_is_off_disturbs_no_other_factor() -> None:
    off = {"cleanlab": "off", "focal_loss": "off", "label_smoothing": 0.0, "btc_features": "off"}
    modes = product(FACTORS["classification_mode"].variants, FACTORS["calibration"].variants)
    for mode, calibration in modes:
        check({**DEFAULTS, **off, "classification_mode": mode, "calibration": calibration})
