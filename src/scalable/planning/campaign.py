"""A campaign: all sweeps of a manifest planned one by one, then simulated together under the admission rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scalable.errors import PlanningError
from scalable.planning.front import Choice
from scalable.planning.history import History
from scalable.planning.loads import sweep_load
from scalable.planning.plan import Plan, budget_left, plan_sweep
from scalable.planning.resources import CostEstimate, Origin, ScalePlan
from scalable.planning.simulation import Outcome
from scalable.planning.site import Site
from scalable.quantities import HOURS_PER_MONTH, Money


@dataclass(frozen=True, slots=True)
class Campaign:
    """All sweeps of a manifest run one after the other and side by side, as admission allows."""

    plans: tuple[Plan, ...]
    wall_s: float
    cost: Money | None
    nodes_peak: int
    notes: tuple[str, ...]
    budget_left: Money | None
    over_budget: bool
    pinned: str = ""
    """The run whose plan this is again after a rollback."""
    origin: Origin | None = None
    """Where it may be used; nothing for a plan that no session made. Not part of ``to_dict``."""

    @property
    def scale_plan(self) -> ScalePlan:
        return scale_plan(self.plans)

    @property
    def cost_estimate(self) -> CostEstimate | None:
        """The sum of the sweeps', as if each had its nodes to itself; ``cost`` is what they cost together."""
        parts = [part for plan in self.plans if (part := plan.cost_estimate) is not None]
        if not parts:
            return None
        hourly = sum(part.total_hourly for part in parts)
        lines = tuple(line for part in parts for line in part.line_items)
        first = parts[0]
        total = {"total": str(self.cost)}
        return CostEstimate(
            first.provider, first.region, first.currency, hourly, hourly * HOURS_PER_MONTH, lines, total
        )

    @property
    def rows(self) -> int:
        return sum(plan.rows for plan in self.plans)

    @property
    def units(self) -> int:
        return sum(plan.units for plan in self.plans)

    @property
    def workers_by_tag(self) -> dict[str, int]:
        return self.scale_plan.workers_by_tag

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "units": self.units,
            "workers_by_tag": self.workers_by_tag,
            "nodes_peak": self.nodes_peak,
            "wall_s": round(self.wall_s, 3),
            "cost": self.cost.to_dict() if self.cost else None,
            "notes": list(self.notes),
            "over_budget": self.over_budget,
            "pinned": self.pinned,
            "plans": [plan.to_dict() for plan in self.plans],
        }


def plan_all(site: Site, choice: Choice | None = None, history: History | None = None) -> Campaign:
    """Plan every sweep, then simulate them together under the admission rules."""
    choice, history = choice or Choice(), history or History()
    plans = [plan_sweep(site, name, choice, history) for name in site.manifest.sweeps]
    planned = [sweep_load(site, plan.sweep, history).planned(plan.workers) for plan in plans]
    stage = site.stage(planned, plan=scale_plan(plans))
    outcome = stage.simulate(choice.seed)
    if outcome.unfinished:
        raise PlanningError(f"the sweeps would not all finish together: {outcome.unfinished}")
    cost = together(site, plans, outcome)
    left = budget_left(site, history)
    return Campaign(
        plans=tuple(plans),
        wall_s=outcome.wall_s,
        cost=cost,
        nodes_peak=outcome.peak_nodes + sum(site.pools[pool].least for pool in stage.pools),
        notes=((site.pin.note,) if site.pin is not None else ()) + tuple(stated_notes(site, plans, history)),
        budget_left=left,
        over_budget=left is not None and cost is not None and cost > left,
        pinned=site.pin.run if site.pin is not None else "",
    )


def scale_plan(plans: Sequence[Plan]) -> ScalePlan:
    """Return what one session for all sweeps starts with: of each profile as many workers as one sweep needs."""
    workers = {plan.profile: 0 for plan in plans}
    for plan in plans:
        workers[plan.profile] = max(plan.workers, workers[plan.profile])
    sizes = {plan.profile: plan.resources for plan in plans}
    return ScalePlan(workers, sizes, frozenset(plan.profile for plan in plans if plan.roomy))


def together(site: Site, plans: Sequence[Plan], outcome: Outcome) -> Money | None:
    """What all sweeps cost: nodes as they are shared; where workers are charged, the sum of what each sweep's cost."""
    prices = {plan.pool: price for plan in plans if (price := site.price(plan.pool)) is not None}
    costs = [plan.cost for plan in plans if plan.cost is not None and plan.pool not in prices]
    if prices:
        costs.append(outcome.cost(prices, site.currency))
    return sum(costs[1:], costs[0]) if costs else None


def stated_notes(site: Site, plans: Sequence[Plan], history: History) -> list[str]:
    stated = site.manifest.budget.stated if site.manifest.budget else None
    if stated is None:
        return []
    rows = sum(plan.rows for plan in plans)
    per_row = stated.run_minutes
    minutes = [per_row or sweep_load(site, plan.sweep, history).job_s / 60 for plan in plans]
    hours = sum(plan.rows * each for plan, each in zip(plans, minutes, strict=True)) / 60
    notes = []
    if stated.rows and stated.rows != rows:
        notes.append(f"stated are {stated.rows:,} rows; the sweeps listed have {rows:,}")
    if stated.hours and abs(stated.hours - hours) > 0.05 * hours:
        rate = f" at {per_row:g} min a row, as stated" if per_row else ""
        notes.append(
            f"stated are {stated.hours:g} h on one worker without sharing; these rows need {hours:.1f} h{rate}"
        )
    return notes
