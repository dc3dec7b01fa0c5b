"""WFRB, the walk-forward rebalance backtest: a portfolio over several assets, put together anew from stored models.

Every ``rebalance`` of time the assets are ranked by how far their latest probability of BUY lies above break-even; what
was said longer ago than that counts no more. The first ``top`` of those above it get equal shares, the rest is cash.
Orders are filled at the next bar's open, and what changes hands pays the cost. Each fold's models speak only for that
fold's test part, so that all of it is walk-forward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalable.workloads import ScalableError, stage
from scalable_finetune.calibration import Calibrated
from scalable_finetune.market.bars import Bars, seconds_of
from scalable_finetune.metrics import BASIS_POINT, DAY_S, annual, downside, drawdown, share, spread
from scalable_finetune.training import Floats, Indices


class PortfolioError(ScalableError, ValueError):
    """Models and bars of which no portfolio can be made."""


@dataclass(frozen=True, slots=True)
class Holding:
    """An asset that a portfolio may hold: its bars and what the models of its folds said, in order of the folds."""

    bars: Bars
    models: tuple[Calibrated, ...]


@stage(reads=("rebalance", "top", "cost_bps"), keep=False)
def rebalanced(portfolio: Mapping[str, Holding], *, rebalance: str, top: int, cost_bps: float) -> dict[str, float]:
    """The row of a portfolio: what it gained and how, beside equal shares of all assets that nobody touches."""
    if not portfolio:
        raise PortfolioError("a portfolio needs at least one asset")
    period = seconds_of(rebalance, "rebalance")
    step = min(period, DAY_S)
    if period % step or DAY_S % step:
        raise PortfolioError(f"rebalance: {rebalance} is neither days nor a whole part of one; write 12h, 1d or 7d")
    assets = sorted(portfolio)
    said = [edges(portfolio[asset], asset) for asset in assets]
    begin = max(int(time[0]) for time, _ in said)
    told = max(int(time[-1]) for time, _ in said) + period  # nothing counts any more after that
    end = min(told, *(int(portfolio[asset].bars.time[-1]) for asset in assets))
    grid = np.arange(begin, end + 1, step)
    if len(grid) < 2:
        raise PortfolioError(f"{', '.join(assets)} have no time in common to be held in")
    prices = np.column_stack([opens(portfolio[asset].bars, grid) for asset in assets])
    edge = np.column_stack([latest(time, value, grid, period) for time, value in said])
    account, weights, turnover, entries = carried(prices, edge, period // step, top, cost_bps * BASIS_POINT)
    gained = np.diff(np.log(account))
    gained[0] += np.log(account[0])  # what the first orders cost
    daily = np.expm1(np.add.reduceat(gained, np.arange(0, len(gained), DAY_S // step)))
    untouched = (prices[-1] / prices[0]).mean() - 1
    return {
        "trades": float(entries),
        "buys": float((edge[:: period // step] > 0).sum()),
        "hit_rate": share(float((daily > 0).sum()), float((daily != 0).sum())),
        "sharpe": annual(daily, spread(daily)),
        "sortino": annual(daily, downside(daily)),
        "max_drawdown": drawdown(gained),
        "total_return": float(account[-1] - 1),
        "untouched_return": float(untouched),
        "turnover": float(turnover),
        "exposure": float(weights.sum(axis=1).mean()),
    }


def rebalance(
    models: Mapping[str, Calibrated | Sequence[Calibrated]],
    prices: Mapping[str, Bars],
    *,
    rebalance: str,
    top: int,
    cost_bps: float,
) -> dict[str, float]:
    """The same from models and prices by asset."""
    if missing := set(models) ^ set(prices):
        raise PortfolioError(f"{min(missing)} has models or prices, but not both")
    portfolio = {
        asset: Holding(prices[asset], (found,) if isinstance(found, Calibrated) else tuple(found))
        for asset, found in models.items()
    }
    return rebalanced(portfolio, rebalance=rebalance, top=top, cost_bps=cost_bps)


def edges(holding: Holding, asset: str) -> tuple[Indices, Floats]:
    """When something was said of an asset (the end of its bar), and how far above break-even."""
    known = [each for each in holding.models if len(each.event)]
    if not known:
        raise PortfolioError(f"{asset} has no model that said anything; give it one or leave it out")
    event = np.concatenate([each.event for each in known])
    if (np.diff(event) < 0).any():
        raise PortfolioError(f"{asset}'s models are not in order of their folds")
    value = np.concatenate([each.probability - each.break_even for each in known])
    return holding.bars.time[event] + holding.bars.timeframe, value


def opens(bars: Bars, grid: Indices) -> Floats:
    """The price at which an order given at each time is filled: the next open."""
    return np.asarray(bars.open[np.searchsorted(bars.time, grid)])


def latest(time: Indices, value: Floats, grid: Indices, valid_s: int) -> Floats:
    """What was last said at each time, or minus infinity if that is longer ago than it counts."""
    at = np.searchsorted(time, grid, side="right") - 1
    fresh = (at >= 0) & (time[np.maximum(at, 0)] > grid - valid_s)
    return np.where(fresh, value[np.maximum(at, 0)], -np.inf)


def carried(prices: Floats, edge: Floats, every: int, top: int, cost: float) -> tuple[Floats, Floats, float, int]:
    """The account at each time, the shares held after it, all that changed hands as shares of it, and the entries."""
    account, held = np.ones(len(prices)), np.zeros(prices.shape)
    now = np.zeros(prices.shape[1])
    turnover, entries = 0.0, 0
    for at in range(len(prices)):
        if at:
            grown = now * prices[at] / prices[at - 1]
            gain = grown.sum() - now.sum()
            account[at] = account[at - 1] * (1 + gain)
            now = grown / (1 + gain)
        if at % every == 0 or at == len(prices) - 1:
            last = at == len(prices) - 1
            wanted = np.zeros_like(now) if last else chosen(edge[at], top)  # what is held at the end is sold
            changed = float(np.abs(wanted - now).sum())
            turnover, entries = turnover + changed, entries + int(((wanted > 0) & (now == 0)).sum())
            account[at] *= 1 - cost * changed
            now = wanted
        held[at] = now
    return account, held[:-1], turnover, entries


def chosen(edge: Floats, top: int) -> Floats:
    """Equal shares for those with the most above break-even; the share of each that is wanting stays cash."""
    order = np.argsort(-edge, kind="stable")[:top]
    weights = np.zeros(len(edge))
    weights[order[edge[order] > 0]] = 1 / min(top, len(edge))
    return weights
