"""What a set of trades is worth at a given cost: one row of a sweep.

The cost (fee and slippage, in basis points of what is traded) is paid twice per trade, where it is entered and where it
is left. Ratios are of daily returns over the whole test part, days without a position included, and annualised over 365
days, since these markets never close. Every figure is finite: where nothing was traded all are 0, and a ratio that has
no loss or no spread to be divided by ends at ``LARGEST_RATIO``.
"""

from __future__ import annotations

import numpy as np

from scalable.workloads import stage
from scalable_finetune.backtest import Trades
from scalable_finetune.training import Floats, Indices

BASIS_POINT = 1e-4
DAY_S = 86_400
DAYS_PER_YEAR = 365
LARGEST_RATIO = 100.0  # far over what any honest test part gives; infinite would be no number for a database or a mean


@stage(reads=("cost_bps",), keep=False)
def row(trades: Trades, *, cost_bps: float) -> dict[str, float]:
    paid = np.log1p(-cost_bps * BASIS_POINT)
    net = (1 + trades.gross) * np.exp(2 * paid) - 1
    returns = trades.returns.copy()
    np.add.at(returns, trades.entry, paid)
    np.add.at(returns, trades.exit, paid)
    daily = by_day(returns, trades.time)
    precision, recall = share(trades.right, trades.buys), share(trades.right, trades.should)
    return {
        "trades": float(len(net)),
        "buys": float(trades.buys),
        "precision": precision,
        "recall": recall,
        "f1": share(2 * precision * recall, precision + recall),
        "hit_rate": share(float((net > 0).sum()), len(net)),
        "profit_factor": ratio(float(net[net > 0].sum()), float(-net[net < 0].sum())),
        "sharpe": annual(daily, spread(daily)),
        "sortino": annual(daily, downside(daily)),
        "max_drawdown": drawdown(returns),
        "total_return": float(np.expm1(returns.sum())),
        "exposure": share(float((trades.exit - trades.entry + 1).sum()), len(returns)),
    }


def by_day(returns: Floats, time: Indices) -> Floats:
    """Plain returns per day, from logarithmic ones per bar."""
    day = time // DAY_S
    return np.asarray(np.expm1(np.bincount(day - day[0], weights=returns)))


def spread(daily: Floats) -> float:
    return float(daily.std(ddof=1)) if len(daily) > 1 else 0.0


def downside(daily: Floats) -> float:
    """The spread of losses alone, around nothing."""
    return float(np.sqrt(np.mean(np.minimum(daily, 0) ** 2)))


def annual(daily: Floats, spread: float) -> float:
    """Mean over spread, as of a year."""
    return ratio(float(daily.mean()) * DAYS_PER_YEAR**0.5, spread)


def drawdown(returns: Floats) -> float:
    """The largest loss from a high, as a share of the high; 0 where the account never fell."""
    reached = np.concatenate(([0.0], np.cumsum(returns)))
    return float(-np.expm1((reached - np.maximum.accumulate(reached)).min()))


def share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def ratio(above: float, below: float) -> float:
    """Above over below within ±LARGEST_RATIO; 0 if both are nothing."""
    if abs(above) >= LARGEST_RATIO * below:
        return float(np.sign(above)) * LARGEST_RATIO
    return above / below
