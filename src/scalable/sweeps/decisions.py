"""From the rows of a sweep to its decision: a verdict per variant, by ``scalable.verdicts``.

In a notebook a decision is one table, with the reason under each variant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from scalable.errors import ScalableError
from scalable.sweeps.metrics import Better, directed, judged, stated
from scalable.sweeps.results import Outcome, Pair, Variant, finite, same
from scalable.verdicts.judging import Judgement, MetricResult, VariantResult, judge
from scalable.verdicts.ledger import Tally
from scalable.verdicts.methods import choose
from scalable.verdicts.rule import ALPHA
from scalable.verdicts.rule import Verdict as Verdict
from scalable.verdicts.tables import Axis, Comparison, Floats
from scalable.wording import plural

COLOURS = {"LOCK": "#1a7f37", "KEEP_AVAILABLE": "#9a6700", "ABANDON": "#cf222e"}  # readable on white and on dark
NO_DECISIONS = Tally()
STANDING = {"better": COLOURS["LOCK"], "worse": COLOURS["ABANDON"], "open": "inherit"}


@dataclass(frozen=True, slots=True, repr=False)
class Decision:
    """The verdicts on the variants of a sweep."""

    sweep: str
    factor: str
    complete: bool
    """Every row of the sweep is there; a verdict needs those of its variant and of the baseline only."""
    expected: int
    finished: int
    shortfall: str
    """Which rows are missing or failed; empty if none is."""
    baseline: Variant
    primary: str
    """The metric that decides; empty if none does."""
    higher: bool
    """Whether more of it is better."""
    method: str
    """The test, e.g. ``crossed t over 5 assets × 5 periods``."""
    blocks: int
    """Blocks that every variant is measured on."""
    variants: tuple[VariantResult, ...]
    """In the order of the sweep."""
    recommended: Variant | None = None
    """The largest gain among the variants that may be locked."""
    decided: bool = False
    """Whether the rows allow a verdict on at least one variant."""
    level: float = ALPHA
    """The p, corrected by Holm, below which a variant is proven better."""
    data: str = ""
    """Fingerprint of the rows that were judged; empty if the ledger was not asked."""
    ledger: Tally = NO_DECISIONS
    """The decisions of the project, and the place of this one among them."""

    def __repr__(self) -> str:
        state = "" if self.complete else ", incomplete"
        return f"<{self.sweep}: {', '.join(f'{each.variant} {each.verdict.value}' for each in self.variants)}{state}>"

    def of(self, variant: Variant) -> VariantResult | None:
        return next((each for each in self.variants if same(each.variant) == same(variant)), None)

    @property
    def ranked(self) -> list[VariantResult]:
        """By gain in the primary metric, the largest first."""
        return sorted(self.variants, key=lambda each: each.rank)

    def to_dict(self) -> dict[str, Any]:
        counts = {"expected": self.expected, "finished": self.finished, "shortfall": self.shortfall}
        head = {"sweep": self.sweep, "factor": self.factor, "complete": self.complete, **counts}
        asked = {"baseline": self.baseline, "primary": self.primary, "method": self.method}
        variants = [variant_dict(each) for each in self.variants]
        last = {"recommended": self.recommended, "ledger": self.ledger.to_dict(), "variants": variants}
        return {**head, **asked, **last}

    def _repr_html_(self) -> str:
        return decision_html(self)


def decide(outcome: Outcome, comparison: Comparison | None = None, level: float = ALPHA) -> Decision:
    """Compare every variant with the baseline, block by block, and judge it; the ledger is neither read nor written.

    ``comparison`` is that of ``compared`` if it is known already, ``level`` the p below which a variant is proven
    better.
    """
    others = other_variants(outcome)
    comparison = comparison or compared(outcome)
    judgement = judge(comparison, level) if comparison else undecided(outcome, primary_of(outcome), others)
    primary, known = judgement.primary, directed(outcome.metrics)
    return Decision(
        sweep=outcome.sweep,
        factor=outcome.factor,
        complete=outcome.complete,
        expected=len(outcome.expected),
        finished=outcome.finished,
        shortfall=outcome.shortfall(),
        baseline=outcome.baseline,
        primary=primary,
        higher=primary not in known or known[primary].better is Better.HIGHER,
        method=judgement.method,
        blocks=len({cell.block for _, cell in outcome.expected}),
        variants=tuple(with_remarks(outcome, each) for each in judgement.variants),
        recommended=judgement.recommended,
        decided=judgement.possible and any(each.complete for each in judgement.variants),
        level=level,
    )


def compared(outcome: Outcome) -> Comparison | None:
    """Return the measurements of all variants; None if no row has the metric that decides."""
    others, primary = other_variants(outcome), primary_of(outcome)
    return comparison_of(outcome, primary, others) if primary in outcome.metric_names else None


def other_variants(outcome: Outcome) -> list[Variant]:
    """Return the variants that are compared with the baseline; raise if the sweep does not have the baseline."""
    if same(outcome.baseline) not in map(same, outcome.variants):
        there = ", ".join(map(str, outcome.variants)) or "none"
        raise ScalableError(
            f"sweep {outcome.sweep}: the baseline {outcome.baseline} is not among its variants ({there}); "
            f"add {outcome.baseline} to sweep {outcome.sweep}, for everything is compared with it"
        )
    return [variant for variant in outcome.variants if same(variant) != same(outcome.baseline)]


def primary_of(outcome: Outcome) -> str:
    """Return the metric that decides: as declared, else the first that the sweep states, else the first known one."""
    if outcome.question.primary is not None and not outcome.metrics:
        return outcome.question.primary
    known = stated(outcome.metrics) or judged(outcome.metric_names)
    return outcome.question.primary or (known[0].name if known else "")


def comparison_of(outcome: Outcome, primary: str, variants: Sequence[Variant]) -> Comparison:
    """Return the measurements of a sweep as arrays: the baseline first, then the variants, by block."""
    question = outcome.question
    axes = axes_of(outcome)
    places = [{value: at for at, value in enumerate(axis.values)} for axis in axes]
    shape = (1 + len(variants), *(len(axis) for axis in axes))
    metrics = {name: np.full(shape, np.nan) for name in outcome.metric_names}
    absent = np.zeros(shape, dtype=np.bool_)
    number = {same(variant): at for at, variant in enumerate((outcome.baseline, *variants))}

    def index(variant: Variant, pair: Pair) -> tuple[int, ...]:
        return number[same(variant)], *(place[value] for place, value in zip(places, pair, strict=True))

    for _, cell in outcome.expected:
        variant = outcome.label(cell)
        if cell.block not in outcome.pairs[same(variant)]:
            absent[index(variant, cell.block)] = True
    for side, pairs in outcome.pairs.items():
        where = tuple(np.array([index(side[1], pair) for pair in pairs], dtype=np.intp).reshape(-1, len(shape)).T)
        for name, array in metrics.items():
            array[where] = [values[name] for values in pairs.values()]
    known = directed(outcome.metrics)
    return Comparison(
        axes=axes,
        baseline=outcome.baseline,
        variants=tuple(variants),
        metrics=metrics,
        primary=primary,
        higher={primary: True} | {name: metric.better is Better.HIGHER for name, metric in known.items()},
        absent=absent,
        smallest=question.smallest,
        guards=question.guards,
        bars=question.bars,
        incomparable={name: why for name, why in question.incomparable.items() if name != primary},
    )


def axes_of(outcome: Outcome) -> tuple[Axis, ...]:
    """Return the axes that blocks are made of, with the values that the sweep has."""
    values = [dict.fromkeys(cell.block[at] for _, cell in outcome.expected) for at in range(len(outcome.grid.over))]
    return tuple(
        Axis(axis.name, axis.kind, tuple(there)) for axis, there in zip(outcome.grid.over, values, strict=True)
    )


def gains_of(outcome: Outcome) -> tuple[tuple[Axis, ...], Floats] | None:
    """Return the axes and the differences of the primary metric to the baseline; nothing if there are none."""
    primary = primary_of(outcome)
    others = [variant for variant in outcome.variants if same(variant) != same(outcome.baseline)]
    if primary not in outcome.metric_names or not others or same(outcome.baseline) not in outcome.pairs:
        return None
    comparison = comparison_of(outcome, primary, others)
    return comparison.axes, comparison.differences(primary)


def undecided(outcome: Outcome, primary: str, variants: Sequence[Variant]) -> Judgement:
    """Return the judgement where no row has a metric that decides."""
    there = ", ".join(outcome.metric_names)
    if not outcome.metric_names:
        reason = "no row has finished: there is nothing to compare"
    elif primary:
        reason = f"no row has the metric {primary!r} that decides; rows have {there}"
    else:
        example = f"{{{outcome.metric_names[0]}: higher}}"
        reason = f"nothing says which metric decides; write e.g.  metrics: {example}  (rows have {there})"
    results = tuple(
        VariantResult(variant, Verdict.KEEP_AVAILABLE, rank, reason, (), (), complete=False, blocks=0)
        for rank, variant in enumerate(variants, start=1)
    )
    return Judgement(outcome.baseline, primary, str(choose(axes_of(outcome))), False, results)


def with_remarks(outcome: Outcome, result: VariantResult) -> VariantResult:
    """Return a result with what is missing for it, and with blocks that rest on little where a workload counts that."""
    remarks = list(result.findings)
    if (evidence := outcome.question.evidence) is not None:
        sides = [outcome.evidence.get(same(side), {}) for side in (result.variant, outcome.baseline)]
        counts = {pair: min(count, sides[1].get(pair, count)) for pair, count in sides[0].items()}
        thin = {pair: count for pair, count in counts.items() if not count >= evidence.least}
        if thin:
            least = min(thin, key=lambda pair: thin[pair])
            few = f"{len(thin)} of {plural(len(counts), 'block')} with under {evidence.least:g} {evidence.metrics[0]}"
            remarks.append(f"{few}, least {thin[least]:g} in {outcome.grid.block_text(least)}")
    reason = result.reason
    if not result.complete and outcome.shortfall():
        reason = f"{reason}; {outcome.shortfall()}"
    return replace(result, findings=tuple(remarks), reason=reason)


def variant_dict(result: VariantResult) -> dict[str, Any]:
    return {
        "variant": result.variant,
        "verdict": result.verdict.value,
        "rank": result.rank,
        "rules": [{"text": rule.text, "holds": rule.holds} for rule in result.rules],
        "metrics": [metric_dict(metric) for metric in result.metrics],
        "indistinguishable_from": list(result.indistinguishable_from),
        "reason": result.reason,
        "findings": list(result.findings),
        "undone_by": finite(result.undone_by),
        "complete": result.complete,
        "blocks": result.blocks,
    }


def metric_dict(metric: MetricResult) -> dict[str, Any]:
    values: dict[str, Any] = finite(
        {
            "mean": metric.mean,
            "delta": metric.delta,
            "ci": list(metric.interval),
            "p": metric.p,
            "p_corrected": metric.p_corrected,
            "baseline": metric.baseline,
        }
    )
    better = None if metric.higher is None else "higher" if metric.higher else "lower"
    return {"name": metric.name, "role": metric.role.value, **values, "better": better, "note": metric.note}


def decision_html(decision: Decision) -> str:
    there = f"{decision.finished} of {decision.expected} rows"
    state = "complete" if decision.complete else f"<b>incomplete</b>: {escape(decision.shortfall)}"
    title = (
        f"<b>{escape(decision.sweep)}</b>, {escape(decision.primary)} compared with {escape(str(decision.baseline))} "
        f"({escape(decision.method)}): {there}, {state}"
    )
    names = list(dict.fromkeys(metric.name for result in decision.variants for metric in result.metrics))
    head = "".join(f"<th>{escape(name)}</th>" for name in ("rank", "variant", "verdict", *names))
    body = "".join(variant_html(result, names) for result in decision.ranked)
    counted = f"<p>{escape(str(decision.ledger))}</p>" if str(decision.ledger) else ""
    return f"<div>{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{counted}</div>"


def variant_html(result: VariantResult, names: list[str]) -> str:
    metrics = {metric.name: metric for metric in result.metrics}
    cells = "".join(f"<td>{metric_html(metrics.get(name))}</td>" for name in names)
    verdict = f'<td style="color:{COLOURS[result.verdict.value]}"><b>{result.word}</b></td>'
    why = "; ".join((result.reason, *result.findings))
    row = f"<tr><td>{result.rank}</td><td>{escape(str(result.variant))}</td>{verdict}{cells}</tr>"
    return f'{row}<tr><td></td><td colspan="{len(names) + 2}" style="text-align:left">{escape(why)}</td></tr>'


def metric_html(metric: MetricResult | None) -> str:
    if metric is None:
        return "–"
    low, high = metric.interval
    figures = f"{metric.delta:+.3g}<br><small>[{low:+.2g}, {high:+.2g}]</small>"
    return f'<span style="color:{STANDING[metric.standing.value]}">{figures}</span>'
