"""Questions about running several things at once: the margin table, what growth would need, and the
month's bill."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from scalable.engine.events import SweepKind
from scalable.engine.sweeps import obstacle
from scalable.errors import PlanningError
from scalable.manifest.machines import NodeType, Pool
from scalable.manifest.policies import Growth, Sessions
from scalable.manifest.work import Together
from scalable.planning.history import History
from scalable.planning.loads import loads_of, planned_sweeps
from scalable.planning.margins import MarginRow, MarginStatus, margin_row
from scalable.planning.options import runs_per_month
from scalable.planning.simulation import SimulationOutcome
from scalable.planning.site import PlannedSweep, Site
from scalable.quantities import Duration, Money, percent
from scalable.wording import plural


def margin_table(site: Site, history: History | None = None) -> list[MarginRow]:
    """Return one row per scenario of the manifest; one that cannot be placed at all fails with the reason."""
    return [answered(site, name, history or History()) for name in site.manifest.scenarios]


def answered(site: Site, name: str, history: History) -> MarginRow:
    try:
        return scenario_row(site, name, history)
    except PlanningError as error:
        return MarginRow(name, 0, 0.0, 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0, MarginStatus.FAIL, (str(error),))


def scenario_row(site: Site, name: str, history: History) -> MarginRow:
    scenario = site.manifest.scenarios[name]
    row = together_row(site, name, scenario, history)
    if waiting := waiting_notes(site, planned_sweeps(site, name, scenario, history)):
        status = MarginStatus.FAIL if row.status is MarginStatus.FAIL else MarginStatus.WARN
        row = replace(row, notes=(*row.notes, *waiting), status=status)
    stated = scenario.stated.ram_margin if scenario.stated else None
    if stated is not None and abs(stated - row.ram_margin) > 0.01:
        row = replace(row, notes=(*row.notes, f"stated is a RAM margin of {stated}; it is {percent(row.ram_margin)}"))
    return row


def together_row(site: Site, name: str, together: Together, history: History, assets: str | None = None) -> MarginRow:
    loads, pool_name = loads_of(site, name, together, history, assets)
    pool = site.pools[pool_name]
    overlap = len({"sweep" if load.sweep else load.what for load in loads}) > 1
    return margin_row(name, loads, site.nodes[pool.node], pool, site.manifest.policies.margins, overlap=overlap)


def waiting_notes(site: Site, planned: Sequence[PlannedSweep], outcome: SimulationOutcome | None = None) -> list[str]:
    """Say which sweeps will not run beside the others, why, and how long each waits."""
    reasons: dict[str, str] = {}
    holders: list[tuple[str, SweepKind]] = []
    queue: list[tuple[str, SweepKind]] = []
    for sweep in planned:
        name = sweep.id.partition(" ")[2]
        reasons[sweep.id] = obstacle(sweep.kind, holders, queue, site.manifest.policies.concurrency.normal)
        (queue if reasons[sweep.id] else holders).append((name, sweep.kind))
    waits = dict.fromkeys(reasons, "waits")
    if queue:
        with suppress(PlanningError):  # where they cannot finish, nobody knows how long the last ones wait
            spans = (outcome or simulated(site, planned)).sweeps
            first = min(span.admitted for span in spans.values())
            waits = {id: f"waits {Duration(span.admitted - first)}" for id, span in spans.items()}
    return [f"{id.partition(' ')[2]} {waits[id]}: {why}" for id, why in reasons.items() if why]


def simulated(site: Site, planned: Sequence[PlannedSweep]) -> SimulationOutcome:
    outcome = site.stage(planned).simulate()
    if outcome.unfinished:
        raise PlanningError(f"together they would not finish: {outcome.unfinished}")
    return outcome


@dataclass(frozen=True, slots=True)
class GrowthRow:
    question: str
    pods: int
    nodes: int
    node: str
    pool_max: int | None
    hourly: Money | None
    monthly: Money | None
    """Of nodes that never stop; else of as many sessions as the first month of the budget has."""
    cpu_margin: float | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("hourly", "monthly"):
            record[name] = record[name].to_dict() if record[name] is not None else None
        return {**record, "notes": list(self.notes)}


def growth_table(site: Site, history: History | None = None) -> list[GrowthRow]:
    budget = site.manifest.budget
    questions = budget.growth if budget else {}
    rows = []
    for name, question in questions.items():
        try:
            rows.append(growth_row(site, name, question, history or History()))
        except PlanningError as error:
            rows.append(GrowthRow(name, 0, 0, question.node or "–", None, None, None, None, (str(error),)))
    return rows


def growth_row(site: Site, name: str, question: Growth, history: History) -> GrowthRow:
    if question.always_on:
        return always_on(site, name, question)
    pool_name = loads_of(site, name, question, history)[1]
    pool = site.pools[pool_name]
    node_name = question.node or pool.node
    site = with_pool(site, pool_name, node=node_name)
    row = together_row(site, name, question, history, question.assets)
    node = site.nodes[node_name]
    nodes = row.nodes_paid
    notes = [note for note in row.notes if nodes > row.nodes or not note.startswith("by requests")]
    if node_name != pool.node:
        notes += per_core(site, node_name, pool)
    if question.stated and question.stated.nodes not in (None, row.nodes):
        notes.append(
            f"stated are {question.stated.nodes} nodes; {row.cpu_burst:g} CPU on {node.cpu} each are {row.nodes}"
        )
    hourly = node.price.hourly * nodes if node.price else None
    monthly, more = growth_month(with_pool(site, pool_name, at_least=nodes), pool_name, name, question, history)
    return GrowthRow(name, row.pods, nodes, node_name, pool.most, hourly, monthly, row.cpu_margin, (*notes, *more))


def growth_month(
    site: Site, pool: str, name: str, question: Growth, history: History
) -> tuple[Money | None, list[str]]:
    """Return what a month of such sessions costs, and what is to be said of one: who waits, and what it takes."""
    planned = planned_sweeps(site, name, question, history, question.assets)
    try:
        outcome = simulated(site, planned)
    except PlanningError as error:
        return None, [*waiting_notes(site, planned), str(error)]
    notes, price = waiting_notes(site, planned, outcome), site.price(pool)
    if price is None:
        return None, notes
    sessions, cost = runs_per_month(site), outcome.cost({pool: price}, price.currency)
    each = f"{plural(sessions, 'session')} of {Duration(outcome.wall_s)}, {cost} each with start and idle time"
    return cost * sessions, [*notes, f"a month has {each}"]


def with_pool(site: Site, name: str, *, node: str | None = None, at_least: int = 0) -> Site:
    """Return the site with other nodes in a pool, or with more of them allowed."""
    pool, changed = site.pools[name], copy(site)
    most = max(pool.max, at_least) if pool.max is not None else None
    changed.pools = {**site.pools, name: pool.model_copy(update={"node": node or pool.node, "max": most})}
    return changed


def always_on(site: Site, name: str, question: Growth) -> GrowthRow:
    assert question.node is not None
    node = site.nodes[question.node]
    monthly = node.price.monthly * question.always_on if node.price else None
    stated = question.stated.monthly if question.stated else None
    notes = []
    if stated is not None and monthly is not None and abs(stated.amount - monthly.amount) > 1:
        notes.append(f"stated are {stated} a month; {question.always_on} × {node.price} × 730 h are {monthly}")
    hourly = node.price.hourly * question.always_on if node.price else None
    return GrowthRow(name, 0, question.always_on, question.node, None, hourly, monthly, None, tuple(notes))


def per_core(site: Site, name: str, pool: Pool) -> list[str]:
    """Return what a core-hour costs on the other node type against the pool's own."""

    def price(node: NodeType) -> Decimal | None:
        return node.price.hourly.amount * 1000 / node.cpu.millis if node.price else None

    other, own = price(site.nodes[name]), price(site.nodes[pool.node])
    if other is None or not own:
        return []
    word = "the same" if abs(other / own - 1) < Decimal("0.02") else "cheaper" if other < own else "dearer"
    return [f"{name} is {word} per core-hour: {other:.5f} against {own:.5f} {site.currency} for {pool.node}"]


