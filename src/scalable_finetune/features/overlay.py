"""What Bitcoin adds to an asset's features: how it moved itself, and how the asset moves with it.

A bar of the asset sees the Bitcoin bar of the same time, or the last one before it where that is missing, never a later
one; after a day without Bitcoin bars the columns are blank.
"""

from __future__ import annotations

import numpy as np

from scalable.workloads import QuantityError, stage
from scalable_finetune.features.basis import basis_of, ratio
from scalable_finetune.features.columns import Features, fill
from scalable_finetune.features.families import FAMILIES, FLAT_SQUARED, correlation, variance
from scalable_finetune.kernels import Floats, rolling_mean, rolling_sum
from scalable_finetune.market.bars import DAY, Bars

OVERLAY_WINDOWS = (24, 96, 12, 168)
OWN = ("return", "volatility", "rsi", "mean_distance", "volume_surprise", "drawdown", "efficiency", "average_range")
SHARED = ("btc_beta", "btc_correlation", "btc_relative_strength", "btc_residual_volatility")
OVERLAY_NAMES = (
    *(f"btc_{family}_{window}" for window in OVERLAY_WINDOWS for family in OWN),
    *(f"{name}_{window}" for window in OVERLAY_WINDOWS for name in SHARED),
)
STALE = DAY  # seconds after which Bitcoin's last bar says nothing of now


@stage(reads=("btc_features",), uses=("numpy",), unless={"btc_features": "off"})
def overlay(features: Features, bars: Bars, btc_bars: Bars, *, btc_features: str) -> Features:
    """The asset's features with Bitcoin's behind them; where ``btc_features`` is off, the asset's alone."""
    if btc_features == "off":
        return features
    if btc_features != "on":
        raise QuantityError(f"btc_features: {btc_features!r} is not known", "write on or off", ("btc_features",))
    seen = np.searchsorted(btc_bars.time, bars.time, side="right") - 1
    there = (seen >= 0) & (bars.time - btc_bars.time[np.maximum(seen, 0)] <= STALE)
    seen = np.maximum(seen, 0)
    bitcoin = basis_of(btc_bars)
    columns = np.empty((len(OVERLAY_NAMES), len(bars)), dtype=np.float32)
    position = {name: number for number, name in enumerate(OVERLAY_NAMES)}
    for window in OVERLAY_WINDOWS:
        for family in OWN:
            values = FAMILIES[family](bitcoin, window)
            values[:window] = np.nan
            columns[position[f"btc_{family}_{window}"]] = values[seen]
    returns = np.diff(np.log(bars.close), prepend=np.log(bars.close[:1]))
    prices = np.log(btc_bars.close)[seen]
    shared(columns[position["btc_beta_24"] :], returns, np.diff(prices, prepend=prices[:1]), there)
    columns[:, ~there] = np.nan
    return Features((*features.names, *OVERLAY_NAMES), np.concatenate((np.asarray(features.values).T, columns)).T)


def shared(columns: np.ndarray, returns: Floats, bitcoin: Floats, there: np.ndarray) -> None:
    """Beta, correlation, difference of returns and what of the asset's moves Bitcoin does not explain."""
    rows = iter(columns)
    begin = int(np.argmax(there)) if there.any() else len(there)  # returns before Bitcoin's first bar are none
    for window in OVERLAY_WINDOWS:
        spread = variance(bitcoin, window)
        together = rolling_mean(returns * bitcoin, window) - rolling_mean(returns, window) * rolling_mean(
            bitcoin, window
        )
        beta = ratio(together, spread, floor=FLAT_SQUARED)
        unexplained = np.maximum(variance(returns, window) - beta * together, 0.0)
        for values in (
            beta,
            correlation(returns, bitcoin, window),
            rolling_sum(returns - bitcoin, window),
            np.sqrt(unexplained),
        ):
            fill(next(rows), values, begin + window + 1)
