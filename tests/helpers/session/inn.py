"""What a session pays is counted while it runs, adds up when it is over, and stops it when the budget is used up."""

from __future__ import annotations

from scalable.cluster import scaling
from scalable.cluster.base import ClusterHandle, DeploymentSpec
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.local import ThreadLauncher
from scalable.manifest.validation import ValidationReport
from scalable.planning.resources import CostEstimate, ScalePlan


class Inn:
    """A provider of the user's own, whose workers are threads."""

    name = "inn"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        return ValidationReport()

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        launcher = self.launcher(spec.folder)
        cluster = TaggedCluster(launcher, spec.components.values(), scheduler={"protocol": "inproc"})
        return scaling.handle(cluster, {})

    def launcher(self, folder: str) -> ThreadLauncher:
        return ThreadLauncher(folder)

    def scale(self, cluster: ClusterHandle, plan: ScalePlan) -> None:
        scaling.scale(cluster, plan, wait=True)

    def close(self, cluster: ClusterHandle) -> None:
        cluster.backend.close()

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        return None
