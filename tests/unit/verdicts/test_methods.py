"""The tests by hand, and which of them is chosen for which axes."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from scalable.axes import AxisKind
from scalable.verdicts.methods import Test as Kind
from scalable.verdicts.methods import choose, clustered, crossed, fixed, plain, resampled
from scalable.verdicts.rule import holm, interval, p_above
from tests.helpers.verdicts.builders import an_axis, assets_and_periods, noise

PERIODS, FOLDS = AxisKind.PERIODS, AxisKind.FOLDS


def test_an_ordinary_t_is_that_of_scipy() -> None:
    values = np.array([0.3, 0.1, 0.4, 0.1, 0.5, 0.9])
    estimate = plain(values)
    known = stats.ttest_1samp(values, 0.0, alternative="greater")
    assert p_above(estimate) == pytest.approx(known.pvalue, rel=1e-12)
    assert interval(estimate, 0.95) == pytest.approx(stats.ttest_1samp(values, 0.0).confidence_interval(0.95))


def test_folds_have_the_corrected_error_of_nadeau_and_bengio() -> None:
    values = np.array([0.01, 0.03, 0.02, 0.05, 0.04])  # mean 0.03, variance 0.00025
    estimate = resampled(values, folds=5)
    assert estimate.se == pytest.approx(sqrt(0.00025 * (1 / 5 + 1 / 4)))
    assert estimate.mean / estimate.se == pytest.approx(2.8284, abs=1e-4)
    assert estimate.df == 4


def test_repeated_folds_share_the_correction_of_one_repetition() -> None:
    method = choose([an_axis("fold", 5, FOLDS), an_axis("repeat", 3, FOLDS)])
    values = noise((1, 5, 3))
    estimate = method.estimate(values)
    assert method.test is Kind.RESAMPLED
    assert estimate.se == pytest.approx(values.std(ddof=1) * sqrt(1 / 15 + 1 / 4))
    assert estimate.df == 14


def test_a_crossed_table_by_hand() -> None:
    # rows 1, 3, 5 on average and columns 2, 3, 4: the grand mean is 3, and nothing is left over
    table = np.array([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0], [4.0, 5.0, 6.0]])
    estimate = crossed(table)
    ms_a, ms_f = 3 * (4 + 0 + 4) / 2, 3 * (1 + 0 + 1) / 2  # 12 and 3; the interaction is 0
    assert estimate.mean == 3
    assert estimate.se == pytest.approx(sqrt((ms_a + ms_f) / 9))
    assert estimate.df == 2  # an axis with fewer than five values: those of the shorter one


def test_degrees_of_freedom_are_satterthwaites_within_those_of_the_shorter_axis_and_twice_those() -> None:
    table = noise((1, 6, 8), seed=4)[0] + np.arange(8.0)  # mostly shared by period
    a, f = 6, 8
    centred = table - table.mean()
    ms_a = f * (centred.mean(axis=1) ** 2).sum() / (a - 1)
    ms_f = a * (centred.mean(axis=0) ** 2).sum() / (f - 1)
    residual = centred - centred.mean(axis=1, keepdims=True) - centred.mean(axis=0, keepdims=True)
    ms_e = (residual**2).sum() / ((a - 1) * (f - 1))
    v = max(ms_a + ms_f - ms_e, ms_a, ms_f)
    by_hand = v**2 / (ms_a**2 / (a - 1) + ms_f**2 / (f - 1) + ms_e**2 / ((a - 1) * (f - 1)))
    estimate = crossed(table)
    assert 5 < by_hand < 10
    assert estimate.df == pytest.approx(by_hand)
    assert estimate.se == pytest.approx(sqrt(v / (a * f)))
    assert (crossed(noise((200, 6, 8), seed=5)).df <= 10).all()


def test_a_table_with_holes_has_the_clustered_variance() -> None:
    table = noise((2, 5, 6), seed=2)
    whole = clustered(table)
    n, centred = 30, table - table.mean(axis=(1, 2), keepdims=True)
    v_a = (centred.sum(axis=2) ** 2).sum(axis=1) * 5 / 4 / n**2
    v_f = (centred.sum(axis=1) ** 2).sum(axis=1) * 6 / 5 / n**2
    v_e = (centred**2).sum(axis=(1, 2)) * 30 / 29 / n**2
    assert whole.se == pytest.approx(np.sqrt(np.maximum(v_a + v_f - v_e, np.maximum(v_a, v_f))))
    table[0, 0, 0] = np.nan
    mixed = crossed(table)
    assert mixed.df[0] == 4
    assert mixed.mean[0] == pytest.approx(np.nanmean(table[0]))
    assert mixed.se[1] == crossed(table[1]).se  # a table beside it that is whole is judged as one


def test_two_data_sets_are_fixed_and_their_errors_add_up() -> None:
    values = noise((2, 5), seed=3)
    estimate = fixed(values, folds=5)
    each = [resampled(row, 5).se for row in values]
    assert estimate.se == pytest.approx(sqrt(each[0] ** 2 + each[1] ** 2) / 2)
    assert estimate.df == pytest.approx((each[0] ** 2 + each[1] ** 2) ** 2 / ((each[0] ** 4 + each[1] ** 4) / 4))


@pytest.mark.parametrize(
    ("axes", "kind", "name"),
    [
        (assets_and_periods(), Kind.CROSSED, "crossed t over 5 assets × 5 periods"),
        (assets_and_periods(2, 6), Kind.PLAIN, "t over 6 periods, averaged over 2 assets, on these 2 assets"),
        (assets_and_periods(1, 6), Kind.PLAIN, "t over 6 periods, on this asset"),
        (assets_and_periods(7, 1), Kind.PLAIN, "t over 7 assets"),
        (assets_and_periods(1, 1), Kind.NONE, "no test: there is one block"),
        ((), Kind.NONE, "no test: there is one block"),
        ((an_axis("set", 9), an_axis("seed", 4)), Kind.CROSSED, "crossed t over 4 seeds × 9 sets"),
        (
            (an_axis("set", 1), an_axis("k", 5, FOLDS)),
            Kind.RESAMPLED,
            "corrected resampled t over 5 folds, on this set",
        ),
        (
            (an_axis("set", 4), an_axis("k", 5, FOLDS)),
            Kind.FIXED,
            "corrected resampled t by data set over 4 sets × 5 folds, on these 4 sets",
        ),
        ((an_axis("set", 5), an_axis("k", 9, FOLDS)), Kind.PLAIN, "t over 5 sets, averaged over 9 folds"),
        (
            (an_axis("set", 9), an_axis("w", 6, PERIODS), an_axis("site", 3)),
            Kind.CROSSED,
            "crossed t over 3 sites × 6 periods, averaged over 9 sets",
        ),
    ],
)
def test_the_kinds_of_the_axes_choose_the_method(axes: tuple, kind: Kind, name: str) -> None:  # type: ignore[type-arg]
    method = choose(axes)
    assert (method.test, str(method)) == (kind, name)


def test_axes_are_found_wherever_they_stand() -> None:
    values = noise((3, 5, 4, 6), seed=8)  # variants, periods, an axis to average over, assets
    method = choose([an_axis("w", 5, PERIODS), an_axis("site", 9), an_axis("asset", 6)])
    assert [axis.name for axis in method.kept_axes] == ["asset", "w"]
    expected = crossed(values.mean(axis=2).transpose(0, 2, 1))
    assert method.estimate(values).se == pytest.approx(expected.se)


def test_holm_by_hand() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.5, 0.9])) == pytest.approx([1.0, 1.0])


def test_values_that_are_all_alike_prove_nothing() -> None:
    table = np.stack([np.full((5, 5), 0.1), np.full((5, 5), -0.1), np.zeros((5, 5))])
    assert p_above(crossed(table)).tolist() == [1.0, 1.0, 1.0]


def test_too_few_values_say_nothing() -> None:
    values = np.array([[1.0, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    estimate = plain(values)
    assert np.isnan(estimate.se).all()
    assert p_above(estimate).tolist() == [1.0, 1.0]
