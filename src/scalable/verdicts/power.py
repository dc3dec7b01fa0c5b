"""What a grid can find, before anything is paid.

The power is that of the very test that will judge: many tables without an effect are drawn from a fixed seed and tested
by ``methods``. A gain d is found in a table if it lifts its mean over what the test asks for, so the smallest gain that
is found in 80 % of cases is a quantile over the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod, sqrt

import numpy as np

from scalable.axes import AxisKind
from scalable.verdicts.methods import Method, Test, choose, sizes
from scalable.verdicts.rule import ALPHA, quantile
from scalable.verdicts.tables import Axis, Floats

TARGET = 0.8  # share of cases in which a gain of this size must be found
TABLES = 4000  # drawn for one grid: the detectable gain then has an error of about 2 %
MOST_DRAWN = 2_000_000  # numbers; large grids get fewer tables, to stay within a tenth of a second
SEED = 20_240_501  # any fixed one: whoever plans again must read the same figures
SHARED = 0.2  # of the variance by each axis, where nothing was measured
GROWTH = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20)  # times as many values of an axis that are tried
MOST_VALUES = 100  # of an axis in a suggested grid
MOST_BLOCKS = 2500  # in a suggested grid
FEWEST_GROWN = 5  # values of a suggested axis


@dataclass(frozen=True, slots=True)
class Spread:
    """How much the difference to the baseline varies between blocks."""

    deviation: float
    """Standard deviation of a block's difference, axes that the test averages over averaged already."""
    by_sample: float = SHARED
    """Share of the variance that blocks of one asset (data set) have in common."""
    by_period: float = SHARED
    """Share of the variance that blocks of one period have in common."""
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Power:
    """What a grid can find."""

    possible: bool
    """Whether any verdict is possible."""
    detectable: float | None
    """The gain found in 80 % of cases, in units of the metric; nothing as long as the spread is not known."""
    deviations: float | None
    """The same in standard deviations of a block's difference."""
    smallest: float | None
    """The smallest difference of interest, as declared."""
    suggestion: str | None
    """The grid that would find ``smallest``."""
    times: float | None
    """Its blocks for each block of this grid."""
    measured: bool
    method: str

    def to_dict(self) -> dict[str, object]:
        return {
            "detectable": self.detectable,
            "smallest": self.smallest,
            "suggestion": self.suggestion,
            "possible": self.possible,
            "deviations": self.deviations,
            "cost_factor": self.times,
            "measured": self.measured,
            "method": self.method,
        }


def power_of(axes: Sequence[Axis], variants: int, smallest: float | None = None, spread: Spread | None = None) -> Power:
    """Return what a sweep of so many variants beside the baseline can find on blocks made of these axes."""
    method = choose(axes)
    known = spread is not None and spread.deviation > 0
    assumed = spread if spread is not None and known else Spread(1.0)
    if method.test is Test.NONE or variants < 1:
        return Power(False, None, None, smallest, None, None, known, str(method))
    deviations = detectable(method, assumed, variants)
    found = deviations * assumed.deviation if known else None
    suggestion, times = None, None
    if smallest is not None and found is not None and found > smallest:
        grid = grid_for(axes, variants, smallest / assumed.deviation, assumed)
        if grid is not None:
            suggestion, times = sizes(axis for axis in grid if len(axis) > 1), blocks(grid) / blocks(axes)
    return Power(True, found, deviations, smallest, suggestion, times, known, str(method))


def detectable(method: Method, spread: Spread, variants: int) -> float:
    """Return the gain found in 80 % of cases, in standard deviations of a block's difference."""
    estimate = method.estimate(tables(method, spread))
    needed = quantile(estimate.df, 1 - ALPHA / variants) * estimate.se - estimate.mean
    return float(np.quantile(needed, TARGET))


