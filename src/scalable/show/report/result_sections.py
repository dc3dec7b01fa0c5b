"""Sections about what sweeps gave: curves, a heat map, means by variant, every row, and verdicts with their rule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isfinite

from scalable.axes import Axis, axis_text
from scalable.observe.words import UNKNOWN, decimals, measured, metric_text, probability
from scalable.show.report.drawing import legend
from scalable.show.report.elements import Child, Markup, by_sweep, chip, figure, join, more, paragraph, table, tag
from scalable.show.report.equity import Curves
from scalable.show.report.material import Material, SweepResults
from scalable.show.report.overview import VERDICTS
from scalable.show.report.result_charts import Heat, effects, equity, heat_map
from scalable.sweeps.decisions import Decision
from scalable.sweeps.metrics import Better, Metric, best_of, directed, judged, stated
from scalable.sweeps.results import Outcome, Same, Variant, number, same
from scalable.verdicts.judging import Condition, MetricResult, Role, Standing, VariantResult
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
    if not curves.lines:
        return join(remarks) if remarks else None
    kinds = colours(curves, each.outcome)
    title = f"Equal shares of {plural(len(curves.lines), curves.noun)}"
    ends = [
        (name, *(f"{lines[same(variant)][-1][1]:.3f}" for variant in curves.variants))
        for name, lines in curves.lines.items()
    ]
    ends.append(("together", *(f"{curves.together[same(variant)][-1][1]:.3f}" for variant in curves.variants)))
    small = [figure(equity(name, lines, kinds, 320.0, 150.0), name) for name, lines in curves.lines.items()]
    return join(
        [
            paragraph(curves.caption),
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
                table("What 1 became", (curves.noun, *(f">{variant}" for variant in curves.variants)), ends),
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
    *above, last = grid.over or (Axis("", ("",)),)
    rows = [*product(*(axis.values for axis in above))]
    most = max(1, MOST_CELLS // (len(grid.variants) * len(last.values)))
    better = metric.better is Better.HIGHER if metric.name in directed(outcome.metrics) else None
    texts = [
        " ".join(axis_text(*each) for each in zip((axis.name for axis in above), row, strict=True)) for row in rows
    ]
    if not grid.over:  # the only block has no values
        values = {variant: {(*block, ""): number for block, number in each.items()} for variant, each in values.items()}
    map_ = Heat(metric.name, better, outcome.variants, tuple(rows[:most]), tuple(texts[:most]), last.values, values)
    lines = [
        (f"{text} {axis_text(last.name, value)}", *(measured(map_.at(each, row, value)) for each in map_.variants))
        for row, text in zip(map_.rows, map_.names, strict=True)
        for value in map_.columns
    ]
    down = f"{' × '.join(axis.name for axis in above)} (down) and " if above else ""
    averaged = f", averaged over {' × '.join(grid.average)}" if grid.average else ""
    caption = (
        f"{outcome.factor} by variant: {metric.name} by {down}{last.name or 'variant'} (across){averaged}. "
        "Cells with a broken border have no result."
    )
    left_out = f" The first {most} of {len(rows)} rows." if most < len(rows) else ""
    numbers = more("The numbers", table(metric.name, ("", *(f">{variant}" for variant in map_.variants)), lines))
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
                    tag("b", measured(line), class_="good") if line is not None and line == best else metric_text(line)
                    for line in values
                ),
            ]
        )
    shortfall, count = outcome.shortfall(), len(outcome.expected)
    heading = f"All {plural(count, 'row')}" if count <= MOST_ROWS else f"The first {MOST_ROWS:,} of {count:,} rows"
    return join(
        [
            tag("p", f"{shortfall}.", class_="note bad") if shortfall else None,
            table(f"{outcome.grid.means_text().capitalize()}; failed rows do not count", columns, rows)
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
            ", ".join(f"{name} {metric_text(number(row.metrics.get(name)))}" for name in names)
            if row is not None and row.finished
            else ""
        )
        why = (row.error or "").strip().partition("\n")[0] if row is not None and not row.finished else ""
        yield [
            outcome.grid.cell_text(cell),
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
    "One metric decides; guards may stop a LOCK, and the others are shown. Δ is the mean difference to the baseline "
    "over the same blocks with its 95 % interval. p is one-sided, that the variant is no better, and corrected after "
    "Holm over all variants. Metrics whose meaning differs between variants are not judged."
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
        text = f"Not all rows are there: nothing is decided about variants that lack some. {decision.shortfall}."
        parts.append(tag("p", text, class_="note bad"))
    parts += [judgement(result, decision) for result in decision.ranked]
    parts.append(paragraph(f"Test: {decision.method}. {METHOD}", class_="quiet"))
    if counted := str(decision.ledger):
        parts.append(paragraph(f"{counted[0].upper()}{counted[1:]}.", class_="quiet"))
    return join(parts)


def judgement(result: VariantResult, decision: Decision) -> Markup:
    return tag(
        "article",
        tag("h4", f"{result.rank}. {result.variant}", " ", chip(result.word, VERDICTS[result.verdict])),
        paragraph(result.reason),
        tag("div", rule("LOCK needs all of", result.rules), class_="rules"),
        [tag("p", each, class_="note warn") for each in result.findings],
        statistics(result, decision) if result.metrics else None,
        class_="card",
    )


def rule(title: str, conditions: tuple[Condition, ...]) -> Markup:
    lines = [
        tag(
            "li",
            tag(
                "span",
                "✓" if condition.holds else "✗",
                class_="good" if condition.holds else "open",
                aria_label="holds" if condition.holds else "does not hold",
            ),
            tag("div", condition.text),
        )
        for condition in conditions
    ]
    return tag("div", paragraph(title, class_="kicker"), tag("ul", lines, class_="rule"))


def statistics(result: VariantResult, decision: Decision) -> Markup:
    sides = (f">{decision.baseline}", f">{result.variant}")
    columns = ("metric", "role", *sides, ">Δ", ">95 % of Δ", ">p", ">p (Holm)")
    caption = f"{result.variant} beside {decision.baseline}"
    return table(caption, columns, [figures(each) for each in result.metrics], class_="statistics")


def figures(metric: MetricResult) -> list[Child]:
    low, high = metric.interval
    places = decimals(max(abs(low), abs(high))) if isfinite(low) and isfinite(high) else 3
    kind = COLOURS[metric.standing] or None
    way = {True: "higher is better", False: "lower is better", None: ""}[metric.higher]
    return [
        tag("span", f"{MARKS[metric.standing]} {metric.name}".strip(), class_=kind, title=metric.note or way),
        metric.role.value,
        measured(metric.baseline),
        measured(metric.mean),
        tag("b", f"{metric.delta:+.{places}f}", class_=kind),
        f"{low:+.{places}f} … {high:+.{places}f}",
        "" if metric.p is None else probability(metric.p),
        "" if metric.p_corrected is None else probability(metric.p_corrected),
    ]


def effect_panels(each: SweepResults) -> Markup | None:
    if each.decision is None:
        return None
    by_metric: dict[str, list[tuple[Variant, MetricResult]]] = {}
    for result in each.decision.variants:
        for metric in result.metrics:
            if metric.higher is not None:
                by_metric.setdefault(metric.name, []).append((result.variant, metric))
    if not by_metric:
        return None
    panels = [panel(compared) for compared in list(by_metric.values())[:MOST_METRICS]]
    caption = f"Mean difference from {each.decision.baseline} with its 95 % interval; the shaded side is better."
    keys = [("better", "good"), ("worse", "bad"), ("open", "muted")]
    cut = f"The first {len(panels)} of {len(by_metric)} metrics are drawn; the tables above have all of them."
    rest = paragraph(cut, class_="quiet") if len(panels) < len(by_metric) else None
    return join([paragraph(caption), legend(keys), tag("div", panels, class_="panels"), rest])


def panel(compared: list[tuple[Variant, MetricResult]]) -> Markup:
    metric = compared[0][1]
    way = "higher is better" if metric.higher else "lower is better"
    role = "" if metric.role is Role.OTHER else f", {metric.role.value}"
    return figure(effects(compared), [tag("strong", metric.name), f" {way}{role}"])
