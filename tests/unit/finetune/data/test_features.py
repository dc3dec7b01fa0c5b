"""The columns: how many, in which order, and that none sees the future."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalable_finetune.catalogue import FULL_FEATURES
from scalable_finetune.features import BASIC, NAMES, OVERLAY_NAMES, WINDOWS, features, overlay
from scalable_finetune.features.families import FAMILIES
from scalable_finetune.market.bars import Bars, span
from tests.helpers.finetune.data.builders import DAY, MONDAY, bitcoin, by_hand, market, quiet


def column(bars: Bars, name: str) -> np.ndarray:
    found = features(bars)
    return np.asarray(found.values[:, found.names.index(name)])


def test_there_are_272_with_names_of_their_own() -> None:
    found = features(market())
    assert found.names == NAMES
    assert len(set(NAMES)) == len(NAMES) == FULL_FEATURES == 272
    assert found.values.shape == (len(market()), 272)
    assert found.values.dtype == np.float32
    assert len(FAMILIES) * len(WINDOWS) + len(BASIC) == 272


@pytest.mark.parametrize(("first", "families", "basics"), [(50, 32, 10), (80, 32, 16), (120, 32, 16)])
def test_the_first_so_many_are_a_mix_of_all_families(first: int, families: int, basics: int) -> None:
    chosen = NAMES[:first]
    assert len({name.rpartition("_")[0] for name in chosen if name not in BASIC}) == families
    assert len(set(chosen) & set(BASIC)) == basics


@pytest.mark.parametrize("end", [400, 1501, 2000])
def test_without_the_future_the_past_is_the_same_to_the_bit(end: int) -> None:
    whole, known = features(market()).values, features(span(market(), 0, end)).values
    np.testing.assert_array_equal(known, whole[:end])


def test_a_different_future_leaves_the_past_the_same() -> None:
    bars = market()
    later = np.where(np.arange(len(bars)) < 1000, 1.0, 7.0)
    other = replace(bars, **{name: getattr(bars, name) * later for name in ("open", "high", "low", "close", "volume")})
    np.testing.assert_array_equal(features(other).values[:1000], features(bars).values[:1000])


def test_columns_are_blank_until_their_window_is_full_and_finite_after() -> None:
    found = features(market())
    assert not np.isinf(found.values).any()
    for number, name in enumerate(NAMES):
        blank = np.isnan(found.values[:, number])
        window = int(name.rpartition("_")[2]) if name not in BASIC else 0
        assert blank[:window].all(), name
        assert not blank[max(4 * window, 30) :].any(), name
    assert np.isnan(column(market(), "volatility_ratio_96")[: 4 * 96]).all()


@pytest.mark.parametrize("bars", [1, 5, 100])
def test_fewer_bars_than_a_window_has_leave_its_columns_blank(bars: int) -> None:
    assert np.isnan(features(quiet(bars)).values[:, NAMES.index("trend_168")]).all()


def test_a_price_that_does_not_move_and_is_not_traded_gives_no_infinity() -> None:
    still = replace(quiet(500), volume=np.zeros(500))
    assert not np.isinf(features(still).values).any()
    assert np.isnan(column(still, "rsi_24")[24:]).all()
    assert (column(still, "volatility_24")[24:] == 0).all()


def test_known_columns_are_what_their_names_say() -> None:
    bars = market()
    price = np.log(bars.close)
    row, window = 700, 24
    last = np.diff(price)[row - window : row]
    assert column(bars, "return_24")[row] == pytest.approx(price[row] - price[row - 24], rel=1e-4)
    assert column(bars, "return_1")[row] == pytest.approx(last[-1], rel=1e-4)
    assert column(bars, "volatility_24")[row] == pytest.approx(last.std(), rel=1e-4)
    assert column(bars, "rsi_24")[row] == pytest.approx(100 * last[last > 0].sum() / np.abs(last).sum(), rel=1e-4)
    high, low = bars.high[row - 23 : row + 1].max(), bars.low[row - 23 : row + 1].min()
    assert column(bars, "drawdown_24")[row] == pytest.approx(np.log(bars.close[row] / high), rel=1e-4)
    place = np.log(bars.close[row] / low) / np.log(high / low)
    assert column(bars, "stochastic_24")[row] == pytest.approx(place, rel=1e-4)
    standard = (last - last.mean()) / last.std()
    assert column(bars, "skewness_24")[row] == pytest.approx((standard**3).mean(), rel=1e-3)
    assert column(bars, "kurtosis_24")[row] == pytest.approx((standard**4).mean() - 3, rel=1e-3)
    before = np.diff(price)[row - window - 1 : row - 1]
    assert column(bars, "autocorrelation_24")[row] == pytest.approx(np.corrcoef(last, before)[0, 1], abs=1e-4)


def test_hours_and_weekdays_are_those_of_utc() -> None:
    bars = quiet(7 * 24)
    assert bars.time[0] == MONDAY
    assert column(bars, "hour_cos")[[0, 12]] == pytest.approx([1, -1])
    assert column(bars, "weekday_cos")[0] == pytest.approx(1)
    assert (column(bars, "weekend") == [day >= 5 for day in range(7) for _ in range(24)]).all()


def test_the_overlay_is_left_out_when_off_and_comes_behind_the_others_when_on() -> None:
    own = features(market())
    assert overlay(own, market(), bitcoin(), btc_features="off") is own
    both = overlay(own, market(), bitcoin(), btc_features="on")
    assert both.names == (*NAMES, *OVERLAY_NAMES)
    assert len(set(both.names)) == len(both.names)
    np.testing.assert_array_equal(both.values[:, :272], own.values)
    assert np.isfinite(both.values[200:, 272:]).all()
    beta = both.values[200:, both.names.index("btc_beta_168")]
    assert 0.3 < np.median(beta) < 2


@pytest.mark.parametrize("end", [300, 1777])
def test_the_overlay_does_not_see_the_future_of_either_asset(end: int) -> None:
    whole = overlay(features(market()), market(), bitcoin(), btc_features="on").values
    known = span(market(), 0, end)
    past = overlay(features(known), known, span(bitcoin(), 0, end), btc_features="on").values
    longer = overlay(features(known), known, bitcoin(), btc_features="on").values
    np.testing.assert_array_equal(past, whole[:end])
    np.testing.assert_array_equal(longer, whole[:end])


def test_where_bitcoin_bars_are_missing_the_last_before_serves_for_a_day() -> None:
    own, kept = features(market()), np.r_[0:1000, 1100 : len(bitcoin())]
    names = ("time", "open", "high", "low", "close", "volume")
    gappy = replace(bitcoin(), **{name: getattr(bitcoin(), name)[kept] for name in names})
    found = overlay(own, market(), gappy, btc_features="on")
    volatility = found.values[:, found.names.index("btc_volatility_24")]
    assert (volatility[1000:1024] == volatility[999]).all()
    assert np.isnan(found.values[1024:1100, 272:]).all()
    assert np.isfinite(volatility[1100:]).all()


def test_assets_that_begin_before_bitcoin_have_blanks_there() -> None:
    later = span(bitcoin(), 500, len(bitcoin()))
    found = overlay(features(market()), market(), later, btc_features="on").values[:, 272:]
    assert np.isnan(found[:512]).all()
    assert np.isfinite(found[500 + 169 :]).all()


def test_a_day_of_twice_the_move_has_a_beta_of_two() -> None:
    moves = np.random.default_rng(0).normal(0, 0.01, 300)
    one, two = (np.exp(np.cumsum(times * moves)) for times in (1, 2))
    slow, fast = (by_hand(*[(p, p, p, p) for p in price]) for price in (one, two))
    found = overlay(features(fast), fast, slow, btc_features="on")
    assert found.values[200, found.names.index("btc_beta_96")] == pytest.approx(2, rel=1e-4)
    assert found.values[200, found.names.index("btc_correlation_96")] == pytest.approx(1, rel=1e-4)
    assert DAY // fast.timeframe == 24
