"""``scalable decide``: the verdict on each variant of a sweep, the figures it rests on, and why.

Its exit status is 0 only if the sweep is complete: what is decided on some of the rows is not decided.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from shlex import quote

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scalable.cli.commands.results import opened, which
from scalable.cli.output import Cell, console, note, print_json, show_table, table, working
from scalable.observe.words import decimals, measured, probability
from scalable.sweeps.decisions import Decision, Judgement, MetricResult, Standing, Verdict
from scalable.sweeps.gates import decide
from scalable.sweeps.loading import outcome
from scalable.sweeps.results import Outcome
from scalable.wording import plural

STYLES = {Verdict.LOCK: "bold green", Verdict.KEEP_AVAILABLE: "yellow", Verdict.ABANDON: "red"}
MARKS = {Standing.BETTER: ("▲", "green"), Standing.WORSE: ("▼", "red"), Standing.OPEN: (" ", "")}
NONE = "–"
WIDE = 100  # columns; with fewer, both sides' means give way to the difference


def run(options: argparse.Namespace) -> int:
    with opened(options) as (manifest, store, folder):
        name = which(manifest, options.sweep)
        with working("comparing"):
            results = outcome(manifest, name, store, folder)
            decision = decide(results)
    if options.format == "json":
        print_json(decision.to_dict())
    else:
        show(console(), decision, absent(results))
    return 0 if decision.complete else 1


def absent(results: Outcome) -> list[str]:
    """Metrics that the verdict shall rest on and no row has: most likely misspelt."""
    return [name for name in results.metrics if name not in results.metric_names] if results.finished else []


def show(screen: Console, decision: Decision, missing: Sequence[str] = ()) -> None:
    state = Text("complete", "green") if decision.complete else Text("incomplete, so nothing is locked", "bold red")
    there = f"{decision.finished} of {decision.expected} rows, "
    compared = f"    compared with {decision.baseline} over asset × fold; "
    screen.print(Text.assemble((decision.sweep, "bold"), compared, there, state))
    screen.print()
    counted = any(judgement.power.least_trades is not None for judgement in decision.variants)
    verdicts = [
        (
            Text(str(judgement.variant), "bold"),
            Text(judgement.verdict.value, STYLES[judgement.verdict]),
            names(judgement, Standing.BETTER, "green"),
            names(judgement, Standing.WORSE, "red"),
            Text(str(judgement.power.pairs), "" if judgement.power.given else "yellow"),
            *([trades(judgement)] if counted else []),
        )
        for judgement in decision.variants
    ]
    if not verdicts:
        screen.print(note("·", f"the sweep has only {decision.baseline}: there is nothing to compare it with", "dim"))
        return
    columns = ("variant", "verdict", "better", "worse", ">pairs", *([">least trades"] if counted else []))
    screen.print(Padding(table(columns, verdicts), (0, 0, 0, 2)))
    for judgement in decision.variants:
        show_figures(screen, judgement, decision)
    screen.print()
    if any(each.metric.primary for judgement in decision.variants for each in judgement.metrics):
        screen.print(note("*", "primary: a variant that makes it clearly worse is given up", "dim"))
        screen.print()
    for judgement in decision.variants:
        show_why(screen, judgement)
    for name in missing:
        there = ", ".join(decision.not_judged) or "those above"
        text = f"no row has the metric {name!r} of sweeps.{decision.sweep}.metrics; rows have {there}"
        screen.print(note("!", text, "bold yellow"))
    if decision.not_judged:
        screen.print(note("·", f"not judged: {', '.join(decision.not_judged)}", "dim"))
    if (best := decision.recommended) is not None:
        command = f"scalable lock {quote(decision.factor)} {quote(str(best.variant))}"
        screen.print(note("▸", f"{command}  makes it part of the base of every further sweep", "bold green"))
    elif not decision.complete:
        screen.print(note("▸", f"scalable run --sweep {quote(decision.sweep)}  computes what is missing", "bold"))


def names(judgement: Judgement, standing: Standing, style: str) -> Text:
    metric_names = [each.metric.name for each in judgement.metrics if each.standing is standing]
    return Text(", ".join(metric_names), style) if metric_names else Text(NONE, "dim")


def trades(judgement: Judgement) -> Text:
    if judgement.power.least_trades is None:
        return Text(NONE, "dim")
    thin = f" in {plural(judgement.power.thin, 'thin fold')}" if judgement.power.thin else ""
    return Text(f"{judgement.power.least_trades:g}{thin}", "yellow" if judgement.power.thin else "")


def show_figures(screen: Console, judgement: Judgement, decision: Decision) -> None:
    if not judgement.metrics:
        return
    screen.print()
    wide = screen.width >= WIDE
    sides = (f">{decision.baseline}", f">{judgement.variant}") if wide else ()
    columns = (f"  {judgement.variant}", *sides, ">Δ", ">95 % of Δ", ">p corrected", ">effect")
    show_table(screen, columns, [line(each, wide) for each in judgement.metrics], indent=2)


def line(result: MetricResult, wide: bool) -> list[Cell]:
    comparison = result.comparison
    mark, style = MARKS[result.standing]
    low, high = comparison.interval
    places = decimals(max(abs(low), abs(high)))
    return [
        Text.assemble((f"{mark} {result.metric.name}", style), (" *" if result.metric.primary else "", "dim")),
        *((measured(comparison.baseline), measured(comparison.mean)) if wide else ()),
        Text(f"{comparison.delta:+.{places}f}", style),
        f"{low:+.{places}f} … {high:+.{places}f}",
        probability(result.p_corrected),
        f"{comparison.effect:+.2f}",
    ]


def show_why(screen: Console, judgement: Judgement) -> None:
    """The lines of the rule that lead to the verdict, with how each stands; the figures are in the tables above."""
    screen.print(Text.assemble(f"  {judgement.variant}: ", (judgement.verdict.value, STYLES[judgement.verdict])))
    if judgement.verdict is Verdict.ABANDON:
        screen.print(note("  ✗", judgement.reason, "red"))
    else:
        for check in judgement.lock_needs:
            mark, style = ("  ✓", "green") if check.holds else ("  ✗", "red")
            screen.print(note(mark, f"LOCK needs {check.asks}: {check.figures}", style))
    for text in judgement.remarks:
        screen.print(note("  !", text, "yellow"))
    screen.print()
