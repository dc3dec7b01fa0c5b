"""A plan: what a sweep will need, take and cost, computed by simulating the engine that will run it.

``assumptions`` says what its figures rest on, ``find_warnings`` what its reader should know before paying.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from scalable.engine.events import JobState
from scalable.engine.rules import Walltime
from scalable.engine.walltime import refusal
from scalable.errors import PlanningError, UnknownNameError
from scalable.findings import Finding
from scalable.machine_hours import HeldResources, MachineHours
from scalable.manifest.targets import KubernetesTarget
from scalable.planning.front import Choice, Point, find_front, foresee, most_workers, run, scale_plan
from scalable.planning.history import History
from scalable.planning.hours import allocation_left, hours_findings, over_allocation, over_text, simulated_hours
from scalable.planning.loads import SweepLoad, sweep_load
from scalable.planning.placement import Placement, margin
from scalable.planning.places import check_pools
from scalable.planning.resources import CostEstimate, Origin, ResourceRequest, ScalePlan
from scalable.planning.simulation.durations import Fixed
from scalable.planning.simulation.outcome import NodeSpan, SimulationOutcome
from scalable.planning.site import JOB, Site
from scalable.quantities import HOURS_PER_MONTH, Cpu, Duration, Memory, Money, percent
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.verdicts.power import Power

UNSHARED_JOBS = 20_000  # above this the time without sharing is computed by formula, not simulated
SEEDS = 20  # simulations behind a range of times when runs vary in length


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFigures:
    """Figures of one session, whether it runs a single sweep (``Plan``) or several (``Campaign``)."""

    ready_s: float
    """Until the first job starts: as earlier sessions took, and as long as the first node takes to come."""
    wall_s: float
    """From the first job's start to the last row."""
    over_s: float
    """Until the last node is gone."""
    nodes_peak: int
    node_hours: float
    cost: Money | None
    """With the start and the idle tail of nodes."""
    budget_left: Money | None
    over_budget: bool
    hours: HeldResources = field(default_factory=HeldResources)
    """Core-, node- and GPU-hours that its workers hold, from their start to their end; waiting in a queue is free."""
    allocation_left: MachineHours | None = None
    """The rest of ``budget.allocation``."""
    pinned: str = ""
    """The run whose plan this is again after a rollback."""

    @property
    def total_s(self) -> float:
        """From the start of the session to the last row."""
        return self.ready_s + self.wall_s

    @property
    def over_budget_text(self) -> str:
        """The budgets that it is over, with the figures; empty if it is within them."""
        return over_text(self.cost, self.budget_left, self.hours, self.allocation_left) if self.over_budget else ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(SessionFigures):
    """The forecast of a sweep that runs now. Frozen; ``to_dict`` is its whole content for machines."""

    sweep: str
    rows: int
    grid: str
    """How the rows come about, in words."""
    units: int
    rows_per_unit: int
    profile: str
    provider: str
    pool: str
    node: str
    workers: int
    resources: ResourceRequest
    wall_range_s: tuple[float, float] | None
    """Where 8 of 10 simulations end when runs vary in length."""
    wall_unshared_s: float
    peak: Memory
    """The memory one worker is expected to use."""
    cost_computing: Money | None
    cpu_margin: float
    ram_margin: float
    guarantees: tuple[float, float] | None
    """What CPU and RAM margins must be over; nothing on this machine, which has no promise to keep."""
    utilisation: float
    timeline: tuple[tuple[float, int], ...]
    """Nodes paid for, from each moment on."""
    nodes: tuple[NodeSpan, ...]
    """Each node's life."""
    objective: str
    policy: str
    seed: int
    front: tuple[Point, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[Finding, ...]
    roomy: bool = False
    """So few workers stand on a node that each node by itself keeps the margins."""
    measured: bool = False
    """Durations are of earlier runs or a pilot, not written down or assumed."""
    worker_starts: int | None = None
    """Workers that are started one after the other and at once, where their allocations end; nothing elsewhere."""
    power: Power | None = None
    """What its grid can find; nothing for a plan that is made to run at once."""
    origin: Origin | None = None
    """Where it may be used; nothing for a plan that no session made. Not part of ``to_dict``."""

    def __repr__(self) -> str:
        cost = f", {self.cost}" if self.cost is not None else ""
        work = f"{plural(self.rows, 'row')} = {self.grid}; {plural(self.units, 'job')}"
        return f"<Plan {self.sweep}: {work}, {plural(self.workers, 'worker')}, {Duration(self.total_s)}{cost}>"

    def _repr_html_(self) -> str:
        notes = [*(finding.advice for finding in self.warnings), *self.assumptions]
        return f"<p>{escape(repr(self)[1:-1])}</p><ul>{''.join(f'<li>{escape(each)}</li>' for each in notes)}</ul>"

    @property
    def workers_by_tag(self) -> dict[str, int]:
        return {self.profile: self.workers}

    @property
    def scale_plan(self) -> ScalePlan:
        apart = frozenset({self.profile} if self.roomy else ())
        return ScalePlan(self.workers_by_tag, {self.profile: self.resources}, apart)

    @property
    def cost_estimate(self) -> CostEstimate | None:
        if self.cost is None:
            return None
        hours = self.over_s / 3600
        hourly = float(self.cost.amount) / hours if hours else 0.0
        line = {"what": f"{self.node_hours:.2f} node-hours of {self.node}", "amount": float(self.cost.amount)}
        return CostEstimate(
            self.provider,
            None,
            self.cost.currency,
            hourly,
            hourly * HOURS_PER_MONTH,
            (line,),
            {"total": str(self.cost)},
        )

    def to_dict(self) -> dict[str, Any]:
        seconds = ("wall_s", "wall_unshared_s", "ready_s", "over_s", "cpu_margin", "ram_margin", "utilisation")
        amounts = ("cost", "cost_computing", "budget_left", "allocation_left")
        record: dict[str, Any] = {}
        for name in [name for name in self.__dataclass_fields__ if name != "origin"]:
            value = getattr(self, name)
            if name in seconds:
                value = round(value, 4)
            elif name in amounts:
                value = value.to_dict() if value is not None else None
            elif name == "front":
                value = [point.to_dict() for point in value]
            elif name == "peak":
                value = value.exact
            elif name in ("resources", "hours"):
                value = value.to_dict()
            elif name == "power":
                value = value.to_dict() if value is not None else None
            elif name == "nodes":
                value = [span.to_dict() for span in value]
            elif name == "timeline":
                value = [[round(when, 3), count] for when, count in value]
            elif name == "warnings":
                value = [finding.advice for finding in value]
            elif isinstance(value, tuple):
                value = list(value)
            record[name] = value
        return {
            **record,
            "findings": [finding.to_dict() for finding in self.warnings],
            "total_s": round(self.total_s, 4),
            "workers_by_tag": self.workers_by_tag,
            "batch_jobs": len(self.nodes) if self.node == JOB else None,
            "tasks": {self.profile: self.units},
            "peaks": {self.profile: self.peak.exact},
        }


def plan_sweep(site: Site, name: str, choice: Choice | None = None, history: History | None = None) -> Plan:
    """Plan one sweep of the manifest; raises ``PlanningError`` when it cannot run at all."""
    choice, history = choice or Choice(), history or History()
    seed = choice.seed
    if name not in site.manifest.sweeps:
        known = ", ".join(site.manifest.sweeps) or "none"
        raise UnknownNameError(f"no sweep is called {name!r}; the manifest has: {known}")
    load = possible_load(site, name, history)
    pin = site.pin if site.pin is not None and site.pin.covers(name, load.profile_name) else None
    if pin is not None:
        choice = replace(choice, policy="manual")
    deadline = load.sweep.deadline.seconds if load.sweep.deadline else walltime(site, load)
    front = find_front(site, load, choice, deadline)
    chosen, outcome = front.chosen, front.outcome
    placement = site.placement(load.profile, load.pool, load.profile.memory_peak, roomy=chosen.roomy)
    price = site.price(load.pool)
    margins = site.manifest.policies.margins
    left = budget_left(site, history)
    over = left is not None and chosen.cost is not None and chosen.cost > left
    used = simulated_hours(site, site.homes(), outcome)
    allowed = allocation_left(site.manifest, history)
    computing = outcome.cost({load.pool: price}, price.currency, computing_only=True) if price else chosen.cost
    hours = sum(outcome.node_hours().values())
    paid_cores = sum(
        (min(span.gone, outcome.over) - span.paid_from) / 3600 * site.node(span.pool).cpu.cores
        for span in outcome.nodes
    )
    lasts = site.walltime(load.profile_name)
    starts = sum(outcome.worker_starts.values()) if lasts is not None else None
    warnings = list(find_warnings(site, load, chosen, placement))
    path = f"sweeps.{name}"
    if choice.policy == "manual" and chosen.workers < load.workers:
        how = "pinned" if pin is not None else "written"
        text = f"{load.workers} workers are {how}, but only {chosen.workers} can be used or held"
        warnings.append(Finding.warning("workers-cut", path, text))
    if front.late:
        warnings.append(Finding.warning("too-late", path, front.late))
    if over:
        how_far = stopped(site, load, chosen, left)
        text = f"the cost of {chosen.cost} is over the {left} left of this month's budget{how_far}"
        warnings.append(Finding.warning("over-budget", path, text))
    warnings += hours_findings(site, path, used, allowed)
    return Plan(
        sweep=name,
        rows=len(load.grid),
        grid=describe(load),
        units=load.jobs,
        measured=load.expected.measured,
        rows_per_unit=load.rows_per_job,
        profile=load.profile_name,
        provider=site.provider,
        pool=load.pool,
        node=site.pools[load.pool].node,
        workers=chosen.workers,
        resources=ResourceRequest(
            cpus=load.cpus.cores,
            memory=load.profile.limit.memory.exact,
            walltime=getattr(site.target, "walltime", None),
            gpus=load.profile.limit.gpus or None,
        ),
        nodes_peak=chosen.nodes,
        wall_s=outcome.wall_s,
        wall_range_s=wall_range(site, load, chosen, seed),
        wall_unshared_s=unshared(site, load, chosen, seed, outcome),
        ready_s=outcome.started,
        peak=load.estimate.peak,
        cost=chosen.cost,
        cost_computing=computing,
        cpu_margin=chosen.cpu_margin,
        ram_margin=chosen.ram_margin,
        guarantees=(float(margins.cpu), float(margins.ram)) if site.promises else None,
        node_hours=round(hours, 6),
        utilisation=outcome.busy_core_s / 3600 / paid_cores if paid_cores else 0.0,
        timeline=tuple(outcome.node_steps()),
        nodes=tuple(outcome.nodes),
        over_s=outcome.over,
        objective=choice.objective,
        policy=choice.policy,
        seed=seed,
        front=front.points,
        assumptions=(
            *((pin.note,) if pin is not None else ()),
            *assumptions(site, load, history),
            *(allocations(load, starts, lasts) if starts is not None and lasts is not None else ()),
        ),
        warnings=tuple(warnings),
        budget_left=left,
        over_budget=over or over_allocation(used, allowed),
        roomy=chosen.roomy,
        hours=used,
        allocation_left=allowed,
        pinned=pin.run if pin is not None else "",
        worker_starts=starts,
    )


def possible_load(site: Site, name: str, history: History) -> SweepLoad:
    """Return the work of a sweep; raises an error if it cannot run at all. Nothing is simulated for that."""
    if isinstance(site.target, KubernetesTarget):
        check_pools(site)
    load, path = sweep_load(site, name, history), f"sweeps.{name}"
    if not load.verdict.ok:
        raise PlanningError(f"{path}: {load.verdict.message}", path)
    if not load.sweep.checkpoints and (problem := refusal(site.walltime(load.profile_name), load.job_s)):
        raise PlanningError(f"{path}: {problem}", path)
    foresee(site, load, min(load.workers, most_workers(site, load)), safe=False)  # refuses what fits or costs nowhere
    return load


def walltime(site: Site, load: SweepLoad) -> float | None:
    """Return the time that a sweep without a deadline has: one allocation, unless its jobs go on in the next."""
    allowed = site.walltime(load.profile_name)
    return allowed.seconds if allowed is not None and not load.sweep.checkpoints else None


def budget_left(site: Site, history: History) -> Money | None:
    """Return this month's budget without what is fixed, what is always on and what was spent."""
    budget = site.manifest.budget
    if budget is None or budget.monthly is None:
        return None
    left = budget.monthly
    for amount in (*budget.fixed.values(), *site.always_on.values()):
        left -= amount
    if history.spent_this_month:
        left -= history.spent_this_month
    return left


def describe(load: SweepLoad) -> str:
    grid = load.grid
    axes = [(axis.name, axis.values) for axis in grid.over] + list(grid.average.items())
    return " × ".join([plural(len(grid.variants), "variant"), *(counted(len(values), name) for name, values in axes)])


def counted(count: int, axis: str) -> str:
    return f"{count} {axis}" if axis.endswith("s") else plural(count, axis)


def unshared(site: Site, load: SweepLoad, chosen: Point, seed: int, outcome: SimulationOutcome) -> float:
    """Return the time if every row did its own search."""
    if load.rows_per_job == 1:
        return outcome.wall_s
    if len(load.grid) <= UNSHARED_JOBS:
        return run(site, load, chosen, seed, shared=False).wall_s
    return outcome.wall_s * load.rows_per_job


def stopped(site: Site, load: SweepLoad, chosen: Point, left: Money | None) -> str:
    """Say how far the budget lets a sweep get, where its nodes are paid by the hour."""
    if left is None or site.price(load.pool) is None:
        return ""
    planned = load.planned(chosen.workers)
    outcome = site.stage([planned], plan=scale_plan(load, chosen), budget=left).simulate()
    return f", which stops it after {outcome.states.get(JobState.FINISHED, 0)} of {plural(load.jobs, 'run')}"


def wall_range(site: Site, load: SweepLoad, chosen: Point, seed: int) -> tuple[float, float] | None:
    """Return the 10th and 90th percentile of the time over several seeds; nothing when runs do not vary."""
    if isinstance(load.expected.length, Fixed) or load.jobs * SEEDS > UNSHARED_JOBS:
        return None
    walls = sorted(run(site, load, chosen, seed + extra).wall_s for extra in range(SEEDS))
    return walls[SEEDS // 10], walls[-1 - SEEDS // 10]


OOM_RISK = 0.8  # part of the memory limit above which a peak is worth a warning (as in the alert rules)


def assumptions(site: Site, load: SweepLoad, history: History) -> list[str]:
    pool = site.pools[load.pool]
    node = site.node(load.pool)
    waits = pool.max is not None and site.promises
    lines = [
        load.expected.source,
        *([load.routed] if load.routed else []),
        f"memory peak {load.estimate.peak} ({load.estimate.source})",
    ]
    if load.rows_per_job > 1:
        lines.append("one search serves all rows that differ only after it; what follows a search is under 1 % of it")
    if timed := history.sessions_timed(site.provider):
        besides = " besides the wait for nodes" if waits else ""
        taken = load.times.ask_s + (load.times.join_s if waits else load.times.warm_s)
        lines.append(f"start-up {Duration(taken)}{besides} (median of {timed} measured)")
    if node.price:
        lines.append(f"{pool.node} costs {node.price} (manifest)")
    if waits:
        comes = f"{Duration(load.node_s)} (measured)" if load.node_s is not None else f"{pool.provision}"
        lines.append(
            f"a node is there after {comes} and is paid from its start until {pool.idle} after its last worker"
        )
    if pool.max is not None and pool.least:
        always = f"{plural(pool.least, 'node')} of {load.pool} always on"
        lines.append(f"not counted in the cost: {always}, {site.standing(load.pool)} a month")
    if site.target is not None and site.target.adaptive is not None and site.target.adaptive.minimum:
        warm = plural(site.target.adaptive.minimum, "worker")
        lines.append(f"not counted before and after the sweep: {warm} kept warm while a session is open")
    return lines


def allocations(load: SweepLoad, starts: int, lasts: Walltime) -> Iterator[str]:
    """Yield how many workers are started where each lasts for a walltime only."""
    again = ", jobs go on from their checkpoints" if load.sweep.checkpoints else ""
    yield f"{plural(starts, 'worker start')}, each for a walltime of {Duration(lasts.seconds).walltime}{again}"


def find_warnings(site: Site, load: SweepLoad, chosen: Point, placement: Placement) -> Iterator[Finding]:
    """Yield what a reader of the plan should know before paying."""
    yield from site.findings
    path, policy, node = f"sweeps.{load.name}", site.manifest.policies.margins, site.node(load.pool)
    least = load.profile.min_nodes
    if least > site.pools[load.pool].most:
        text = f"{load.profile_name} workers need {least} nodes, the pool {load.pool} has {chosen.nodes}"
        yield Finding.warning("pool-too-small", path, text)
    written = -(-chosen.workers // placement.per_node_written)
    if written < chosen.nodes and site.promises and site.pools[load.pool].max is not None:
        yield packed_tighter(path, load, chosen, placement, written, node.cpu * written)
    if load.expected.warning is not None:
        yield load.expected.warning
    if site.local and load.cpus * chosen.workers > node.cpu:
        times = load.cpus.millis * chosen.workers / node.cpu.millis
        share = f"{plural(chosen.workers, 'worker')} of {load.cpus} CPU on {node.cpu}"
        text = f"{share}: runs take {times:.2g} × as long as with a machine to themselves"
        yield Finding.warning("cpus-shared", path, text)
    elif site.local and load.expected.cores > load.cpus.cores:
        times = load.expected.cores / load.cpus.cores
        share = f"a worker has {load.cpus} of the {node.cpu} CPU here"
        text = f"{share}: runs take {times:.2g} × as long as on {load.expected.cores:g} CPU"
        yield Finding.warning("cpus-few", path, text)
    elif site.promises and chosen.cpu_margin <= policy.cpu:
        text = f"CPU margin {percent(chosen.cpu_margin)} is not over the guaranteed {policy.cpu}"
        yield Finding.warning("cpu-margin", path, text)
    if site.promises and chosen.ram_margin <= policy.ram:
        text = f"RAM margin {percent(chosen.ram_margin)} is not over the guaranteed {policy.ram}"
        yield Finding.warning("ram-margin", path, text)
    elif chosen.ram_margin <= 0:
        used = f"{plural(chosen.workers, 'worker')} with a peak of {load.profile.memory_peak} each"
        text = f"{used} leave nothing of the {site.offered(load.pool).memory * max(1, chosen.nodes)} there is"
        yield Finding.warning("no-memory-left", path, text)
    room = (node.allocatable or node).memory.bytes * max(1, chosen.nodes)
    worst = margin(load.estimate.peak.bytes * chosen.workers, room)
    if site.promises and worst <= policy.ram < chosen.ram_margin:
        at_peak = f"at a peak of {load.estimate.peak} per worker the RAM margin is {percent(worst)}"
        text = f"{at_peak} of what pods can have, under the guaranteed {policy.ram}"
        yield Finding.warning("ram-margin-at-peak", path, text)
    if load.estimate.peak.bytes > OOM_RISK * load.profile.limit.memory.bytes:
        text = f"a peak of {load.estimate.peak} is close to the limit of {load.profile.limit.memory}"
        yield Finding.warning("memory-near-limit", path, text)


def packed_tighter(
    path: str, load: SweepLoad, chosen: Point, placement: Placement, written: int, capacity: Cpu
) -> Finding:
    """Say that by the requests of the manifest fewer nodes would come than were promised, and what is done about it."""
    burst = load.profile.limit.cpu * chosen.workers
    fact = (
        f"by their requests the scheduler would put {plural(chosen.workers, 'worker')} on "
        f"{plural(written, 'node')} ({burst} CPU of burst on {capacity})"
    )
    if not placement.raised:
        text = f"{fact}; a spread constraint in the generated pods makes it {chosen.nodes}"
        return Finding.warning("packed-tighter", path, text)
    asked = placement.request
    more = f"{asked.cpu} CPU" if asked.cpu > load.profile.request.cpu else f"{asked.memory}"
    text = f"{fact}; the generated pods ask for {more} each, so it takes {chosen.nodes}"
    return Finding.warning("packed-tighter", path, text, f"write policies.margins.spread: off to keep {written}")
