"""What a month costs: sessions × hours × nodes × price on top of what is fixed, and the bill that will really come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scalable.errors import PlanningError
from scalable.manifest.money import Sessions
from scalable.planning.history import History
from scalable.planning.loads import loads_of
from scalable.planning.scenarios import scenario_row
from scalable.planning.site import Site
from scalable.quantities import Money


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
    """Nodes are paid while they start and while they idle before they go; the sum of hours leaves that out."""
    bill: Money
    """The total at the nodes' own prices with start and idle: what will be paid."""
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
        extra += price * (line.sessions * asked * site.tail_s(pool_name) / 3600)
    total = sum((line.cost for line in lines), Money.zero(site.currency))
    bill = fixed + listed + extra
    notes = []
    if budget.price is not None:
        notes.append(
            f"the total counts {budget.price}; the bill counts each node's own price, with start and idle time"
        )
    if bill > budget.monthly:
        notes.append(f"the bill of {bill} is over the budget of {budget.monthly}")
    return Month(name, tuple(lines), total, extra, bill, budget.monthly, tuple(notes))
