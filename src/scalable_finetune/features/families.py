"""The families of features: 32 questions, each asked of the last so many bars.

A family is a function of the basis and a window. It gives one value per bar from that bar and those before it. What it
gives for the first ``window`` bars does not matter: it is blanked, since the window was not full.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi, sqrt

import numpy as np

from scalable_finetune.features.basis import FLAT, Basis, ratio
from scalable_finetune.kernels import Floats, decayed_mean, rolling_max, rolling_mean, rolling_min, rolling_sum

FLAT_SQUARED = FLAT**2
LONGER = 4  # windows that one window is compared with


def total_return(basis: Basis, window: int) -> Floats:
    return rolling_sum(basis.returns, window)


def deviation(basis: Basis, window: int) -> Floats:
    """The standard deviation of returns, 0 for a price that does not move."""
    spread = variance(basis.returns, window)
    return np.sqrt(np.where(spread > FLAT_SQUARED, spread, 0.0))


def scaled_return(basis: Basis, window: int) -> Floats:
    """In standard deviations: how unusual the move was."""
    return ratio(total_return(basis, window), deviation(basis, window) * sqrt(window))


def downside(basis: Basis, window: int) -> Floats:
    """The deviation of falls alone."""
    return root(rolling_mean(np.minimum(basis.returns, 0.0) ** 2, window))


def upside_share(basis: Basis, window: int) -> Floats:
    """Of all squared returns, those of rises."""
    squares = basis.returns**2
    rises = rolling_sum(np.where(basis.returns > 0, squares, 0.0), window)
    return ratio(rises, rolling_sum(squares, window), floor=FLAT_SQUARED)


def parkinson(basis: Basis, window: int) -> Floats:
    """Volatility from ranges, which see what happens within bars."""
    return root(rolling_mean(basis.range**2, window) / (4 * log(2)))


def garman_klass(basis: Basis, window: int) -> Floats:
    """Volatility from ranges and bodies."""
    return root(rolling_mean(0.5 * basis.range**2 - (2 * log(2) - 1) * basis.body**2, window))


def rogers_satchell(basis: Basis, window: int) -> Floats:
    """Volatility that a steady trend does not raise."""
    body = np.abs(basis.body)
    squares = basis.upper_wick * (basis.upper_wick + body) + basis.lower_wick * (basis.lower_wick + body)
    return root(rolling_mean(squares, window))


def volatility_ratio(basis: Basis, window: int) -> Floats:
    """Of the window against a longer one: whether it gets calmer or wilder."""
    return ratio(deviation(basis, window), deviation(basis, LONGER * window))


def volatility_change(basis: Basis, window: int) -> Floats:
    """How uneven the sizes of moves were: their deviation against their mean."""
    return ratio(root(variance(basis.size, window)), rolling_mean(basis.size, window))


def jumps(basis: Basis, window: int) -> Floats:
    """The part of the squared returns that neighbours do not share: single leaps."""
    together = rolling_sum(basis.size * np.concatenate(([0.0], basis.size[:-1])), window) * pi / 2
    return 1 - ratio(together, rolling_sum(basis.returns**2, window), floor=FLAT_SQUARED)


def average_range(basis: Basis, window: int) -> Floats:
    return rolling_mean(basis.true_range, window)


def choppiness(basis: Basis, window: int) -> Floats:
    """How much way was made within how small a space."""
    space = rolling_max(basis.high, window) - rolling_min(basis.low, window)
    return np.log(np.maximum(ratio(rolling_sum(basis.true_range, window), space, otherwise=1.0), FLAT)) / log(window)


def relative_strength_index(basis: Basis, window: int) -> Floats:
    """Rises against all moves, 0 to 100."""
    rises = rolling_sum(np.maximum(basis.returns, 0.0), window)
    return 100 * ratio(rises, rolling_sum(basis.size, window))


def stochastic(basis: Basis, window: int) -> Floats:
    """Where the close lies between the lowest low and the highest high."""
    low = rolling_min(basis.low, window)
    return ratio(basis.price - low, rolling_max(basis.high, window) - low)


def mean_distance(basis: Basis, window: int) -> Floats:
    """Of the price from its mean, in standard deviations of the window's move."""
    away = basis.price - rolling_mean(basis.price, window)
    return ratio(away, deviation(basis, window) * sqrt(window))


def decayed_distance(basis: Basis, window: int) -> Floats:
    """The same from a mean in which recent prices count more."""
    return basis.price - decayed_mean(basis.price, window / 2)


def trend(basis: Basis, window: int) -> Floats:
    """The mean price of the newer half against the older, in standard deviations of the window's move."""
    half = window // 2
    newer = rolling_mean(basis.price, half)
    older = np.concatenate((np.zeros(half), newer))[: len(newer)]
    return ratio(newer - older, deviation(basis, window) * sqrt(window))


def efficiency(basis: Basis, window: int) -> Floats:
    """The way made against the way gone, with its direction."""
    return ratio(total_return(basis, window), rolling_sum(basis.size, window))


def rise_share(basis: Basis, window: int) -> Floats:
    """Of all bars, those that rose."""
    return rolling_mean((basis.returns > 0).astype(np.float64), window)


def body_share(basis: Basis, window: int) -> Floats:
    """Of the ranges, what was left at the close, with its direction."""
    return ratio(rolling_sum(basis.body, window), rolling_sum(basis.range, window))


