"""Calibrations beside scikit-learn's, and what they do to odd scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

from scalable.errors import ScalableError
from scalable_finetune.calibration import calibrated, isotonic, log_odds, sigmoid
from scalable_finetune.search import Scored
from tests.helpers.finetune.model.builders import a_training, searched, some_scores

ASKED = np.linspace(0.001, 0.999, 50)


def test_sigmoid_is_platts_fit_to_the_log_odds() -> None:
    known = some_scores()
    reference = _SigmoidCalibration().fit(log_odds(known.probability), known.bought.astype(float), known.weight)
    np.testing.assert_allclose(sigmoid(known, ASKED), reference.predict(log_odds(ASKED)), atol=1e-5)


def test_isotonic_is_scikit_learns_but_never_certain() -> None:
    known = some_scores()
    reference = IsotonicRegression(out_of_bounds="clip").fit(known.probability, known.bought, known.weight)
    ours, theirs = isotonic(known, ASKED), reference.predict(ASKED)
    inner = (theirs > 0.25) & (theirs < 0.9)  # the ends lead to other last steps
    assert inner.sum() > 25
    np.testing.assert_allclose(ours[inner], theirs[inner], atol=1e-12)
    assert 0 < ours.min() <= ours.max() < 1


def test_both_bring_an_overconfident_model_nearer_to_what_happens() -> None:
    known, later = some_scores(2000, seed=1), some_scores(2000, seed=2)

    def brier(probability: object) -> float:
        return float(np.mean((np.asarray(probability) - later.bought) ** 2))

    for calibration in (sigmoid, isotonic):
        assert brier(calibration(known, later.probability)) < brier(later.probability) - 0.01


@pytest.mark.parametrize("bought", [False, True])
def test_scores_of_one_class_alone_are_no_trouble(bought: bool) -> None:
    known = Scored(np.linspace(0.4, 0.6, 20), np.full(20, bought), np.ones(20), np.arange(20))
    np.testing.assert_array_equal(sigmoid(known, ASKED), ASKED)
    found = isotonic(known, ASKED)
    assert ((found > 0) & (found < 1)).all()


def test_scores_that_are_all_the_same_give_probabilities() -> None:
    known = Scored(np.full(20, 0.5), np.arange(20) % 4 == 0, np.ones(20), np.arange(20))
    for calibration in (sigmoid, isotonic):
        assert calibration(known, np.array([0.5]))[0] == pytest.approx(0.25, abs=0.03)


def test_the_stage_does_what_its_setting_says_and_leaves_break_even_alone() -> None:
    search = searched(a_training())
    found = {name: calibrated(search, calibration=name) for name in ("none", "sigmoid", "isotonic")}
    np.testing.assert_array_equal(found["none"].probability, search.test.probability)
    assert len({each.probability.tobytes() for each in found.values()}) == 3
    assert {each.break_even for each in found.values()} == {search.break_even}


def test_an_unknown_calibration_is_refused_with_those_there_are() -> None:
    with pytest.raises(ScalableError, match="'beta' is not defined; choose one of none, sigmoid, isotonic"):
        calibrated(searched(a_training(), trials=1), calibration="beta")
