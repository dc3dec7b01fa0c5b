"""What a grid can find, before it is run, and when to stop measuring a variant."""

from __future__ import annotations

import numpy as np
import pytest

from scalable.axes import AxisKind
from scalable.verdicts.futility import chance_of_lock, futile
from scalable.verdicts.methods import choose
from scalable.verdicts.power import Spread, detectable, measured_spread, power_of
from scalable.verdicts.rule import ALPHA, quantile
from tests.helpers.verdicts.builders import an_axis, assets_and_periods, noise

KNOWN = Spread(2.0, 0.2, 0.2, measured=True)


def test_the_detectable_gain_scales_with_the_spread_and_shrinks_with_the_grid() -> None:
    small, large = (
        power_of(assets_and_periods(), 2, spread=KNOWN),
        power_of(assets_and_periods(17, 10), 2, spread=KNOWN),
    )
    assert small.detectable is not None
    assert large.detectable is not None
    assert small.detectable == pytest.approx(2 * 1.18, rel=0.03)  # 5 × 5, 0.2 shared by each: 1.18 deviations
    assert large.detectable == pytest.approx(2 * 0.57, rel=0.03)


def test_the_promise_is_kept_by_the_test_itself() -> None:
    method = choose(assets_and_periods(5, 10))
    gain = detectable(method, Spread(1.0, 0.0, 0.5), variants=3)
    chance = np.random.default_rng(99)
    tables = np.sqrt(0.5) * (chance.standard_normal((4000, 5, 10)) + chance.standard_normal((4000, 1, 10))) + gain
    estimate = method.estimate(tables)
    found = (estimate.mean > quantile(estimate.df, 1 - ALPHA / 3) * estimate.se).mean()
    assert found == pytest.approx(0.8, abs=0.03)


def test_a_grid_that_finds_the_smallest_difference_is_suggested() -> None:
    power = power_of(assets_and_periods(), 2, smallest=1.2, spread=KNOWN)
    assert power.suggestion is not None
    assert power.times is not None
    assert power.times > 1
    assets, periods = (int(part.split()[0]) for part in power.suggestion.split(" × "))
    assert detectable(choose(assets_and_periods(assets, periods)), KNOWN, 2) * 2.0 <= 1.2
    assert power_of(assets_and_periods(), 2, smallest=5.0, spread=KNOWN).suggestion is None  # found already
    assert power_of(assets_and_periods(), 2, smallest=1e-6, spread=KNOWN).suggestion is None  # by no grid


def test_without_a_measured_spread_power_is_told_in_deviations() -> None:
    power = power_of(assets_and_periods(), 2, smallest=0.3)
    assert (power.detectable, power.suggestion, power.measured) == (None, None, False)
    assert power.deviations == pytest.approx(1.18, rel=0.03)


@pytest.mark.parametrize("axes", [(), assets_and_periods(1, 1)])
def test_one_block_makes_a_verdict_impossible(axes: tuple) -> None:  # type: ignore[type-arg]
    assert not power_of(axes, 2, spread=KNOWN).possible


def test_a_sweep_of_the_baseline_alone_can_decide_nothing() -> None:
    assert not power_of(assets_and_periods(), 0).possible


def test_the_spread_of_measured_differences_is_split_by_what_they_share() -> None:
    chance = np.random.default_rng(5)
    own, asset, period = (chance.standard_normal((400, *shape)) for shape in ((8, 8), (8, 1), (1, 8)))
    spread = measured_spread(choose(assets_and_periods(8, 8)), 3 * (0.5 * own + 0.5 * asset + np.sqrt(0.5) * period))
    assert spread is not None
    assert spread.deviation == pytest.approx(3, rel=0.05)
    assert spread.by_sample == pytest.approx(0.25, abs=0.04)
    assert spread.by_period == pytest.approx(0.5, abs=0.06)


def test_the_spread_of_folds_counts_what_they_have_in_common() -> None:
    chance = np.random.default_rng(6)
    folds = (an_axis("fold", 5, AxisKind.FOLDS),)
    tables = np.sqrt(0.8) * chance.standard_normal((4000, 5)) + np.sqrt(0.2) * chance.standard_normal((4000, 1))
    spread = measured_spread(choose(folds), tables)
    assert spread is not None
    assert spread.deviation == pytest.approx(1, rel=0.03)


def test_tables_without_spread_or_values_give_none() -> None:
    method = choose(assets_and_periods())
    assert measured_spread(method, np.zeros((2, 5, 5))) is None
    assert measured_spread(method, np.full((2, 5, 5), np.nan)) is None


def test_a_variant_far_below_the_baseline_is_futile_after_two_periods_and_not_after_one() -> None:
    method = choose(assets_and_periods())
    gains = np.stack([-1 + noise((1, 5, 5))[0], 1 + noise((1, 5, 5), 2)[0]])
    gains[:, :, 2:] = np.nan  # not measured yet
    assert futile(method, gains, 1).tolist() == [False, False]
    assert futile(method, gains, 2).tolist() == [True, False]


def test_the_rest_is_granted_half_a_deviation() -> None:
    method = choose(assets_and_periods(17, 10))
    gains = noise((1, 17, 10))
    gains -= gains.mean(axis=1, keepdims=True)  # nothing gained so far
    chances = [float(chance_of_lock(method, gains, done)[0]) for done in range(1, 10)]
    assert chances[0] == 1
    assert chances[1] > 0.9
    assert chances[-1] < 0.01
    assert chances == sorted(chances, reverse=True)


def test_differences_that_are_all_alike_are_futile_by_their_sign() -> None:
    method = choose((an_axis("fold", 5, AxisKind.FOLDS),))
    alike = np.stack([np.full(5, 0.1), np.zeros(5), np.full(5, -0.1)])
    assert futile(method, alike, 3).tolist() == [False, True, True]
