"""Markets for tests: a short generated one, and bars written by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from scalable_finetune.events import Events
from scalable_finetune.market.bars import BITCOIN, Bars, resample
from scalable_finetune.market.generator import generate

HOUR = 3600
DAY = 24 * HOUR
MONDAY = 1_704_067_200  # 2024-01-01 00:00 UTC

SETTINGS: dict[str, Any] = {
    "market": "synthetic",
    "years": 3.0,
    "market_seed": 0,
    "timeframe": "1h",
    "btc_features": "off",
    "cusum_training_mode": "events",
    "classification_mode": "binary",
    "take_profit": 0.75,
    "stop_loss": 0.75,
    "horizon": "12h",
    "folds": 5,
    "fold_size": "90d",
    "embargo": "1d",
}


@cache
def market(asset: str = "AAVEUSDC", years: float = 0.3, timeframe: int = HOUR, seed: int = 0) -> Bars:
    return resample(generate(asset, seed, years), timeframe)


def bitcoin(years: float = 0.3) -> Bars:
    return market(BITCOIN, years)


def by_hand(*rows: tuple[float, float, float, float], timeframe: int = HOUR) -> Bars:
    """Bars of open, high, low and close."""
    begin, high, low, close = np.asarray(rows, dtype=np.float64).T
    time = MONDAY + timeframe * np.arange(len(rows), dtype=np.int64)
    return Bars("HAND", timeframe, time, begin, high, low, close, np.ones(len(rows)))


def quiet(count: int, price: float = 100.0, timeframe: int = HOUR) -> Bars:
    """A price that does not move."""
    return by_hand(*[(price, price, price, price)] * count, timeframe=timeframe)


def events_at(*index: int, volatility: float = 0.02 * np.sqrt(24.0)) -> Events:
    """Events with a volatility of a day, by default 2 % an hour."""
    count = len(index)
    return Events(np.asarray(index, dtype=np.int64), np.full(count, volatility), np.ones(count, dtype=np.bool_))
