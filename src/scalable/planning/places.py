"""Where workers of each kind go on a cluster of pools: the pool, what a worker asks for, and over how many nodes.

The same placement that a plan counts with, so that a scheduler which packs by requests ends up with the nodes that were
promised.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from scalable.catalogue import profile_for
from scalable.errors import PlanningError
from scalable.manifest.machines import Profile
from scalable.manifest.models import Manifest
from scalable.planning.placement import place
from scalable.planning.resources import Size, allocatable
from scalable.quantities import Cpu, Memory

NO_MEMORY = Memory(0)  # of a component that states none: it asks for none, and nothing limits it


@dataclass(frozen=True, slots=True)
class Place:
    """Where workers of one kind run, and what they take there."""

    pool: str | None
    """Nothing where the manifest has no pools."""
    request: Size
    """What the scheduler sets aside for a worker."""
    limit: Size
    """What a worker may use at most."""
    nodes: int = 1
    """Workers stand on at least so many nodes, as soon as there are so many of them."""
    at_most: int | None = None
    """Workers on one node, where their requests alone would let in more than was planned."""
    selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that a node of the pool has."""
    tolerations: tuple[Mapping[str, str], ...] = ()
    """Of taints that keep others off the pool."""


def places(manifest: Manifest, apart: Collection[str] = ()) -> dict[str, Place]:
    """A place for every kind of worker: the profiles that sweeps run on, and components.

    Profiles ``apart`` stand so far apart that each node by itself keeps the margins, as a plan may have chosen.
    """
    found = {}
    for tag, part in manifest.components.items():
        size = Size(Cpu.of(part.cpus), part.memory or NO_MEMORY, part.gpus)
        found[tag] = on(manifest, pool_for(manifest, tag, size), size, size)
    if not manifest.sweeps:
        return found
    pools = sweep_pools(manifest)
    for tag, profile in manifest.profiles.items():
        pool = pools.get(tag) or pool_for(manifest, tag, Size.of(profile.request))
        found[tag] = of_profile(manifest, profile, pool, apart=tag in apart)
    return found


def of_profile(manifest: Manifest, profile: Profile, name: str | None, *, apart: bool = False) -> Place:
    """As a plan places it: a request may be raised, or a cap set, to keep the number of workers on a node."""
    written, limit = Size.of(profile.request), Size.of(profile.limit)
    if name is None:
        return on(manifest, None, written, limit)
    pool = manifest.pools[name]
    node = manifest.nodes[pool.node]
    if not written.fits(allocatable(node, pool)):
        return on(manifest, name, written, limit)  # it waits, and the cluster says why
    margins = manifest.policies.margins
    spread = pool.max is not None and margins.spread
    placed = place(profile, node, pool, spread=spread, peak=profile.memory_peak, margins=margins if apart else None)
    by_request = placed.request.times_in(allocatable(node, pool))
    capped = placed.per_node if placed.per_node < by_request else None
    return on(manifest, name, placed.request, limit, min(profile.min_nodes, pool.most), capped)


def on(
    manifest: Manifest, name: str | None, request: Size, limit: Size, nodes: int = 1, at_most: int | None = None
) -> Place:
    if name is None:
        return Place(None, request, limit, nodes, at_most)
    pool = manifest.pools[name]
    return Place(
        name, request, limit, nodes, at_most, dict(pool.labels), tuple(one.written for one in pool.tolerations)
    )


def sweep_pools(manifest: Manifest) -> dict[str, str]:
    """The pool of each profile: the one that its sweeps name, else the one for work."""
    named: dict[str, dict[str, str]] = {}  # profile: pool: sweep
    for sweep, one in manifest.sweeps.items():
        profile = one.profile or profile_for(one.factor)
        pool = one.pool or pool_for(manifest, f"sweeps.{sweep}")
        if pool is not None:
            named.setdefault(profile, {}).setdefault(pool, sweep)
    for profile, pools in named.items():
        if len(pools) > 1:
            where = " and ".join(f"{sweep} on {pool}" for pool, sweep in pools.items())
            last = list(pools.values())[-1]
            raise PlanningError(
                f"workers of the profile {profile} run on one pool, but sweeps use it on several ({where}); "
                f"give sweeps.{last} a profile of its own"
            )
    return {profile: next(iter(pools)) for profile, pools in named.items()}


def pool_for(manifest: Manifest, what: str, size: Size | None = None) -> str | None:
    """The pool of work that names none: the first that scales, else one without services; one with room for a size."""
    if not manifest.pools:
        return None
    scaled = [name for name, pool in manifest.pools.items() if pool.max is not None]
    usable = scaled or [name for name, pool in manifest.pools.items() if pool.used is None]
    if not usable:
        raise PlanningError(
            f"{what} has nowhere to run: no pool is free of other services; add one under pools, or name one: pool: …"
        )
    rooms = {name: allocatable(manifest.nodes[manifest.pools[name].node], manifest.pools[name]) for name in usable}
    return next((name for name in usable if size is None or size.fits(rooms[name])), usable[0])
