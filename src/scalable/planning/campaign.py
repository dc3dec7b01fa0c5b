"""A campaign: all sweeps of a manifest planned one by one, then simulated together under the admission rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scalable.errors import PlanningError
from scalable.planning.front import Choice
from scalable.planning.history import History
from scalable.planning.hours import allocation_left, over_allocation, simulated_hours
from scalable.planning.loads import sweep_load
from scalable.planning.plan import Plan, SessionFigures, budget_left, plan_sweep
from scalable.planning.resources import CostEstimate, Origin, ScalePlan
from scalable.planning.simulation import SimulationOutcome
from scalable.planning.site import PlannedSweep, Site
from scalable.quantities import HOURS_PER_MONTH, Money


@dataclass(frozen=True, slots=True)
class InTurn:
    """All sweeps one after the other, each in a session of its own, as a ``scalable run`` for each does it.

    Every session takes its time to start and to close, but finds nodes that have not gone yet.
    """

    ready_s: float
    wall_s: float
    over_s: float
    """When the last node is gone."""
    node_hours: float
    nodes_peak: int
    cost: Money | None

    @property
    def total_s(self) -> float:
        """From the start of the first session to the last row."""
        return self.ready_s + self.wall_s

    def to_dict(self) -> dict[str, Any]:
        seconds = {name: round(getattr(self, name), 3) for name in ("ready_s", "wall_s", "total_s", "over_s")}
        nodes = {"node_hours": self.node_hours, "nodes_peak": self.nodes_peak}
        return {**seconds, **nodes, "cost": self.cost.to_dict() if self.cost else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign(SessionFigures):
    """All sweeps of a manifest in one session, one after the other and side by side, as admission allows."""

    plans: tuple[Plan, ...]
    notes: tuple[str, ...]
    origin: Origin | None = None
    """Where it may be used; nothing for a plan that no session made. Not part of ``to_dict``."""
    in_turn: InTurn | None = None
    """The same sweeps in sessions of their own; nothing for a single one."""

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
            "ready_s": round(self.ready_s, 3),
            "wall_s": round(self.wall_s, 3),
            "total_s": round(self.total_s, 3),
            "over_s": round(self.over_s, 3),
            "node_hours": self.node_hours,
            "in_turn": self.in_turn.to_dict() if self.in_turn else None,
            "cost": self.cost.to_dict() if self.cost else None,
            "notes": list(self.notes),
            "over_budget": self.over_budget,
            "hours": self.hours.to_dict(),
            "allocation_left": self.allocation_left.to_dict() if self.allocation_left else None,
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
    used, allowed = simulated_hours(site, site.homes(), outcome), allocation_left(site.manifest, history)
    over = left is not None and cost is not None and cost > left
    return Campaign(
        plans=tuple(plans),
        wall_s=outcome.wall_s,
        cost=cost,
        nodes_peak=outcome.peak_nodes + sum(site.pools[pool].least for pool in stage.pools),
        notes=((site.pin.note,) if site.pin is not None else ()) + tuple(stated_notes(site, plans, history)),
        budget_left=left,
        over_budget=over or over_allocation(used, allowed),
        hours=used,
        allocation_left=allowed,
        pinned=site.pin.run if site.pin is not None else "",
        ready_s=outcome.started,
        over_s=outcome.over,
        node_hours=paid_hours(outcome),
        in_turn=in_turn(site, plans, planned, choice.seed) if len(plans) > 1 else None,
    )


def in_turn(site: Site, plans: Sequence[Plan], planned: Sequence[PlannedSweep], seed: int) -> InTurn:
    """Simulate a session for each sweep, one after the other, on the same pools."""
    first, *later = (site.stage([sweep], plan=plan.scale_plan) for sweep, plan in zip(planned, plans, strict=True))
    outcome = first.simulate(seed, later=later)
    nodes = outcome.peak_nodes + sum(site.pools[pool].least for pool in {plan.pool for plan in plans})
    cost = together(site, plans, outcome)
    return InTurn(outcome.started, outcome.wall_s, outcome.over, paid_hours(outcome), nodes, cost)


def paid_hours(outcome: SimulationOutcome) -> float:
    return round(sum(outcome.node_hours().values()), 6)


def scale_plan(plans: Sequence[Plan]) -> ScalePlan:
    """Return what one session for all sweeps starts with: of each profile as many workers as one sweep needs."""
    workers = {plan.profile: 0 for plan in plans}
    for plan in plans:
        workers[plan.profile] = max(plan.workers, workers[plan.profile])
    sizes = {plan.profile: plan.resources for plan in plans}
    return ScalePlan(workers, sizes, frozenset(plan.profile for plan in plans if plan.roomy))


def together(site: Site, plans: Sequence[Plan], outcome: SimulationOutcome) -> Money | None:
    """Return what all sweeps cost: nodes as they are shared; where workers are charged, the sum over the sweeps."""
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
