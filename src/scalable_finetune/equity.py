"""What an account is worth day by day, for the curves that a report draws."""

from __future__ import annotations

import numpy as np

from scalable_finetune.backtest import Trades
from scalable_finetune.metrics import BASIS_POINT, DAY_S


def by_day(trades: Trades, cost_bps: float) -> list[tuple[int, float]]:
    """Return the logarithm of what the account has gained at each day's end; costs are paid where trades begin and end.

    Each is given with the second at which its day begins.
    """
    returns = trades.returns.copy()
    for at in (trades.entry, trades.exit):
        np.add.at(returns, at, np.log1p(-cost_bps * BASIS_POINT))
    reached = np.cumsum(returns)
    day = trades.time // DAY_S
    last = np.append(np.flatnonzero(np.diff(day)), len(day) - 1)
    return [(int(day[at]) * DAY_S, float(reached[at])) for at in last]
