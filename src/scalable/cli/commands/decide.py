"""``scalable decide``: all variants of a sweep by rank, each with its gain, its interval and its verdict.

``--variant`` shows every metric of one variant and the rule line by line. The exit status is 0 only if the sweep is
complete: rows that are missing could still change a rank.
"""

from __future__ import annotations

import argparse
from math import isfinite

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scalable.cli.commands.lock import variant_of
from scalable.cli.commands.results import opened, which
from scalable.cli.output import Cell, console, note, print_json, show_table, table, working
from scalable.observe.words import decimals, measured, probability
from scalable.sweeps.decisions import Decision, Verdict
from scalable.sweeps.ledger import control_of, decide_and_record
from scalable.sweeps.loading import outcome
from scalable.verdicts.judging import MetricResult, Role, Standing, VariantResult
from scalable.verdicts.ledger import Tally
from scalable.wording import command, plural

STYLES = {Verdict.LOCK: "bold green", Verdict.KEEP_AVAILABLE: "yellow", Verdict.ABANDON: "red"}
COLOURS = {Standing.BETTER: "green", Standing.WORSE: "red", Standing.OPEN: ""}
NONE = "–"
WIDE = 100  # columns; with fewer, intervals are not drawn
PICTURE = 19  # characters of a drawn interval
MOST = 20  # variants in the table; machines get all


def run(options: argparse.Namespace) -> int:
    with opened(options) as (manifest, store, folder):
        name = which(manifest, options.sweep)
        with working("comparing"):
            results = outcome(manifest, name, store, folder)
            decision = decide_and_record(results, store, control_of(manifest))
    if options.format == "json":
        print_json(decision.to_dict())
    elif options.variant is not None:
        variant = variant_of(options.variant, results.variants, f"sweep {name}")
        show_variant(console(), decision, decision.of(variant))
    else:
        show(console(), decision)
    return 0 if decision.complete else 1


def show(screen: Console, decision: Decision) -> None:
    show_title(screen, decision)
    if not decision.variants:
        screen.print(note("·", f"the sweep has only {decision.baseline}: there is nothing to compare it with", "dim"))
        return
    ranked = decision.ranked[:MOST]
    if decision.variants[0].metrics:
        show_ranks(screen, decision, ranked)
        screen.print()
    for result in ranked:
        show_reason(screen, decision, result)
    if len(ranked) < len(decision.variants):
        rest = len(decision.variants) - len(ranked)
        screen.print(note("·", f"{plural(rest, 'further variant')}; --format json  has all", "dim"))
    if decision.shortfall:
        screen.print(note("!", decision.shortfall, "bold red"))
    show_ledger(screen, decision.ledger)
    show_next(screen, decision, ranked[0])


def show_title(screen: Console, decision: Decision) -> None:
    way = "higher" if decision.higher else "lower"
    count = plural(len(decision.variants), "variant")
    against = f"{count} against {decision.baseline} on {plural(decision.blocks, 'block')}"
    primary = f"{decision.primary} ({way} is better): " if decision.primary else ""
    state = Text("complete", "green") if decision.complete else Text("incomplete", "bold red")
    screen.print(Text.assemble((decision.sweep, "bold"), f"    {primary}{against}"))
    rows = f"    {decision.method}; {decision.finished} of {decision.expected} rows, "
    screen.print(Text.assemble(" " * len(decision.sweep), rows, state))
    screen.print()


def show_ranks(screen: Console, decision: Decision, ranked: list[VariantResult]) -> None:
    wide = screen.width >= WIDE
    ends = [abs(end) for each in ranked for end in each.metrics[0].interval if isfinite(end)]
    reach = max([abs(each.metrics[0].delta) for each in ranked if isfinite(each.metrics[0].delta)] + ends, default=0.0)
    places = decimals(reach)
    drawn = ("",) if wide else ()
    columns = (">", "variant", f">{decision.primary}", ">gain", *drawn, ">95 % interval", ">p (Holm)", "verdict")
    rows: list[list[Cell]] = []
    for each in ranked:
        metric = each.metrics[0]
        low, high = metric.interval
        best = (" ← recommended" if wide else " ←") if each.variant == decision.recommended else ""
        rows.append(
            [
                str(each.rank),
                Text(str(each.variant), "bold"),
                measured(metric.mean),
                Text(f"{metric.delta:+.{places}f}", COLOURS[metric.standing]),
                *([picture(metric, reach)] if wide else []),
                f"{low:+.{places}f} … {high:+.{places}f}",
                probability(metric.p_corrected if metric.p_corrected is not None else 1.0),
                Text(f"{each.word}{best}", STYLES[each.verdict]),
            ]
        )
    screen.print(Padding(table(columns, rows), (0, 0, 0, 2)))


