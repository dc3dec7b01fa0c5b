"""Sums, extremes and averages that run along a series, for every row from what lies at or before it.

All are built from numpy's compiled loops and give a row the same bits whether or not later rows exist. Nothing here
starts threads: sweeps run one process per core already, and a process with threads cannot be forked safely.
"""

from __future__ import annotations

from math import exp, log

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HALVINGS_PER_BLOCK = 10.0  # a block's weights span a factor of 2^10, which costs 3 of the 16 digits of a float


def rolling_sum(values: Floats, window: int) -> Floats:
    """The sum of the last ``window`` values; of those there are in the first rows."""
    total = np.cumsum(values)
    result = total.copy()
    result[window:] -= total[:-window]
    return result


def rolling_mean(values: Floats, window: int) -> Floats:
    return rolling_sum(values, window) / window


def rolling_max(values: Floats, window: int) -> Floats:
    """The largest of the last ``window`` values, by the largest up to and from each value within blocks of a window."""
    length = len(values)
    blocks = np.full((-(-length // window), window), -np.inf)
    blocks.reshape(-1)[:length] = values
    up_to = np.maximum.accumulate(blocks, axis=1).reshape(-1)[:length]
    onwards = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].reshape(-1)[:length]
    result = up_to.copy()
    whole = max(0, length - window + 1)  # rows whose window is full
    result[length - whole :] = np.maximum(up_to[length - whole :], onwards[:whole])
    return result


def rolling_min(values: Floats, window: int) -> Floats:
    return -rolling_max(-values, window)


def decayed_sum(values: Floats, halving: float) -> Floats:
    """y[t] = x[t] + y[t - 1] / 2^(1 / halving): a value counts half after ``halving`` rows.

    Blocks are summed at once with weights that grow within a block; only what one block leaves to the next is a loop.
    """
    length = len(values)
    decay = exp(-log(2) / halving)
    width = max(2, int(HALVINGS_PER_BLOCK * halving))
    blocks = np.zeros((-(-length // width), width))
    blocks.reshape(-1)[:length] = values
    weights = decay ** np.arange(width)
    sums = np.cumsum(blocks / weights, axis=1) * weights
    left, carried = 0.0, []
    for last in sums[:, -1].tolist():
        carried.append(left)
        left = last + left * decay**width
    sums += np.outer(carried, weights * decay)
    return np.asarray(sums.reshape(-1)[:length])


def decayed_mean(values: Floats, halving: float) -> Floats:
    """The exponentially weighted mean, which begins at the first value."""
    return np.asarray(values[0] + decayed_sum(values - values[0], halving) * (1 - exp(-log(2) / halving)))
