"""Portfolios small enough to be reckoned by hand: who is held, when, at which price, and what it costs."""

from __future__ import annotations

from math import isfinite

import numpy as np
import pytest

from scalable_finetune.calibration import Calibrated
from scalable_finetune.market import Bars
from scalable_finetune.wfrb import PortfolioError, chosen, rebalance
from tests.helpers.finetune.model.builders import said, some_bars

DAYS = 24
RISING = some_bars([100 * 1.001**hour for hour in range(4 * DAYS)], "A")
FALLING = some_bars([100 * 0.999**hour for hour in range(4 * DAYS)], "B")
MIDNIGHTS = [DAYS - 1, 2 * DAYS - 1]  # bars that end as the second and the third day begin


def of_two(
    a: Calibrated | list[Calibrated], b: Calibrated | list[Calibrated], top: int = 1, cost_bps: float = 0.0
) -> dict[str, float]:
    return rebalance({"A": a, "B": b}, {"A": RISING, "B": FALLING}, rebalance="1d", top=top, cost_bps=cost_bps)


def over(bars: Bars, first: int, last: int) -> float:
    return float(bars.open[last * DAYS] / bars.open[first * DAYS] - 1)


def test_the_asset_that_is_said_to_rise_most_is_held_from_the_next_open_on() -> None:
    found = of_two(said([0.7, 0.7], MIDNIGHTS), said([0.6, 0.6], MIDNIGHTS))
    assert found["total_return"] == pytest.approx(over(RISING, 1, 3))
    assert [found[name] for name in ("trades", "exposure", "turnover")] == pytest.approx([1.0, 1.0, 2.0])


def test_the_portfolio_changes_when_what_is_said_changes() -> None:
    found = of_two(said([0.7, 0.5], MIDNIGHTS), said([0.6, 0.6], MIDNIGHTS))
    assert found["total_return"] == pytest.approx((1 + over(RISING, 1, 2)) * (1 + over(FALLING, 2, 3)) - 1)
    assert [found[name] for name in ("trades", "turnover")] == pytest.approx([2.0, 4.0])


def test_where_nothing_is_above_break_even_all_is_cash() -> None:
    found = of_two(said([0.7, 0.7], MIDNIGHTS, break_even=0.7), said([0.5, 0.4], MIDNIGHTS))
    assert (found["total_return"], found["exposure"], found["trades"], found["sharpe"]) == (0.0, 0.0, 0.0, 0.0)
    assert found["untouched_return"] == pytest.approx((over(RISING, 1, 3) + over(FALLING, 1, 3)) / 2)


def test_what_was_said_too_long_ago_counts_no_more() -> None:
    found = of_two(said([0.9], [DAYS - 1]), said([0.1, 0.1], MIDNIGHTS))
    assert found["total_return"] == pytest.approx(over(RISING, 1, 2))


def test_what_is_said_later_changes_nothing_before() -> None:
    """A bar's word is acted on only when the bar has ended: one bar later it is too late for that midnight."""
    found = of_two(said([0.1, 0.9], [DAYS - 1, 2 * DAYS]), said([0.1, 0.1], MIDNIGHTS))
    assert found["total_return"] == pytest.approx(over(RISING, 3, 3))


def test_the_cost_is_paid_on_what_changes_hands() -> None:
    free, paid = (of_two(said([0.7, 0.5], MIDNIGHTS), said([0.6, 0.6], MIDNIGHTS), cost_bps=at) for at in (0.0, 100.0))
    keeps = 0.99 * 0.98 * 0.99  # bought, all exchanged, sold
    assert 1 + paid["total_return"] == pytest.approx((1 + free["total_return"]) * keeps)
    assert paid["turnover"] == free["turnover"]


def test_shares_are_equal_and_what_is_wanting_stays_cash() -> None:
    np.testing.assert_allclose(chosen(np.array([0.1, -0.1, 0.3, 0.2]), 2), [0, 0, 0.5, 0.5])
    np.testing.assert_allclose(chosen(np.array([-0.1, 0.2, -np.inf]), 2), [0, 0.5, 0])
    np.testing.assert_allclose(chosen(np.array([0.1, 0.2]), 5), [0.5, 0.5])


def test_models_of_several_folds_speak_one_after_the_other() -> None:
    one = of_two(said([0.7, 0.7], MIDNIGHTS), said([0.6, 0.6], MIDNIGHTS))
    two = of_two(
        [said([0.7], MIDNIGHTS[:1]), said([0.7], MIDNIGHTS[1:])],
        [said([0.6], MIDNIGHTS[:1]), said([0.9], MIDNIGHTS[1:], break_even=0.8)],
    )
    assert two == one


def test_every_figure_is_a_finite_number_over_a_long_random_walk() -> None:
    random = np.random.default_rng(0)
    prices, models = {}, {}
    for asset in ("A", "B", "C", "D"):
        prices[asset] = some_bars((100 * np.exp(np.cumsum(0.01 * random.normal(size=2000)))).tolist(), asset)
        models[asset] = said(random.random(400).tolist(), list(range(100, 1700, 4)))
    for every in ("12h", "1d", "7d"):
        rows = [rebalance(models, prices, rebalance=every, top=2, cost_bps=cost) for cost in (0.0, 20.0)]
        assert all(isfinite(value) and type(value) is float for row in rows for value in row.values())
        assert rows[1]["total_return"] < rows[0]["total_return"]
        assert 0 < rows[0]["exposure"] <= 1


@pytest.mark.parametrize(
    ("models", "every", "told"),
    [
        ({}, "1d", "at least one asset"),
        ({"A": said([0.5], [30])}, "36h", "rebalance: 36h is neither days nor a whole part of one"),
        ({"A": said([], [])}, "1d", "A has no model that said anything"),
        ({"A": [said([0.5], [60]), said([0.5], [30])]}, "1d", "A's models are not in order of their folds"),
        ({"A": said([0.5], [4 * DAYS - 1])}, "1d", "A have no time in common"),
    ],
)
def test_what_makes_no_portfolio_is_refused(
    models: dict[str, Calibrated | list[Calibrated]], every: str, told: str
) -> None:
    with pytest.raises(PortfolioError, match=told):
        rebalance(models, dict.fromkeys(models, RISING), rebalance=every, top=1, cost_bps=0.0)


def test_an_asset_without_prices_is_refused() -> None:
    with pytest.raises(PortfolioError, match="B has models or prices, but not both"):
        rebalance({"A": said([0.5]), "B": said([0.5])}, {"A": RISING}, rebalance="1d", top=1, cost_bps=0.0)
