"""Sections about what sweeps gave: curves, a heat map, means by variant, every row, and verdicts with their rule."""

from __future__ import annotations

from collections.abc import Iterator

from scalable.catalogue import Variant
from scalable.observe.words import UNKNOWN, decimals, measured, probability
from scalable.show.report.drawing import legend
from scalable.show.report.elements import Child, Markup, by_sweep, chip, figure, join, more, paragraph, table, tag
from scalable.show.report.equity import Curves
from scalable.show.report.material import Material, SweepResults
from scalable.show.report.overview import VERDICTS
from scalable.show.report.result_charts import Heat, effects, equity, heat_map
from scalable.store.marking import cell_name
from scalable.sweeps.decisions import Check, Decision, Judgement, MetricResult, Standing
from scalable.sweeps.metrics import KNOWN, Better, Metric, best_of, directed, judged, stated
from scalable.sweeps.results import Outcome, Same, number, same
from scalable.wording import plural

MOST_ROWS = 1000  # of a sweep that are listed one by one
MOST_CELLS = 4000  # of a heat map; more are no picture any more
ROW_COLUMNS = ("row", "status", ">attempt", ">took", "metrics", "key")


def equity_curves(material: Material) -> Markup | None:
    return by_sweep(material.results, equity_panels)


def heat(material: Material) -> Markup | None:
    return by_sweep(material.results, heat_of)


def metrics(material: Material) -> Markup | None:
    return by_sweep(material.results, metrics_of)


def equity_panels(each: SweepResults) -> Markup | None:
    curves = each.curves
    problems = [
        paragraph(f"{problem[:1].upper()}{problem[1:]}.", class_="quiet")
        for problem in each.problems
        if "equity" in problem
    ]
    if curves is None or each.outcome is None:
        return join(problems) if problems else None
    remarks = [paragraph(f"{remark[:1].upper()}{remark[1:]}.", class_="quiet") for remark in curves.remarks]
    if not curves.assets:
        return join(remarks) if remarks else None
    kinds = colours(curves, each.outcome)
    title = f"Equal shares of {plural(len(curves.assets), 'asset')}"
    caption = (
        f"What 1 put in at the beginning is worth at the end of each day, at {curves.cost_bps:g} bps of cost a side, "
        "through the test parts of all folds one after another."
    )
    ends = [
        (asset, *(f"{lines[same(variant)][-1][1]:.3f}" for variant in curves.variants))
        for asset, lines in curves.assets.items()
    ]
    ends.append(("together", *(f"{curves.together[same(variant)][-1][1]:.3f}" for variant in curves.variants)))
    small = [figure(equity(asset, lines, kinds, 320.0, 150.0), asset) for asset, lines in curves.assets.items()]
    return join(
        [
            paragraph(caption),
            legend(
                [
                    (f"{variant}{' (baseline)' if kinds[same(variant)] == 'baseline' else ''}", kinds[same(variant)])
                    for variant in curves.variants
                ]
            ),
            figure(
                equity(title, curves.together, kinds, 960.0, 300.0), f"{title}, put in at the beginning and left alone."
            ),
            tag("div", small, class_="panels three") if len(small) > 1 else None,
            more(
                "What 1 became",
                table("What 1 became", ("asset", *(f">{variant}" for variant in curves.variants)), ends),
            ),
            remarks,
        ]
    )


def colours(curves: Curves, outcome: Outcome) -> dict[Same, str]:
    """Return a colour for each variant; the baseline has the page's own."""
    others = [variant for variant in curves.variants if same(variant) != same(outcome.baseline)]
    colour_of = {same(variant): f"c{at % 8 + 1}" for at, variant in enumerate(others)}
    return {same(outcome.baseline): "baseline", **colour_of}


