"""``scalable plan``: what sweeps will need, take and cost. Starts nothing, but for a pilot where one is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scalable.cli import context
from scalable.cli.operating import save_shown
from scalable.cli.output import console, errors, facts, margin_text, node_chart, note, print_json, show_table, working
from scalable.errors import ScalableError, UsageError
from scalable.machine_hours import NODE_HOURS, UNITS, HeldResources, MachineHours, hours_text
from scalable.manifest import Loaded
from scalable.planning.campaign import Campaign, plan_all
from scalable.planning.components import ComponentPlan, plan_components
from scalable.planning.front import Choice
from scalable.planning.plan import Plan, plan_sweep
from scalable.quantities import Duration
from scalable.store import Filter
from scalable.sweeps.loading import open_results, outcome
from scalable.wording import command, plural, undefined

if TYPE_CHECKING:
    from scalable.verdicts.power import Power


def run(options: argparse.Namespace) -> int:
    loaded = context.load(options)
    if options.pilot and not options.dry_run:
        run_pilots(loaded, options)
    if options.sweep is not None and options.sweep not in loaded.manifest.sweeps:
        raise UsageError(undefined("sweep", options.sweep, loaded.manifest.sweeps))
    return planned(options, loaded, options.sweep)


def planned(options: argparse.Namespace, loaded: Loaded, sweep: str | None) -> int:
    """Show the plan of one sweep, else of all; of the components where there is no sweep."""
    if options.pilot and options.dry_run:
        raise UsageError("a pilot runs jobs, and --dry-run starts nothing; leave out one of them")
    site = context.site(options, loaded, context.pin(options, loaded))
    past = context.history(context.manifest_path(options.manifest))
    result: Plan | Campaign | ComponentPlan
    if sweep is None and not loaded.manifest.sweeps:
        wishes = {"objective": options.objective, "policy": options.policy}
        result = plan_components(site, loaded.target, **wishes, history=past)
    else:
        choice = Choice(options.objective or "balance", options.policy or "safe", context.seed(options))
        with working("simulating"):
            if sweep is None:
                result = plan_all(site, choice, past)
            else:
                result = replace(plan_sweep(site, sweep, choice, past), power=power(options, loaded, sweep))
    if options.output is not None:
        save_shown(Path(options.output), options.format, result.to_dict(), lambda screen: show(screen, result))
    elif options.format == "json":
        print_json(result.to_dict())
    else:
        show(console(), result)
    if not isinstance(result, ComponentPlan) and result.over_budget and not options.over_budget:
        errors().print(f"refused: {result.over_budget_text}; --over-budget accepts it", style="bold red")
        return 1
    return 0


def power(options: argparse.Namespace, loaded: Loaded, sweep: str) -> Power:
    """Return what a sweep can find, by the spread of its earlier rows where the store has some."""
    from scalable.sweeps.power import sweep_power

    manifest = loaded.manifest
    earlier = None
    with suppress(ScalableError, OSError):  # no store, or code that cannot be imported: then nothing was measured
        folder = context.manifest_path(options.manifest).resolve().parent
        with open_results(manifest, create=False) as store:
            earlier = outcome(manifest, sweep, store, folder) if store.keys(Filter(sweep=sweep)) else None
    return sweep_power(manifest.sweeps[sweep], manifest.groups, earlier)


def run_pilots(loaded: Loaded, options: argparse.Namespace) -> None:
    """Measure the sweep that is named, or all of them, before they are planned."""
    from scalable.cli.commands.run import orderly_end, pilot
    from scalable.session.session import ScalableSession

    if options.sweep is not None and options.sweep not in loaded.manifest.sweeps:
        raise UsageError(undefined("sweep", options.sweep, loaded.manifest.sweeps))
    names = [options.sweep] if options.sweep is not None else list(loaded.manifest.sweeps)
    if not names:
        raise UsageError("--pilot is about sweeps, and the manifest has none")
    with orderly_end():
        for name in names:
            pilot(ScalableSession(loaded, context.manifest_path(options.manifest)), name)


def show(screen: Console, result: Plan | Campaign | ComponentPlan) -> None:
    if isinstance(result, Plan):
        show_plan(screen, result)
    elif isinstance(result, Campaign):
        show_campaign(screen, result)
    else:
        show_components(screen, result)


def show_plan(screen: Console, plan: Plan) -> None:
    rows = "1 row" if plan.rows == 1 else f"{plan.rows:,} rows"
    screen.print(Text.assemble((plan.sweep, "bold"), f"    {rows} = {plan.grid}"))
    if plan.rows_per_unit > 1:
        serves = plural(plan.rows_per_unit, "row")
        screen.print(" " * (len(plan.sweep) + 4) + f"{plan.units:,} jobs do it: each serves {serves}")
    screen.print()
    screen.print(Padding(facts(plan_facts(plan)), (0, 0, 0, 2)))
    screen.print()
    chart = node_chart(screen, [span for span in plan.nodes if not span.permanent], plan.over_s)
    for line in chart:
        screen.print(f"  {line}", style="cyan", no_wrap=True, crop=True)
    if chart:
        screen.print()
    for finding in plan.warnings:
        screen.print(note("!", finding.advice, "bold yellow"))
    if plan.warnings:
        screen.print()
    show_front(screen, plan)
    screen.print(note("Assumed:", "; ".join(plan.assumptions), "dim"))


def plan_facts(plan: Plan) -> list[tuple[str, str]]:
    size = f"{plan.resources.cpus:g} CPU / {plan.resources.memory}"
    nodes = f", {plan.nodes_peak} × {plan.node}" if plan.nodes_peak else ""
    time = str(Duration(plan.wall_s))
    if plan.wall_range_s:
        low, high = plan.wall_range_s
        time += f" ({Duration(low)} to {Duration(high)} in 8 of 10 simulations)"
    if plan.ready_s:
        time += f" after {Duration(plan.ready_s)} {'for the first node' if plan.guarantees else 'of start-up'}"
    if plan.rows_per_unit > 1:
        time += f"; without sharing {Duration(plan.wall_unshared_s)}"
    margins = f"CPU {margin_text(plan.cpu_margin)}  RAM {margin_text(plan.ram_margin)}"
    if plan.guarantees:
        margins += f"  (guaranteed {margin_text(plan.guarantees[0])} / {margin_text(plan.guarantees[1])})"
    pairs = [
        ("pool", f"{plan.pool}{nodes}, {plural(plan.workers, 'worker')} × {size}  ({plan.profile})"),
        ("time", time),
    ]
    if plan.cost is not None:
        money = str(plan.cost)
        if plan.cost_computing != plan.cost:  # where workers are charged, not nodes, both are one
            money += f", start and idle tail included ({plan.cost_computing} while computing)"
        if plan.budget_left is not None:
            money += f"; {plan.budget_left} of this month's budget left"
        pairs.append(("cost", money))
    pairs += hours_facts(plan.hours, plan.allocation_left, plan.provider)
    pairs.append(("margins", margins))
    if plan.power is not None:
        from scalable.sweeps.power import power_text

        pairs.append(("power", power_text(plan.power)))
    if plan.node_hours:
        used = f"{margin_text(plan.utilisation)} of their CPU time used"
        pairs.append(("paid", f"{plan.node_hours:.2f} node-hours, {used}"))
    return pairs


def hours_facts(
    hours: HeldResources | None, left: MachineHours | None, provider: str = "slurm"
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """Yield the hours that a plan uses of an allocation, where machines are counted in hours."""
    if left is None and provider != "slurm":
        return
    rest = f"; {left} of budget.allocation left" if left is not None else ""
    if hours is None:
        yield "hours", f"not known yet: nothing was measured{rest}"
        return
    budgeted = left.unit if left is not None else ""
    units = [unit for unit in UNITS if hours.of(unit) and (unit != NODE_HOURS or unit == budgeted)]
    yield "hours", ", ".join(f"{hours_text(hours.of(unit))} {unit}" for unit in units) + rest


def show_front(screen: Console, plan: Plan) -> None:
    rows = []
    for point in plan.front:
        name = plan.objective if plan.policy != "manual" else "manual"
        mark = Text("▸" if point.chosen else " ", style="bold green")
        rows.append(
            (
                mark,
                str(point.workers),
                str(point.nodes),
                str(Duration(point.wall_s)),
                str(point.cost) if point.cost is not None else "–",
                margin_text(point.cpu_margin),
                Text(f"{name}, {plan.policy}" if point.chosen else "" if point.simulated else "estimated", style="dim"),
            )
        )
    columns = ("front", ">workers", ">nodes", ">time", ">cost", ">CPU margin", "")
    show_table(screen, columns, rows, indent=2)
    screen.print()


def show_campaign(screen: Console, campaign: Campaign) -> None:
    rows = [
        (
            Text(plan.sweep, style="bold"),
            f"{plan.rows:,}",
            f"{plan.units:,}",
            plan.profile,
            str(plan.workers),
            str(plan.nodes_peak),
            str(Duration(plan.wall_s)),
            str(Duration(plan.wall_unshared_s)),
            str(plan.cost) if plan.cost is not None else "–",
        )
        for plan in campaign.plans
    ]
    cost = str(campaign.cost) if campaign.cost is not None else "–"
    together = str(Duration(campaign.wall_s))
    rows.append(
        (
            Text("together", style="bold"),
            f"{campaign.rows:,}",
            f"{campaign.units:,}",
            "",
            "",
            str(campaign.nodes_peak),
            together,
            "",
            cost,
        )
    )
    if (turns := campaign.in_turn) is not None:
        costs = str(turns.cost) if turns.cost is not None else "–"
        nodes, took = str(turns.nodes_peak), str(Duration(turns.wall_s))
        rows.append((Text("in turn", style="bold"), "", "", "", "", nodes, took, "", costs))
    columns = ("sweep", ">rows", ">jobs", "profile", ">workers", ">nodes", ">time", ">unshared", ">cost")
    show_table(screen, columns, rows)
    screen.print()
    if campaign.in_turn is not None:
        ways = "together: in one session; in turn: one after the other, each with its own  scalable run"
        screen.print(note("·", ways, "dim"))
    for plan in campaign.plans:
        for finding in plan.warnings:
            screen.print(note("!", f"{plan.sweep}: {finding.advice}", "bold yellow"))
    for text in campaign.notes:
        screen.print(note("·", text, "dim"))
    if campaign.budget_left is not None:
        screen.print(note("·", f"{campaign.budget_left} of this month's budget left", "dim"))
    for _, hours in hours_facts(campaign.hours, campaign.allocation_left, campaign.plans[0].provider):
        screen.print(note("·", f"together {hours}", "dim"))
    first = campaign.plans[0].sweep
    screen.print(note("·", f"{command('plan', first)}  shows one of them with its front", "dim"))


def show_components(screen: Console, plan: ComponentPlan) -> None:
    sizes = plan.scale_plan.resources_by_tag
    rows = [
        (
            Text(tag, style="bold"),
            str(count),
            f"{sizes[tag].cpus:g}",
            sizes[tag].memory or "–",
            sizes[tag].walltime or "–",
        )
        for tag, count in plan.scale_plan.workers_by_tag.items()
    ]
    show_table(screen, ("component", ">workers", ">CPU", ">memory", ">walltime"), rows)
    screen.print()
    pairs = []
    if plan.jobs:
        each = ", ".join(f"{task} {jobs:,}" for task, jobs in plan.jobs.items())
        pairs.append(("jobs", f"{sum(plan.jobs.values()):,}: {each}"))
    if plan.wall_s is not None:
        pairs.append(("time", f"about {Duration(plan.wall_s)}"))
    if (cost := plan.cost_estimate) is not None:
        whole = f", {plan.cost} in that time" if plan.cost is not None else ""
        pairs.append(("cost", f"{cost.currency} {cost.total_hourly:.2f} an hour{whole}"))
    if plan.allocation_left is not None:
        pairs += hours_facts(plan.hours, plan.allocation_left)
    if pairs:
        screen.print(Padding(facts(pairs), (0, 0, 0, 2)))
    for finding in plan.warnings:
        screen.print(note("!", finding.advice, "bold yellow"))
    screen.print(note("Assumed:", "; ".join(plan.assumptions), "dim"))
