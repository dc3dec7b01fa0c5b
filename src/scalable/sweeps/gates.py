"""The rule that gives each variant of a factor its verdict: LOCK, KEEP_AVAILABLE or ABANDON.

Pure: the rows of a sweep in, a decision out, the same every time. LOCK needs proof of a gain and ABANDON proof of harm
or of no difference; what is not proven stays available.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from scalable.catalogue import Variant
from scalable.errors import ScalableError
from scalable.sweeps.decisions import (
    BETTER_METRICS,
    GAIN,
    NEGLIGIBLE,
    SIGNIFICANT,
    TRADES_WANTED,
    Check,
    Decision,
    Judgement,
    MetricResult,
    Power,
    Standing,
    Verdict,
)
from scalable.sweeps.metrics import Metric, judged, stated
from scalable.sweeps.results import Outcome, Pair, Same, same
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.sweeps.statistics import Comparison


def decide(outcome: Outcome, metrics: Sequence[Metric] | None = None, resamples: int | None = None) -> Decision:
    """Compare every variant with the baseline over asset × fold and judge it."""
    from scalable.sweeps.statistics import RESAMPLES, benjamini_hochberg

    if same(outcome.baseline) not in map(same, outcome.variants):
        there = ", ".join(map(str, outcome.variants)) or "none"
        raise ScalableError(
            f"sweep {outcome.sweep}: the baseline {outcome.baseline} is not among its variants ({there}); "
            f"add {outcome.baseline} to sweeps.{outcome.sweep}.variants, for everything is compared with it"
        )
    own = stated(outcome.metrics) or judged(outcome.metric_names)
    chosen = own if metrics is None else tuple(metrics)
    others = [variant for variant in outcome.variants if same(variant) != same(outcome.baseline)]
    compared = [comparisons(outcome, variant, chosen, resamples or RESAMPLES) for variant in others]
    corrected = iter(benjamini_hochberg([found.p for each in compared for _, found in each]))
    results = [tuple(MetricResult(metric, found, next(corrected)) for metric, found in each) for each in compared]
    return Decision(
        sweep=outcome.sweep,
        factor=outcome.factor,
        baseline=outcome.baseline,
        complete=outcome.complete,
        expected=len(outcome.expected),
        finished=outcome.finished,
        shortfall=outcome.shortfall(),
        variants=tuple(judge(outcome, variant, found) for variant, found in zip(others, results, strict=True)),
        not_judged=tuple(name for name in outcome.metric_names if name not in {metric.name for metric in chosen}),
    )


def comparisons(
    outcome: Outcome, variant: Variant, metrics: Sequence[Metric], resamples: int
) -> list[tuple[Metric, Comparison]]:
    """Each metric over the pairs that both sides have; metrics without any are left out."""
    import numpy as np

    from scalable.sweeps.statistics import compare

    pairs = shared(outcome, same(variant))
    if not pairs or not metrics:
        return []
    ours, theirs = (
        np.array([[outcome.pairs[side][pair].get(metric.name, np.nan) for metric in metrics] for pair in pairs])
        for side in (same(variant), same(outcome.baseline))
    )
    found = compare(ours, theirs, [asset for asset, _ in pairs], resamples)
    return [(metric, each) for metric, each in zip(metrics, found, strict=True) if each.pairs]


def shared(outcome: Outcome, variant: Same) -> list[Pair]:
    baseline = outcome.pairs[same(outcome.baseline)]
    return [pair for pair in outcome.pairs[variant] if pair in baseline]


def power_of(outcome: Outcome, variant: Same) -> Power:
    pairs = shared(outcome, variant)
    wanted = len({(cell.asset, cell.fold) for _, cell in outcome.expected})
    if not outcome.trades or not pairs:
        return Power(len(pairs), wanted)
    sides = [outcome.trades.get(side, {}) for side in (variant, same(outcome.baseline))]
    trades = {pair: min(counted(side.get(pair)) for side in sides) for pair in pairs}
    least = min(trades, key=lambda pair: trades[pair])
    thin = sum(count < TRADES_WANTED for count in trades.values())
    return Power(len(pairs), wanted, trades[least], least, thin)


def counted(trades: float | None) -> float:
    """A fold that does not say how many trades it has is taken for one without any."""
    return trades if trades is not None and isfinite(trades) else 0


def judge(outcome: Outcome, variant: Variant, results: tuple[MetricResult, ...]) -> Judgement:
    """The rule of verdicts, line by line."""
    power = power_of(outcome, same(variant))
    # Folds in which a metric has no value may be those that went wrong, so the others alone prove no gain.
    whole = [each for each in results if each.comparison.pairs == power.pairs]
    better = [each for each in whole if each.standing is Standing.BETTER]
    worse = [each for each in results if each.standing is Standing.WORSE]
    harmful = [each for each in results if each.harmful]
    strongest = max(results, key=lambda each: abs(each.gain), default=None)
    small = strongest is not None and abs(strongest.gain) < NEGLIGIBLE
    reached = f"the largest effect is {strongest}" if strongest else "nothing could be compared"
    needs = (
        Check(
            f"at least {BETTER_METRICS} metrics better (corrected p < {SIGNIFICANT}, effect ≥ {GAIN})",
            len(better) >= BETTER_METRICS,
            f"better is {metric_texts(better)}" if better else "no metric is better",
        ),
        Check(
            "no metric significantly worse",
            not worse,
            f"significantly worse is {metric_texts(worse)}" if worse else "no metric is worse",
        ),
        Check(power.asked, power.given, str(power)),
        Check(
            "every row of the sweep",
            outcome.complete,
            outcome.shortfall() or f"all {len(outcome.expected)} rows are there",
        ),
    )
    abandon = (
        Check(
            f"a primary metric is significantly worse with effect ≥ {GAIN}",
            bool(harmful),
            f"that is {metric_texts(harmful)}" if harmful else "none is",
        ),
        Check(
            f"every effect is < {NEGLIGIBLE}, with power",
            small and power.given,
            reached if not small or power.given else f"{reached}, but power is not given",
        ),
    )
    if all(check.holds for check in needs):
        verdict, reason = Verdict.LOCK, "; ".join(check.figures for check in needs)
    elif harmful:
        verdict, reason = Verdict.ABANDON, f"significantly worse in what matters most: {metric_texts(harmful)}"
    elif abandon[1].holds:
        verdict, reason = Verdict.ABANDON, f"no effect reaches {NEGLIGIBLE}, {reached}; {power}"
    else:
        verdict = Verdict.KEEP_AVAILABLE
        reason = "; ".join(f"LOCK needs {check.asks}: {check.figures}" for check in needs if not check.holds)
    return Judgement(variant, verdict, reason, results, power, needs, abandon, remarks(results, better, power))


def remarks(results: Sequence[MetricResult], better: Sequence[MetricResult], power: Power) -> tuple[str, ...]:
    said = []
    if few := [each.metric.name for each in better if each.rests_on_few]:
        said.append(f"the interval over assets includes 0 for {', '.join(few)}: the gain may rest on few assets")
    for each in results:
        if each.comparison.pairs < power.pairs:
            without = power.pairs - each.comparison.pairs
            where = f"{without} of {plural(power.pairs, 'pair')}"
            said.append(f"{each.metric.name} has no value in {where}, so it does not count towards LOCK")
    if 0 < len(results) < BETTER_METRICS:
        said.append(f"LOCK needs {BETTER_METRICS} metrics and the rows have {len(results)} that can be judged")
    return tuple(said)


def metric_texts(results: Sequence[MetricResult]) -> str:
    return ", ".join(map(str, results))
