"""The 272 columns and their order: 32 families at 8 windows and 16 basics that need none.

The order is such that any first N are a fair choice, since ``n_features: N`` means the first N. All families come at a
window of 24 bars, then all at 96, at 12, and so on; a basic stands after every fourth until they are used up, so 80
columns are all families at two windows with all basics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalable.workloads import stage
from scalable_finetune.catalogue import FULL_FEATURES
from scalable_finetune.features.basis import Basis, basis_of
from scalable_finetune.features.families import COMPARED_WITH_LONGER, FAMILIES, LONGER
from scalable_finetune.kernels import Floats, decayed_mean, rolling_sum
from scalable_finetune.market.bars import DAY, Bars

WINDOWS = (24, 96, 12, 336, 48, 8, 168, 4)  # in bars, the more telling first
BASICS_EVERY = 4
BASIC = (
    *("return_1", "hour_sin", "hour_cos", "range_1", "macd", "body_1", "weekday_sin", "weekday_cos", "volume_change_1"),
    *("upper_wick_1", "lower_wick_1", "return_2", "macd_signal", "return_3", "macd_histogram", "weekend"),
)
FAST, SLOW, SIGNAL = 12, 26, 9  # bars of the usual MACD
THURSDAY = 3  # the day 1970 began with, when Monday is 0


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    names: tuple[str, ...]
    values: NDArray[np.float32]
    """One row per bar, one column per name. NaN where a window is not full yet, or where a price does not move and the
    question has no answer; never infinite. Stored column by column."""


def names() -> tuple[str, ...]:
    windowed = (f"{family}_{window}" for window in WINDOWS for family in FAMILIES)
    basics = iter(BASIC)
    result = []
    for number, name in enumerate(windowed, 1):
        result.append(name)
        if number % BASICS_EVERY == 0 and (basic := next(basics, None)):
            result.append(basic)
    return tuple(result)


NAMES = names()
assert len(set(NAMES)) == FULL_FEATURES


@stage(uses=("numpy",))
def features(bars: Bars) -> Features:
    """All 272 of an asset's bars, in the order of ``NAMES``."""
    basis = basis_of(bars)
    basics = basics_of(basis, bars.time)
    position = {name: number for number, name in enumerate(NAMES)}
    columns = np.empty((len(NAMES), len(bars)), dtype=np.float32)
    for name, (values, needed) in basics.items():
        fill(columns[position[name]], values, needed)
    for family, function in FAMILIES.items():
        for window in WINDOWS:
            fill(columns[position[f"{family}_{window}"]], function(basis, window), rows_needed(family, window))
    return Features(NAMES, columns.T)


def rows_needed(family: str, window: int) -> int:
    """Rows that are blank because the windows of a family were not full."""
    return window * LONGER if family in COMPARED_WITH_LONGER else window


def fill(column: NDArray[np.float32], values: Floats, needed: int) -> None:
    """Write a column, with the rows blanked for which there were not enough bars before them."""
    column[:] = values
    column[:needed] = np.nan


def basics_of(basis: Basis, time: NDArray[np.int64]) -> dict[str, tuple[Floats, int]]:
    """Columns without a window, each with the rows it takes until it means something."""
    hour = time % DAY / DAY * 2 * np.pi
    weekday = (time // DAY + THURSDAY) % 7
    week = (weekday + time % DAY / DAY) / 7 * 2 * np.pi
    macd = decayed_mean(basis.price, FAST / 2) - decayed_mean(basis.price, SLOW / 2)
    signal = decayed_mean(macd, SIGNAL / 2)
    return {
        "return_1": (basis.returns, 1),
        "return_2": (rolling_sum(basis.returns, 2), 2),
        "return_3": (rolling_sum(basis.returns, 3), 3),
        "range_1": (basis.range, 0),
        "body_1": (basis.body, 0),
        "upper_wick_1": (basis.upper_wick, 0),
        "lower_wick_1": (basis.lower_wick, 0),
        "volume_change_1": (np.diff(basis.activity, prepend=0.0), 1),
        "macd": (macd, SLOW),
        "macd_signal": (signal, SLOW),
        "macd_histogram": (macd - signal, SLOW),
        "hour_sin": (np.sin(hour), 0),
        "hour_cos": (np.cos(hour), 0),
        "weekday_sin": (np.sin(week), 0),
        "weekday_cos": (np.cos(week), 0),
        "weekend": ((weekday >= 5).astype(np.float64), 0),
    }
