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
            found = outcome(manifest, name, store, folder)
            decision = decide(found)
    if options.format == "json":
        print_json(decision.to_dict())
    else:
        show(console(), decision, absent(found))
    return 0 if decision.complete else 1


def absent(found: Outcome) -> list[str]:
    """Metrics that the verdict shall rest on and no row has: most likely misspelt."""
    return [name for name in found.metrics if name not in found.metric_names] if found.finished else []


def show(screen: Console, decision: Decision, missing: Sequence[str] = ()) -> None:
    state = Text("complete", "green") if decision.complete else Text("incomplete, so nothing is locked", "bold red")
    there = f"{decision.finished} of {decision.expected} rows, "
    compared = f"    compared with {decision.baseline} over asset × fold; "
    screen.print(Text.assemble((decision.sweep, "bold"), compared, there, state))
    screen.print()
    counted = any(one.power.least_trades is not None for one in decision.variants)
    verdicts = [
        (
            Text(str(one.variant), "bold"),
            Text(one.verdict.value, STYLES[one.verdict]),
            names(one, Standing.BETTER, "green"),
            names(one, Standing.WORSE, "red"),
            Text(str(one.power.pairs), "" if one.power.given else "yellow"),
            *([trades(one)] if counted else []),
        )
        for one in decision.variants
    ]
    if not verdicts:
        screen.print(note("·", f"the sweep has only {decision.baseline}: there is nothing to compare it with", "dim"))
        return
    columns = ("variant", "verdict", "better", "worse", ">pairs", *([">least trades"] if counted else []))
    screen.print(Padding(table(columns, verdicts), (0, 0, 0, 2)))
    for one in decision.variants:
        show_figures(screen, one, decision)
    screen.print()
    if any(each.metric.primary for one in decision.variants for each in one.metrics):
        screen.print(note("*", "primary: a variant that makes it clearly worse is given up", "dim"))
        screen.print()
    for one in decision.variants:
        show_why(screen, one)
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


def names(one: Judgement, standing: Standing, style: str) -> Text:
    found = [each.metric.name for each in one.metrics if each.standing is standing]
    return Text(", ".join(found), style) if found else Text(NONE, "dim")


def trades(one: Judgement) -> Text:
    if one.power.least_trades is None:
        return Text(NONE, "dim")
    thin = f" in {plural(one.power.thin, 'thin fold')}" if one.power.thin else ""
    return Text(f"{one.power.least_trades:g}{thin}", "yellow" if one.power.thin else "")


def show_figures(screen: Console, one: Judgement, decision: Decision) -> None:
    if not one.metrics:
        return
    screen.print()
    wide = screen.width >= WIDE
    sides = (f">{decision.baseline}", f">{one.variant}") if wide else ()
    columns = (f"  {one.variant}", *sides, ">Δ", ">95 % of Δ", ">p corrected", ">effect")
    show_table(screen, columns, [line(each, wide) for each in one.metrics], indent=2)


def line(result: MetricResult, wide: bool) -> list[Cell]:
    found = result.comparison
    mark, style = MARKS[result.standing]
    low, high = found.interval
    places = decimals(max(abs(low), abs(high)))
    return [
        Text.assemble((f"{mark} {result.metric.name}", style), (" *" if result.metric.primary else "", "dim")),
        *((measured(found.baseline), measured(found.mean)) if wide else ()),
        Text(f"{found.delta:+.{places}f}", style),
        f"{low:+.{places}f} … {high:+.{places}f}",
        probability(result.p_corrected),
        f"{found.effect:+.2f}",
    ]


def show_why(screen: Console, one: Judgement) -> None:
    """The lines of the rule that lead to the verdict, with how each stands; the figures are in the tables above."""
    screen.print(Text.assemble(f"  {one.variant}: ", (one.verdict.value, STYLES[one.verdict])))
    if one.verdict is Verdict.ABANDON:
        screen.print(note("  ✗", one.reason, "red"))
    else:
        for check in one.lock_needs:
            mark, style = ("  ✓", "green") if check.holds else ("  ✗", "red")
            screen.print(note(mark, f"LOCK needs {check.asks}: {check.figures}", style))
    for text in one.remarks:
        screen.print(note("  !", text, "yellow"))
    screen.print()
