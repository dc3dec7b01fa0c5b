"""A target on Google Cloud."""

from __future__ import annotations

import uuid

from scalable.errors import UsageError
from scalable.manifest.findings import Issue, ValidationReport
from scalable.manifest.targets import GcpTarget
from scalable.providers import scaling
from scalable.providers.base import ClusterHandle, DeploymentSpec
from scalable.providers.clouds import checking
from scalable.providers.clouds.cluster import build
from scalable.providers.clouds.fleet import CloudError
from scalable.providers.gcp.instances import GcpFleet
from scalable.sizing.prices import region_of
from scalable.sizing.resources import CostEstimate, ScalePlan

NEEDED = {
    "project_id": "write the id of your project",
    "zone": "write e.g. zone: europe-west1-b",
    "service_account": "write the e-mail of a service account with roles/secretmanager.secretAccessor",
}


class GcpProvider:
    name = "gcp"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        """What can be known without asking Google; building a cluster looks at zone and network, too."""
        target = gcp(spec)
        report = checking.findings(spec, target, NEEDED)
        errors = []
        if target.region and target.zone and not target.zone.startswith(f"{target.region}-"):
            text = f"the zone {target.zone} is not in the region {target.region}"
            errors.append(
                Issue(f"targets.{spec.target_name}.zone", text, "zone", "remove the region; the zone says it")
            )
        for tag, part in spec.components.items():
            if part.gpus:
                text = "workers with GPUs are not supported on gcp"
                errors.append(Issue(f"components.{tag}.gpus", text, "no-gpus", "use a kubernetes target"))
        return report + ValidationReport.of(errors)

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        target = gcp(spec)
        run = uuid.uuid4().hex[:8]
        try:
            fleet = GcpFleet(target, run, spec.project)
        except CloudError as error:
            raise UsageError(str(error)) from None
        cluster = build(fleet, target, spec, run)
        facts = {"provider": self.name, "region": region_of(target), "zone": target.zone, "run": run}
        return scaling.handle(cluster, facts)

    def scale(self, cluster: ClusterHandle, plan: ScalePlan) -> None:
        """Returns when Google has placed the instances; they take a minute or two to boot."""
        scaling.scale(cluster, plan, wait=False)

    def close(self, cluster: ClusterHandle) -> None:
        cluster.backend.close()

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        return checking.cost(spec, gcp(spec), plan)


def gcp(spec: DeploymentSpec) -> GcpTarget:
    assert isinstance(spec.target, GcpTarget), "a gcp provider is asked for gcp targets only"
    return spec.target
