"""From the measurements of a sweep to a verdict on each variant, with its reason, its rank and its figures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from scalable.axes import Value
from scalable.verdicts.methods import Estimate, Method, Test, choose, mean_over
from scalable.verdicts.robustness import skewness, undoing_axis, undone_by
from scalable.verdicts.rule import (
    ALIKE,
    ALPHA,
    CONFIDENCE,
    VERDICTS,
    Tests,
    Verdict,
    holm_level,
    interval,
    p_above,
    quantile,
    tests,
    verdicts,
)
from scalable.verdicts.tables import Comparison, Flags, Floats
from scalable.wording import plural

POWER = 0.8  # chance of finding a gain that "would decide it" asks for
NORMAL_80 = 0.8416  # its quantile of the normal distribution
MOST_TIMES = 20  # as many values; beyond, nobody runs it


class Standing(Enum):
    """Where a metric of a variant stands beside the baseline's, by its 95 % interval alone."""

    BETTER = "better"
    WORSE = "worse"
    OPEN = "open"  # the interval includes 0, or nobody knows which way is better


class Role(Enum):
    """The part that a metric has in a verdict."""

    PRIMARY = "primary"  # it decides
    GUARD = "guard"  # it may not get worse by more than its margin
    OTHER = "other"  # it is shown
    NOT_COMPARABLE = "not comparable"  # its meaning differs between variants: shown, with the reason


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric of a variant beside the baseline's."""

    name: str
    role: Role
    mean: float
    """Of the variant."""
    baseline: float
    """Mean of the baseline over the same blocks."""
    delta: float
    """Mean difference, variant less baseline."""
    interval: tuple[float, float]
    """95 % interval of the mean difference."""
    p: float | None
    """One-sided, that the variant is no better; nothing for a metric without a better direction."""
    p_corrected: float | None = None
    """By Holm over the variants; the primary metric's only."""
    higher: bool | None = None
    """Whether more of it is better; nothing if nobody knows."""
    note: str = ""
    """Why it is not comparable, or the guard's margin."""

    @property
    def standing(self) -> Standing:
        low, high = self.interval
        if self.higher is None or self.role is Role.NOT_COMPARABLE or not (low > 0 or high < 0):
            return Standing.OPEN
        return Standing.BETTER if (low > 0) == self.higher else Standing.WORSE


@dataclass(frozen=True, slots=True)
class Condition:
    """One line of the rule and whether it holds."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class VariantResult:
    """The verdict on one variant."""

    variant: Value
    verdict: Verdict
    rank: int
    """By gain in the primary metric, 1 for the largest."""
    reason: str
    metrics: tuple[MetricResult, ...]
    rules: tuple[Condition, ...]
    complete: bool
    """All its rows and all rows of the baseline are there, each with a primary metric."""
    blocks: int
    """Blocks in which it can be compared."""
    indistinguishable_from: tuple[Value, ...] = ()
    """The recommended variant if it cannot be told from it; of the recommended variant all such others."""
    findings: tuple[str, ...] = ()
    undone_by: float | None = None
    """Mean difference of one more period (or fold, or value of the sample) that would undo a LOCK."""

    @property
    def primary(self) -> MetricResult | None:
        """The primary metric; nothing if no metric decides."""
        return self.metrics[0] if self.metrics else None

    @property
    def word(self) -> str:
        """The verdict for people."""
        return "inconclusive" if self.verdict is Verdict.KEEP_AVAILABLE else self.verdict.value


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdicts of a sweep."""

    baseline: Value
    primary: str
    method: str
    possible: bool
    """Whether the blocks allow any verdict; one block allows none."""
    variants: tuple[VariantResult, ...]
    """In the order in which they were given."""
    recommended: Value | None = None
    """The largest gain among the locked variants."""