def heat_of(each: SweepResults) -> Markup | None:
    if each.outcome is None or each.compiled is None or not each.outcome.metric_names:
        return None
    outcome, grid = each.outcome, each.compiled.grid
    metric = main_metric(outcome)
    values = {
        variant: {pair: means[metric.name] for pair, means in pairs.items() if means[metric.name] == means[metric.name]}
        for variant, pairs in outcome.pairs.items()
    }
    if not any(values.values()):
        return None
    most = max(1, MOST_CELLS // (len(grid.variants) * grid.folds))
    better = None if metric.name not in KNOWN and metric.name not in outcome.metrics else metric.better is Better.HIGHER
    map_ = Heat(metric.name, better, outcome.variants, grid.assets[:most], grid.folds, values)
    rows = [
        (f"{asset} fold {fold}", *(measured(map_.at(variant, asset, fold)) for variant in map_.variants))
        for asset in map_.assets
        for fold in range(map_.folds)
    ]
    caption = (
        f"{outcome.factor} by variant: {metric.name} of each asset (down) and fold (across), costs averaged. "
        "Cells with a broken border have no result."
    )
    left_out = f" The first {most} of {len(grid.assets)} assets." if most < len(grid.assets) else ""
    numbers = more("The numbers", table(metric.name, ("", *(f">{variant}" for variant in map_.variants)), rows))
    return figure(heat_map(map_), caption + left_out, numbers)


def main_metric(outcome: Outcome) -> Metric:
    """Return what verdicts rest on first; without such a metric the first one that rows have."""
    known = stated(outcome.metrics) or judged(outcome.metric_names)
    there = [metric for metric in known if metric.name in outcome.metric_names]
    return there[0] if there else Metric(outcome.metric_names[0], Better.HIGHER, "")


def metrics_of(each: SweepResults) -> Markup | None:
    outcome = each.outcome
    if outcome is None:
        return None
    summary = outcome.summary()
    known = directed(outcome.metrics)
    names = sorted(outcome.metric_names, key=lambda name: list(known).index(name) if name in known else len(known))
    is_base = [same(line["variant"]) == same(outcome.baseline) for line in summary]
    columns = (
        "metric",
        *(f">{line['variant']}{' (baseline)' if base else ''}" for line, base in zip(summary, is_base, strict=True)),
    )
    rows: list[list[Child]] = [["rows", *(f"{line['finished']:,} / {line['expected']:,}" for line in summary)]]
    if any(line["failed"] for line in summary):
        rows.append(
            ["failed", *(tag("b", str(line["failed"]), class_="bad") if line["failed"] else "0" for line in summary)]
        )
    for name in names:
        values = [line["metrics"][name] for line in summary]
        best = best_of(values, known[name].better) if name in known else None
        rows.append(
            [
                name,
                *(
                    tag("b", measured(line), class_="good") if line is not None and line == best else measured(line)
                    for line in values
                ),
            ]
        )
    shortfall, count = outcome.shortfall(), len(outcome.expected)
    heading = f"All {plural(count, 'row')}" if count <= MOST_ROWS else f"The first {MOST_ROWS:,} of {count:,} rows"
    return join(
        [
            tag("p", f"{shortfall}.", class_="note bad") if shortfall else None,
            table("Means over asset × fold, costs averaged within a fold; failed rows do not count", columns, rows)
            if names
            else None,
            more(heading, table("Rows with their keys", ROW_COLUMNS, rows_of(outcome, names[:3]))),
        ]
    )


def rows_of(outcome: Outcome, names: list[str]) -> Iterator[list[Child]]:
    for key, cell in outcome.expected[:MOST_ROWS]:
        row = outcome.rows.get(key)
        state = "missing" if row is None else row.run_status.value
        took = UNKNOWN if row is None or row.elapsed_s is None else f"{row.elapsed_s:.2f} s"
        heading = (
            ", ".join(f"{name} {measured(number(row.metrics.get(name)))}" for name in names)
            if row is not None and row.finished
            else ""
        )
        why = (row.error or "").strip().partition("\n")[0] if row is not None and not row.finished else ""
        yield [
            cell_name(cell),
            state,
            row.attempt if row is not None else "",
            took,
            heading or why,
            tag("code", key[:16]),
        ]


MARKS = {Standing.BETTER: "▲", Standing.WORSE: "▼", Standing.OPEN: ""}
COLOURS = {Standing.BETTER: "good", Standing.WORSE: "bad", Standing.OPEN: ""}
MOST_METRICS = 12  # with a panel of their own
METHOD = (
    "Each variant is compared with the baseline over the same asset and fold, costs averaged within a fold. "
    "Δ is the mean difference; its 95 % interval comes from a bootstrap that draws whole assets. p is that of the "
    "two-sided Wilcoxon signed-rank test, corrected after Benjamini and Hochberg over all variants and metrics. The "
    "effect is Cohen's d of the paired differences."
)


def verdicts(material: Material) -> Markup | None:
    return by_sweep(material.results, verdict)


def effect_sizes(material: Material) -> Markup | None:
    return by_sweep(material.results, effect_panels)


def verdict(each: SweepResults) -> Markup | None:
    decision = each.decision
    if decision is None or not decision.variants:
        return None
    parts: list[Child] = []
    if not decision.complete:
        parts.append(
            tag("p", f"Not all rows are there, so nothing is locked. {decision.shortfall}.", class_="note bad")
        )
    parts += [judgement(variant_verdict, decision) for variant_verdict in decision.variants]
    parts.append(paragraph(METHOD, class_="quiet"))
    if decision.not_judged:
        parts.append(paragraph(f"Not judged: {', '.join(decision.not_judged)}.", class_="quiet"))
    return join(parts)


def judgement(variant_verdict: Judgement, decision: Decision) -> Markup:
    return tag(
        "article",
        tag(
            "h4",
            str(variant_verdict.variant),
            " ",
            chip(variant_verdict.verdict.value, VERDICTS[variant_verdict.verdict]),
        ),
        tag(
            "div",
            rule("LOCK needs all of", variant_verdict.lock_needs),
            rule("ABANDON follows from any of", variant_verdict.abandon_if),
            class_="rules",
        ),
        [tag("p", each, class_="note warn") for each in variant_verdict.remarks],
        statistics(variant_verdict, decision) if variant_verdict.metrics else None,
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


def statistics(variant_verdict: Judgement, decision: Decision) -> Markup:
    columns = (
        "metric",
        f">{decision.baseline}",
        f">{variant_verdict.variant}",
        ">Δ",
        ">95 % of Δ",
        ">p",
        ">p corrected",
        ">effect d",
        ">pairs",
    )
    caption = f"{variant_verdict.variant} beside {decision.baseline}"
    return table(caption, columns, [figures(each) for each in variant_verdict.metrics], class_="statistics")


def figures(each: MetricResult) -> list[Child]:
    comparison = each.comparison
    low, high = comparison.interval
    places = decimals(max(abs(low), abs(high)))
    kind = COLOURS[each.standing] or None
    name = f"{each.metric.name}{' *' if each.metric.primary else ''}"
    way = "higher is better" if each.metric.better is Better.HIGHER else "lower is better"
    return [
        tag("span", f"{MARKS[each.standing]} {name}".strip(), class_=kind, title=f"{way}: {each.metric.why}"),
        measured(comparison.baseline),
        measured(comparison.mean),
        tag("b", f"{comparison.delta:+.{places}f}", class_=kind),
        f"{low:+.{places}f} … {high:+.{places}f}",
        probability(comparison.p),
        probability(each.p_corrected),
        f"{comparison.effect:+.2f}",
        comparison.pairs,
    ]


def effect_panels(each: SweepResults) -> Markup | None:
    if each.decision is None:
        return None
    by_metric: dict[str, tuple[Metric, list[tuple[Variant, MetricResult]]]] = {}
    for variant_verdict in each.decision.variants:
        for result in variant_verdict.metrics:
            by_metric.setdefault(result.metric.name, (result.metric, []))[1].append((variant_verdict.variant, result))
    if not by_metric:
        return None
    panels = [panel(metric, compared) for metric, compared in list(by_metric.values())[:MOST_METRICS]]
    caption = f"Mean difference from {each.decision.baseline} with its 95 % interval; the shaded side is better."
    keys = [("significantly better", "good"), ("significantly worse", "bad"), ("open", "muted")]
    cut = f"The first {len(panels)} of {len(by_metric)} metrics are drawn; the tables above have all of them."
    rest = paragraph(cut, class_="quiet") if len(panels) < len(by_metric) else None
    return join([paragraph(caption), legend(keys), tag("div", panels, class_="panels"), rest])


def panel(metric: Metric, compared: list[tuple[Variant, MetricResult]]) -> Markup:
    way = "higher is better" if metric.better is Better.HIGHER else "lower is better"
    caption = [tag("strong", metric.name), f" {way}{', primary' if metric.primary else ''}"]
    return figure(effects(metric, compared), caption)
