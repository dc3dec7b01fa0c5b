"""``TaggedProvider``: what providers built on ``TaggedCluster`` share, from scaling to a plan's counts to the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

from scalable.cluster.base import ClusterHandle, DeploymentSpec, LaunchRefused
from scalable.cluster.client import ScalableClient
from scalable.cluster.cluster import TaggedCluster
from scalable.errors import UsageError
from scalable.manifest.validation import ValidationReport
from scalable.planning.resources import CostEstimate, ScalePlan
from scalable.quantities import Price

WAIT_S = 60.0  # for workers of this machine; those that take longer are the diagnosis's business


class TaggedProvider(ABC):
    """A provider whose clusters are ``TaggedCluster``; a backend adds its check and how a cluster is built."""

    name: str
    waits = False
    """Whether ``scale`` returns when workers have connected; else when the backend has accepted what was asked for."""

    @abstractmethod
    def validate(self, spec: DeploymentSpec) -> ValidationReport: ...

    @abstractmethod
    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle: ...

    def handle(self, cluster: TaggedCluster, **facts: Any) -> ClusterHandle:
        """Hand a cluster out with facts about it."""
        metadata = {"provider": self.name, **facts, "scheduler": cluster.scheduler_address}
        if cluster.certificates is not None:
            metadata["certificates"] = str(cluster.certificates)
        return ClusterHandle(cluster, lambda: ScalableClient(cluster), metadata)

    def scale(self, cluster: ClusterHandle, plan: ScalePlan) -> None:
        """Add and remove workers until every tag of the plan has its count."""
        tagged: TaggedCluster = cluster.backend
        for tag, count in plan.workers_by_tag.items():
            tagged.template(tag)
            if count < 0:
                raise UsageError(f"{tag}: {count} workers; write 0 or more")
        there = Counter(member.tag for member in list(tagged.members.values()) if not member.leaving)
        for tag, count in plan.workers_by_tag.items():
            if count > there[tag]:
                tagged.add_workers(count - there[tag], tag)
            elif count < there[tag]:
                tagged.remove_workers(there[tag] - count, tag)
        if self.waits:
            tagged.wait_until(plan.workers_by_tag, WAIT_S)
            for tag, reason in tagged.replacements.given_up.items():
                if tag in plan.workers_by_tag:
                    raise LaunchRefused(f"no {tag} worker could be started: {reason}")

    def close(self, cluster: ClusterHandle) -> None:
        cluster.backend.close()

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        """Return nothing: what the plan costs is not known here."""
        return None

    def cost_by_cpu(self, price: Price | None, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        """Price CPUs by the hour, as batch systems charge; nothing where no price is written."""
        if price is None:
            return None
        sizes = {tag: plan.resources_by_tag.get(tag) for tag in plan.workers_by_tag}
        cpus = {tag: size.cpus if size is not None else spec.components[tag].all_cpus for tag, size in sizes.items()}
        workers = {tag: (count, float(cpus[tag])) for tag, count in plan.workers_by_tag.items()}
        return CostEstimate.by_cpu(self.name, price, workers)
