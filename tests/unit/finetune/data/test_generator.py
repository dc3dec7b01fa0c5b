"""The generated market has what makes real ones hard, and is the same for the same seed."""

from __future__ import annotations

import numpy as np

from scalable_finetune.market import BITCOIN, Bars
from scalable_finetune.market.generator import generate
from tests.helpers.finetune.data.builders import DAY, HOUR, market


def returns_of(bars: Bars) -> np.ndarray:
    return np.diff(np.log(bars.close))


def test_other_seeds_and_other_assets_are_other_markets() -> None:
    one = returns_of(generate("AAVEUSDC", 0, 0.1))
    assert abs(np.corrcoef(one, returns_of(generate("AAVEUSDC", 1, 0.1)))[0, 1]) < 0.1
    assert 0.2 < np.corrcoef(one, returns_of(generate("UNIUSDC", 0, 0.1)))[0, 1] < 0.9


def test_more_years_begin_like_fewer() -> None:
    short, long = generate("AAVEUSDC", 0, 0.2), generate("AAVEUSDC", 0, 0.5)
    for name in ("time", "open", "high", "low", "close", "volume"):
        assert getattr(long, name)[: len(short)].tolist() == getattr(short, name).tolist(), name


def test_three_years_have_a_bar_every_five_minutes() -> None:
    bars = generate(BITCOIN, 0, 3.0)
    assert len(bars) == round(3 * 365.25 * 288)
    assert set(np.diff(bars.time).tolist()) == {300}


def test_bars_are_possible() -> None:
    bars = generate("OPUSDC", 3, 0.5)
    assert (bars.low > 0).all()
    assert (bars.low <= np.minimum(bars.open, bars.close)).all()
    assert (bars.high >= np.maximum(bars.open, bars.close)).all()
    assert (bars.open[1:] == bars.close[:-1]).all()
    assert (bars.volume > 0).all()


def test_tails_are_fat_and_calm_and_storm_follow_themselves() -> None:
    returns = returns_of(market(years=2.0))
    standard = (returns - returns.mean()) / returns.std()
    assert (standard**4).mean() > 4.5
    size = np.abs(returns)
    assert np.corrcoef(size[24:], size[:-24])[0, 1] > 0.1


def test_assets_move_with_bitcoin_but_not_only() -> None:
    hourly = returns_of(market(years=1.0)), returns_of(market(BITCOIN, years=1.0))
    assert 0.4 < np.corrcoef(*hourly)[0, 1] < 0.9


def test_volume_follows_the_size_of_moves_and_the_hours() -> None:
    bars = market(years=1.0)
    worth = np.log(bars.volume * bars.close)[1:]
    assert np.corrcoef(worth, np.abs(returns_of(bars)))[0, 1] > 0.2
    hour = bars.time[1:] % DAY // HOUR
    assert worth[hour == 15].mean() > worth[hour == 3].mean() + 0.2


def test_calm_days_go_on_and_stormy_ones_turn_back() -> None:
    """What a model may find, on average over assets: the last hours' move goes on after calm and not after storm."""
    calm, storm = [], []
    for asset in ("AAVEUSDC", "UNIUSDC", "LDOUSDC", "ARBUSDC"):
        bars = market(asset, years=3.0)
        price = np.log(bars.close)
        rows = np.arange(200, len(price) - 12, 6)
        past, future = price[rows] - price[rows - 12], price[rows + 12] - price[rows]
        size = np.asarray([np.abs(np.diff(price[row - 48 : row + 1])).mean() for row in rows])
        low, high = np.quantile(size, [0.4, 0.85])
        calm.append(np.corrcoef(past[size < low], future[size < low])[0, 1])
        storm.append(np.corrcoef(past[size > high], future[size > high])[0, 1])
    assert np.mean(calm) > 0.05
    assert np.mean(calm) > np.mean(storm) + 0.05
