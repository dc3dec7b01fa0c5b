"""Hours of an allocation: what a worker holds, what a plan will use, and what the budget has left."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING

from scalable.findings import Finding
from scalable.machine_hours import HOUR_S, NODE_HOURS, HeldResources, MachineHours
from scalable.manifest.machines import Profile
from scalable.manifest.models import Component, Manifest
from scalable.manifest.targets import SlurmTarget
from scalable.planning.resources import Size
from scalable.quantities import Cpu, Memory

if TYPE_CHECKING:
    from scalable.planning.history import History
    from scalable.planning.simulation import SimulationOutcome
    from scalable.planning.site import Home, Site
    from scalable.quantities import Money


def worker_holding(site: Site, size: Profile | Component, pool: str, count: int | None = None) -> HeldResources:
    """Return what one of ``count`` workers keeps from others; without a count its job is as full as it can be."""
    full = min(site.per_job(size), site.worker_limit or site.per_job(size))
    return holdings(site, {"": (size, pool, count or full)})[""]


def holdings(site: Site, workers: Mapping[str, tuple[Profile | Component, str, int]]) -> dict[str, HeldResources]:
    """Return what a worker of each tag keeps from others, for size, pool and number of those that share batch jobs.

    That is its CPUs and GPUs, with its part of what is unused on whole nodes, and its part of the nodes of its job. A
    job that shares its node with others counts as on a node of its own, so node-hours are an upper bound.
    """
    allocations, batch = site.allocations, isinstance(site.target, SlurmTarget)
    shared = [(tag, in_job(size), count) for tag, (size, _, count) in workers.items() if count and not is_program(size)]
    cores, nodes = allocations.held(shared)
    own, number = sum(size.cpu.cores * count for _, size, count in shared), sum(count for _, _, count in shared)
    held = {}
    for tag, (size, pool, _) in workers.items():
        own_nodes = size.nodes if isinstance(size, Component) else 1
        gpus = float(size_of(size).gpus * own_nodes)
        if is_program(size) or not number:
            held[tag] = HeldResources(site.worker_cpus(size, pool).cores, float(own_nodes), gpus)
            continue
        cpus = in_job(size).cpu if batch else site.worker_cpus(size, pool)
        part = float(own_nodes) if allocations.alone else nodes / number
        held[tag] = HeldResources(cpus.cores * cores / own, part, gpus)
    return held


def is_program(size: Profile | Component) -> bool:
    """Tell whether a worker is there for a program of several processes, on nodes of its own."""
    return isinstance(size, Component) and size.program.ranks > 1


def in_job(size: Profile | Component) -> Size:
    """Return what a worker asks of a batch system, which counts whole CPUs and megabytes."""
    most = size_of(size)
    return Size(Cpu.of(ceil(most.cpu.cores)), Memory(-(-most.memory.bytes // 2**20) * 2**20), most.gpus)


def size_of(size: Profile | Component) -> Size:
    """Return what a worker may use at most of one node."""
    if isinstance(size, Profile):
        return Size.of(size.limit)
    return Size(Cpu.of(size.program.cpus_per_node), size.memory or Memory(0), size.gpus)


def simulated_hours(site: Site, homes: Mapping[str, Home], outcome: SimulationOutcome) -> HeldResources:
    """Return the hours that a simulated session holds, from the start of each worker to its end."""
    known = {tag: homes.get(tag) or homes[tag.partition("@")[0]] for tag in outcome.worker_s}  # one size in any pool
    most = outcome.peak_workers
    held = holdings(site, {tag: (home.size, home.pool, most.get(tag, 0)) for tag, home in known.items()})
    return sum((held[tag].for_seconds(seconds) for tag, seconds in outcome.worker_s.items()), HeldResources())


def component_hours(site: Site, counts: Mapping[str, int], wall_s: float) -> HeldResources:
    """Return the hours that workers of components hold while a session of this length is open."""
    held = component_holdings(site, counts)
    return sum((held[tag] * count for tag, count in counts.items()), HeldResources()) * (wall_s / HOUR_S)


def component_holdings(site: Site, counts: Mapping[str, int]) -> dict[str, HeldResources]:
    """Return what a worker of each component keeps from others where there are so many of each."""
    parts, homes = site.manifest.components, site.homes()
    return holdings(site, {tag: (parts[tag], homes[tag].pool, count) for tag, count in counts.items()})


def allocation_left(manifest: Manifest, history: History) -> MachineHours | None:
    """Return what is left of the allocation after all runs that count against it; nothing where none is budgeted."""
    budget = manifest.budget
    if budget is None or budget.allocation is None:
        return None
    unit, since = budget.allocation.unit, budget.allocation_since
    used = history.hours_used(since.isoformat() if since is not None else "")
    return budget.allocation - MachineHours(used.of(unit), unit)


def over_allocation(used: HeldResources | None, left: MachineHours | None) -> bool:
    """Tell whether a plan needs more hours than are left."""
    return used is not None and left is not None and used.of(left.unit) > left.amount


def over_text(cost: Money | None, money_left: Money | None, used: HeldResources, left: MachineHours | None) -> str:
    """Say which budget a plan is over, with the figures."""
    over = []
    if cost is not None and money_left is not None and cost > money_left:
        over.append(f"{cost} is over the {money_left} left of this month's budget")
    if left is not None and over_allocation(used, left):
        wanted = MachineHours(used.of(left.unit), left.unit)
        over.append(f"{wanted} is over the {positive(left)} left of budget.allocation")
    return "; ".join(over)


def hours_findings(site: Site, path: str, used: HeldResources | None, left: MachineHours | None) -> list[Finding]:
    """Return the warnings about a plan that needs more hours than the budget or the account has left."""
    findings = check_unit(site.manifest, site.target)
    there = (
        (left, "over-allocation", "are left of budget.allocation", "raise budget.allocation, or plan less"),
        (site.balance, "balance-low", "are left of the account (sshare)", "ask your centre for more, or plan less"),
    )
    for rest, code, where, remedy in there:
        if used is not None and rest is not None and over_allocation(used, rest):
            wanted = MachineHours(used.of(rest.unit), rest.unit)
            text = f"the plan needs {wanted}, and {positive(rest)} {where}"
            findings.append(Finding.warning(code, path, text, remedy))
    return findings


def check_unit(manifest: Manifest, target: object) -> list[Finding]:
    """Return a warning where node-hours are budgeted and batch jobs share their nodes with others'."""
    allocation = manifest.budget.allocation if manifest.budget else None
    shares = isinstance(target, SlurmTarget) and not getattr(target, "exclusive", False)
    if allocation is None or allocation.unit != NODE_HOURS or not shares:
        return []
    text = "jobs of this target share nodes with others, and each counts as a whole node"
    remedy = "write the budget in core-hours, or exclusive: true in the target"
    return [Finding.warning("node-hours-shared", "budget.allocation", text, remedy)]


def positive(amount: MachineHours) -> MachineHours:
    return amount if amount.amount > 0 else MachineHours.zero(amount.unit)