def wick_balance(basis: Basis, window: int) -> Floats:
    """Whether prices were pushed back from above or from below."""
    pushed = rolling_sum(basis.lower_wick - basis.upper_wick, window)
    return ratio(pushed, rolling_sum(basis.range, window))


def drawdown(basis: Basis, window: int) -> Floats:
    return basis.price - rolling_max(basis.high, window)


def recovery(basis: Basis, window: int) -> Floats:
    return basis.price - rolling_min(basis.low, window)


def largest_rise(basis: Basis, window: int) -> Floats:
    return ratio(rolling_max(basis.returns, window), deviation(basis, window))


def largest_fall(basis: Basis, window: int) -> Floats:
    return ratio(rolling_min(basis.returns, window), deviation(basis, window))


def skewness(basis: Basis, window: int) -> Floats:
    mean = rolling_mean(basis.returns, window)
    squares, cubes = rolling_mean(basis.returns**2, window), rolling_mean(basis.returns**3, window)
    spread = squares - mean**2
    return ratio(cubes - 3 * mean * squares + 2 * mean**3, np.maximum(spread, 0.0) ** 1.5, floor=FLAT**3)


def kurtosis(basis: Basis, window: int) -> Floats:
    mean = rolling_mean(basis.returns, window)
    squares = basis.returns**2
    second, third = rolling_mean(squares, window), rolling_mean(squares * basis.returns, window)
    fourth = rolling_mean(squares**2, window)
    central = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
    return ratio(central, np.maximum(second - mean**2, 0.0) ** 2, floor=FLAT**4) - 3


def autocorrelation(basis: Basis, window: int) -> Floats:
    """Whether a move is followed by one of its own kind."""
    return correlation(basis.returns, np.concatenate(([0.0], basis.returns[:-1])), window)


def clustering(basis: Basis, window: int) -> Floats:
    """Whether a large move is followed by a large one."""
    return correlation(basis.size, np.concatenate(([0.0], basis.size[:-1])), window)


def volume_surprise(basis: Basis, window: int) -> Floats:
    """The last bar's volume in standard deviations from the window's mean."""
    away = basis.activity - rolling_mean(basis.activity, window)
    return ratio(away, root(variance(basis.activity, window)), floor=1e-6)


def volume_trend(basis: Basis, window: int) -> Floats:
    """The window's volume against that of a longer one."""
    return rolling_mean(basis.activity, window) - rolling_mean(basis.activity, LONGER * window)


def volume_balance(basis: Basis, window: int) -> Floats:
    """Volume of rising against that of falling bars."""
    signed = rolling_sum(np.sign(basis.returns) * basis.volume, window)
    return ratio(signed, rolling_sum(basis.volume, window))


def volume_correlation(basis: Basis, window: int) -> Floats:
    """Whether volume came with rises or with falls."""
    return correlation(basis.returns, basis.activity, window)


def traded_distance(basis: Basis, window: int) -> Floats:
    """Of the price from the mean price of what changed hands."""
    worth = rolling_sum(basis.price * basis.volume, window)
    return basis.price - ratio(worth, rolling_sum(basis.volume, window))


def impact(basis: Basis, window: int) -> Floats:
    """How far the price moved per volume, as a log."""
    moved = ratio(rolling_sum(basis.size, window), rolling_sum(basis.volume, window))
    return np.log(np.maximum(moved, FLAT))


Family = Callable[[Basis, int], Floats]

FAMILIES: dict[str, Family] = {
    "return": total_return,
    "volatility": deviation,
    "rsi": relative_strength_index,
    "mean_distance": mean_distance,
    "volume_surprise": volume_surprise,
    "drawdown": drawdown,
    "efficiency": efficiency,
    "autocorrelation": autocorrelation,
    "average_range": average_range,
    "stochastic": stochastic,
    "volatility_ratio": volatility_ratio,
    "trend": trend,
    "volume_balance": volume_balance,
    "skewness": skewness,
    "scaled_return": scaled_return,
    "parkinson": parkinson,
    "recovery": recovery,
    "body_share": body_share,
    "volume_trend": volume_trend,
    "kurtosis": kurtosis,
    "downside": downside,
    "choppiness": choppiness,
    "decayed_distance": decayed_distance,
    "traded_distance": traded_distance,
    "upside_share": upside_share,
    "clustering": clustering,
    "largest_fall": largest_fall,
    "volume_correlation": volume_correlation,
    "wick_balance": wick_balance,
    "garman_klass": garman_klass,
    "impact": impact,
    "jumps": jumps,
}
"""By name, the more telling first, neighbours of different kinds."""
COMPARED_WITH_LONGER = ("volatility_ratio", "volume_trend")


def variance(values: Floats, window: int) -> Floats:
    return np.maximum(rolling_mean(values**2, window) - rolling_mean(values, window) ** 2, 0.0)


def correlation(one: Floats, other: Floats, window: int) -> Floats:
    together = rolling_mean(one * other, window) - rolling_mean(one, window) * rolling_mean(other, window)
    spread = np.sqrt(variance(one, window) * variance(other, window))
    return np.clip(ratio(together, spread, floor=FLAT_SQUARED), -1.0, 1.0)


def root(values: Floats) -> Floats:
    return np.sqrt(np.maximum(values, 0.0))
