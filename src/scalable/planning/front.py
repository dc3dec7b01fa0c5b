"""The cost–time front: how many workers are worth considering, what each number takes, and which one to choose.

A closed formula foresees every number of workers; those it finds worth a look are simulated with the real engine,
as many as a fixed budget of simulated runs allows. The choice is made among what was simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, hypot
from typing import Any, TypeVar

from scalable.errors import PlanningError, UnknownNameError
from scalable.manifest.targets import SlurmTarget
from scalable.planning.hours import simulated_hours
from scalable.planning.loads import SweepLoad
from scalable.planning.placement import margin
from scalable.planning.resources import ScalePlan
from scalable.planning.simulation.outcome import SimulationOutcome
from scalable.planning.site import Site
from scalable.quantities import Duration, Money, percent
from scalable.wording import plural

SIMULATED_JOBS = 60_000  # runs that all simulations of one front may have together: about 2 s
MOST_POINTS = 12  # more would not fit on a screen
NEAR_DEADLINE = 4  # the cheapest points that should just meet a deadline are simulated too
WORTH_PAYING_FOR = 0.02  # a point less than this part faster than a cheaper one is left out
HEADROOM = {"safe": 1.2, "aggressive": 1.0, "manual": 1.0}  # how much longer than foreseen a plan must allow for
OBJECTIVES = ("minimize cost", "minimize time", "balance")
POLICIES = tuple(HEADROOM)


@dataclass(frozen=True, slots=True)
class Point:
    """One number of workers and what it means."""

    workers: int
    nodes: int
    wall_s: float
    cost: Money | None
    cpu_margin: float
    ram_margin: float
    guaranteed: bool
    """Both margins are over the policy's."""
    roomy: bool = False
    """Fewer workers stand on a node than could, to keep the margins."""
    simulated: bool = False
    chosen: bool = False

    @property
    def price(self) -> float:
        """The weight against time: money, or workers where nothing is paid."""
        return float(self.cost.amount) if self.cost is not None else float(self.workers)

    def to_dict(self) -> dict[str, Any]:
        return {
            "workers": self.workers,
            "nodes": self.nodes,
            "wall_s": round(self.wall_s, 3),
            "cost": self.cost.to_dict() if self.cost else None,
            "cpu_margin": round(self.cpu_margin, 4),
            "ram_margin": round(self.ram_margin, 4),
            "guaranteed": self.guaranteed,
            "simulated": self.simulated,
            "chosen": self.chosen,
        }


@dataclass(frozen=True, slots=True)
class Front:
    points: tuple[Point, ...]
    """From few workers to many; none is both slower and dearer than another, but for a chosen one set by hand."""
    chosen: Point
    outcome: SimulationOutcome
    late: str
    """Why the deadline is not met, if it is not."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The preferences of a plan. The seed is for durations that vary."""

    objective: str = "balance"
    policy: str = "safe"
    seed: int = 0

    def __post_init__(self) -> None:
        check_words(self.objective, self.policy)

    @classmethod
    def of(cls, objective: str | None, policy: str | None) -> Choice:
        """Return what is not said is as usual."""
        return cls("balance" if objective is None else objective, "safe" if policy is None else policy)


