"""A target on a Kubernetes cluster."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from scalable.cluster import scaling
from scalable.cluster.base import ClusterHandle, DeploymentSpec
from scalable.cluster.kubernetes.here import cluster_known
from scalable.cluster.kubernetes.site import Site
from scalable.findings import Finding
from scalable.manifest.targets import KubernetesTarget
from scalable.manifest.validation import ValidationReport
from scalable.planning.resources import CostEstimate, ScalePlan


class KubernetesProvider:
    name = "kubernetes"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        """What can be known without asking the cluster."""
        target = kubernetes(spec)
        path = f"targets.{spec.target_name}"
        findings = []
        if find_spec("kr8s") is None:
            text = "kr8s is not installed, which speaks with Kubernetes"
            findings.append(Finding.error("no-kr8s", path, text, "pip install 'scalable[kubernetes]'"))
        if target.kubeconfig and not Path(target.kubeconfig).expanduser().is_file():
            text = f"the kubeconfig {target.kubeconfig} does not exist"
            findings.append(
                Finding.error("no-kubeconfig", f"{path}.kubeconfig", text, "correct the path, or remove it")
            )
        elif not target.kubeconfig and not cluster_known():
            text = "no cluster is known here: there is no kubeconfig, and this is no pod"
            remedy = "set KUBECONFIG, or write kubeconfig: FILE in the target"
            findings.append(Finding.warning("no-cluster", path, text, remedy))
        for tag, part in spec.components.items():
            if not (part.image or target.image):
                text = f"{tag} has no image"
                findings.append(Finding.error("no-image", f"{path}.image", text, "write image: REGISTRY/NAME:VERSION"))
                break
            if problem := Site("check", image=target.image).unfit(part):
                text, _, remedy = problem.partition("; ")
                findings.append(Finding.error("unfit", f"components.{tag}", text, remedy))
        return ValidationReport.of(findings)

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        from scalable.cluster.kubernetes.cluster import KubernetesCluster

        target = kubernetes(spec)
        cluster = KubernetesCluster(spec)
        return scaling.handle(cluster, {"provider": self.name, "namespace": target.namespace})

    def scale(self, cluster: ClusterHandle, plan: ScalePlan) -> None:
        """Returns when the cluster has accepted the pods; they may wait for nodes."""
        scaling.scale(cluster, plan, wait=False)

    def close(self, cluster: ClusterHandle) -> None:
        cluster.backend.close()

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        """Nodes are paid for, not pods: what a run costs is planned and counted by its pools."""
        return None


def kubernetes(spec: DeploymentSpec) -> KubernetesTarget:
    assert isinstance(spec.target, KubernetesTarget), "a kubernetes provider is asked for kubernetes targets only"
    return spec.target
