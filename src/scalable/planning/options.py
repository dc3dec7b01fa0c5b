"""Ways to run the same sweep, side by side, each simulated: time, cost of a run and of a month, margins, a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalable.errors import PlanningError
from scalable.manifest.policies import Option
from scalable.planning.front import balanced
from scalable.planning.history import History
from scalable.planning.loads import SweepLoad, sweep_load
from scalable.planning.placement import margin
from scalable.planning.simulation.outcome import SimulationOutcome
from scalable.planning.site import Site
from scalable.quantities import Duration, Money, percent
from scalable.wording import plural


@dataclass(frozen=True, slots=True)
class OptionRow:
    name: str
    pool: str
    workers: int
    nodes: int
    hours: float
    """Every row from scratch, as such figures are usually stated."""
    hours_shared: float
    """With shared searches, which is what will happen."""
    cost: Money
    """Of one run without sharing, while it computes."""
    bill: Money
    """The same with the start and the idle tail of nodes."""
    monthly: Money
    """What is paid each month whether anything runs or not."""
    cpu_margin: float
    ram_margin: float
    guaranteed: bool
    """Both margins are over the policy's."""
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("cost", "bill", "monthly"):
            record[name] = record[name].to_dict()
        for name in ("hours", "hours_shared", "cpu_margin", "ram_margin"):
            record[name] = round(record[name], 4)
        return {**record, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class OptionComparison:
    options: tuple[OptionRow, ...]
    recommended: str
    reason: str
    impossible: Mapping[str, str]
    """Why an option cannot be, by its name."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "options": [row.to_dict() for row in self.options],
            "recommended": self.recommended,
            "reason": self.reason,
            "impossible": dict(self.impossible),
        }


def compare(site: Site, history: History | None = None, seed: int = 0) -> OptionComparison:
    budget = site.manifest.budget
    if budget is None or not budget.options:
        raise PlanningError("the manifest has no options; write budget.options: {NAME: {sweep, pool, workers}}")
    history = history or History()
    rows, impossible = [], {}
    for name, option in budget.options.items():
        try:
            rows.append(option_row(site, name, option, history, seed))
        except PlanningError as error:
            impossible[name] = str(error)
    if not rows:
        reasons = "; ".join(f"{name}: {why}" for name, why in impossible.items())
        raise PlanningError(f"none of the options of the budget can be: {reasons}")
    best = recommend(rows, runs_per_month(site))
    return OptionComparison(tuple(rows), best.name, reason(best, rows, runs_per_month(site)), impossible)


def option_row(site: Site, name: str, option: Option, history: History, seed: int) -> OptionRow:
    load = sweep_load(site, option.sweep, history, pool=option.pool)
    unshared = run(site, load, option, seed, shared=False)
    shared = run(site, load, option, seed, shared=True)
    pool, node = site.pools[option.pool], site.node(option.pool)
    price = site.price(option.pool)
    prices = {option.pool: price} if price is not None else {}
    least = min(pool.least, option.nodes or pool.least)
    nodes = unshared.peak_nodes + least
    there = site.offered(option.pool) * max(1, nodes)
    burst = load.profile.limit.cpu.millis * option.workers
    cpu_margin = margin(burst, there.cpu.millis)
    ram_margin = margin(load.profile.memory_peak.bytes * option.workers, there.memory.bytes)
    policy = site.manifest.policies.margins
    hours = unshared.wall_s / 3600
    notes = []
    usable = (node.allocatable or node).cpu.cores - (pool.used.cpu.cores if pool.used else 0)
    if burst / 1000 > usable * nodes:
        have = f"{usable * nodes:.3g} free cores on {plural(nodes, 'node')}"
        notes.append(f"{option.workers} workers want {burst / 1000:g} CPU and share {have}")
    cost = unshared.cost(prices, site.currency, computing_only=True)
    if option.stated and option.stated.hours and abs(option.stated.hours - hours) > 0.04 * hours:
        notes.append(f"stated are {option.stated.hours:g} h; it takes {hours:.1f} h")
    if option.stated and option.stated.cost and abs(option.stated.cost.amount - cost.amount) > cost.amount / 50:
        notes.append(f"stated are {option.stated.cost}; computing alone costs {cost}")
    return OptionRow(
        name=name,
        pool=option.pool,
        workers=option.workers,
        nodes=nodes,
        hours=hours,
        hours_shared=shared.wall_s / 3600,
        cost=cost,
        bill=unshared.cost(prices, site.currency),
        monthly=standing(site, option.pool),
        cpu_margin=cpu_margin,
        ram_margin=ram_margin,
        guaranteed=cpu_margin > policy.cpu and ram_margin > policy.ram,
        notes=tuple(notes),
    )


def run(site: Site, load: SweepLoad, option: Option, seed: int, *, shared: bool) -> SimulationOutcome:
    """Simulate an option; where its workers do not fit side by side at full burst, they share what there is."""
    limit = option.nodes or site.pools[option.pool].most
    placement = site.placement(load.profile, option.pool, load.profile.memory_peak)
    spread = option.workers <= placement.per_node * limit
    planned = load.planned(option.workers, shared=shared, pool=option.pool)
    stage = site.stage([planned], max_nodes=option.nodes, spread=spread)
    outcome = stage.simulate(seed)
    if not outcome.complete or sum(outcome.peak_workers.values()) < min(option.workers, len(planned.jobs)):
        raise PlanningError(f"{option.workers} workers of {load.profile_name} do not fit into the pool {option.pool}")
    return outcome


def standing(site: Site, pool: str) -> Money:
    """Return what is paid each month whatever runs: the pool that carries the services, and the option's own nodes."""
    carriers = [name for name, p in site.pools.items() if p.used]
    if pool in carriers or not carriers:
        return site.standing(pool)
    return site.standing(carriers[0]) + site.standing(pool)


def runs_per_month(site: Site) -> int:
    """Return how often sweeps run in the first month of the budget; a dozen when that is not said."""
    budget = site.manifest.budget
    first = next(iter(budget.months.values()), {}) if budget else {}
    sweeps = [line.sessions for name, line in first.items() if site.manifest.scenarios[name].sweeps]
    return sum(sweeps) or 12


def recommend(rows: Sequence[OptionRow], runs: int) -> OptionRow:
    """Return the best balance of time and money in a month, among those that keep the guarantees if any does."""
    kept = [row for row in rows if row.guaranteed] or list(rows)
    return balanced(kept, lambda row: row.hours, lambda row: month_total(row, runs))


def month_total(row: OptionRow, runs: int) -> float:
    return float(row.monthly.amount) + runs * float(row.bill.amount)


def reason(best: OptionRow, rows: Sequence[OptionRow], runs: int) -> str:
    total = Money.parse(f"{month_total(best, runs):.2f} {best.monthly.currency}")
    text = f"{Duration(best.hours * 3600)} a run without sharing ({Duration(best.hours_shared * 3600)} with it), "
    text += f"{total} a month at {plural(runs, 'run')}"
    if best.guaranteed:
        text += f", margins CPU {percent(best.cpu_margin)} and RAM {percent(best.ram_margin)} as guaranteed"
        broken = [row.name for row in rows if not row.guaranteed]
        text += f"; {', '.join(broken)} {'does' if len(broken) == 1 else 'do'} not keep them" if broken else ""
    slowest = max(rows, key=lambda row: row.hours)
    if slowest is not best:
        text += f"; {slowest.hours / best.hours:.1f} × faster than {slowest.name}"
    return text