@dataclass(frozen=True, slots=True)
class MonthLine:
    what: str
    sessions: int | None
    hours: float | None
    nodes: int | None
    cost: Money

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "sessions": self.sessions,
            "hours": self.hours,
            "nodes": self.nodes,
            "cost": self.cost.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Month:
    name: str
    lines: tuple[MonthLine, ...]
    total: Money
    start_and_idle: Money
    """Nodes are paid while they start, and while they idle before they go; the sum of hours leaves both out."""
    bill: Money
    """The total at the nodes' own prices with their start and idle time: what will be paid."""
    budget: Money
    notes: tuple[str, ...]

    @property
    def margin(self) -> Money:
        return self.budget - self.total

    @property
    def over(self) -> bool:
        return self.bill > self.budget

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "total": self.total.to_dict(),
            "lines": [line.to_dict() for line in self.lines],
            "budget": self.budget.to_dict(),
            "margin": self.margin.to_dict(),
            "start_and_idle": self.start_and_idle.to_dict(),
            "bill": self.bill.to_dict(),
            "over": self.over,
            "notes": list(self.notes),
        }


def months(site: Site, history: History | None = None) -> list[Month]:
    budget = site.manifest.budget
    if budget is None or not budget.months:
        raise PlanningError("the manifest has no months; write budget.months: {normal: {SCENARIO: {sessions, hours}}}")
    return [month(site, name, lines, history or History()) for name, lines in budget.months.items()]


def month(site: Site, name: str, sessions: dict[str, Sessions], history: History) -> Month:
    budget = site.manifest.budget
    assert budget is not None
    assert budget.monthly is not None, "months need it"
    lines = [MonthLine(what, None, None, None, cost) for what, cost in budget.fixed.items()]
    for pool, cost in site.always_on.items():
        lines.append(MonthLine(f"{pool}, always on", None, None, site.manifest.pools[pool].min, cost))
    fixed = sum((line.cost for line in lines), Money.zero(site.currency))
    listed = extra = Money.zero(site.currency)
    for scenario, line in sessions.items():
        pool_name = loads_of(site, scenario, site.manifest.scenarios[scenario], history)[1]
        price = site.price(pool_name)
        if price is None:
            raise PlanningError(
                f"the pool {pool_name} is not paid by the hour, so budget.months cannot count {scenario}"
            )
        nodes = line.nodes or scenario_row(site, scenario, history).nodes_paid
        asked = max(0, nodes - site.pools[pool_name].least)  # those that are always on have a line of their own
        hours = line.sessions * line.hours * asked
        used = budget.price.hourly if budget.price else price
        lines.append(MonthLine(scenario, line.sessions, line.hours, asked, used * hours))
        listed += price * hours
        extra += price * (line.sessions * asked * site.unused_s(pool_name) / 3600)
    total = sum((line.cost for line in lines), Money.zero(site.currency))
    bill = fixed + listed + extra
    notes = []
    if budget.price is not None:
        notes.append(
            f"the total counts {budget.price}; the bill counts each node's own price, with its start and idle time"
        )
    if bill > budget.monthly:
        notes.append(f"the bill of {bill} is over the budget of {budget.monthly}")
    return Month(name, tuple(lines), total, extra, bill, budget.monthly, tuple(notes))
