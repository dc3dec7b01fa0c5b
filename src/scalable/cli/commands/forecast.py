"""``scalable forecast``: questions about the manifest as a whole, a view each."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scalable.cli import context
from scalable.cli.arguments import REPLAY
from scalable.cli.commands import replay
from scalable.cli.output import console, facts, margin_text, node_chart, note, print_json, show_table, status, working
from scalable.errors import PlanningError, UsageError
from scalable.machine_hours import MachineHours
from scalable.manifest.machines import Pool
from scalable.manifest.policies import Margins
from scalable.observe.hours import machine_hours
from scalable.planning.acceptance import Criterion, Result
from scalable.planning.acceptance import acceptance as evaluate
from scalable.planning.campaign import plan_all
from scalable.planning.front import Choice
from scalable.planning.history import History
from scalable.planning.hours import allocation_left
from scalable.planning.margins import MarginRow
from scalable.planning.options import OptionComparison, compare
from scalable.planning.plan import Plan, plan_sweep
from scalable.planning.scenarios import GrowthRow, Month, growth_table, margin_table, months
from scalable.planning.site import Site
from scalable.quantities import Duration
from scalable.wording import plural, undefined


@dataclass(frozen=True, slots=True)
class ForecastAnswer:
    """What a view found: for machines, and how to show it to people."""

    record: dict[str, Any]
    show: Callable[[Console], None]
    status: int = 0


def run(options: argparse.Namespace) -> int:
    if options.view == REPLAY:
        return replay.run(options)
    loaded = context.load(options)
    if options.sweep and options.view != "timeline":
        raise UsageError(f"only the timeline is of one sweep; {options.view} is of the whole manifest")
    if options.sweep and options.sweep not in loaded.manifest.sweeps:
        raise UsageError(undefined("sweep", options.sweep, loaded.manifest.sweeps))
    options.target = loaded.target  # the one that is judged, also where only pools are asked about
    site = context.site(options, loaded, pools_only=options.view != "timeline")
    with working("simulating"):
        answer = VIEWS[options.view](site, context.history(context.manifest_path(options.manifest)), options)
    if options.format == "json":
        print_json(answer.record)
    else:
        answer.show(console())
    return answer.status


def margins(site: Site, history: History, options: argparse.Namespace) -> ForecastAnswer:
    rows = margin_table(site, history)
    if not rows:
        raise PlanningError("the manifest has no scenarios; write e.g. scenarios: {two: {sweeps: {standard: 2}}}")
    shown = partial(show_margins, rows, site.manifest.policies.margins)
    return ForecastAnswer({"rows": [row.to_dict() for row in rows]}, shown)


def show_margins(rows: Sequence[MarginRow], policy: Margins, screen: Console) -> None:
    columns = ("scenario", ">pods", ">CPU burst", ">RAM peak", ">nodes", ">by request", ">CPU", ">RAM")
    lines = [
        (
            Text(row.scenario, style="bold"),
            str(row.pods),
            f"{row.cpu_burst:g}",
            f"{row.ram_peak_gib:g} GiB",
            str(row.nodes),
            Text(str(row.nodes_by_request), style="yellow" if row.nodes_by_request < row.nodes else ""),
            f"{row.cpu_available:g}",
            f"{row.ram_available_gib:g} GiB",
            margin_text(row.cpu_margin),
            margin_text(row.ram_margin),
            status(row.status.value),
        )
        for row in rows
    ]
    show_table(screen, (*columns, ">CPU margin", ">RAM margin", "status"), lines)
    screen.print()
    show_notes(screen, [(row.scenario, row.notes) for row in rows], "!", "bold yellow")
    guaranteed = f"guaranteed: RAM over {policy.ram}, CPU over {policy.cpu} for sweeps alone."
    counted = "Nodes are counted by burst (CPU limits, observed RAM peaks, nominal capacity);"
    meant = "by request is what a scheduler does with requests as written."
    screen.print(note("·", f"{guaranteed} {counted} {meant}", "dim"))


def timeline(site: Site, history: History, options: argparse.Namespace) -> ForecastAnswer:
    names = list(site.manifest.sweeps)
    if not names:
        raise PlanningError("the manifest has no sweeps to show on a timeline")
    plan = plan_sweep(site, options.sweep or names[0], Choice(seed=context.seed(options)), history)
    record = plan.to_dict()
    kept = ("sweep", "pool", "timeline", "nodes", "ready_s", "wall_s", "over_s", "node_hours", "utilisation", "cost")
    return ForecastAnswer({name: record[name] for name in kept}, partial(show_timeline, plan, site.pools[plan.pool]))


def show_timeline(plan: Plan, pool: Pool, screen: Console) -> None:
    screen.print(Text.assemble((plan.sweep, "bold"), f"    {plural(plan.workers, 'worker')} on {plan.pool}"))
    screen.print()
    for line in node_chart(screen, [span for span in plan.nodes if not span.permanent], plan.over_s):
        screen.print(f"  {line}", style="cyan", no_wrap=True, crop=True)
    screen.print()
    asked = min((span.requested for span in plan.nodes if not span.permanent), default=0.0)
    moments = [
        (elapsed_text(asked), f"{plural(plan.nodes_peak, 'node')} asked for"),
        (elapsed_text(plan.ready_s), f"nodes are up, {plural(plan.workers, 'worker')} start"),
        (elapsed_text(plan.ready_s + plan.wall_s), "the last row is there"),
        (elapsed_text(plan.over_s), f"the last node is gone, {pool.idle} after its last worker"),
    ]
    screen.print(Padding(facts(moments if pool.max else moments[1:3]), (0, 0, 0, 2)))
    if plan.cost is not None:
        used = f"{margin_text(plan.utilisation)} of their CPU time used"
        screen.print()
        screen.print(note("·", f"{plan.node_hours:.2f} node-hours paid, {plan.cost}; {used}", "dim"))


def options_view(site: Site, history: History, options: argparse.Namespace) -> ForecastAnswer:
    comparison = compare(site, history, context.seed(options))
    return ForecastAnswer(comparison.to_dict(), partial(show_options, comparison))


def show_options(comparison: OptionComparison, screen: Console) -> None:
    rows = [
        (
            Text.assemble(("▸ " if row.name == comparison.recommended else "  ", "bold green"), (row.name, "bold")),
            str(row.workers),
            str(row.nodes),
            str(Duration(row.hours * 3600)),
            str(Duration(row.hours_shared * 3600)),
            str(row.cost),
            str(row.bill),
            str(row.monthly),
            Text(margin_text(row.cpu_margin), style="" if row.guaranteed else "yellow"),
        )
        for row in comparison.options
    ]
    columns = (">workers", ">nodes", ">time", ">shared", ">computing", ">bill", ">standing/month", ">CPU margin")
    show_table(screen, ("  option", *columns), rows)
    screen.print()
    show_notes(screen, [(row.name, row.notes) for row in comparison.options], "·", "dim")
    for name, why in comparison.impossible.items():
        screen.print(note("!", f"{name} is impossible: {why}", "bold yellow"))
    screen.print(note("▸", f"{comparison.recommended}: {comparison.reason}", "bold green"))
    screen.print(note("·", "time and cost are for every row from scratch; shared is what will happen", "dim"))


def month(site: Site, history: History, options: argparse.Namespace) -> ForecastAnswer:
    allocation = allocation_use(site, history)
    budget = site.manifest.budget
    projected = months(site, history) if allocation is None or (budget and budget.months) else []
    record = {"months": [projection.to_dict() for projection in projected], "allocation": allocation}

    def show(screen: Console) -> None:
        show_months(projected, screen)
        show_allocation(allocation, screen)

    return ForecastAnswer(record, show)


def allocation_use(site: Site, history: History) -> dict[str, Any] | None:
    """Return what runs have used of ``budget.allocation``, what is left, and what the sweeps would use once each."""
    budget, left = site.allocation, allocation_left(site.manifest, history)
    if budget is None or left is None:
        return None
    planned = plan_all(site, Choice(), history).hours if site.manifest.sweeps else None
    amounts = {"budget": budget, "used": budget - left, "left": left, "balance": site.balance}
    if planned is not None:
        amounts["sweeps"] = MachineHours(planned.of(budget.unit), budget.unit)
    return {name: amount.to_dict() if amount is not None else None for name, amount in amounts.items()}


def show_allocation(allocation: Mapping[str, Any] | None, screen: Console) -> None:
    if allocation is None:
        return
    amounts = {name: machine_hours(value) for name, value in allocation.items()}
    pairs = [("budget", str(amounts["budget"])), ("used", str(amounts["used"])), ("left", str(amounts["left"]))]
    pairs += [("account", f"{amounts['balance']} left (sshare)")] if amounts["balance"] is not None else []
    pairs += [("all sweeps", f"{amounts['sweeps']} if each runs once")] if "sweeps" in amounts else []
    screen.print(Text("allocation", style="bold"))
    screen.print(Padding(facts(pairs), (0, 0, 0, 2)))


def show_months(projected: Sequence[Month], screen: Console) -> None:
    for projection in projected:
        rows: list[tuple[str | Text, ...]] = []
        for line in projection.lines:
            how = "fixed"
            if line.sessions is not None:
                how = f"{line.sessions} × {line.hours:g} h × {plural(line.nodes or 0, 'node')}"
            rows.append((f"  {line.what}", how, str(line.cost)))
        rows.append(
            ("  total", f"{projection.margin} left of {projection.budget}", Text(str(projection.total), style="bold"))
        )
        rows.append(("  bill", f"list prices, {projection.start_and_idle} to start and idle", str(projection.bill)))
        screen.print(Text(projection.name, style="bold"))
        show_table(screen, ("", "", ">"), rows)
        screen.print()
    for text in dict.fromkeys(text for projection in projected for text in projection.notes):
        screen.print(note("·", text, "dim"))


def growth(site: Site, history: History, options: argparse.Namespace) -> ForecastAnswer:
    rows = growth_table(site, history)
    if not rows:
        raise PlanningError("the manifest asks nothing; write budget.growth: {more: {sweeps: {standard: 3}}}")
    return ForecastAnswer({"rows": [row.to_dict() for row in rows]}, partial(show_growth, rows))


def show_growth(rows: Sequence[GrowthRow], screen: Console) -> None:
    lines = [
        (
            Text(row.question, style="bold"),
            str(row.pods or "–"),
            f"{row.nodes} × {row.node}",
            Text(str(row.pool_max or "–"), style="red" if row.pool_max and row.nodes > row.pool_max else ""),
            f"{row.hourly}/h" if row.hourly is not None else "–",
            str(row.monthly) if row.monthly is not None else "while running",
            margin_text(row.cpu_margin) if row.cpu_margin is not None else "–",
        )
        for row in rows
    ]
    columns = ("question", ">pods", "nodes", ">pool max", ">cost", ">a month", ">CPU margin")
    show_table(screen, columns, lines)
    screen.print()
    show_notes(screen, [(row.question, row.notes) for row in rows], "·", "dim")


def acceptance(site: Site, history: History, options: argparse.Namespace) -> ForecastAnswer:
    criteria = evaluate(site, history, context.seed(options), options.target)
    failed = any(criterion.result is Result.FAIL for criterion in criteria)
    record = {"criteria": [criterion.to_dict() for criterion in criteria]}
    return ForecastAnswer(record, partial(show_acceptance, criteria), status=1 if failed else 0)


def show_acceptance(criteria: Sequence[Criterion], screen: Console) -> None:
    rows = [(status(c.result.value), Text(c.name, style="bold"), c.figure) for c in criteria]
    show_table(screen, ("", "criterion", "figure"), rows)


def show_notes(screen: Console, groups: Iterable[tuple[str, Iterable[str]]], mark: str, style: str) -> None:
    notes = [(name, text) for name, texts in groups for text in texts]
    for name, text in notes:
        line = text if text.startswith(f"{name}: ") else f"{name}: {text}"  # a reason may begin with its place
        screen.print(note(mark, line, style))
    if notes:
        screen.print()


def elapsed_text(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


VIEWS: dict[str, Callable[[Site, History, argparse.Namespace], ForecastAnswer]] = {
    "margins": margins,
    "timeline": timeline,
    "options": options_view,
    "month": month,
    "growth": growth,
    "acceptance": acceptance,
}
