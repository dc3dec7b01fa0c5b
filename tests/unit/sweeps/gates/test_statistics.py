"""The paired statistics, beside scipy, beside numbers worked out by hand, and where there is nothing to compare."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest

from scalable.sweeps import statistics
from scalable.sweeps.statistics import (
    LARGEST_EFFECT,
    benjamini_hochberg,
    cluster_bootstrap,
    compare,
    effect_size,
    sign_distribution,
    wilcoxon,
)

stats: Any = import_module("scipy.stats")  # which has no types
FIVE_BY_FIVE = [f"asset {number // 5}" for number in range(25)]


def draws(seed: int, size: int, shift: float = 0.0) -> statistics.Floats:
    return np.random.default_rng(seed).normal(shift, 1, size)


@pytest.mark.parametrize("size", [3, 6, 10, 25, 50])
@pytest.mark.parametrize("seed", range(4))
def test_the_signed_rank_test_is_scipys_exact_one_where_nothing_is_tied(seed: int, size: int) -> None:
    differences = draws(seed, size, shift=0.3)
    p, leaning = wilcoxon(differences)
    assert p == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue, rel=1e-12)
    assert leaning == np.sign((stats.rankdata(abs(differences)) * np.sign(differences)).sum())


def test_with_ties_the_signed_rank_test_counts_out_every_sign() -> None:
    differences = np.array([1.0, 1.0, -1.0, 2.0, 2.0, 3.0, -2.0, 4.0])
    ranks = stats.rankdata(abs(differences))
    observed = ranks[differences > 0].sum()
    sums = [sum(rank for rank, up in zip(ranks, ups, strict=True) if up) for ups in product((0, 1), repeat=8)]
    tail = min(sum(s >= observed for s in sums), sum(s <= observed for s in sums)) / len(sums)
    assert wilcoxon(differences)[0] == pytest.approx(2 * tail, rel=1e-12)


def test_six_rises_of_six_are_2_in_64_and_five_can_never_be_significant() -> None:
    assert wilcoxon(np.arange(1.0, 7.0)) == (2 / 64, 1)
    assert wilcoxon(-np.arange(1.0, 6.0)) == (2 / 32, -1)


def test_pairs_without_a_difference_are_left_out_of_the_signed_rank_test() -> None:
    moved = draws(1, 12, shift=0.5)
    assert wilcoxon(np.concatenate([moved, np.zeros(13)])) == wilcoxon(moved)
    assert wilcoxon(np.zeros(25)) == (1.0, 0)


def test_beyond_the_exact_sizes_the_signed_rank_test_is_scipys_approximation() -> None:
    differences = draws(3, 201, shift=0.12)
    approximation = stats.wilcoxon(differences, method="asymptotic", correction=True).pvalue
    assert wilcoxon(differences)[0] == pytest.approx(approximation, rel=1e-9)
    assert wilcoxon(np.tile([1.0, -1.0], 101)) == (1.0, 0)  # falls outweigh rises by nothing


def test_beyond_the_exact_sizes_the_approximation_continues_the_exact_values(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.round(draws(3, 200, shift=0.12), 1)  # with ties and zeros
    exact, leaning = wilcoxon(differences)
    monkeypatch.setattr(statistics, "EXACT_UP_TO", 10)
    near, same_way = wilcoxon(differences)
    assert near == pytest.approx(exact, rel=0.03)
    assert same_way == leaning
    assert 0.001 < exact < 0.5  # in the range where it matters


def test_the_chances_of_all_rank_sums_are_symmetric_and_sum_to_one() -> None:
    chance = sign_distribution(np.array([2, 4, 7, 7, 10]))
    assert chance.sum() == pytest.approx(1, abs=1e-15)
    assert chance == pytest.approx(chance[::-1], abs=1e-15)


def test_corrected_p_values_are_those_of_scipy_and_keep_their_places() -> None:
    p = [0.04, 0.001, 0.2, 0.03, 0.03, 0.9, 1.0, 0.0]
    assert benjamini_hochberg(p) == pytest.approx(list(stats.false_discovery_control(p)), rel=1e-12)
    assert benjamini_hochberg([0.01, 0.02, 0.03]) == pytest.approx([0.03, 0.03, 0.03])
    assert benjamini_hochberg([]) == []


def test_the_effect_is_the_mean_in_units_of_the_spread() -> None:
    assert effect_size(np.array([1.0, 2.0, 3.0])) == pytest.approx(2.0)
    assert effect_size(np.array([1.0, 3.0])) == pytest.approx(2**0.5)
    assert effect_size(np.array([-1.0, 1.0])) == 0


def test_differences_without_a_spread_have_a_large_effect_and_not_an_infinite_one() -> None:
    assert effect_size(np.full(25, 0.1)) == LARGEST_EFFECT
    assert effect_size(np.full(25, -0.1)) == -LARGEST_EFFECT
    assert effect_size(np.zeros(25)) == 0
    assert effect_size(np.array([0.7])) == 0  # one difference has no spread to be measured by


def test_rounding_is_no_difference() -> None:
    baseline = np.full((25, 1), 1 / 3)
    found = compare(baseline * (1 + 4e-16), baseline, FIVE_BY_FIVE)[0]
    assert (found.delta, found.effect, found.p, found.interval) == (0, 0, 1, (0, 0))


def test_the_interval_draws_whole_assets() -> None:
    # two assets: both drawn twice with chance 1/4 each, else one of each; so the ends are the assets' own means
    differences = np.array([[1.0], [3.0], [10.0], [10.0]])
    assert cluster_bootstrap(differences, ["a", "a", "b", "b"]) == [(2.0, 10.0)]


def test_the_interval_agrees_with_resampling_written_as_a_loop() -> None:
    differences = draws(5, 25).reshape(25, 1)
    by_asset = differences.reshape(5, 5)
    chance = np.random.default_rng(99)
    means = [by_asset[chance.integers(0, 5, 5)].mean() for _ in range(20_000)]
    low, high = np.quantile(means, [0.025, 0.975])
    assert cluster_bootstrap(differences, FIVE_BY_FIVE)[0] == pytest.approx((low, high), abs=0.03 * (high - low))


def test_folds_that_move_together_widen_the_interval() -> None:
    one_by_one = draws(2, 25).reshape(25, 1)
    together = np.repeat(draws(2, 5), 5).reshape(25, 1)
    together *= one_by_one.std() / together.std()
    (low, high), (wide_low, wide_high) = (cluster_bootstrap(x, FIVE_BY_FIVE)[0] for x in (one_by_one, together))
    assert wide_high - wide_low > 1.5 * (high - low)


def test_of_one_asset_the_folds_are_drawn() -> None:
    low, high = cluster_bootstrap(draws(4, 30).reshape(30, 1), ["only"] * 30)[0]
    assert low < high


def test_the_same_rows_give_the_same_figures_in_every_order_of_metrics() -> None:
    variant, baseline = draws(1, 50).reshape(25, 2), draws(2, 50).reshape(25, 2)
    first, second = compare(variant, baseline, FIVE_BY_FIVE)
    assert compare(variant, baseline, FIVE_BY_FIVE) == [first, second]
    swapped = compare(variant[:, ::-1], baseline[:, ::-1], FIVE_BY_FIVE)
    assert (swapped[1].p, swapped[1].effect, swapped[1].delta) == (first.p, first.effect, first.delta)
    assert swapped[1].interval == pytest.approx(first.interval, rel=1e-12)


def test_pairs_without_a_value_do_not_count() -> None:
    variant, baseline = draws(1, 25, 0.5).reshape(25, 1), draws(2, 25).reshape(25, 1)
    variant[3], baseline[7] = np.nan, np.nan
    kept = [at for at in range(25) if at not in (3, 7)]
    found = compare(variant, baseline, FIVE_BY_FIVE)[0]
    alone = compare(variant[kept], baseline[kept], [FIVE_BY_FIVE[at] for at in kept])[0]
    assert found.pairs == 23
    assert (found.delta, found.p, found.effect, found.mean) == (alone.delta, alone.p, alone.effect, alone.mean)
    assert found.interval == pytest.approx(alone.interval, rel=1e-12)


def test_a_metric_without_any_value_is_compared_in_no_pair() -> None:
    nothing = np.full((25, 1), np.nan)
    found = compare(nothing, np.ones((25, 1)), FIVE_BY_FIVE)[0]
    assert (found.pairs, found.p, found.effect) == (0, 1.0, 0.0)
