"""Labels: what became of buying after an event, by three barriers: take profit, stop loss and the end of patience.

The position is opened at the next bar's open. The barriers lie around it at multiples of the volatility known at the
event, scaled to the horizon. The first one touched by a bar's high or low ends it; if one bar touches both, the stop is
taken to have come first, since the order within a bar is not known and hope is not a plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from scalable.workloads import QuantityError, stage
from scalable_finetune.events import Events
from scalable_finetune.kernels import Floats
from scalable_finetune.market.bars import DAY, Bars, seconds_of

Indices = NDArray[np.int64]
Sides = NDArray[np.int8]

CLASSES = {"binary": 2, "ternary": 3, "meta": 2}
MOMENTUM_DAYS = 1.0  # the primary rule of "meta" follows the move of the last day
LEAST_BARRIER = 1e-6  # as a return; where a price does not move there is nothing to label
WIDEST_BARRIER = 0.9  # as a return; a stop at or below a price of 0 would never be touched


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """One entry per event whose horizon lies within the data, in order of time."""

    event: Indices
    """Positions in the bars."""
    entry: Indices
    """The bar at whose open the position is opened: the next one."""
    end: Indices
    """The bar within which the position is closed."""
    target: NDArray[np.int8]
    """The class. The last class is the one to buy: take profit first (binary, ternary), or acting pays (meta)."""
    gross: Floats
    """The return of acting on ``side``, before costs."""
    side: Sides
    """1, a position that gains when the price rises; for meta also -1, by the primary rule."""
    take: Floats
    stop: Floats
    """Distances of the barriers from the entry, as returns above 0."""
    standard: NDArray[np.bool_]
    """The event is one of the ordinary filter's; only these tune and judge a model."""
    classes: int

    def __len__(self) -> int:
        return len(self.event)


@stage(reads=("classification_mode", "take_profit", "stop_loss", "horizon"), uses=("numpy",))
def labels(
    bars: Bars, events: Events, *, classification_mode: str, take_profit: float, stop_loss: float, horizon: str
) -> Labels:
    if classification_mode not in CLASSES:
        raise QuantityError(
            f"classification_mode: {classification_mode!r} is not known",
            f"write {', '.join(CLASSES)}",
            ("classification_mode",),
        )
    patience = bars_of(horizon, bars.timeframe)
    scale = events.volatility * sqrt(patience * bars.timeframe / DAY)
    take, stop = np.minimum(take_profit * scale, WIDEST_BARRIER), np.minimum(stop_loss * scale, WIDEST_BARRIER)
    whole = (events.index + patience < len(bars)) & (np.minimum(take, stop) > LEAST_BARRIER)
    event, take, stop = events.index[whole], take[whole], stop[whole]
    side = momentum_side(bars, event) if classification_mode == "meta" else np.ones(len(event), dtype=np.int8)
    end, gross, outcome = first_touch(bars, event + 1, side, take, stop, patience)
    target = {"binary": outcome > 0, "ternary": outcome + 1, "meta": gross > 0}[classification_mode]
    return Labels(
        event=event,
        entry=event + 1,
        end=end,
        target=target.astype(np.int8),
        gross=gross,
        side=side,
        take=take,
        stop=stop,
        standard=events.standard[whole],
        classes=CLASSES[classification_mode],
    )


def bars_of(horizon: str, timeframe: int) -> int:
    """The bars a position may last, at least one."""
    return max(1, seconds_of(horizon, "horizon") // timeframe)


def momentum_side(bars: Bars, event: Indices) -> Sides:
    """The primary rule: with the move of the last day."""
    back = np.maximum(event - round(MOMENTUM_DAYS * DAY / bars.timeframe), 0)
    return np.where(bars.close[event] >= bars.close[back], 1, -1).astype(np.int8)


def first_touch(
    bars: Bars, entry: Indices, side: Sides, take: Floats, stop: Floats, patience: int
) -> tuple[Indices, Floats, NDArray[np.int8]]:
    """For each position the bar it ends in, its return, and 1 for take profit, -1 for stop, 0 for neither.

    A bar that opens beyond a barrier is a fill at its open: worse than the stop, or better than the take profit.
    """
    price = bars.open[entry]
    end = entry + patience - 1
    gross = side * (bars.close[end] / price - 1)
    outcome = np.zeros(len(entry), dtype=np.int8)
    open_ones = np.arange(len(entry))
    for later in range(patience):
        if not len(open_ones):
            break
        bar, long, paid = entry[open_ones] + later, side[open_ones] > 0, price[open_ones]
        begun = np.where(long, 1, -1) * (bars.open[bar] / paid - 1)
        best = np.where(long, bars.high[bar] / paid - 1, 1 - bars.low[bar] / paid)
        worst = np.where(long, bars.low[bar] / paid - 1, 1 - bars.high[bar] / paid)
        stopped = worst <= -stop[open_ones]
        begun_well = begun >= take[open_ones]  # an open beyond the take profit came before the rest of the bar
        taken = (best >= take[open_ones]) & (~stopped | begun_well)
        stopped &= ~taken
        for touched, level, sign in (
            (taken, np.maximum(take[open_ones], begun), 1),
            (stopped, np.minimum(-stop[open_ones], begun), -1),
        ):
            ended = open_ones[touched]
            end[ended], gross[ended], outcome[ended] = bar[touched], level[touched], sign
        open_ones = open_ones[~(taken | stopped)]
    return end, gross, outcome