def judge(comparison: Comparison, level: float = ALPHA) -> Judgement:
    """Compare every variant with the baseline on the primary metric and judge it.

    ``level`` is the p, corrected by Holm, below which a variant is proven better.
    """
    method = choose(comparison.axes)
    possible = method.test is not Test.NONE
    if not comparison.variants:
        return Judgement(comparison.baseline, comparison.primary, str(method), possible, ())
    sign = 1.0 if comparison.higher[comparison.primary] else -1.0
    gains = sign * comparison.differences(comparison.primary)
    complete = completeness(comparison)
    gain = method.estimate(gains)
    tested = tests(gain, complete, comparison.smallest)
    conditions, allowed = requirements(comparison, method)
    chosen = [VERDICTS[code] for code in verdicts(tested, complete, allowed, level)]
    results = figures(comparison, method, tested)
    order = np.argsort(-np.nan_to_num(gain.mean, nan=-np.inf), kind="stable")
    ranks = {int(at): rank for rank, at in enumerate(order, start=1)}
    locked = [at for at in order if chosen[at] is Verdict.LOCK]
    alike = indistinguishable(method, gains, complete, int(locked[0])) if locked else np.zeros(len(chosen), np.bool_)
    undone = dict(zip(locked, undone_by(method, gains[locked], holm_level(tested.p, level)[locked]), strict=True))
    skew, tailed = skewness(gains)
    blocks = blocks_of(gains)
    needed = times_needed(gain, len(gains), level)
    names = comparison.variants
    variants = []
    for at, name in enumerate(names):
        findings = []
        if at in undone:
            findings.append(f"{undoing(method, sign * undone[at])} would undo this")
        if tailed[at]:
            findings.append(f"losses have a long tail (skewness {skew[at]:.1f}): the risk is larger than the test says")
        if not np.any(np.nan_to_num(gains[at])) and blocks[at]:
            findings.append(f"{comparison.primary} is the same as {comparison.baseline}'s in every block")
        rules = (
            Condition(
                f"every row of {name} and of {comparison.baseline}, with {comparison.primary}", bool(complete[at])
            ),
            Condition(f"{comparison.primary} better (Holm p < {level:.2g})", bool(tested.p_corrected[at] < level)),
            *(Condition(text, bool(holds[at])) for text, holds in conditions),
        )
        twins: tuple[Value, ...] = ()
        if locked and at == locked[0]:
            twins = tuple(names[other] for other in order if alike[other] and other != at)
        elif alike[at]:
            twins = (names[locked[0]],)
        variants.append(
            VariantResult(
                variant=name,
                verdict=chosen[at],
                rank=ranks[at],
                reason=reason(comparison, method, chosen[at], results[at], rules, tested, at, needed[at]),
                metrics=results[at],
                rules=rules,
                complete=bool(complete[at]),
                blocks=int(blocks[at]),
                indistinguishable_from=twins,
                findings=tuple(findings),
                undone_by=float(sign * undone[at]) if at in undone else None,
            )
        )
    return Judgement(
        baseline=comparison.baseline,
        primary=comparison.primary,
        method=str(method),
        possible=possible,
        variants=tuple(variants),
        recommended=names[locked[0]] if locked else None,
    )


def completeness(comparison: Comparison) -> Flags:
    """Return which variants have every expected row, as the baseline must, and the primary metric in each of them."""
    values = comparison.metrics[comparison.primary]
    nothing = np.isnan(values) & ~cannot_exist(comparison)
    lacking = np.asarray((comparison.absent | nothing).reshape(len(values), -1).any(axis=1))
    return ~(lacking[1:] | lacking[:1])


def cannot_exist(comparison: Comparison) -> Flags:
    """Return the blocks that no metric has a value for though no row is absent: they were never expected."""
    empty = np.logical_and.reduce([np.isnan(values) for values in comparison.metrics.values()])
    return np.asarray(empty.all(axis=0) & ~comparison.absent.any(axis=0))


def requirements(comparison: Comparison, method: Method) -> tuple[list[tuple[str, Flags]], Flags]:
    """Return guards and bars with where they hold, and where all of them do."""
    conditions: list[tuple[str, Flags]] = []
    for name, margin in comparison.guards.items():
        text = f"{name} not worse by more than {margin}"
        if name not in comparison.metrics or name not in comparison.higher:
            why = "no row has it" if name not in comparison.metrics else "nothing says which way is better"
            conditions.append((f"{text} ({why})", np.zeros(len(comparison.variants), np.bool_)))
            continue
        worsening = comparison.differences(name) * (-1.0 if comparison.higher[name] else 1.0)
        estimate = method.estimate(worsening)
        reach = np.where(estimate.se == 0, 0.0, quantile(estimate.df, 1 - ALPHA) * estimate.se)
        baseline = comparison.metrics[name][0]
        limit = margin.limit(float(mean_over(baseline, tuple(range(baseline.ndim)))))
        whole = blocks_of(worsening) == blocks_of(comparison.differences(comparison.primary))
        conditions.append((text, whole & (estimate.mean + reach <= limit)))
    for bar in comparison.bars:
        if bar.metric not in comparison.metrics:
            conditions.append((f"{bar} (no row has it)", np.zeros(len(comparison.variants), np.bool_)))
            continue
        values = comparison.metrics[bar.metric][1:]
        conditions.append((str(bar), bar.cleared(mean_over(values, tuple(range(1, values.ndim))))))
    allowed = np.ones(len(comparison.variants), dtype=np.bool_)
    for _, holds in conditions:
        allowed &= holds
    return conditions, allowed


def blocks_of(differences: Floats) -> NDArray[np.int64]:
    """Return how many blocks each variant can be compared in."""
    return np.asarray(np.isfinite(differences.reshape(len(differences), -1)).sum(axis=1))


