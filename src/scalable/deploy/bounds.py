"""The most that a namespace may take: what its pools can hold at their largest, and no pod larger than a profile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import Any

from scalable.cluster.kubernetes.objects import DISK, amounts, with_disk
from scalable.deploy.access import metadata
from scalable.deploy.deployment import DRIVER_SIZE, Deployment
from scalable.deploy.document import Document
from scalable.manifest.targets import AMOUNT
from scalable.planning.resources import NOTHING, Size, allocatable

GPU = "nvidia.com/gpu"
MOST_WORKERS = 100  # of a target that states no maximum and a manifest without pools, as plans count


def bounds(deployment: Deployment) -> list[Document]:
    return [quota(deployment), limits(deployment)]


def quota(deployment: Deployment) -> Document:
    """Return the quota: pools at their largest, and a driver or relay for each sweep that may run."""
    workers, requests = room(deployment)
    drivers = deployment.manifest.policies.concurrency.normal + 1  # one that may overlap with all others
    named = (*countable(deployment), GPU)
    whole = amounts(requests + driver_size(deployment) * (2 * drivers))
    hard = {"pods": str(workers + 2 * drivers)}
    hard |= {f"requests.{name}": amount for name, amount in whole.items() if name in named}
    worker, other = disk_of_a_worker(deployment), OwnDisk.of({}, {})
    hard[f"requests.{DISK}"] = mebibytes(worker.request * workers + other.request * 2 * drivers)
    if worker.limit and other.limit:
        hard[f"limits.{DISK}"] = mebibytes(worker.limit * workers + other.limit * 2 * drivers)
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
    item: dict[str, Any] = {
        "type": "Container",
        "max": stated(largest([mine, *(place.limit for place in places)]), named),
        "default": stated(smallest.limit, named),
        "defaultRequest": stated(smallest.request, named),
    }
    disks = [disk_of_a_worker(deployment), OwnDisk.of({}, {})]
    item["defaultRequest"][DISK] = mebibytes(min(disk.request for disk in disks))
    if most := [disk.limit for disk in disks if disk.limit] if all(disk.limit for disk in disks) else []:
        item["default"][DISK], item["max"][DISK] = mebibytes(min(most)), mebibytes(max(most))
    what = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata(deployment, "scalable-containers")}
    return Document({**what, "spec": {"limits": [item]}}, ("No container is larger than the largest profile.",))


def driver_size(deployment: Deployment) -> Size:
    target = deployment.settings
    return Size(target.scheduler_cpu or DRIVER_SIZE.cpu, target.scheduler_memory or DRIVER_SIZE.memory)


def stated(size: Size, named: list[str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts(size).items() if name in named}


def largest(sizes: list[Size]) -> Size:
    """Return the most of each that any of them has."""
    return Size(max(size.cpu for size in sizes), max(size.memory for size in sizes), max(size.gpus for size in sizes))


@dataclass(frozen=True)
class OwnDisk:
    """The disk that a pod asks of its node and may fill, in bytes."""

    request: int
    limit: int | None
    """None where the target states a request alone: a quota of limits would refuse such pods."""

    @classmethod
    def of(cls, requests: Mapping[str, str], limits: Mapping[str, str]) -> OwnDisk:
        """Read it from what is stated for a container, as the API does: who states a limit alone asks for all of it."""
        requests, limits = with_disk(requests, limits)
        limit = bytes_of(limits[DISK]) if DISK in limits else None
        return cls(bytes_of(requests[DISK]) if DISK in requests else limit or 0, limit)


def disk_of_a_worker(deployment: Deployment) -> OwnDisk:
    return OwnDisk.of(deployment.site.requests, deployment.site.limits)


LETTERS = "KMGTPE"
SCALES = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(1000), "": Decimal(1)}
SCALES |= {letter: Decimal(1000) ** power for power, letter in enumerate(LETTERS, 1) if letter != "K"}
SCALES |= {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate(LETTERS, 1)}


def bytes_of(amount: str) -> int:
    """Return how much an amount is that was written as Kubernetes does."""
    match = re.fullmatch(AMOUNT, amount)
    assert match is not None, "a manifest takes no other amounts"
    number, suffix = match[1], match[3] or ""
    return ceil(Decimal(number) * (SCALES[suffix] if suffix in SCALES else Decimal(f"1{suffix}")))


def mebibytes(amount: int) -> str:
    return f"{ceil(Decimal(amount) / 2**20)}Mi"
