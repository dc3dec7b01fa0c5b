"""The places of workers on a cluster of pools: the pool, what a worker asks for, and over how many nodes.

The same placement that a plan counts with, so that a scheduler which packs by requests ends up with the nodes that were
promised.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from scalable.errors import PlanningError
from scalable.manifest.machines import Profile
from scalable.manifest.models import Component, Manifest
from scalable.planning.hours import size_of
from scalable.planning.placement import place
from scalable.planning.resources import Size, allocatable
from scalable.planning.site import Site, profile_of, requested


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """The place of workers of one kind, and what they take there."""

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


def places(manifest: Manifest, apart: Collection[str] = ()) -> dict[str, WorkerPlace]:
    """Return a place for every kind of worker: the profiles that sweeps run on, and components.

    Profiles ``apart`` stand so far apart that each node by itself keeps the margins, as a plan may have chosen.
    """
    if not manifest.pools:
        sizes: dict[str, Profile | Component] = {
            **manifest.components,
            **(manifest.profiles if manifest.sweeps else {}),
        }
        return {tag: on(manifest, None, requested(size), size_of(size)) for tag, size in sizes.items()}
    site = Site(manifest)
    check_pools(site)
    return {
        tag: of_profile(manifest, home.size, home.pool, apart=tag in apart)
        if isinstance(home.size, Profile)
        else on(manifest, home.pool, requested(home.size), size_of(home.size))
        for tag, home in site.homes().items()
    }


def of_profile(manifest: Manifest, profile: Profile, name: str, *, apart: bool = False) -> WorkerPlace:
    """Return the place as a plan has it: a request may be raised, or a cap set, to keep the workers on a node."""
    written, limit = Size.of(profile.request), Size.of(profile.limit)
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
) -> WorkerPlace:
    if name is None:
        return WorkerPlace(None, request, limit, nodes, at_most)
    pool = manifest.pools[name]
    tolerations = tuple(toleration.written for toleration in pool.tolerations)
    return WorkerPlace(name, request, limit, nodes, at_most, dict(pool.labels), tolerations)


def check_pools(site: Site) -> None:
    """Refuse sweeps that use one profile on several pools: its workers run on one."""
    named: dict[str, dict[str, str]] = {}  # profile: pool: sweep
    for name, sweep in site.manifest.sweeps.items():
        named.setdefault(profile_of(sweep, site.base), {}).setdefault(site.pool_for(sweep.pool, f"sweeps.{name}"), name)
    for profile, pools in named.items():
        if len(pools) > 1:
            where = " and ".join(f"{sweep} on {pool}" for pool, sweep in pools.items())
            last = [sweep for sweep in pools.values() if site.manifest.sweeps[sweep].pool][-1]
            raise PlanningError(
                f"workers of the profile {profile} run on one pool, but sweeps use it on several ({where}); "
                f"give sweeps.{last} a profile of its own",
                f"sweeps.{last}.pool",
            )
