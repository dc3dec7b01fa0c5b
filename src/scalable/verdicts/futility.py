"""When to stop measuring a variant: it can hardly be locked any more.

Blocks are measured in order, period by period. Stopping early never makes a LOCK, since LOCK needs all rows; it only
loses those that a variant would have reached against the odds.
"""

from __future__ import annotations

import numpy as np

from scalable.verdicts.methods import Method, Test
from scalable.verdicts.robustness import undoing_axis
from scalable.verdicts.rule import ALPHA, quantile
from scalable.verdicts.tables import Axis, Flags, Floats

FROM = 2  # values of the ordered axis; one alone may be an accident
HOPED = 0.5  # standard deviations of a block: the gain that the rest is granted if less was seen
LEAST_CHANCE = 0.2  # of LOCK; below, a variant is not continued


def ordered_axis(method: Method) -> Axis:
    """Return the axis whose values are measured one after the other: periods, else folds, else the sample."""
    return undoing_axis(method)


def futile(method: Method, gains: Floats, done: int) -> Flags:
    """Return which variants need not be continued after ``done`` values of the ordered axis.

    ``gains`` has the variants first, then the axes; values that were not measured yet are ignored.
    """
    return chance_of_lock(method, gains, done) < LEAST_CHANCE


def chance_of_lock(method: Method, gains: Floats, done: int) -> Floats:
    """Return the chance that a variant is locked in the end, if the rest has a mean of what was seen or ``HOPED``.

    It is on the variant's side: the larger of both means, blocks that share nothing, no correction for other variants.
    """
    from scipy.special import ndtr

    if method.test is Test.NONE or done < FROM:
        return np.ones(gains.shape[: gains.ndim - len(method.axes)])
    leading = gains.ndim - len(method.axes)
    axis = ordered_axis(method)
    at = leading + method.axes.index(axis)
    seen = method.reduce(np.take(gains, range(done), axis=at))
    dimensions = tuple(range(leading, seen.ndim))
    mean = seen.mean(axis=dimensions)
    spread = seen.std(axis=dimensions, ddof=1)
    total = len(axis)
    rest = total - done
    if not rest:
        return np.ones(mean.shape)
    others = seen[(0,) * leading].size // done
    granted = np.maximum(mean, HOPED * spread)
    final = (done * mean + rest * granted) / total
    correction = 1 / (method.folds - 1) if method.test in (Test.RESAMPLED, Test.FIXED) else 0.0
    se = spread * np.sqrt((1 / total + correction) / others)
    needed = quantile(np.full(mean.shape, others * total - 1.0), 1 - ALPHA) * se
    noise = spread / np.sqrt(others * rest) * rest / total
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = ndtr((final - needed) / noise)
    return np.where(spread > 0, chance, np.where(mean > 0, 1.0, 0.0))
