"""Running sums, extremes and averages against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from scalable_finetune.kernels import decayed_mean, decayed_sum, rolling_max, rolling_mean, rolling_min, rolling_sum

VALUES = np.random.default_rng(5).standard_normal(301)


@pytest.mark.parametrize("window", [1, 2, 7, 300, 301])
def test_rolling_values_are_those_of_the_last_rows(window: int) -> None:
    rows = range(window - 1, len(VALUES))
    last = [VALUES[row - window + 1 : row + 1] for row in rows]
    assert rolling_sum(VALUES, window)[window - 1 :] == pytest.approx([each.sum() for each in last])
    assert rolling_mean(VALUES, window)[window - 1 :] == pytest.approx([each.mean() for each in last])
    assert rolling_max(VALUES, window)[window - 1 :].tolist() == [each.max() for each in last]
    assert rolling_min(VALUES, window)[window - 1 :].tolist() == [each.min() for each in last]


def test_a_window_longer_than_the_series_sees_all_there_is() -> None:
    assert rolling_max(VALUES, 1000).tolist() == np.maximum.accumulate(VALUES).tolist()
    assert rolling_sum(VALUES, 1000).tolist() == np.cumsum(VALUES).tolist()


@pytest.mark.parametrize("halving", [0.5, 1.0, 3.3, 40.0, 1000.0])
def test_decayed_values_follow_their_recursion(halving: float) -> None:
    kept = 0.5 ** (1 / halving)
    total, mean = 0.0, VALUES[0]
    totals, means = [], []
    for value in VALUES:
        total = value + kept * total
        mean = kept * mean + (1 - kept) * value
        totals.append(total)
        means.append(mean)
    assert decayed_sum(VALUES, halving) == pytest.approx(totals, abs=1e-9)
    assert decayed_mean(VALUES, halving) == pytest.approx(means, abs=1e-9)


@pytest.mark.parametrize("end", [1, 50, 177])
def test_what_comes_later_does_not_change_a_bit_of_what_was(end: int) -> None:
    for kernel in (rolling_sum, rolling_max, rolling_min, decayed_sum, decayed_mean):
        assert kernel(VALUES[:end], 12).tolist() == kernel(VALUES, 12)[:end].tolist()
