"""Gradients and curvatures of the losses, against differences of the losses themselves."""

from __future__ import annotations

import numpy as np
import pytest

from scalable_finetune.losses import Floats, focal, objective, smoothed, soft, softmax

STEP = 1e-5
TARGETS = {2: np.array([0, 1, 1, 0, 1]), 3: np.array([0, 1, 2, 2, 0])}
WEIGHT = np.array([1.0, 0.5, 2.0, 1.0, 0.3])


def margins(classes: int) -> Floats:
    shape = (5,) if classes == 2 else (5, 3)
    return np.random.default_rng(1).normal(size=shape)


def focal_losses(z: Floats, classes: int, gamma: float) -> Floats:
    every = softmax(np.column_stack((np.zeros(5), z)) if classes == 2 else z)
    p = every[np.arange(5), TARGETS[classes]]
    return np.asarray(-WEIGHT * (1 - p) ** gamma * np.log(p))


def slopes(loss: object, z: Floats) -> Floats:
    """By central differences, one margin at a time."""
    assert callable(loss)
    found = np.zeros_like(z)
    for at in np.ndindex(z.shape):
        more, less = z.copy(), z.copy()
        more[at] += STEP
        less[at] -= STEP
        found[at] = (loss(more).sum() - loss(less).sum()) / (2 * STEP)
    return found


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_the_gradient_of_focal_loss_is_the_slope_of_the_loss(classes: int, gamma: float) -> None:
    z = margins(classes)
    gradient, _ = focal(TARGETS[classes], WEIGHT, classes, gamma)(z, None)
    np.testing.assert_allclose(gradient, slopes(lambda z: focal_losses(z, classes, gamma), z), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_the_curvature_of_focal_loss_is_the_slope_of_its_gradient_where_that_is_positive(
    classes: int, gamma: float
) -> None:
    z = margins(classes)
    gradients = focal(TARGETS[classes], WEIGHT, classes, gamma)
    _, curvature = gradients(z, None)
    expected = np.zeros_like(z)
    for at in np.ndindex(z.shape):
        more, less = z.copy(), z.copy()
        more[at] += STEP
        less[at] -= STEP
        expected[at] = (gradients(more, None)[0][at] - gradients(less, None)[0][at]) / (2 * STEP)
    if classes == 3:
        expected *= 2  # as XGBoost's own softmax objective
    rising = expected > 1e-3
    assert rising.sum() > z.size / 2
    np.testing.assert_allclose(curvature[rising], expected[rising], rtol=1e-4)
    assert (curvature > 0).all()


def test_focal_loss_stays_finite_where_the_model_is_certain_and_wrong() -> None:
    for gamma in (0.5, 1.0, 2.0):
        for result in focal(np.array([0, 1]), np.ones(2), 2, gamma)(np.array([80.0, -80.0]), None):
            assert np.isfinite(result).all()


def test_focal_loss_counts_what_is_known_well_less_than_cross_entropy_does() -> None:
    known_well = np.array([3.0])
    gradient, _ = focal(np.array([1]), np.ones(1), 2, 2.0)(known_well, None)
    cross_entropy = 1 / (1 + np.exp(-3.0)) - 1
    assert abs(gradient[0]) < 0.1 * abs(cross_entropy)


def test_smoothed_labels_give_a_share_of_each_label_to_all_classes() -> None:
    np.testing.assert_allclose(smoothed(np.array([0, 2]), 3, 0.3), [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(smoothed(np.array([0, 1]), 2, 0.1), [[0.95, 0.05], [0.05, 0.95]])


def test_the_gradient_against_smoothed_labels_is_the_slope_of_the_cross_entropy() -> None:
    z, targets = margins(3), smoothed(TARGETS[3], 3, 0.1)

    def loss(z: Floats) -> Floats:
        return np.asarray(-WEIGHT[:, None] * targets * np.log(softmax(z)))

    np.testing.assert_allclose(soft(targets, WEIGHT)(z, None)[0], slopes(loss, z), rtol=1e-5, atol=1e-8)


def test_a_loss_of_our_own_is_used_only_where_xgboost_has_none() -> None:
    assert objective(TARGETS[2], WEIGHT, 2, gamma=0.0, smoothing=0.1) is None
    assert objective(TARGETS[3], WEIGHT, 3, gamma=0.0, smoothing=0.0) is None
    assert objective(TARGETS[3], WEIGHT, 3, gamma=0.0, smoothing=0.1) is not None
    assert objective(TARGETS[2], WEIGHT, 2, gamma=1.0, smoothing=0.0) is not None
