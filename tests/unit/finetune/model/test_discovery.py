"""Families of models, screened on the stages of the trading workload."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from scalable_finetune import discovery
from scalable_finetune.calibration import calibrated
from scalable_finetune.discovery import CANDIDATES, WORKLOAD, search
from scalable_finetune.settings import MODELS, SettingError
from scalable_finetune.training import Training
from tests.helpers.finetune.model.builders import a_training
from tests.helpers.finetune.model.edges import edge


@pytest.fixture(autouse=True)
def small_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few trees find what is there, too."""
    monkeypatch.setattr(discovery, "TREES", 30)


def with_gaps(training: Training) -> Training:
    """Features as they are at the beginning of the data: one of them unknown, another only sometimes."""

    def gaps(features: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> object:
        changed = features.copy()
        changed[:, 4] = np.nan
        changed[::3, 5] = np.nan
        return changed

    parts = {name: getattr(training, name) for name in ("train", "validation", "test")}
    return replace(training, **{name: replace(part, features=gaps(part.features)) for name, part in parts.items()})


def test_every_family_that_may_be_set_can_be_screened() -> None:
    assert tuple(CANDIDATES) == MODELS


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_every_family_finds_what_is_there_and_is_the_same_each_time(model: str, classes: int) -> None:
    training = with_gaps(a_training(events=250, classes=classes, signal=1.0))
    found, again = (search(training, model=model, seed=1) for _ in range(2))
    assert edge(found) > 0.1
    np.testing.assert_array_equal(found.test.probability, again.test.probability)
    assert found.score == min(trial.score for trial in found.trials) < np.log(classes)
    assert len(found.trials) == len(CANDIDATES[model])


def test_the_kept_model_is_the_one_that_gave_the_probabilities() -> None:
    training = a_training()
    found = search(training, model="logistic", seed=0)
    model = pickle.loads(found.model)
    np.testing.assert_array_equal(model.predict_proba(training.test.features)[:, 1], found.test.probability)


def test_a_class_that_the_training_part_lacks_has_no_probability() -> None:
    training = a_training(classes=3)
    two = replace(training, train=training.train.only(training.train.target < 2))
    for model in ("logistic", "random_forest"):
        assert (search(two, model=model, seed=0).test.probability == 0).all()


def test_a_screened_model_is_calibrated_like_a_searched_one() -> None:
    found = search(a_training(), model="extra_trees", seed=0)
    for calibration in ("none", "sigmoid", "isotonic"):
        probability = calibrated(found, calibration=calibration).probability
        assert ((probability >= 0) & (probability <= 1)).all()


def test_the_workload_is_the_trading_one_with_the_search_replaced() -> None:
    assert WORKLOAD.by_name["search"] is search
    assert "model" in WORKLOAD.reads
    assert "trials" not in WORKLOAD.reads


def test_an_unknown_family_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingError, match="'perceptron' is not known; choose one of xgboost, logistic"):
        search(a_training(), model="perceptron", seed=0)