def indistinguishable(method: Method, gains: Floats, complete: Flags, best: int) -> Flags:
    """Return which variants cannot be told from the best: the 95 % interval of the difference includes 0."""
    estimate = method.estimate(gains[best] - gains)
    low, high = interval(estimate, CONFIDENCE)
    others = np.arange(len(gains)) != best
    return np.asarray((low <= 0) & (high >= 0) & complete & others)


def figures(comparison: Comparison, method: Method, tested: Tests) -> list[tuple[MetricResult, ...]]:
    """Return the metrics of each variant, the primary first, then guards, then the others."""
    first = [comparison.primary, *(name for name in comparison.guards if name in comparison.metrics)]
    names = list(dict.fromkeys([*first, *comparison.metrics]))
    columns = [column(comparison, method, name, tested) for name in names]
    return [tuple(values) for values in zip(*columns, strict=True)]


def column(comparison: Comparison, method: Method, name: str, tested: Tests) -> list[MetricResult]:
    values, differences = comparison.metrics[name], comparison.differences(name)
    dimensions = tuple(range(1, values.ndim))
    both = np.isfinite(values[1:]) & np.isfinite(values[:1])
    means = mean_over(np.where(both, values[1:], np.nan), dimensions)
    baseline = mean_over(np.where(both, np.broadcast_to(values[:1], both.shape), np.nan), dimensions)
    estimate = method.estimate(differences)
    low, high = interval(estimate, CONFIDENCE)
    higher = comparison.higher.get(name)
    role, note = role_of(comparison, name)
    p = None if higher is None else p_above(estimate if higher else estimate._replace(mean=-estimate.mean))
    primary = role is Role.PRIMARY
    return [
        MetricResult(
            name=name,
            role=role,
            mean=float(means[at]),
            baseline=float(baseline[at]),
            delta=float(estimate.mean[at]),
            interval=(float(low[at]), float(high[at])),
            p=None if p is None else float(p[at]),
            p_corrected=float(tested.p_corrected[at]) if primary else None,
            higher=higher,
            note=note,
        )
        for at in range(len(differences))
    ]


def role_of(comparison: Comparison, name: str) -> tuple[Role, str]:
    if name == comparison.primary:
        return Role.PRIMARY, ""
    if name in comparison.incomparable:
        return Role.NOT_COMPARABLE, comparison.incomparable[name]
    if name in comparison.guards:
        return Role.GUARD, f"may get worse by {comparison.guards[name]}"
    return Role.OTHER, ""


def times_needed(gain: Estimate, variants: int, level: float) -> Floats:
    """Return how many times as many values of each axis would prove a gain like this one in 80 % of cases."""
    errors = quantile(gain.df, 1 - level / max(variants, 1)) + NORMAL_80
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gain.mean > 0, (errors * gain.se / gain.mean) ** 2, np.inf)


def reason(
    comparison: Comparison,
    method: Method,
    verdict: Verdict,
    results: tuple[MetricResult, ...],
    rules: tuple[Condition, ...],
    tested: Tests,
    at: int,
    times: float,
) -> str:
    """Return why a variant has its verdict and, where it is inconclusive, what would decide it."""
    primary = results[0]
    text = f"{primary.name} {primary.delta:+.3g} ({primary.interval[0]:+.3g} … {primary.interval[1]:+.3g})"
    if verdict is Verdict.LOCK:
        return f"better: {text}, Holm p {tested.p_corrected[at]:.2g}"
    if verdict is Verdict.ABANDON:
        if tested.equivalent[at]:
            return f"no difference of interest: {text}, within ±{comparison.smallest:g}"
        return f"worse: {text}, p {tested.p_worse[at]:.2g}"
    if method.test is Test.NONE:
        return "one block only: no verdict is possible; measure over several values of an axis"
    if not rules[0].holds:
        return f"rows are missing: {text} so far"
    if rules[1].holds:
        return f"better: {text}, but not {', not '.join(rule.text for rule in rules[2:] if not rule.holds)}"
    if primary.delta == 0 and primary.interval == (0.0, 0.0):
        return f"{primary.name} does not differ; declare  smallest  to let that count as no difference"
    low, high = primary.interval
    if np.isnan(low):
        return f"{primary.name} {primary.delta:+.3g}; too few blocks to test it"
    if high - low <= ALIKE * abs(primary.delta):
        return f"{primary.name} {primary.delta:+.3g} in every block: blocks that do not differ are one measurement"
    if np.isinf(times):
        return f"{text}: not better, and not proven worse"
    if not times < MOST_TIMES:
        return f"{text}; a gain this small would need over {MOST_TIMES} × as many {axes_of(method)}"
    return f"{text}; {max(times, 1.1):.2g} × as many {axes_of(method)} would prove a gain like this one"


def axes_of(method: Method) -> str:
    return " and ".join(plural(2, axis.noun).removeprefix("2 ") for axis in method.kept_axes)


def undoing(method: Method, difference: float) -> str:
    return f"one more {undoing_axis(method).noun} at {difference:+.2g}"
