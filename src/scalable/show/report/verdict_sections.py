"""Sections about verdicts: each variant with the rule it was judged by, its statistics, and its effects as pictures."""

from __future__ import annotations

from scalable.catalogue import Variant
from scalable.observe.words import decimals, measured, probability
from scalable.show.report.drawing import legend
from scalable.show.report.elements import Child, Markup, chip, figure, join, paragraph, table, tag
from scalable.show.report.material import Material
from scalable.show.report.overview import VERDICTS
from scalable.show.report.result_charts import effects
from scalable.show.report.results import SweepResults
from scalable.show.report.sections import by_sweep
from scalable.sweeps.decisions import Check, Decision, Judgement, MetricResult, Standing
from scalable.sweeps.judged import Better, Metric

MARKS = {Standing.BETTER: "▲", Standing.WORSE: "▼", Standing.OPEN: ""}
COLOURS = {Standing.BETTER: "good", Standing.WORSE: "bad", Standing.OPEN: ""}
MOST_METRICS = 12  # with a panel of their own
METHOD = (
    "Each variant is compared with the baseline over the same asset and fold, costs averaged within a fold. "
    "Δ is the mean difference; its 95 % interval comes from a bootstrap that draws whole assets. p is that of the "
    "two-sided Wilcoxon signed-rank test, corrected after Benjamini and Hochberg over all variants and metrics. The "
    "effect is Cohen's d of the paired differences."
)


def verdicts(found: Material) -> Markup | None:
    return by_sweep(found.results, verdict)


def effect_sizes(found: Material) -> Markup | None:
    return by_sweep(found.results, effect_panels)


def verdict(each: SweepResults) -> Markup | None:
    decision = each.decision
    if decision is None or not decision.variants:
        return None
    parts: list[Child] = []
    if not decision.complete:
        parts.append(
            tag("p", f"Not all rows are there, so nothing is locked. {decision.shortfall}.", class_="note bad")
        )
    parts += [judgement(one, decision) for one in decision.variants]
    parts.append(paragraph(METHOD, class_="quiet"))
    if decision.not_judged:
        parts.append(paragraph(f"Not judged: {', '.join(decision.not_judged)}.", class_="quiet"))
    return join(parts)


def judgement(one: Judgement, decision: Decision) -> Markup:
    return tag(
        "article",
        tag("h4", str(one.variant), " ", chip(one.verdict.value, VERDICTS[one.verdict])),
        tag(
            "div",
            rule("LOCK needs all of", one.lock_needs),
            rule("ABANDON follows from any of", one.abandon_if),
            class_="rules",
        ),
        [tag("p", each, class_="note warn") for each in one.remarks],
        statistics(one, decision) if one.metrics else None,
        class_="card",
    )


def rule(title: str, checks: tuple[Check, ...]) -> Markup:
    lines = [
        tag(
            "li",
            tag(
                "span",
                "✓" if check.holds else "✗",
                class_="good" if check.holds else "open",
                aria_label="holds" if check.holds else "does not hold",
            ),
            tag("div", check.asks, tag("div", check.figures, class_="quiet")),
        )
        for check in checks
    ]
    return tag("div", paragraph(title, class_="kicker"), tag("ul", lines, class_="rule"))


def statistics(one: Judgement, decision: Decision) -> Markup:
    columns = (
        "metric",
        f">{decision.baseline}",
        f">{one.variant}",
        ">Δ",
        ">95 % of Δ",
        ">p",
        ">p corrected",
        ">effect d",
        ">pairs",
    )
    caption = f"{one.variant} beside {decision.baseline}"
    return table(caption, columns, [figures(each) for each in one.metrics], class_="statistics")


def figures(each: MetricResult) -> list[Child]:
    found = each.comparison
    low, high = found.interval
    places = decimals(max(abs(low), abs(high)))
    kind = COLOURS[each.standing] or None
    name = f"{each.metric.name}{' *' if each.metric.primary else ''}"
    way = "higher is better" if each.metric.better is Better.HIGHER else "lower is better"
    return [
        tag("span", f"{MARKS[each.standing]} {name}".strip(), class_=kind, title=f"{way}: {each.metric.why}"),
        measured(found.baseline),
        measured(found.mean),
        tag("b", f"{found.delta:+.{places}f}", class_=kind),
        f"{low:+.{places}f} … {high:+.{places}f}",
        probability(found.p),
        probability(each.p_corrected),
        f"{found.effect:+.2f}",
        found.pairs,
    ]


def effect_panels(each: SweepResults) -> Markup | None:
    if each.decision is None:
        return None
    by_metric: dict[str, tuple[Metric, list[tuple[Variant, MetricResult]]]] = {}
    for one in each.decision.variants:
        for result in one.metrics:
            by_metric.setdefault(result.metric.name, (result.metric, []))[1].append((one.variant, result))
    if not by_metric:
        return None
    panels = [panel(metric, compared) for metric, compared in list(by_metric.values())[:MOST_METRICS]]
    said = f"Mean difference from {each.decision.baseline} with its 95 % interval; the shaded side is better."
    keys = [("significantly better", "good"), ("significantly worse", "bad"), ("open", "muted")]
    cut = f"The first {len(panels)} of {len(by_metric)} metrics are drawn; the tables above have all of them."
    rest = paragraph(cut, class_="quiet") if len(panels) < len(by_metric) else None
    return join([paragraph(said), legend(keys), tag("div", panels, class_="panels"), rest])


def panel(metric: Metric, compared: list[tuple[Variant, MetricResult]]) -> Markup:
    way = "higher is better" if metric.better is Better.HIGHER else "lower is better"
    caption = [tag("strong", metric.name), f" {way}{', primary' if metric.primary else ''}"]
    return figure(effects(metric, compared), caption)
