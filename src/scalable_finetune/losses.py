"""Training losses beyond XGBoost's own: focal loss, and cross entropy against smoothed labels, for 2 and 3 classes.

Each is an objective in XGBoost's sense: from the margins of all events to gradient and curvature of the loss. With two
classes there is one margin per event (of BUY), with three there are three. Curvatures are kept positive, which Newton
steps need and focal loss does not give by itself where a label is very improbable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Objective = Callable[[Floats, Any], tuple[Floats, Floats]]

LEAST_CURVATURE = 1e-6  # what XGBoost itself uses; a step is never divided by less
SOFTMAX_CURVATURE = 2.0  # XGBoost's own softmax objective doubles it, and other losses must take steps of its size
NEVER_CERTAIN = 1e-7  # probabilities are kept this far from 0 and 1, where the logarithm ends


def objective(target: NDArray[np.integer[Any]], weight: Floats, classes: int, gamma: float, smoothing: float) -> Any:
    """The objective for these labels, or nothing where XGBoost's own does: two classes take soft labels as they are."""
    if gamma > 0:
        return focal(target, weight, classes, gamma)
    if smoothing > 0 and classes > 2:
        return soft(smoothed(target, classes, smoothing), weight)
    return None


def smoothed(target: NDArray[np.integer[Any]], classes: int, smoothing: float) -> Floats:
    """Labels of which a share is spread evenly over all classes; one column per class."""
    return np.asarray(np.eye(classes)[target] * (1 - smoothing) + smoothing / classes)


def soft(targets: Floats, weight: Floats) -> Objective:
    """Cross entropy against labels that are shares of classes."""

    def gradients(margins: Floats, _: Any) -> tuple[Floats, Floats]:
        p = softmax(margins.reshape(targets.shape))
        curvature = np.maximum(SOFTMAX_CURVATURE * p * (1 - p), LEAST_CURVATURE)
        return (p - targets) * weight[:, None], curvature * weight[:, None]

    return gradients


def focal(target: NDArray[np.integer[Any]], weight: Floats, classes: int, gamma: float) -> Objective:
    """−(1 − p)^γ log p of the right class's probability: what is already known well counts little."""
    chosen = np.eye(classes)[target]

    def of_two(margins: Floats, _: Any) -> tuple[Floats, Floats]:
        sign = 2.0 * target - 1.0
        p = certain_at_most(1 / (1 + np.exp(-sign * margins.reshape(-1).astype(np.float64))))
        slope, bend = focal_terms(p, gamma)
        curvature = bend * p * (1 - p) ** 2 - slope * p * (1 - p)
        return sign * slope * (1 - p) * weight, np.maximum(curvature, LEAST_CURVATURE) * weight

    def of_many(margins: Floats, _: Any) -> tuple[Floats, Floats]:
        every = softmax(margins.reshape(chosen.shape))
        p = certain_at_most((every * chosen).sum(axis=1))[:, None]
        slope, bend = focal_terms(p, gamma)
        away = chosen - every
        curvature = SOFTMAX_CURVATURE * (bend * p * away**2 - slope * every * (1 - every))
        return slope * away * weight[:, None], np.maximum(curvature, LEAST_CURVATURE) * weight[:, None]

    return of_two if classes == 2 else of_many


def focal_terms(p: Floats, gamma: float) -> tuple[Floats, Floats]:
    """With L the loss: p · dL/dp, and the derivative of that by p."""
    q, logarithm = 1 - p, np.log(p)
    slope = gamma * p * q ** (gamma - 1) * logarithm - q**gamma
    bend = gamma * q ** (gamma - 1) * (logarithm + 2) - gamma * (gamma - 1) * p * q ** (gamma - 2) * logarithm
    return slope, bend


def softmax(margins: Floats) -> Floats:
    raised = np.exp(margins.astype(np.float64) - margins.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def certain_at_most(p: Floats) -> Floats:
    return np.clip(p, NEVER_CERTAIN, 1 - NEVER_CERTAIN)
