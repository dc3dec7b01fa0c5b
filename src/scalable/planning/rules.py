"""The engine's rules: kinds of workers, pools with room and prices, bounds, ladder, policies and budget.

The forecast and a live session both get them from ``rules_for``, so what was simulated is what is run. A backend may
still refuse workers that the rules allow; that is an event, not another rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from scalable.engine import AdaptiveScaler, Rules, WorkerKind
from scalable.engine.rules import ANY_MEMORY
from scalable.machine_hours import MachineHours
from scalable.manifest.machines import Profile
from scalable.planning.capacity import CapacityError
from scalable.planning.hours import worker_holding
from scalable.planning.placement import UNLIMITED, OpenRoom, PoolRoom
from scalable.planning.prices import HIRED_AT_LEAST_S, PriceUnknownError, hired
from scalable.planning.resources import NOTHING, ScalePlan, Size, allocatable
from scalable.quantities import Memory, Money

if TYPE_CHECKING:
    from scalable.planning.site import Home, Site

LADDER_WORKERS = 1  # of a larger kind than was planned, for runs that ran out of memory; without one they wait for ever

Limits = dict[str, tuple[int, int | None]]
"""The fewest and the most workers of each tag."""


def rules_for(
    site: Site,
    plan: ScalePlan,
    *,
    adaptive: bool | AdaptiveScaler | None = None,
    budget: Money | None = None,
    allocation: MachineHours | None = None,
    homes: Mapping[str, Home] | None = None,
    peaks: Mapping[str, Memory] | None = None,
    spread: bool = True,
    max_nodes: int | None = None,
) -> Rules:
    """Build the rules for running a plan at a site.

    ``adaptive`` says who decides how many workers there are, as in ``ScalableSession.start``. What is asked of another
    arrangement than the manifest's is given by ``homes`` (kinds of workers and their pools), ``peaks`` (memory that
    workers of a profile use), ``spread`` and ``max_nodes``.
    """
    homes = site.homes() if homes is None else homes
    kinds = {tag: kind(site, tag, home, homes) for tag, home in homes.items()}
    limits, most = bounds(site, plan, adaptive, kinds)
    within = {tag: site.worker_limit if limits[tag] == (0, LADDER_WORKERS) else None for tag in kinds}
    kinds = {
        tag: replace(rule, minimum=limits[tag][0], maximum=limits[tag][1], within=within[tag])
        for tag, rule in kinds.items()
    }
    sizes = {tag: footprint(site, home, plan, peaks or {}, spread=spread) for tag, home in homes.items()}
    rooms = {
        pool: room(site, pool, {tag: home for tag, home in homes.items() if home.pool == pool}, sizes, max_nodes)
        for pool in dict.fromkeys(home.pool for home in homes.values())
    }
    if budget is not None:
        rooms = {pool: payable(rule, budget.currency) for pool, rule in rooms.items()}
    if allocation is not None:
        held = {tag: worker_holding(site, home.size, home.pool).of(allocation.unit) for tag, home in homes.items()}
        kinds = {tag: replace(rule, held=held[tag]) for tag, rule in kinds.items()}
    return Rules(
        kinds,
        rooms,
        site.manifest.policies,
        budget,
        most_workers=most,
        allocation=allocation,
        most_at_once=at_once(site),
    )


def kind(site: Site, tag: str, home: Home, homes: Mapping[str, Home]) -> WorkerKind:
    size = home.size
    if not isinstance(size, Profile):
        slots = site.slots if size.program.ranks == 1 else 1
        walltime = site.walltime(tag)
        return WorkerKind(tag, home.pool, size.memory or ANY_MEMORY, slots=slots, larger=size.larger, walltime=walltime)
    step = site.climb(home.name, home.pool)
    above = [name for name in (tag_on(*step), step[0]) if name in homes] if step is not None else []
    return WorkerKind(
        tag,
        home.pool,
        site.memory_allowed(size, home.pool),
        limit=size.limit.memory,
        slots=site.slots,
        alone=size.alone,
        larger=above[0] if above else None,
        walltime=site.walltime(home.name),
    )


def at_once(site: Site) -> int | None:
    """Return the most batch jobs that may be there at once, where they end by themselves and are replaced."""
    return site.worker_limit if any(site.walltime(tag) for tag in ("", *site.manifest.components)) else None


def tag_on(profile: str, pool: str) -> str:
    """Return the tag of workers whose profile serves several pools."""
    return f"{profile}@{pool}"


def bounds(
    site: Site, plan: ScalePlan, adaptive: bool | AdaptiveScaler | None, kinds: Mapping[str, WorkerKind]
) -> tuple[Limits, int | None]:
    """Return how many workers of each kind there may be, and of all kinds together.

    As many as planned; where scaling is asked for, between the target's bounds instead.
    """
    allowed = site.target.adaptive if site.target is not None else None
    planned = {tag: count for tag, count in plan.workers_by_tag.items() if tag in kinds}
    if isinstance(adaptive, AdaptiveScaler):
        low, high = adaptive.min_workers, adaptive.max_workers
        limits: Limits = {tag: (low.get(tag, planned.get(tag, 0)), high.get(tag)) for tag in kinds}
        return limits, allowed.maximum if allowed else None  # what a target allows holds whoever decides
    if adaptive or (adaptive is None and allowed is not None):
        least = shared_out(list(planned), allowed.minimum) if allowed and planned else {}
        most = allowed.maximum if allowed else min(sum(planned.values()), site.worker_limit or UNLIMITED)
        return {tag: (least.get(tag, 0), None) for tag in kinds}, most
    limits = {tag: (planned.get(tag, 0),) * 2 for tag in kinds}
    climbs = {step for tag, count in planned.items() if count for step in ladder(tag, kinds)[1:]}
    return limits | {tag: (0, LADDER_WORKERS) for tag in climbs if not planned.get(tag)}, None


def shared_out(tags: list[str], total: int) -> dict[str, int]:
    """Share workers out as evenly as can be; the first tags get what is left over."""
    each, over = divmod(total, len(tags))
    return {tag: each + (place < over) for place, tag in enumerate(tags)}


def ladder(tag: str, kinds: Mapping[str, WorkerKind]) -> list[str]:
    """Return a kind and those that its runs may have to go to when they run out of memory."""
    steps = [tag]
    while (above := kinds[steps[-1]].larger) is not None and above in kinds and above not in steps:
        steps.append(above)
    return steps


def footprint(site: Site, home: Home, plan: ScalePlan, peaks: Mapping[str, Memory], *, spread: bool) -> Size:
    """Return what a worker takes of a node."""
    node = allocatable(site.node(home.pool), site.pools[home.pool])
    if site.local:
        return NOTHING  # workers of this machine share what it has
    if not site.promises:
        return site.part_of_job(home.size, home.pool)  # one too large for any node: its backend says why none comes
    if not home.request.fits(node):
        return node  # one that fits on no node is asked for all the same: its backend says why it does not come
    if not isinstance(home.size, Profile):
        return home.request
    roomy = home.name in plan.apart
    return site.placement(home.size, home.pool, peaks.get(home.name), spread=spread, roomy=roomy).footprint


def room(
    site: Site, pool: str, homes: Mapping[str, Home], sizes: Mapping[str, Size], max_nodes: int | None
) -> PoolRoom:
    written, requests = site.pools[pool], {tag: sizes[tag] for tag in homes}
    node = allocatable(site.node(pool), written)
    if not site.promises:
        prices = {tag: hourly(site, home) for tag, home in homes.items()}
        paid = {tag: price for tag, price in prices.items() if price is not None}
        most, least_s = 1 if site.local else UNLIMITED, HIRED_AT_LEAST_S if hired(site.target) else 0.0
        held = {tag: site.per_job(home.size) for tag, home in homes.items()}
        return OpenRoom(
            pool, node, most, requests, prices=paid, least_s=least_s,
            per_job={tag: count for tag, count in held.items() if count > 1},
            mixed=site.allocations.fills or site.allocations.alone,
        )  # fmt: skip
    profiles = {tag: home.size for tag, home in homes.items() if isinstance(home.size, Profile)}
    return PoolRoom(
        name=pool,
        node=node,
        max_nodes=min(written.most, max_nodes) if max_nodes else written.most,
        requests=requests,
        spread_over={
            tag: min(profile.min_nodes, written.most)
            for tag, profile in profiles.items()
            if profile.min_nodes > 1 and not max_nodes
        },
        price=site.price(pool),
        provision_s=written.provision.seconds,
        idle_s=written.idle.seconds,
    )


def hourly(site: Site, home: Home) -> Money | None:
    """Return what a worker costs an hour; nothing where that is not known, or where none of its size can be hired."""
    try:
        return site.hourly(home.size, home.pool)
    except (CapacityError, PriceUnknownError):
        return None


def payable(room: PoolRoom, currency: str) -> PoolRoom:
    """Leave out prices in other money than the budget's: amounts of two currencies never add up."""
    if isinstance(room, OpenRoom):
        return replace(room, prices={tag: price for tag, price in room.prices.items() if price.currency == currency})
    return replace(room, price=room.price if room.price and room.price.currency == currency else None)
