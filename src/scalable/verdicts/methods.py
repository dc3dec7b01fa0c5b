"""How sure a mean difference is: one test for each structure of blocks.

Blocks are not independent: assets share periods, periods share assets, cross-validation folds share training data.
Which test is honest follows from the kinds of the axes alone (``choose``). All tests are t tests, given by a mean, its
standard error and its degrees of freedom. They work on many tables at once: leading dimensions are variants or sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from scalable.axes import AxisKind
from scalable.verdicts.tables import Axis, Floats
from scalable.wording import plural

FEW = 5  # values of an axis; with fewer, its mean square is too uncertain to count degrees of freedom with
MOST_DEGREES = (
    2  # times those of the shorter axis. A mean square that is small by chance makes the estimated degrees of
)
# freedom large as well: with 100 variants on 17 × 5 blocks, 8.8 % of sweeps would be locked falsely without this bound
FEWEST_SAMPLES = 3  # crossed with periods; one or two say nothing about others, so the verdict is about these


class Estimate(NamedTuple):
    """The mean of each table, its standard error and degrees of freedom; nan where a table has too few values."""

    mean: Floats
    se: Floats
    df: Floats


class Test(Enum):
    """The structure that a method assumes."""

    NONE = "none"  # one block: there is no spread to measure a difference by
    PLAIN = "t"  # values of one axis, independent of each other
    CROSSED = "crossed t"  # two axes, each of which may share a part of the difference
    RESAMPLED = "corrected resampled t"  # folds of one data set, whose training data overlap
    FIXED = "corrected resampled t by data set"  # folds of two to four data sets: about these data sets only


@dataclass(frozen=True, slots=True)
class Method:
    """A test and the axes it runs over; it averages over the others."""

    test: Test
    axes: tuple[Axis, ...]
    kept: tuple[int, ...]
    """Positions of the axes that the test runs over. For folds, those of the folds come last."""
    scope: str = ""
    """What the verdict is limited to, e.g. ``on these 2 assets``."""

    def __str__(self) -> str:
        """Return the method for people, e.g. ``crossed t over 5 assets × 5 periods``."""
        if self.test is Test.NONE:
            return "no test: there is one block"
        text = f"{'t' if self.test is Test.PLAIN else self.test.value} over {sizes(self.kept_axes)}"
        averaged = [axis for at, axis in enumerate(self.axes) if at not in self.kept and len(axis) > 1]
        if averaged:
            text += f", averaged over {sizes(averaged)}"
        return f"{text}, {self.scope}" if self.scope else text

    @property
    def kept_axes(self) -> tuple[Axis, ...]:
        return tuple(self.axes[at] for at in self.kept)

    @property
    def folds(self) -> int:
        """Folds of one repetition of a cross-validation: those of its longest axis of folds."""
        return max(len(axis) for axis in self.kept_axes if axis.kind is AxisKind.FOLDS)

    def reduce(self, differences: Floats) -> Floats:
        """Return the table that the test sees: other axes averaged, folds of all repetitions in one dimension."""
        leading = differences.ndim - len(self.axes)
        others = tuple(leading + at for at in range(len(self.axes)) if at not in self.kept)
        table = mean_over(differences, others) if others else differences
        remaining = sorted(self.kept)
        table = table.transpose(*range(leading), *(leading + remaining.index(at) for at in self.kept))
        if self.test in (Test.RESAMPLED, Test.FIXED):
            first = leading + (1 if self.test is Test.FIXED else 0)
            table = table.reshape(*table.shape[:first], -1)
        return table

    def estimate(self, differences: Floats) -> Estimate:
        """Return mean, standard error and degrees of freedom; trailing dimensions are the axes."""
        table = self.reduce(differences)
        match self.test:
            case Test.PLAIN:
                return plain(table)
            case Test.CROSSED:
                return crossed(table)
            case Test.RESAMPLED:
                return resampled(table, self.folds)
            case Test.FIXED:
                return fixed(table, self.folds)
        mean = mean_over(differences, tuple(range(differences.ndim - len(self.axes), differences.ndim)))
        return Estimate(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))


def choose(axes: Sequence[Axis]) -> Method:
    """Return the method for blocks made of these axes. Axes with a single value are constants."""
    axes = tuple(axes)
    kinds = {
        kind: sorted((at for at, axis in enumerate(axes) if axis.kind is kind and len(axis) > 1), key=fewest(axes))
        for kind in AxisKind
    }
    samples, periods, folds = kinds[AxisKind.SAMPLE], kinds[AxisKind.PERIODS], kinds[AxisKind.FOLDS]
    if not samples and not periods and not folds:
        return Method(Test.NONE, axes, ())
    if folds and not periods:
        if samples and len(axes[samples[0]]) >= FEW:
            return Method(Test.PLAIN, axes, (samples[0],))
        if samples:
            return Method(Test.FIXED, axes, (samples[0], *folds), these(axes[samples[0]]))
        return Method(Test.RESAMPLED, axes, tuple(folds), constant(axes))
    if samples and periods:
        if len(axes[samples[0]]) < FEWEST_SAMPLES:
            return Method(Test.PLAIN, axes, (periods[0],), these(axes[samples[0]]))
        return Method(Test.CROSSED, axes, (samples[0], periods[0]))
    alike = samples or periods
    if len(alike) == 1:
        return Method(Test.PLAIN, axes, (alike[0],), constant(axes) if periods else "")
    return Method(Test.CROSSED, axes, tuple(alike[:2]))


def fewest(axes: Sequence[Axis]) -> Callable[[int], int]:
    return lambda at: len(axes[at])


def these(axis: Axis) -> str:
    return f"on these {plural(len(axis), axis.noun)}"


def constant(axes: Iterable[Axis]) -> str:
    """Return the scope of a verdict whose only sample has one value."""
    single = [f"this {axis.noun}" for axis in axes if axis.kind is AxisKind.SAMPLE and len(axis) == 1]
    return f"on {' and '.join(single)}" if single else ""


def sizes(axes: Iterable[Axis]) -> str:
    return " × ".join(plural(len(axis), axis.noun) for axis in axes)


def plain(values: Floats) -> Estimate:
    """Return the ordinary t over the last dimension; values that are not there are left out."""
    n, mean, variance = moments(values)
    return Estimate(mean, np.sqrt(variance / np.maximum(n, 1)), degrees(n - 1))


def resampled(values: Floats, folds: int) -> Estimate:
    """Return the corrected resampled t (Nadeau and Bengio 2003) over the last dimension.

    Training sets of k folds overlap, so the differences are correlated; 1/(k-1), the size of a test set for that of a
    training set, stands for it. Several repetitions of the folds stand beside each other.
    """
    n, mean, variance = moments(values)
    return Estimate(mean, np.sqrt(variance * (1 / np.maximum(n, 1) + 1 / (folds - 1))), degrees(n - 1))


def fixed(values: Floats, folds: int) -> Estimate:
    """Return the mean of data sets (last but one dimension), each with its corrected resampled t over folds (last)."""
    each = resampled(values, folds)
    sets = values.shape[-2]
    squares = each.se**2
    total = squares.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        satterthwaite = total**2 / (squares**2 / each.df).sum(axis=-1)
    df = np.where(total > 0, satterthwaite, each.df.sum(axis=-1))
    return Estimate(each.mean.mean(axis=-1), np.sqrt(total) / sets, np.where(np.isnan(total), np.nan, df))


def crossed(table: Floats) -> Estimate:
    """Return the t of crossed random effects over the last two dimensions.

    Each axis may share a part of the difference, so both mean squares count; V is never below the larger, because a
    difference of mean squares is noise where nothing is shared. Tables with holes have the two-way clustered variance.
    """
    whole = np.isfinite(table).all(axis=(-2, -1))
    if whole.all():
        return balanced(table)
    estimate = clustered(table)
    if whole.any():
        for target, source in zip(estimate, balanced(table[whole]), strict=True):
            target[whole] = source
    return estimate


def balanced(table: Floats) -> Estimate:
    a, f = table.shape[-2:]
    mean = table.mean(axis=(-2, -1))
    centred = table - mean[..., None, None]
    ss_a = f * (centred.mean(axis=-1) ** 2).sum(axis=-1)
    ss_f = a * (centred.mean(axis=-2) ** 2).sum(axis=-1)
    ss_e = np.maximum(np.einsum("...ij,...ij->...", centred, centred) - ss_a - ss_f, 0.0)
    ms_a, ms_f, ms_e = ss_a / (a - 1), ss_f / (f - 1), ss_e / ((a - 1) * (f - 1))
    return Estimate(mean, *crossed_error(a, f, ms_a, ms_f, ms_e))


def crossed_error(a: int, f: int, ms_a: Floats, ms_f: Floats, ms_e: Floats) -> tuple[Floats, Floats]:
    """Return standard error and degrees of freedom (Satterthwaite) from the mean squares of an a × f table."""
    v = np.maximum(ms_a + ms_f - ms_e, np.maximum(ms_a, ms_f))
    least = min(a, f) - 1
    if min(a, f) < FEW:
        df = np.full_like(v, least)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            df = v**2 / (ms_a**2 / (a - 1) + ms_f**2 / (f - 1) + ms_e**2 / ((a - 1) * (f - 1)))
        df = np.clip(np.nan_to_num(df, nan=least), least, MOST_DEGREES * least)
    return np.sqrt(v / (a * f)), df


def clustered(table: Floats) -> Estimate:
    """Return the two-way clustered t (Cameron, Gelbach and Miller 2011): blocks that are not there are left out."""
    there = np.isfinite(table)
    n = there.sum(axis=(-2, -1))
    mean = mean_over(table, (-2, -1))
    centred = np.where(there, table - mean[..., None, None], 0.0)
    rows, columns = there.any(axis=-1).sum(axis=-1), there.any(axis=-2).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        v_a = (centred.sum(axis=-1) ** 2).sum(axis=-1) * rows / (rows - 1)
        v_f = (centred.sum(axis=-2) ** 2).sum(axis=-1) * columns / (columns - 1)
        v_e = (centred**2).sum(axis=(-2, -1)) * n / (n - 1)
        se = np.sqrt(np.maximum(v_a + v_f - v_e, np.maximum(v_a, v_f))) / n
    df = degrees(np.minimum(rows, columns) - 1)
    return Estimate(mean, np.where(np.isnan(df), np.nan, se), df)


def moments(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return how many values there are along the last dimension, their mean and their variance; nan if under two."""
    there = np.isfinite(values)
    n = there.sum(axis=-1).astype(np.float64)
    mean = mean_over(values, (-1,))
    squares = (np.where(there, values - mean[..., None], 0.0) ** 2).sum(axis=-1)
    return n, mean, np.where(n > 1, squares / np.maximum(n - 1, 1), np.nan)


def mean_over(values: Floats, dimensions: tuple[int, ...]) -> Floats:
    """Return the mean of the values that are there; nan where there is none."""
    there = np.isfinite(values)
    if there.all():
        return np.asarray(values.mean(axis=dimensions))
    n = there.sum(axis=dimensions)
    sums = np.where(there, values, 0.0).sum(axis=dimensions)
    return np.asarray(np.where(n > 0, sums / np.maximum(n, 1), np.nan))


def degrees(df: Floats) -> Floats:
    return np.where(df >= 1, df, np.nan).astype(np.float64)
