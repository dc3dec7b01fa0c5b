"""This machine: workers as processes with limits of their own, or as threads of this process."""

from __future__ import annotations

import os

from scalable.cluster import scaling
from scalable.cluster.base import ClusterHandle, DeploymentSpec, Launcher
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.processes import ProcessLauncher
from scalable.cluster.threads import ThreadLauncher
from scalable.findings import Finding
from scalable.manifest.targets import LocalTarget
from scalable.manifest.validation import ValidationReport
from scalable.planning.resources import CostEstimate, ScalePlan
from scalable.quantities import Memory


class LocalProvider:
    name = "local"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        target = local(spec)
        path = f"targets.{spec.target_name}"
        findings = []
        if target.containers != "none":
            text = f"{path}: workers of this machine do not run in containers"
            findings.append(Finding.error("unsupported", f"{path}.containers", text, "write containers: none"))
        parts = spec.components.values()
        if not target.processes and any(part.memory or part.env for part in parts):
            text = "with processes: false all workers share one process, so memory limits and env have no effect"
            findings.append(Finding.warning("shared-process", f"{path}.processes", text, "write processes: true"))
        if any(part.image for part in parts):
            text = "images have no effect on this machine; workers use the Python that runs this"
            findings.append(Finding.warning("image-ignored", path, text))
        for tag in [tag for tag, part in spec.components.items() if part.gpus]:
            text = "GPUs of this machine are not shared out: every worker sees all of them"
            remedy = f"write env: {{CUDA_VISIBLE_DEVICES: 0}} in {tag}, or use a slurm or kubernetes target"
            findings.append(Finding.warning("gpus-ignored", f"components.{tag}.gpus", text, remedy))
        there = Memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        for tag, part in spec.components.items():
            if target.processes and part.memory and part.memory > there:
                text = f"{tag} may use {part.memory}, this machine has {there}"
                findings.append(
                    Finding.warning("over-machine", f"components.{tag}.memory", text, "lower it, or use a target")
                )
        return ValidationReport.of(findings)

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        target = local(spec)
        scheduler: dict[str, object] = {"host": "127.0.0.1"}
        launcher: Launcher
        if target.processes:
            launcher = ProcessLauncher(spec.run_folder, folder=spec.folder)
        else:
            launcher = ThreadLauncher(spec.folder)
            scheduler = {"protocol": "inproc"}
        if target.dashboard_address:
            scheduler |= {"dashboard_address": target.dashboard_address, "dashboard": True}
        cluster = TaggedCluster(
            launcher,
            spec.components.values(),
            scheduler=scheduler,
            allowed_failures=spec.policies.retry.times,
            name=spec.project,
        )
        return scaling.handle(cluster, {"provider": self.name, "processes": target.processes})

    def scale(self, cluster: ClusterHandle, plan: ScalePlan) -> None:
        scaling.scale(cluster, plan, wait=True)

    def close(self, cluster: ClusterHandle) -> None:
        cluster.backend.close()

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        return scaling.cost_by_cpu(self.name, local(spec).cpu_price, spec, plan)


def local(spec: DeploymentSpec) -> LocalTarget:
    assert isinstance(spec.target, LocalTarget), "a local provider is asked for local targets only"
    return spec.target
