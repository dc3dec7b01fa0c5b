"""Training sets: which columns and events they hold, how events weigh, and where a trade breaks even."""

from __future__ import annotations

import numpy as np
import pytest

from scalable_finetune.features import Features
from scalable_finetune.folds import Split
from scalable_finetune.training import break_even, training, uniqueness
from tests.helpers.finetune.model.builders import some_bars, some_labels

OWN, ADDED = 272, 48


def features(columns: int) -> Features:
    """Each value says its bar and its column."""
    values = np.arange(20)[:, None] * 1000.0 + np.arange(columns)
    return Features(tuple(f"column_{at}" for at in range(columns)), np.asfortranarray(values, dtype=np.float32))


def labels_and_split() -> tuple[object, Split]:
    bars = some_bars([100.0 + at for at in range(20)])
    labels = some_labels(bars, [(0, 2), (2, 4), (6, 8), (10, 12), (14, 16)], [True, False, True, False, True])
    return labels, Split(np.array([0, 1]), np.array([2]), np.array([3, 4]), 0, 0, 0, 0)


@pytest.mark.parametrize(("n_features", "expected"), [(50, 50), (80, 80), ("full", OWN)])
def test_the_first_columns_are_taken(n_features: int | str, expected: int) -> None:
    found = training(features(OWN), *labels_and_split(), n_features=n_features)  # type: ignore[arg-type]
    assert found.train.features.shape == (2, expected)
    assert found.names == tuple(f"column_{at}" for at in range(expected))


def test_what_a_second_asset_adds_comes_on_top_whatever_n_features_is() -> None:
    found = training(features(OWN + ADDED), *labels_and_split(), n_features=50)  # type: ignore[arg-type]
    assert found.names[:50] == tuple(f"column_{at}" for at in range(50))
    assert found.names[50:] == tuple(f"column_{at}" for at in range(OWN, OWN + ADDED))
    np.testing.assert_array_equal(found.test.features[:, 50], [10_272.0, 14_272.0])


def test_an_event_has_the_features_of_its_own_bar_and_its_own_label() -> None:
    found = training(features(OWN), *labels_and_split(), n_features=50)  # type: ignore[arg-type]
    for part, events, targets in (
        (found.train, [0, 2], [1, 0]),
        (found.validation, [6], [1]),
        (found.test, [10, 14], [0, 1]),
    ):
        np.testing.assert_array_equal(part.features[:, 0], 1000.0 * np.array(events))
        assert part.target.tolist() == targets
        assert part.begin.tolist() == events
        assert part.features.dtype == np.float32


def test_labels_that_share_their_time_weigh_less_than_one_alone() -> None:
    weight = uniqueness(np.array([0, 0, 10]), np.array([4, 4, 14]))
    np.testing.assert_allclose(weight, [0.75, 0.75, 1.5])
    overlapping = uniqueness(np.array([0, 2]), np.array([3, 5]))  # half of each is its own
    np.testing.assert_allclose(overlapping, [1.0, 1.0])
    assert len(uniqueness(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))) == 0


def test_a_trade_breaks_even_where_gain_and_loss_outweigh_each_other() -> None:
    bought, gross = np.array([True, True, False, False]), np.array([0.03, 0.01, -0.01, 0.0])
    p = break_even(bought, gross)
    assert p * 0.02 + (1 - p) * -0.005 == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("bought", "gross"),
    [
        ([True, True], [0.01, 0.02]),
        ([False, False], [-0.01, -0.02]),
        ([True, False], [0.01, 0.02]),
        ([True, False], [-0.01, -0.02]),
    ],
)
def test_labels_that_do_not_tell_give_one_half(bought: list[bool], gross: list[float]) -> None:
    assert break_even(np.array(bought), np.array(gross)) == 0.5
