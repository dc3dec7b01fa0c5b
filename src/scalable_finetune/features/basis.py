"""The series all features are made of, computed once from the bars.

Each is made free of the asset's price and size at once (log returns, shares, volume against its mean so far), so that
features of different assets and years can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalable_finetune.kernels import Floats
from scalable_finetune.market.bars import Bars

FLAT = 1e-7  # a standard deviation of returns, or any divisor, below this is that of a price that does not move


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    price: Floats
    """Log of the close against the first close."""
    high: Floats
    low: Floats
    """Logs against the first close too."""
    returns: Floats
    """Log returns; 0 for the first bar."""
    size: Floats
    """Their absolute values."""
    range: Floats
    """Log of high over low."""
    true_range: Floats
    """The same with the close before taken in."""
    body: Floats
    """Log of close over open."""
    upper_wick: Floats
    lower_wick: Floats
    """Logs from the body's ends to high and low."""
    volume: Floats
    """Against its mean so far."""
    activity: Floats
    """log(1 + volume): volume with its rare giants tamed."""


def basis_of(bars: Bars) -> Basis:
    start = np.log(bars.close[0])
    price, begin, high, low = (np.log(each) - start for each in (bars.close, bars.open, bars.high, bars.low))
    before = np.concatenate((begin[:1], price[:-1]))
    returns = price - before
    returns[0] = 0.0
    so_far = np.cumsum(bars.volume) / np.arange(1, len(bars) + 1)
    volume = ratio(bars.volume, so_far, floor=0.0, otherwise=0.0)
    return Basis(
        price=price,
        high=high,
        low=low,
        returns=returns,
        size=np.abs(returns),
        range=high - low,
        true_range=np.maximum(high, before) - np.minimum(low, before),
        body=price - begin,
        upper_wick=high - np.maximum(begin, price),
        lower_wick=np.minimum(begin, price) - low,
        volume=volume,
        activity=np.log1p(volume),
    )


def ratio(above: Floats, below: Floats, *, floor: float = FLAT, otherwise: float = np.nan) -> Floats:
    """A quotient, and ``otherwise`` where the divisor is too small to mean something."""
    result = np.full(len(above), otherwise)
    np.divide(above, below, out=result, where=below > floor)
    return result