def tables(method: Method, spread: Spread) -> Floats:
    """Draw tables without an effect and with a variance of 1 in each block; averaged axes have one value."""
    chance = np.random.default_rng(SEED)
    lengths = tuple(len(axis) if at in method.kept else 1 for at, axis in enumerate(method.axes))
    count = min(TABLES, max(MOST_DRAWN // prod(lengths), 100))
    common, own = np.zeros((count, *lengths)), 1.0
    for at, share in shares(method, spread).items():
        folds = method.axes[at].kind is AxisKind.FOLDS
        shape = tuple(1 if (other == at) is folds else length for other, length in enumerate(lengths))
        common += sqrt(share) * chance.standard_normal((count, *shape))
        own -= share
    return common + sqrt(max(own, 0.0)) * chance.standard_normal((count, *lengths))


def shares(method: Method, spread: Spread) -> dict[int, float]:
    """Return the share of the variance that blocks have in common, by the axis that they share.

    Training sets of k folds overlap: the folds of a data set are correlated by 1/k, as the corrected test assumes.
    """
    if method.test is Test.CROSSED:
        first, second = method.kept
        return {first: spread.by_sample, second: min(spread.by_period, 1 - spread.by_sample)}
    return {method.kept[-1]: 1 / method.folds} if method.test in (Test.RESAMPLED, Test.FIXED) else {}


def measured_spread(method: Method, gains: Floats) -> Spread | None:
    """Return the spread of differences that were measured, pooled over variants; nothing if there are too few."""
    if method.test is Test.NONE or not len(gains):
        return None
    table = method.reduce(gains)
    table = table[np.isfinite(table).all(axis=tuple(range(1, table.ndim)))]
    if not len(table) or table[0].size < 2:
        return None
    if method.test is not Test.CROSSED:
        variance = float(table.var(axis=-1, ddof=1).mean())
        if method.test is not Test.PLAIN:
            variance /= 1 - 1 / method.folds  # folds that share a part of their difference vary less among themselves
        return Spread(sqrt(variance), measured=True) if variance > 0 else None
    a, f = table.shape[-2:]
    centred = table - table.mean(axis=(-2, -1), keepdims=True)
    ss_a, ss_f = f * (centred.mean(axis=-1) ** 2).sum(axis=-1), a * (centred.mean(axis=-2) ** 2).sum(axis=-1)
    ss_e = np.maximum((centred**2).sum(axis=(-2, -1)) - ss_a - ss_f, 0.0)
    ms_a, ms_f = float(ss_a.mean()) / (a - 1), float(ss_f.mean()) / (f - 1)
    own = float(ss_e.mean()) / ((a - 1) * (f - 1))
    by_a, by_f = max((ms_a - own) / f, 0.0), max((ms_f - own) / a, 0.0)
    variance = own + by_a + by_f
    if variance <= 0:
        return None
    second = method.kept_axes[1].kind is AxisKind.PERIODS
    return Spread(sqrt(variance), by_a / variance, by_f / variance if second else SHARED, measured=True)


def grid_for(axes: Sequence[Axis], variants: int, deviations: float, spread: Spread) -> tuple[Axis, ...] | None:
    """Return the smallest grid that finds a gain of so many standard deviations; nothing if none of a sane size does.

    Axes of folds do not grow: more folds of the same data are smaller ones, and their differences vary more. A grid
    with another test is no candidate either: nobody knows the spread that counts there.
    """
    method = choose(axes)
    candidates = {tuple(axes)}
    for at in method.kept:
        if axes[at].kind is not AxisKind.FOLDS:
            candidates |= {
                (*grid[:at], longer(grid[at], times), *grid[at + 1 :]) for grid in candidates for times in GROWTH
            }
    for grid in sorted(candidates, key=lambda grid: (blocks(grid), max(len(axis) for axis in grid))):
        grown = choose(grid)
        if blocks(grid) > MOST_BLOCKS or max(len(axis) for axis in grown.kept_axes) > MOST_VALUES:
            continue
        if grown.test is not method.test or lower_bound(grown, variants, spread) > deviations:
            continue
        if detectable(grown, spread, variants) <= deviations:
            return grid
    return None


def lower_bound(method: Method, variants: int, spread: Spread) -> float:
    """Return a gain below which no grid like this one finds 80 %: that of a test that knows the variance."""
    from scipy.special import ndtri

    lengths = {at: len(method.axes[at]) for at in method.kept}
    shared = shares(method, spread) if method.test is Test.CROSSED else {}
    variance = (1 - sum(shared.values())) / prod(lengths.values())
    variance += sum(share / lengths[at] for at, share in shared.items())
    return float((ndtri(1 - ALPHA / variants) + ndtri(TARGET)) * sqrt(variance))


def longer(axis: Axis, times: float) -> Axis:
    count = len(axis) if times == 1 else max(ceil(len(axis) * times), min(FEWEST_GROWN, MOST_VALUES))
    return replace(axis, values=tuple(range(count)))


def blocks(axes: Sequence[Axis]) -> int:
    return prod(len(axis) for axis in axes)