def picture(metric: MetricResult, reach: float) -> Text:
    """Return an interval as characters: | is the baseline, ● the gain, dots are inside the interval."""
    low, high = metric.interval
    if not reach or not all(map(isfinite, (low, high, metric.delta))):
        return Text(" " * PICTURE)
    half = PICTURE // 2

    def at(value: float) -> int:
        return half + round(value / reach * half)

    cells = ["·" if at(low) <= place <= at(high) else " " for place in range(PICTURE)]
    cells[half] = "|"
    cells[at(metric.delta)] = "●"
    return Text("".join(cells), COLOURS[metric.standing])


def show_reason(screen: Console, decision: Decision, result: VariantResult) -> None:
    alike = ""
    if result.indistinguishable_from and result.variant != decision.recommended:
        alike = f"; cannot be told from {decision.recommended}"
    reason = result.reason.removesuffix(f"; {decision.shortfall}")  # which is told once, below
    screen.print(note("·", f"{result.variant}: {reason}{alike}", STYLES[result.verdict]))
    for text in result.findings:
        screen.print(note("  !", text, "yellow"))


def show_ledger(screen: Console, ledger: Tally) -> None:
    """Print how many decisions there were and what chance alone would do, or why the ledger could not be written."""
    if str(ledger):
        screen.print(note("!", str(ledger), "yellow") if ledger.problem else note("·", str(ledger), ""))


def show_next(screen: Console, decision: Decision, best: VariantResult) -> None:
    if decision.recommended is not None:
        lock = command("lock", decision.factor, decision.recommended)
        screen.print(note("▸", f"{lock}  makes it part of the base of every further sweep", "bold green"))
    elif not decision.complete:
        screen.print(note("▸", f"{command('run', decision.sweep)}  computes what is missing", "bold"))
    details = command("decide", decision.sweep, "--variant", best.variant)
    screen.print(note("·", f"{details}  shows every metric and the rule", "dim"))


def show_variant(screen: Console, decision: Decision, result: VariantResult | None) -> None:
    """Show one variant: its metrics by role, and each line of the rule with whether it holds."""
    show_title(screen, decision)
    if result is None:
        screen.print(note("·", f"{decision.baseline} is what the other variants are compared with", "dim"))
        return
    if result.metrics:
        columns = ("metric", "role", f">{decision.baseline}", f">{result.variant}", ">Δ", ">95 % of Δ", ">p")
        show_table(screen, columns, [metric_line(metric) for metric in result.metrics], indent=2)
        screen.print()
    screen.print(Text.assemble(f"  {result.variant}: ", (result.word, STYLES[result.verdict])))
    screen.print(note("  ·", result.reason, ""))
    for rule in result.rules:
        mark, style = ("  ✓", "green") if rule.holds else ("  ✗", "red")
        screen.print(note(mark, f"LOCK needs {rule.text}", style))
    for text in (*result.findings, *(f"{m.name}: {m.note}" for m in result.metrics if m.role is Role.NOT_COMPARABLE)):
        screen.print(note("  !", text, "yellow"))


def metric_line(metric: MetricResult) -> list[Cell]:
    low, high = metric.interval
    places = decimals(max(abs(low), abs(high), abs(metric.delta))) if isfinite(low) and isfinite(high) else 3
    style = "dim" if metric.role is Role.NOT_COMPARABLE else COLOURS[metric.standing]
    return [
        Text(metric.name, style),
        metric.role.value,
        measured(metric.baseline),
        measured(metric.mean),
        Text(f"{metric.delta:+.{places}f}", style),
        f"{low:+.{places}f} … {high:+.{places}f}",
        NONE if metric.p is None else probability(metric.p),
    ]
