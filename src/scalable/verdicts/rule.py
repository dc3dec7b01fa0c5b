"""The rule: what the estimates of all variants together say about each of them.

Everything works on arrays whose last dimension is the variants of one sweep, so that a simulation of many sweeps goes
through the same functions as a decision. A gain is a difference in the direction that is better.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable.verdicts.methods import Estimate
from scalable.verdicts.tables import Flags, Floats

ALPHA = 0.05  # chance of a false LOCK in a sweep without any effect, and of a false ABANDON of one variant for harm
ALIKE = 1e-9  # of the mean; a smaller standard error is rounding, not spread
CONFIDENCE = 0.95  # of the interval that is shown


class Verdict(Enum):
    """The consequence for a variant."""

    LOCK = "LOCK"  # proven better: it may become part of the base configuration
    KEEP_AVAILABLE = "KEEP_AVAILABLE"  # inconclusive: more blocks may decide it
    ABANDON = "ABANDON"  # proven worse, or proven to make no difference of interest: not worth trying again


VERDICTS = (Verdict.LOCK, Verdict.KEEP_AVAILABLE, Verdict.ABANDON)
"""By the numbers that ``verdicts`` returns."""


class Tests(NamedTuple):
    """The primary metric of each variant, tested against the baseline."""

    p: Floats
    """One-sided, that the variant is no better."""
    p_corrected: Floats
    """The same by Holm over the variants of the sweep."""
    p_worse: Floats
    """One-sided, that the variant is no worse; harm is not corrected: a missed harm is worse than a false alarm."""
    low: Floats
    high: Floats
    """Ends of the 95 % interval of the gain."""
    equivalent: Flags
    """The 90 % interval of the gain lies inside ± the smallest difference of interest: two one-sided tests."""


def tests(gain: Estimate, complete: Flags, smallest: float | None = None) -> Tests:
    """Return the tests of all variants; those with incomplete rows stay in the correction with p = 1."""
    p = np.where(complete, p_above(gain), 1.0)
    low, high = interval(gain, CONFIDENCE)
    equivalent = np.zeros(p.shape, dtype=np.bool_)
    if smallest is not None:
        within_low, within_high = interval(gain, 1 - 2 * ALPHA)
        equivalent = (within_low > -smallest) & (within_high < smallest) & (~alike(gain) | (gain.mean == 0))
    return Tests(p, holm(p), p_above(gain._replace(mean=-gain.mean)), low, high, equivalent)


def verdicts(tested: Tests, complete: Flags, allowed: Flags, level: float = ALPHA) -> NDArray[np.int64]:
    """Return the position in ``VERDICTS`` for each variant; ``allowed`` where all guards and bars hold.

    ``level`` is the corrected p below which a variant is proven better. In this order: incomplete rows
    decide nothing; worse or equivalent is ABANDON; better, with guards and bars, is LOCK; everything else stays
    available.
    """
    given_up = complete & ((tested.p_worse < ALPHA) | tested.equivalent)
    locked = complete & (tested.p_corrected < level) & allowed
    return np.select([given_up, locked], [2, 0], default=1)


def p_above(estimate: Estimate) -> Floats:
    """Return the one-sided p of a mean above 0; 1 where nothing can be said."""
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = estimate.mean / estimate.se
    unknown = np.isnan(t) | alike(estimate)
    return np.where(unknown, 1.0, stdtr(np.nan_to_num(estimate.df, nan=1.0), -np.nan_to_num(t)))


def alike(estimate: Estimate) -> Flags:
    """Return where all values are the same: blocks that do not differ are one measurement, which proves nothing."""
    return np.asarray(estimate.se <= ALIKE * np.abs(estimate.mean))


def interval(estimate: Estimate, confidence: float) -> tuple[Floats, Floats]:
    """Return both ends of the two-sided t interval."""
    reach = quantile(estimate.df, (1 + confidence) / 2) * estimate.se
    return estimate.mean - reach, estimate.mean + reach


def quantile(df: Floats, share: float) -> Floats:
    """Return the quantile of Student's t; nan stays nan."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(df, share))


def holm(p: Floats) -> Floats:
    """Return p-values corrected by Holm along the last dimension: all below 0.05 are true with 95 % confidence.

    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    count = p.shape[-1]
    if not count:
        return p
    order = np.argsort(p, axis=-1, kind="stable")
    steps = np.take_along_axis(p, order, axis=-1) * (count - np.arange(count))
    steps = np.minimum(np.maximum.accumulate(steps, axis=-1), 1.0)
    corrected = np.empty_like(steps)
    np.put_along_axis(corrected, order, steps, axis=-1)
    return corrected


def holm_level(p: Floats, level: float = ALPHA) -> Floats:
    """Return the p below which each variant is significant, while the others stay as they are."""
    count = p.shape[-1]
    ranks = np.argsort(np.argsort(p, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(level / (count - ranks))
