"""What a session pays is counted while it runs, adds up when it is over, and stops it when the budget is used up."""

from __future__ import annotations

from scalable.cluster.base import ClusterHandle, DeploymentSpec
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.local import ThreadLauncher
from scalable.cluster.provider import TaggedProvider
from scalable.manifest.validation import ValidationReport


class Inn(TaggedProvider):
    """A provider of the user's own, whose workers are threads."""

    name = "inn"
    waits = True

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        return ValidationReport()

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        launcher = self.launcher(spec.folder)
        cluster = TaggedCluster(launcher, spec.components.values(), scheduler={"protocol": "inproc"})
        return self.handle(cluster)

    def launcher(self, folder: str) -> ThreadLauncher:
        return ThreadLauncher(folder)
