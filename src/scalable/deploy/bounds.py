"""The most that a namespace may take: what its pools can hold at their largest, and no pod larger than a profile."""

from __future__ import annotations

from scalable.cluster.kubernetes.objects import amounts
from scalable.deploy.access import metadata
from scalable.deploy.deployment import DRIVER, Deployment
from scalable.deploy.document import Document
from scalable.planning.resources import Size, allocatable
from scalable.quantities import Cpu, Memory

GPU = "nvidia.com/gpu"
NOTHING = Size(Cpu(0), Memory(0))
MOST_WORKERS = 100  # of a target that states no maximum and a manifest without pools, as plans count


def bounds(deployment: Deployment) -> list[Document]:
    return [quota(deployment), limits(deployment)]


def quota(deployment: Deployment) -> Document:
    """Pools at their largest, and beside them a driver or relay for each sweep that may run."""
    workers, requests = room(deployment)
    drivers = deployment.manifest.policies.concurrency.normal + 1  # one that may overlap with all others
    named = (*countable(deployment), GPU)
    whole = amounts(requests + driver_size(deployment) * (2 * drivers))
    hard = {"pods": str(workers + 2 * drivers)}
    hard |= {f"requests.{name}": amount for name, amount in whole.items() if name in named}
    what = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata(deployment, "scalable-runs")}
    comment = f"Pools at their largest hold up to {workers} workers; {drivers} sweeps have a driver and a relay each."
    return Document({**what, "spec": {"hard": hard}}, (comment,))


def room(deployment: Deployment) -> tuple[int, Size]:
    """Return how many workers there can be, and what all of them may ask for, at most."""
    pools: dict[str | None, list[Size]] = {}
    for place in deployment.site.places.values():
        pools.setdefault(place.pool, []).append(place.request)
    count, requests = 0, NOTHING
    for name, sizes in pools.items():
        if name is None:
            most = most_workers(deployment)
            count, requests = count + most, requests + largest(sizes) * most
            continue
        pool = deployment.manifest.pools[name]
        node = allocatable(deployment.manifest.nodes[pool.node], pool)
        smallest = Size(min(size.cpu for size in sizes), min(size.memory for size in sizes))
        count, requests = count + smallest.times_in(node) * pool.most, requests + node * pool.most
    return count, requests


def countable(deployment: Deployment) -> list[str]:
    """Return what every container states: where a quota counts memory, a pod that states none is refused."""
    stated = all(place.limit.memory.bytes for place in deployment.site.places.values())
    return ["cpu", "memory"] if stated else ["cpu"]


def most_workers(deployment: Deployment) -> int:
    target = deployment.settings
    return target.adaptive.maximum if target.adaptive else target.max_workers or MOST_WORKERS


def limits(deployment: Deployment) -> Document:
    """Return a container that states nothing gets the smallest of our sizes, and none is larger than the largest."""
    places = list(deployment.site.places.values())
    mine = driver_size(deployment)
    named = countable(deployment)
    smallest = min(places, key=lambda place: (place.limit.memory, place.limit.cpu))
    item = {
        "type": "Container",
        "max": stated(largest([mine, *(place.limit for place in places)]), named),
        "default": stated(smallest.limit, named),
        "defaultRequest": stated(smallest.request, named),
    }
    what = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata(deployment, "scalable-containers")}
    return Document({**what, "spec": {"limits": [item]}}, ("No container is larger than the largest profile.",))


def driver_size(deployment: Deployment) -> Size:
    target = deployment.settings
    return Size(target.scheduler_cpu or DRIVER.cpu, target.scheduler_memory or DRIVER.memory)


def stated(size: Size, named: list[str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts(size).items() if name in named}


def largest(sizes: list[Size]) -> Size:
    """Return the most of each that any of them has."""
    return Size(max(size.cpu for size in sizes), max(size.memory for size in sizes), max(size.gpus for size in sizes))
