"""Bars: what a price did in equal steps of time, and how short steps are put together to longer ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalable.workloads import Duration, QuantityError

BITCOIN = "BTCUSDC"  # the asset the others move with
DAY = 86_400

Floats = NDArray[np.float64]
Seconds = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Prices and volume of one asset. A bar is known when it ends, ``timeframe`` after its time."""

    asset: str
    timeframe: int
    """Seconds a bar lasts."""
    time: Seconds
    """When each bar begins, in seconds since 1970 UTC; ascending, with longer steps where data is missing."""
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: Floats
    """In units of the asset."""

    def __len__(self) -> int:
        return len(self.time)


def seconds_of(text: object, place: str) -> int:
    """A length of time such as ``1h``, ``90d`` or a number of seconds, in whole seconds."""
    try:
        length = Duration.parse(text).seconds
    except QuantityError as error:
        raise QuantityError(f"{place}: {error.message}", error.remedy, (place,)) from None
    if length != int(length) or length <= 0:
        raise QuantityError(f"{place}: {text} is not a length of time in whole seconds", "write e.g. 1h", (place,))
    return int(length)


def span(bars: Bars, first: int, end: int) -> Bars:
    """The bars from one position up to, and without, another."""
    chosen = slice(first, end)
    return replace(
        bars,
        time=bars.time[chosen],
        open=bars.open[chosen],
        high=bars.high[chosen],
        low=bars.low[chosen],
        close=bars.close[chosen],
        volume=bars.volume[chosen],
    )


def resample(bars: Bars, timeframe: int) -> Bars:
    """Longer bars, beginning at multiples of their length.

    The last one is left out if it has not ended, since it is not known yet, and the first one if its beginning lies
    before the data. Where data is missing inside a bar it is made of what there is.
    """
    if timeframe == bars.timeframe:
        return bars
    if timeframe % bars.timeframe or timeframe < bars.timeframe:
        have = Duration(float(bars.timeframe))
        raise QuantityError(
            f"timeframe: bars of {Duration(float(timeframe))} cannot be made of {bars.asset}'s bars of {have}",
            f"write a multiple of {have}",
            ("timeframe",),
        )
    number = bars.time // timeframe
    known = np.flatnonzero(
        (number * timeframe >= bars.time[0]) & ((number + 1) * timeframe <= bars.time[-1] + bars.timeframe)
    )
    inner = span(bars, known[0], known[-1] + 1) if len(known) else span(bars, 0, 0)
    if not len(inner):
        return replace(inner, timeframe=timeframe)
    number = inner.time // timeframe
    starts = np.flatnonzero(np.concatenate(([True], number[1:] != number[:-1])))
    ends = np.append(starts[1:], len(inner)) - 1
    return replace(
        inner,
        timeframe=timeframe,
        time=number[starts] * timeframe,
        open=inner.open[starts],
        high=np.maximum.reduceat(inner.high, starts),
        low=np.minimum.reduceat(inner.low, starts),
        close=inner.close[ends],
        volume=np.add.reduceat(inner.volume, starts),
    )
