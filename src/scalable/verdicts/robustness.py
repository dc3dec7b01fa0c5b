"""How much a verdict rests on what was not seen: a long tail of losses cannot be tested for with a few blocks.

So it is shown: how bad one more period, asset or fold would have to be to undo a LOCK, and skewness that can be seen.
"""

from __future__ import annotations

import numpy as np

from scalable.axes import AxisKind
from scalable.verdicts.methods import Method, Test, mean_over
from scalable.verdicts.rule import p_above
from scalable.verdicts.tables import Axis, Flags, Floats

VISIBLE = 2.0  # standard errors of skewness: one of twenty symmetric tables looks like that in either direction
FEWEST_FOR_SKEWNESS = 8  # blocks; fewer show no shape
HALVINGS = 40  # of the range that is searched: far more digits than are shown


def undoing_axis(method: Method) -> Axis:
    """Return the axis along which one more value is asked about: periods first, then folds, then the sample."""
    order = (AxisKind.PERIODS, AxisKind.FOLDS, AxisKind.SAMPLE)
    return min(method.kept_axes, key=lambda axis: order.index(axis.kind))


def undone_by(method: Method, gains: Floats, level: Floats) -> Floats:
    """Return the mean gain of one more value of that axis at which each table (first dimension) is no longer proven.

    The further period (asset, fold) differs between the values of the other axis as the rest does on average. ``level``
    is the p that each table must stay below.
    """
    if method.test is Test.NONE or not len(gains):
        return np.full(len(gains), np.nan)
    axis = undoing_axis(method)
    at = method.axes.index(axis)
    longer = tuple(
        Axis(each.name, each.kind, (*each.values, "one more")) if each is axis else each for each in method.axes
    )
    grown = Method(method.test, longer, method.kept)
    base = mean_over(gains, (at + 1,))
    centre = mean_over(gains, tuple(range(1, gains.ndim)))
    shape = base - centre.reshape(-1, *[1] * (base.ndim - 1))

    def proven(mean: Floats) -> Flags:
        added = shape + mean.reshape(-1, *[1] * (base.ndim - 1))
        table = np.concatenate([gains, np.expand_dims(added, at + 1)], axis=at + 1)
        return np.asarray(p_above(grown.estimate(table)) < level)

    spread = np.nanstd(gains.reshape(len(gains), -1), axis=1)
    good, bad = centre.copy(), centre - 100 * gains[0].size * np.maximum(spread, np.abs(centre))
    for _ in range(HALVINGS):
        middle = (good + bad) / 2
        still = proven(middle)
        good, bad = np.where(still, middle, good), np.where(still, bad, middle)
    return np.asarray((good + bad) / 2)


def skewness(gains: Floats) -> tuple[Floats, Flags]:
    """Return the skewness of each table's blocks, and where a long tail of losses can be seen."""
    blocks = gains.reshape(len(gains), -1)
    there = np.isfinite(blocks)
    n = there.sum(axis=1).astype(np.float64)
    centred = np.where(there, blocks - mean_over(blocks, (1,))[:, None], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        second, third = (centred**2).sum(axis=1) / n, (centred**3).sum(axis=1) / n
        skew = np.sqrt(n * (n - 1)) / (n - 2) * third / second**1.5
        error = np.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))
        visible = (n >= FEWEST_FOR_SKEWNESS) & (skew < -VISIBLE * error)
    return skew, visible
