"""``CloudProvider``: what targets on all clouds have in common, from a cluster's start to its cost."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping

from scalable.cluster import scaling
from scalable.cluster.base import ClusterHandle, DeploymentSpec
from scalable.cluster.clouds import checking
from scalable.cluster.clouds.cluster import build
from scalable.cluster.clouds.fleet import CloudError, Fleet
from scalable.errors import UsageError
from scalable.manifest.targets import AwsTarget, GcpTarget
from scalable.planning.resources import CostEstimate, ScalePlan


class CloudProvider(ABC):
    """One cloud adds its name, what it can check, and its fleet."""

    name: str

    @abstractmethod
    def fleet(self, spec: DeploymentSpec, run: str) -> Fleet:
        """What hires workers for one run."""

    @abstractmethod
    def place(self, spec: DeploymentSpec) -> Mapping[str, str | None]:
        """Where the workers are, in the cloud's own words."""

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        run = uuid.uuid4().hex[:8]
        try:
            fleet = self.fleet(spec, run)
        except CloudError as error:
            raise UsageError(str(error)) from None
        cluster = build(fleet, target_of(spec), spec, run)
        return scaling.handle(cluster, {"provider": self.name, **self.place(spec), "run": run})

    def scale(self, cluster: ClusterHandle, plan: ScalePlan) -> None:
        """Returns when the cloud has accepted what was asked for; it takes a minute or two to come."""
        scaling.scale(cluster, plan, wait=False)

    def close(self, cluster: ClusterHandle) -> None:
        cluster.backend.close()

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        return checking.cost(spec, target_of(spec), plan)


def target_of(spec: DeploymentSpec) -> AwsTarget | GcpTarget:
    assert isinstance(spec.target, AwsTarget | GcpTarget), "a cloud's provider is asked for its own targets only"
    return spec.target
