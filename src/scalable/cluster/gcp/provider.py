"""A target on Google Cloud."""

from __future__ import annotations

from scalable.cluster.base import DeploymentSpec
from scalable.cluster.clouds import checking
from scalable.cluster.clouds.fleet import Fleet
from scalable.cluster.clouds.provider import CloudProvider
from scalable.cluster.gcp.instances import GcpFleet
from scalable.findings import Finding
from scalable.manifest.targets import GcpTarget
from scalable.manifest.validation import ValidationReport
from scalable.planning.prices import region_of

NEEDED = {
    "project_id": "write the id of your project",
    "zone": "write e.g. zone: europe-west1-b",
    "service_account": "write the e-mail of a service account with roles/secretmanager.secretAccessor",
}


class GcpProvider(CloudProvider):
    name = "gcp"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        """What can be known without asking Google; building a cluster looks at zone and network, too."""
        target = gcp(spec)
        report = checking.findings(spec, target, NEEDED)
        findings = []
        if target.region and target.zone and not target.zone.startswith(f"{target.region}-"):
            text = f"the zone {target.zone} is not in the region {target.region}"
            findings.append(
                Finding.error("zone", f"targets.{spec.target_name}.zone", text, "remove the region; the zone says it")
            )
        for tag, part in spec.components.items():
            if part.gpus:
                text = "workers with GPUs are not supported on gcp"
                findings.append(Finding.error("no-gpus", f"components.{tag}.gpus", text, "use a kubernetes target"))
        return report + ValidationReport.of(findings)

    def fleet(self, spec: DeploymentSpec, run: str) -> Fleet:
        return GcpFleet(gcp(spec), run, spec.project)

    def place(self, spec: DeploymentSpec) -> dict[str, str | None]:
        return {"region": region_of(gcp(spec)), "zone": gcp(spec).zone}


def gcp(spec: DeploymentSpec) -> GcpTarget:
    assert isinstance(spec.target, GcpTarget), "a gcp provider is asked for gcp targets only"
    return spec.target
