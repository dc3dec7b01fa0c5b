"""The acceptance criteria of a sizing, each pass or fail with its figure, from the plan and from what was measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from scalable.engine.events import SweepKind
from scalable.errors import PlanningError
from scalable.planning.front import Choice
from scalable.planning.history import History
from scalable.planning.loads import loads_of, planned_sweeps, sweep_load
from scalable.planning.plan import Plan, plan_sweep
from scalable.planning.scenarios import margin_table, months
from scalable.planning.site import PlannedSweep, Site
from scalable.quantities import Duration, percent
from scalable.wording import plural


class Result(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"  # nothing was measured yet


@dataclass(frozen=True, slots=True)
class Criterion:
    name: str
    result: Result
    figure: str

    def to_dict(self) -> dict[str, Any]:
        return {"criterion": self.name, "result": self.result.value, "figure": self.figure}


def acceptance(site: Site, history: History | None = None, seed: int = 0, target: str | None = None) -> list[Criterion]:
    """Judge a sizing for a target: of the sessions only those count that ran there."""
    history = history or History()
    there = tuple(past for past in history.sessions if past.target == (target or "local"))
    history = replace(history, sessions=there)
    if not site.manifest.sweeps:
        raise PlanningError("the manifest has no sweeps to judge a sizing by")
    plans: dict[str, Plan] = {}
    impossible: list[Criterion] = []
    for name in site.manifest.sweeps:
        try:
            plans[name] = plan_sweep(site, name, Choice(seed=seed), history)
        except PlanningError as error:
            impossible.append(Criterion(f"{name} can be planned", Result.FAIL, str(error)))
    loads = {name: sweep_load(site, name, history) for name in plans}
    normal = [plans[name] for name, load in loads.items() if load.kind is SweepKind.NORMAL]
    heavy = [plans[name] for name, load in loads.items() if load.kind is SweepKind.HEAVY]
    criteria = [
        *impossible,
        *normal_factor(site, normal),
        *heavy_factor(site, heavy, history),
        *ram_everywhere(site, history),
        *overlap(site, history),
        *month_cost(site, history),
        *scaling(site, history),
        *sessions(site, history),
    ]
    chosen = [name for name, sweep in site.manifest.sweeps.items() if sweep.profile is not None]
    figure = f"written by hand: {', '.join(chosen)}" if chosen else f"{plural(len(plans), 'sweep')} routed by factor"
    return [*criteria, Criterion("no manual profile choice", verdict(not chosen), figure)]


def verdict(ok: bool) -> Result:
    return Result.PASS if ok else Result.FAIL


def normal_factor(site: Site, plans: list[Plan]) -> list[Criterion]:
    if not plans:
        return []
    limit = site.manifest.policies.acceptance.factor
    slowest = max(plans, key=lambda plan: plan.wall_s)
    unshared = max(plans, key=lambda plan: plan.wall_unshared_s)
    figure = f"{slowest.sweep} takes {Duration(slowest.wall_s)} with {plural(slowest.workers, 'worker')}"
    figure += f"; without sharing {unshared.sweep} would take {Duration(unshared.wall_unshared_s)}"
    return [Criterion(f"a normal factor in under {limit}", verdict(slowest.wall_s < limit.seconds), figure)]


def heavy_factor(site: Site, plans: list[Plan], history: History) -> list[Criterion]:
    """Judge a heavy factor with one worker per asset, as the sizing foresees, on the nodes the profile asks for."""
    criteria = []
    for plan in plans:
        load = sweep_load(site, plan.sweep, history)
        sized = plan_sweep(site, plan.sweep, Choice(policy="manual", seed=plan.seed), history)
        limit, least = load.profile.limit.memory, load.profile.min_nodes
        ok = load.estimate.peak <= limit and sized.nodes_peak >= least
        where = f" on {load.estimate.target}" if load.estimate.target else ""
        figure = f"{plan.sweep}: peak {load.estimate.peak} ({load.estimate.source}{where}) of {limit}, "
        figure += (
            f"{plural(sized.workers, 'worker')} on {plural(sized.nodes_peak, 'node')} for {Duration(sized.wall_s)}"
        )
        criteria.append(Criterion(f"heavy without OOM on {plural(least, 'node')}", verdict(ok), figure))
    return criteria


def ram_everywhere(site: Site, history: History) -> list[Criterion]:
    rows = margin_table(site, history)
    if not rows:
        return []
    limit = site.manifest.policies.margins.ram
    worst = min(rows, key=lambda row: row.ram_margin)
    figure = f"least in {worst.scenario}: {percent(worst.ram_margin)}"
    risky = [row.scenario for row in rows if any("highest observed" in note for note in row.notes)]
    if risky:
        figure += f"; under it at the highest observed peaks in {', '.join(risky)}"
    return [Criterion(f"RAM margin over {limit} everywhere", verdict(worst.ram_margin > limit), figure)]


def overlap(site: Site, history: History) -> list[Criterion]:
    """Judge sweeps and other workloads together: the pool holds them and nobody waits once nodes are up."""
    mixed = [n for n, s in site.manifest.scenarios.items() if s.sweeps and s.workloads]
    if not mixed:
        return []
    rows = {row.scenario: row for row in margin_table(site, history)}
    widest = max(mixed, key=lambda name: rows[name].nodes_paid)
    if not rows[widest].nodes:
        return [Criterion("sweeps and other workloads together", Result.FAIL, "; ".join(rows[widest].notes))]
    late = []
    for name in mixed:
        try:
            planned = planned_sweeps(site, name, site.manifest.scenarios[name], history)
            outcome = site.stage(planned).simulate()
        except PlanningError:
            late.append(name)
            continue
        ready = max(starts_after_s(site, sweep) for sweep in planned)
        over = rows[name].nodes_paid > max(site.pools[sweep.pool].most for sweep in planned)
        if over or not outcome.complete or max(span.started for span in outcome.sweeps.values()) > ready:
            late.append(name)
    pool = loads_of(site, widest, site.manifest.scenarios[widest], history)[1]
    figure = f"{widest} takes {rows[widest].nodes_paid} of {plural(site.pools[pool].most, 'node')}"
    figure += f"; waits for a place: {', '.join(late)}" if late else ", all start as soon as nodes are up"
    return [Criterion("sweeps and other workloads together", verdict(not late), figure)]


def starts_after_s(site: Site, sweep: PlannedSweep) -> float:
    """Return when the first job of a sweep starts whose workers need not wait for room."""
    node_s = site.pools[sweep.pool].provision.seconds if sweep.node_s is None else sweep.node_s
    return sweep.times.ask_s + node_s + sweep.times.join_s


def month_cost(site: Site, history: History) -> list[Criterion]:
    budget = site.manifest.budget
    if budget is None or not budget.months:
        return []
    name = f"every month under {budget.monthly}"
    try:
        dearest = max(months(site, history), key=lambda month: month.bill.amount)
    except PlanningError as error:
        return [Criterion(name, Result.FAIL, str(error))]
    figure = f"{dearest.name}: {dearest.total} projected, {dearest.bill} with start and idle time at list price"
    return [Criterion(name, verdict(not dearest.over), figure)]


def scaling(site: Site, history: History) -> list[Criterion]:
    policy = site.manifest.policies
    pools = [pool for pool in site.pools.values() if pool.max is not None]
    if not pools:
        return []
    ups = [s.scale_up_s for s in history.sessions if s.scale_up_s is not None]
    downs = [s.scale_down_s for s in history.sessions if s.scale_down_s is not None]
    up = max(ups or [pool.provision.seconds for pool in pools])
    down = max(downs or [policy.scaling.idle.seconds + pool.idle.seconds for pool in pools])
    source = "measured" if ups else "manifest"
    return [
        Criterion(
            f"scale-up under {policy.acceptance.scale_up}",
            verdict(up < policy.acceptance.scale_up.seconds),
            f"{Duration(up)} ({source})",
        ),
        Criterion(
            f"scale-down under {policy.acceptance.scale_down}",
            verdict(down < policy.acceptance.scale_down.seconds),
            f"{Duration(down)} after the last run ({'measured' if downs else 'manifest'})",
        ),
    ]


def sessions(site: Site, history: History) -> list[Criterion]:
    wanted = site.manifest.policies.acceptance.sessions
    last = history.sessions[-wanted:]
    enough = len(last) >= wanted
    kills, failures = sum(s.oom_kills for s in last), sum(s.failures for s in last)
    seen = f"in the last {plural(len(last), 'session')}" if last else "no session recorded yet"

    def judged(count: int) -> Result:
        return Result.FAIL if count else Result.PASS if enough else Result.UNKNOWN

    return [
        Criterion(f"no OOM kill in {wanted} sessions", judged(kills), f"{kills} {seen}" if last else seen),
        Criterion("no permanent failure", judged(failures), f"{failures} {seen}" if last else seen),
    ]
