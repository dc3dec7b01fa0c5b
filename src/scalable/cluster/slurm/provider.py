"""A target on a Slurm cluster."""

from __future__ import annotations

import shutil

from scalable.cluster import scaling
from scalable.cluster.base import ClusterHandle, DeploymentSpec
from scalable.cluster.network import no_such_interface
from scalable.cluster.slurm import script
from scalable.cluster.slurm.cluster import SlurmCluster
from scalable.findings import Finding
from scalable.manifest.targets import SlurmTarget
from scalable.manifest.validation import ValidationReport
from scalable.planning.resources import CostEstimate, ScalePlan


class SlurmProvider:
    name = "slurm"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        """What can be known without asking Slurm; ``scalable doctor`` asks it too."""
        target = slurm(spec)
        path = f"targets.{spec.target_name}"
        findings = []
        if target.interface and (problem := no_such_interface(target.interface)):
            findings.append(Finding.error("no-interface", f"{path}.interface", problem, "write one of those"))
        if shutil.which("sbatch") is None:
            text = "sbatch is not installed on this machine"
            findings.append(Finding.error("no-slurm", path, text, "run this on a login node of the cluster"))
        contained = target.container_runtime != "none" and any(part.image for part in spec.components.values())
        if contained and shutil.which(target.container_runtime) is None:
            text = f"{target.container_runtime} is not installed on this machine; compute nodes may have it"
            findings.append(Finding.warning("no-runtime", f"{path}.container_runtime", text))
        for tag, part in spec.components.items():
            if part.image and target.container_runtime == "none":
                text = f"{tag} has an image, but container_runtime is none"
                findings.append(Finding.warning("image-ignored", f"components.{tag}.image", text, "write apptainer"))
            elif part.image and script.is_shell(part.preload_script):
                text = f"the shell script of {tag} runs outside its image"
                findings.append(Finding.warning("outside-image", f"components.{tag}.preload_script", text))
        return ValidationReport.of(findings)

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        target = slurm(spec)
        cluster = SlurmCluster(
            target.queue,
            target.account,
            target.walltime,
            target.interface,
            name=spec.project,
            logs_location=target.logs_location,
            container_runtime=target.container_runtime,
            sbatch=target.sbatch or (),
            python=target.python,
            port=target.port or 0,
            contact_address=target.contact_address,
            code=target.code,
            folder=spec.folder,
            run_folder=spec.run_folder,
            templates=spec.components.values(),
            allowed_failures=spec.policies.retry.times,
        )
        return scaling.handle(cluster, {"provider": self.name, "queue": target.queue})

    def scale(self, cluster: ClusterHandle, plan: ScalePlan) -> None:
        """Returns when Slurm has accepted the jobs; they may wait in its queue."""
        scaling.scale(cluster, plan, wait=False)

    def close(self, cluster: ClusterHandle) -> None:
        cluster.backend.close()

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        return scaling.cost_by_cpu(self.name, slurm(spec).cpu_price, spec, plan)


def slurm(spec: DeploymentSpec) -> SlurmTarget:
    assert isinstance(spec.target, SlurmTarget), "a slurm provider is asked for slurm targets only"
    return spec.target
