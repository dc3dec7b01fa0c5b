"""Calibration: what a model's probabilities have meant on the validation part decides what they mean on the test part.

``none`` takes the model at its word, ``sigmoid`` fits Platt's two numbers to its log odds, ``isotonic`` the best rising
steps. The steps' ends keep away from 0 and 1, since some hundred events do not prove certainty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalable.workloads import ScalableError, stage
from scalable_finetune.extras import needed
from scalable_finetune.search import Scored, Search
from scalable_finetune.training import Floats, Indices

FAR = 1e-6  # the model's own probabilities are kept this far from 0 and 1 before their log odds are taken
GENTLE = 1e-8  # slope of the likelihood at which the fit has settled


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The probability of BUY for each event of the test part."""

    probability: Floats
    event: Indices
    """The bar at whose end it is said."""
    break_even: float
    """The probability from which on a trade is expected to gain, before costs; the same for every calibration."""


@stage(reads=("calibration",), uses=("scikit-learn", "scipy", "numpy"), keep=False)
def calibrated(search: Search, *, calibration: str) -> Calibrated:
    if calibration == "none":
        probability = search.test.probability
    elif calibration == "sigmoid":
        probability = sigmoid(search.validation, search.test.probability)
    elif calibration == "isotonic":
        probability = isotonic(search.validation, search.test.probability)
    else:
        raise ScalableError(f"calibration {calibration!r} is not defined; choose one of none, sigmoid, isotonic")
    return Calibrated(probability, search.test.event, search.break_even)


def sigmoid(known: Scored, asked: Floats) -> Floats:
    """The log odds stretched and shifted to what is most likely, for targets drawn a little to the middle (Platt)."""
    if known.bought.all() or not known.bought.any():
        return asked
    x, weight = log_odds(known.probability), known.weight
    right, wrong = float(weight[known.bought].sum()), float(weight[~known.bought].sum())
    target = np.where(known.bought, (right + 1) / (right + 2), 1 / (wrong + 2))

    def loss(fit: Floats) -> tuple[float, Floats]:
        z = fit[0] * x + fit[1]
        away = weight * (logistic(z) - target)
        return float(weight @ (np.logaddexp(0, z) - target * z)), np.array([away @ x, away.sum()])

    start = np.array([1.0, 0.0])  # the model at its word
    slope, shift = needed("scipy.optimize").minimize(loss, start, jac=True, method="BFGS", options={"gtol": GENTLE}).x
    return logistic(slope * log_odds(asked) + shift)


def isotonic(known: Scored, asked: Floats) -> Floats:
    """The best rising steps, with lines between them."""
    regression = needed("sklearn.isotonic").IsotonicRegression
    least = 1 / (len(known.probability) + 2)  # what Laplace's rule leaves to what was never seen
    model = regression(y_min=least, y_max=1 - least, out_of_bounds="clip")
    model.fit(known.probability, known.bought.astype(np.float64), sample_weight=known.weight)
    return np.asarray(model.predict(asked), dtype=np.float64)


def log_odds(probability: Floats) -> Floats:
    p = np.clip(probability, FAR, 1 - FAR)
    return np.asarray(np.log(p / (1 - p)))


def logistic(z: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * z)))  # which cannot overflow
