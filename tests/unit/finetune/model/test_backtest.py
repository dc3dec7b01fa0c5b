"""Backtests small enough to be reckoned by hand, and what costs do to them."""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np
import pytest

from scalable_finetune.backtest import Trades, trades
from scalable_finetune.folds import Split
from scalable_finetune.market import Bars
from scalable_finetune.metrics import LARGEST_RATIO, row
from tests.helpers.finetune.model.builders import said, some_bars, some_labels

PRICES = [100.0, 100.0, 110.0, 121.0, 121.0, 99.0, 99.0, 99.0]
POSITIONS = [(0, 3), (1, 4), (3, 5), (5, 7)]


def split_of(events: int) -> Split:
    nothing = np.zeros(0, dtype=np.int64)
    return Split(nothing, nothing, np.arange(events), 0, 0, 0, 0)


def traded(probability: list[float], side: list[int] | None = None, break_even: float = 0.5) -> Trades:
    bars = some_bars(PRICES)
    labels = some_labels(bars, POSITIONS, [True, True, False, False], side)
    return trades(said(probability, break_even=break_even), bars, labels, split_of(len(POSITIONS)))


def test_a_position_is_entered_at_the_next_open_and_left_where_its_label_ends() -> None:
    found = traded([0.9, 0.1, 0.1, 0.1])
    assert (found.entry.tolist(), found.exit.tolist()) == ([1], [3])
    np.testing.assert_allclose(found.gross, [0.21])
    np.testing.assert_allclose(found.returns, [0, 0, np.log(1.1), np.log(1.1), 0, 0, 0, 0], atol=1e-12)


def test_there_is_one_position_at_a_time_and_the_next_begins_after_the_last_has_ended() -> None:
    found = traded([0.9, 0.9, 0.9, 0.9])
    assert found.entry.tolist() == [1, 4, 6]
    assert found.exit.tolist() == [3, 5, 7]
    np.testing.assert_allclose(found.gross, [0.21, 99 / 121 - 1, 0.0], atol=1e-12)
    assert found.buys == 4


def test_only_what_is_more_probable_than_break_even_is_bought() -> None:
    assert len(traded([0.6, 0.6, 0.6, 0.6], break_even=0.6).gross) == 0
    assert traded([0.6, 0.6, 0.6, 0.7], break_even=0.6).entry.tolist() == [6]


def test_an_event_whose_side_is_short_is_never_bought() -> None:
    found = traded([0.9, 0.9, 0.9, 0.9], side=[-1, 1, -1, 1])
    assert found.entry.tolist() == [2, 6]
    assert (found.buys, found.right, found.should) == (2, 1, 1)


def test_a_row_reckoned_by_hand() -> None:
    found = row(traded([0.9, 0.1, 0.9, 0.1]), cost_bps=100.0)
    win, loss = 1.21 * 0.99**2 - 1, 99 / 121 * 0.99**2 - 1
    total = (1 + win) * (1 + loss) - 1
    expected = {
        "trades": 2,
        "buys": 2,
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "hit_rate": 0.5,
        "profit_factor": win / -loss,
        "sharpe": -LARGEST_RATIO,  # a single day has no spread
        "sortino": -sqrt(365),
        "max_drawdown": -loss,
        "total_return": total,
        "exposure": 5 / 8,
    }
    assert found == pytest.approx(expected)


def test_ratios_are_of_daily_returns_and_annual() -> None:
    bars = some_bars([100.0] * 30 + [103.0] * 30 + [101.0] * 30)
    labels = some_labels(bars, [(28, 30), (58, 60)], [True, False])
    both = trades(said([0.9, 0.9]), bars, labels, split_of(2))
    daily = np.array([0.03, 101 / 103 - 1])
    found = row(both, cost_bps=0.0)
    assert found["sharpe"] == pytest.approx(daily.mean() / daily.std(ddof=1) * sqrt(365))
    assert found["sortino"] == pytest.approx(daily.mean() / sqrt(daily[1] ** 2 / 2) * sqrt(365))


def test_a_fold_without_trades_gives_a_row_of_noughts() -> None:
    assert row(traded([0.1, 0.1, 0.1, 0.1]), cost_bps=10.0) == dict.fromkeys(row(traded([0.9] * 4), cost_bps=0.0), 0.0)


def test_ratios_that_nothing_divides_end_at_a_limit() -> None:
    found = row(traded([0.9, 0.1, 0.1, 0.1]), cost_bps=0.0)
    assert found["profit_factor"] == found["sortino"] == LARGEST_RATIO
    assert found["max_drawdown"] == 0.0
    assert all(isfinite(value) and type(value) is float for value in found.values())


def test_a_higher_cost_never_gains_more_from_the_same_trades() -> None:
    random = np.random.default_rng(3)
    bars: Bars = some_bars((100 * np.exp(np.cumsum(0.01 * random.normal(size=2000)))).tolist())
    positions = [(int(at), int(at) + int(random.integers(1, 12))) for at in range(0, 1980, 4)]
    labels = some_labels(bars, positions, (random.random(len(positions)) < 0.5).tolist())
    found = trades(said(random.random(len(positions)).tolist()), bars, labels, split_of(len(positions)))
    rows = [row(found, cost_bps=cost) for cost in (0.0, 10.0, 20.0, 30.0)]
    for name in ("total_return", "sharpe", "sortino", "profit_factor", "hit_rate"):
        values = [each[name] for each in rows]
        assert values == sorted(values, reverse=True), name
    assert [each["max_drawdown"] for each in rows] == sorted(each["max_drawdown"] for each in rows)
    for name in ("trades", "buys", "precision", "recall", "f1", "exposure"):
        assert len({each[name] for each in rows}) == 1, name
    assert rows[0]["total_return"] == pytest.approx(np.prod(1 + found.gross) - 1)