def find_front(site: Site, load: SweepLoad, choice: Choice, deadline_s: float | None) -> Front:
    objective, policy = choice.objective, choice.policy
    limit = most_workers(site, load)
    safe = policy == "safe"
    foreseen = [foresee(site, load, workers, safe=safe) for workers in worth_a_look(site, load, limit)]
    manual = min(max(load.workers, site.least_workers), limit)
    allowed = [p for p in foreseen if p.guaranteed or not safe] or foreseen
    most = max(1, min(MOST_POINTS, SIMULATED_JOBS // max(1, load.jobs)) - 1)
    kept = {point.workers: point for point in thin(pareto(allowed), most)}
    if policy == "manual":
        kept[manual] = foresee(site, load, manual, safe=False)
    elif most == 1:
        best = choose(allowed, objective, policy, deadline_s)
        kept = {best.workers: best}
    elif deadline_s is not None:
        in_time = sorted(meeting(allowed, policy, deadline_s), key=lambda p: (p.price, p.workers))
        kept |= {point.workers: point for point in in_time[:NEAR_DEADLINE]}
    outcomes: dict[int, SimulationOutcome] = {}
    points = []
    for point in kept.values():
        outcomes[point.workers] = outcome = run(site, load, point, choice.seed)
        points.append(measured(site, load, point, outcome))
    if policy == "manual":
        chosen = next(point for point in points if point.workers == manual)
    else:
        chosen = choose(points, objective, policy, deadline_s)
    shown = pareto(points) if len(points) > 1 else [*points, *thin(pareto(allowed), 6)]
    shown = [replace(p, chosen=p.workers == chosen.workers) for p in unique(shown, chosen)]
    late = why_late(chosen, policy, deadline_s)
    if safe and site.promises and deadline_s is not None and chosen.wall_s > deadline_s:
        tight = find_front(site, load, replace(choice, policy="aggressive"), deadline_s).chosen
        if tight.wall_s <= deadline_s:
            late = in_time_without_margins(site, chosen, tight)
    return Front(tuple(shown), replace(chosen, chosen=True), outcomes[chosen.workers], late)


def meeting(points: Sequence[Point], policy: str, deadline_s: float | None) -> list[Point]:
    """Return the points that end in time, with the policy's headroom."""
    return [p for p in points if deadline_s is None or p.wall_s * HEADROOM[policy] <= deadline_s]


def why_late(chosen: Point, policy: str, deadline_s: float | None) -> str:
    if deadline_s is None or meeting([chosen], policy, deadline_s):
        return ""
    deadline, takes = Duration(deadline_s), Duration(chosen.wall_s)
    if policy == "manual":
        return (
            f"with {plural(chosen.workers, 'worker')} as written it takes {takes}, longer than the {deadline} allowed"
        )
    if chosen.wall_s <= deadline_s:
        spare = f"{HEADROOM[policy] - 1:.0%}"
        return f"the fastest takes {takes}: within the {deadline} allowed, but without the {spare} to spare of {policy}"
    return f"no number of workers ends within {deadline}; the fastest is planned"


def in_time_without_margins(site: Site, chosen: Point, tight: Point) -> str:
    """Say which workers meet the deadline that none with the guaranteed margins does, and what is left of those."""
    policy = site.manifest.policies.margins
    margins = (("CPU", tight.cpu_margin, policy.cpu), ("RAM", tight.ram_margin, policy.ram))
    given_up = " and ".join(
        f"a {name} margin of {percent(left)} instead of over {least}" for name, left, least in margins if left <= least
    )
    fastest = f"with the guaranteed margins the fastest takes {Duration(chosen.wall_s)} and is planned"
    workers = f"{plural(tight.workers, 'worker')} on {plural(tight.nodes, 'node')} end in {Duration(tight.wall_s)}"
    return f"{fastest}; {workers} with {given_up or 'the same margins'}: --policy aggressive"


def check_words(objective: str, policy: str) -> None:
    if objective not in OBJECTIVES:
        raise UnknownNameError(f"objective {objective!r} is unknown; choose one of {', '.join(map(repr, OBJECTIVES))}")
    if policy not in POLICIES:
        raise UnknownNameError(f"policy {policy!r} is unknown; choose one of {', '.join(map(repr, POLICIES))}")


def most_workers(site: Site, load: SweepLoad) -> int:
    placement = site.placement(load.profile, load.pool, load.profile.memory_peak)
    limits = [ceil(load.jobs / load.slots), placement.per_node * site.pools[load.pool].most]
    if site.worker_limit is not None:
        limits.append(site.worker_limit)
    return max(1, min(limits))


def worth_a_look(site: Site, load: SweepLoad, limit: int) -> list[int]:
    """Return worker counts that differ in something: the fewest for each number of rounds, and full nodes."""
    turns = ceil(load.jobs / load.slots)
    most = site.pools[load.pool].most
    rounds = {ceil(turns / number) for number in range(1, 201)}
    full = set()
    for roomy in (False, True):
        per_node = site.placement(load.profile, load.pool, load.profile.memory_peak, roomy=roomy).per_node
        full |= {per_node * ceil(most * part / 100) for part in range(1, 101)}
    fewest = min(site.least_workers, limit)
    return sorted(w for w in {limit, load.workers, *range(1, 13), *rounds, *full, fewest} if fewest <= w <= limit)


def foresee(site: Site, load: SweepLoad, workers: int, *, safe: bool) -> Point:
    """Time and cost by formula. When it must be safe, workers stand as far apart as the margins demand."""
    dense = foresee_placed(site, load, workers, roomy=False)
    if dense.guaranteed or not safe:
        return dense
    apart = site.placement(load.profile, load.pool, load.profile.memory_peak, roomy=True)
    if workers > apart.per_node * site.pools[load.pool].most:
        return dense
    roomy = foresee_placed(site, load, workers, roomy=True)
    return roomy if roomy.guaranteed else dense


def foresee_placed(site: Site, load: SweepLoad, workers: int, *, roomy: bool) -> Point:
    """Foresee rounds of equal runs on nodes whose CPUs are shared fairly."""
    pool, node = site.pools[load.pool], site.node(load.pool)
    placement = site.placement(load.profile, load.pool, load.profile.memory_peak, roomy=roomy)
    spread = min(load.profile.min_nodes, pool.most, workers)
    nodes = min(max(ceil(workers / placement.per_node), spread, pool.least), pool.most)
    room = (node.allocatable or node).cpu.cores - (pool.used.cpu.cores if pool.used else 0)
    slowed = max(1.0, ceil(workers / nodes) * load.slots * load.cores / room)
    wall = ceil(load.jobs / (workers * load.slots)) * load.job_s * slowed
    price = site.price(load.pool)
    hours = (wall + site.unused_s(load.pool)) / 3600
    cost = price * (nodes - pool.least) * hours if price is not None else charged(site, load, workers, wall)
    return with_margins(site, load, Point(workers, nodes, wall, cost, 0.0, 0.0, False, roomy))


def charged(site: Site, load: SweepLoad, workers: int, wall_s: float) -> Money | None:
    """Return the cost where CPUs are charged by the hour: workers are there until the last row."""
    hourly = site.hourly(load.profile, load.pool, workers)
    return hourly * workers * (wall_s / 3600) if hourly is not None else None


def with_margins(site: Site, load: SweepLoad, point: Point) -> Point:
    there, policy = site.offered(load.pool) * max(1, point.nodes), site.manifest.policies.margins
    cpu = margin(load.cpus.millis * point.workers, there.cpu.millis)
    ram = margin(load.profile.memory_peak.bytes * point.workers, there.memory.bytes)
    kept = (cpu > policy.cpu or not site.promises) and (ram > policy.ram or (not site.promises and ram > 0))
    return replace(point, cpu_margin=cpu, ram_margin=ram, guaranteed=kept)


def run(site: Site, load: SweepLoad, point: Point, seed: int, *, shared: bool = True) -> SimulationOutcome:
    planned = load.planned(point.workers, shared=shared)
    outcome = site.stage([planned], plan=scale_plan(load, point)).simulate(seed)
    if outcome.unfinished:
        workers = plural(point.workers, "worker")
        raise PlanningError(f"sweeps.{load.name} would not finish with {workers}: {outcome.unfinished}")
    return outcome


def scale_plan(load: SweepLoad, point: Point) -> ScalePlan:
    """Return what a session starts with that runs the sweep at this point."""
    return ScalePlan({load.profile_name: point.workers}, apart=frozenset({load.profile_name} if point.roomy else ()))


def measured(site: Site, load: SweepLoad, point: Point, outcome: SimulationOutcome) -> Point:
    price = site.price(load.pool)
    by_core = site.target.cpu_price if isinstance(site.target, SlurmTarget) else None
    if price is not None:
        cost: Money | None = outcome.cost({load.pool: price}, price.currency)
    elif by_core is not None:  # batch jobs are paid for all that they hold, from their start
        cost = by_core.hourly * simulated_hours(site, site.homes(), outcome).cores
    else:
        cost = charged(site, load, point.workers, outcome.wall_s)
    nodes = outcome.peak_nodes + site.pools[load.pool].least
    return with_margins(site, load, replace(point, wall_s=outcome.wall_s, cost=cost, nodes=nodes, simulated=True))


def pareto(points: Sequence[Point]) -> list[Point]:
    """Return points worth their price, from few workers to many: each is clearly faster than all cheaper ones."""
    best: list[Point] = []
    for point in sorted(points, key=lambda p: (p.price, p.wall_s, p.workers)):
        if not best or point.wall_s < best[-1].wall_s * (1 - WORTH_PAYING_FOR):
            best.append(point)
    return sorted(best, key=lambda p: p.workers)


def thin(points: list[Point], most: int) -> list[Point]:
    """Return at most so many, evenly picked, with both ends."""
    if len(points) <= most:
        return points
    if most == 1:
        return points[:1]
    return [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]


def unique(points: Sequence[Point], chosen: Point) -> list[Point]:
    by_workers = {point.workers: point for point in reversed(points)} | {chosen.workers: chosen}
    return [by_workers[workers] for workers in sorted(by_workers)]


def choose(points: Sequence[Point], objective: str, policy: str, deadline_s: float | None) -> Point:
    """Return the point an objective asks for among those in time; the fastest if none is."""
    in_time = meeting(points, policy, deadline_s)
    if objective == "minimize cost" and in_time:
        return min(in_time, key=lambda p: (p.price, p.workers))
    paid = any(point.cost is not None for point in points)  # where nothing is paid there is nothing to balance
    if objective == "balance" and in_time and paid:
        return balanced(pareto(in_time), lambda p: p.wall_s, lambda p: p.price)
    return min(in_time or points, key=lambda p: (p.wall_s, p.price, p.workers))


T = TypeVar("T")


def balanced(options: Sequence[T], *measures: Callable[[T], float]) -> T:
    """Return the option nearest to the best of each measure, taken as a part of its range; the first among equals.

    A range smaller than the best value itself counts as that value, so that a few cents are not a world of difference.
    """
    values = [[measure(option) for option in options] for measure in measures]

    def distance(place: int) -> float:
        return hypot(*(part(column[place], min(column), max(column)) for column in values))

    return options[min(range(len(options)), key=distance)]


def part(value: float, low: float, high: float) -> float:
    return (value - low) / max(high - low, low) if high > low else 0.0
