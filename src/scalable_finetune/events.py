"""Events: the bars at which something has happened, so that a model learns from moves and not from hours.

The filter adds up returns in either direction (CUSUM) and picks a bar when the sum has gone beyond a part of a day's
usual move, then begins anew. The part is of a *day's* move, so that events come about as often whatever the timeframe.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalable.workloads import QuantityError, stage
from scalable_finetune.kernels import Floats, decayed_mean
from scalable_finetune.market.bars import DAY, Bars

THRESHOLD = 0.3  # of a day's volatility: 6 events a day at 1 h, so that a year of training has about 2,000
MODES = {"events": 1.0, "relaxed": 0.5, "disabled": 0.0}  # parts of that threshold
HALVING_DAYS = 5.0  # a day's volatility counts half after so long
WARM_UP_DAYS = 10.0  # before, the volatility rests on too little


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    index: NDArray[np.int64]
    """Positions in the bars, ascending. An event is known when its bar ends."""
    volatility: Floats
    """The standard deviation of a day's log return, as known at the event."""
    standard: NDArray[np.bool_]
    """Picked by the ordinary filter too. Models train on all events but are always tuned and judged on these, so that
    the variants of ``cusum_training_mode`` are compared on the same events."""


@stage(reads=("cusum_training_mode",), uses=("numpy",))
def events(bars: Bars, *, cusum_training_mode: str) -> Events:
    if cusum_training_mode not in MODES:
        raise QuantityError(
            f"cusum_training_mode: {cusum_training_mode!r} is not known",
            f"write {', '.join(MODES)}",
            ("cusum_training_mode",),
        )
    returns = np.diff(np.log(bars.close), prepend=np.log(bars.close[:1]))
    volatility = daily_volatility(returns, bars.timeframe)
    first = min(round(WARM_UP_DAYS * DAY / bars.timeframe), len(bars))
    standard = crossings(returns, THRESHOLD * volatility, first)
    part = MODES[cusum_training_mode]
    if part == 1:
        chosen = standard
    elif part:
        chosen = np.union1d(standard, crossings(returns, part * THRESHOLD * volatility, first))
    else:
        chosen = np.arange(first, len(bars))
    return Events(chosen, volatility[chosen], np.isin(chosen, standard))


def daily_volatility(returns: Floats, timeframe: int) -> Floats:
    """Of a day's return, from the bars up to and including each; recent ones count more."""
    bars_per_day = DAY / timeframe
    return np.sqrt(np.maximum(decayed_mean(returns**2, HALVING_DAYS * bars_per_day), 0) * bars_per_day)


def crossings(returns: Floats, threshold: Floats, first: int) -> NDArray[np.int64]:
    """Where the sum of returns since the last crossing, or since its turn, goes beyond the threshold."""
    found = []
    up = down = 0.0
    for position, (move, limit) in enumerate(zip(returns[first:].tolist(), threshold[first:].tolist(), strict=True)):
        up = max(0.0, up + move)
        down = min(0.0, down + move)
        if up > limit or down < -limit:
            found.append(first + position)
            up = down = 0.0
    return np.asarray(found, dtype=np.int64)
