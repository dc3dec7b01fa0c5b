"""The long-only backtest: which events are bought, when each position is left, and what the account does in between.

An event is a BUY where the calibrated probability says that a trade is expected to gain before costs. It is filled at
the next bar's open and left where its label ends: at the take-profit, the stop or the horizon. There is one position at
a time; events meanwhile are passed by. Costs have no part in any of this, so one set of trades serves all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scalable.workloads import stage
from scalable_finetune.calibration import Calibrated
from scalable_finetune.training import Floats, Indices

if TYPE_CHECKING:
    from scalable_finetune.folds import Split
    from scalable_finetune.labels import Labels
    from scalable_finetune.market import Bars


@dataclass(frozen=True, slots=True)
class Trades:
    """What was bought in the test part of a fold, and how the account moved, before costs."""

    entry: Indices
    exit: Indices
    """Bars of the test part, counted from its first, at whose open each position begins and within which it ends."""
    gross: Floats
    """What each gained, as a share of what was put in."""
    returns: Floats
    """The account's logarithmic return in each bar of the test part; 0 where nothing is held."""
    time: Indices
    """When each bar begins, in seconds since 1970."""
    buys: int
    """Events said to be BUY, those passed by while a position was held included."""
    right: int
    """How many of them were labelled BUY."""
    should: int
    """How many events that a long-only account can act on were labelled BUY."""


@stage(keep=False)
def trades(calibrated: Calibrated, bars: Bars, labels: Labels, split: Split) -> Trades:
    chosen = split.test
    long = labels.side[chosen] > 0
    buy = long & (calibrated.probability > calibrated.break_even)
    should = long & (labels.target[chosen] == labels.classes - 1)
    event, end = labels.event[chosen].astype(np.int64), labels.end[chosen].astype(np.int64)
    taken = chosen[one_at_a_time(event, end, buy)]
    first, last = int(event.min()), int(end.max())
    returns = np.zeros(last - first + 1)
    for entry, exit, gross in zip(labels.event[taken] + 1, labels.end[taken], labels.gross[taken], strict=True):
        returns[entry - first : exit - first + 1] = marked(bars, int(entry), int(exit), float(gross))
    return Trades(
        entry=labels.event[taken].astype(np.int64) + 1 - first,
        exit=labels.end[taken].astype(np.int64) - first,
        gross=labels.gross[taken].astype(np.float64),
        returns=returns,
        time=bars.time[first : last + 1],
        buys=int(buy.sum()),
        right=int((buy & should).sum()),
        should=int(should.sum()),
    )


def one_at_a_time(event: Indices, end: Indices, buy: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Indices:
    """Which events are bought when each must wait for the position before it to end; they are in order of time."""
    taken, free = [], -1
    for at in np.flatnonzero(buy):
        if event[at] >= free:  # the bar in which the last position ended is over when this one is decided
            taken.append(at)
            free = end[at]
    return np.array(taken, dtype=np.int64)


def marked(bars: Bars, entry: int, exit: int, gross: float) -> Floats:
    """A position's logarithmic return bar by bar, at closing prices; the last bar ends where the position does."""
    prices = np.concatenate((bars.open[entry : entry + 1], bars.close[entry:exit]))
    reached = np.append(np.log(prices / prices[0]), np.log1p(gross))
    return np.diff(reached)
