"""What providers built on ``TaggedCluster`` share: bringing it to a plan's counts, handing it out, pricing by CPU."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scalable.cluster.base import ClusterHandle, DeploymentSpec, LaunchRefused
from scalable.cluster.client import ScalableClient
from scalable.cluster.cluster import TaggedCluster
from scalable.errors import UsageError
from scalable.planning.resources import CostEstimate, ScalePlan
from scalable.quantities import Price

WAIT_S = 60.0  # for workers of this machine; those that take longer are the diagnosis's business


def handle(cluster: TaggedCluster, metadata: dict[str, Any]) -> ClusterHandle:
    facts = {**metadata, "scheduler": cluster.scheduler_address}
    return ClusterHandle(cluster, lambda: ScalableClient(cluster), facts)


def scale(handle: ClusterHandle, plan: ScalePlan, *, wait: bool) -> None:
    """Add and remove until every tag of the plan has its count. ``wait`` for them to connect."""
    cluster: TaggedCluster = handle.backend
    for tag, count in plan.workers_by_tag.items():
        cluster.template(tag)
        if count < 0:
            raise UsageError(f"{tag}: {count} workers; write 0 or more")
    there = Counter(member.tag for member in list(cluster.members.values()) if not member.leaving)
    for tag, count in plan.workers_by_tag.items():
        if count > there[tag]:
            cluster.add_workers(count - there[tag], tag)
        elif count < there[tag]:
            cluster.remove_workers(there[tag] - count, tag)
    if wait:
        cluster.wait_until(plan.workers_by_tag, WAIT_S)
        for tag, reason in cluster.replacements.given_up.items():
            if tag in plan.workers_by_tag:
                raise LaunchRefused(f"no {tag} worker could be started: {reason}")


def cost_by_cpu(provider: str, price: Price | None, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
    """CPUs by the hour, as batch systems charge; nothing where no price is written."""
    if price is None:
        return None
    sizes = {tag: plan.resources_by_tag.get(tag) or spec.components[tag] for tag in plan.workers_by_tag}
    workers = {tag: (count, float(sizes[tag].cpus)) for tag, count in plan.workers_by_tag.items()}
    return CostEstimate.by_cpu(provider, price, workers)
