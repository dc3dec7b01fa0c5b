"""A target on a Kubernetes cluster, and what this process knows of the cluster it is in, if it is in one.

Needs no client for the API; ``cluster`` is imported when a cluster is built.
"""

from __future__ import annotations

import os
import socket
from importlib.util import find_spec
from pathlib import Path

from scalable.cluster.base import ClusterHandle, DeploymentSpec
from scalable.cluster.kubernetes.objects import KubernetesSite
from scalable.cluster.provider import TaggedProvider
from scalable.errors import UsageError
from scalable.findings import Finding
from scalable.manifest.targets import KubernetesTarget
from scalable.manifest.validation import ValidationReport
from scalable.wording import install_hint


class KubernetesProvider(TaggedProvider):
    """Workers as pods. Nodes are paid for, not pods: what a run costs is planned and counted by its pools."""

    name = "kubernetes"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        """Return what can be known without asking the cluster."""
        target = spec.target_as(KubernetesTarget)
        path = f"targets.{spec.target_name}"
        findings = []
        if find_spec("kr8s") is None:
            text = "kr8s is not installed, which speaks with Kubernetes"
            findings.append(Finding.error("no-kr8s", path, text, install_hint("kubernetes")))
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
            if problem := KubernetesSite("check", image=target.image).unfit(part):
                text, _, remedy = problem.partition("; ")
                findings.append(Finding.error("unfit", f"components.{tag}", text, remedy))
        return ValidationReport.of(findings)

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        from scalable.cluster.kubernetes.cluster import KubernetesCluster

        return self.handle(KubernetesCluster(spec), namespace=spec.target_as(KubernetesTarget).namespace)


ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")  # where every pod has it that may use the API
DEFAULT_CONFIG = "~/.kube/config"
METRICS_PORT = "SCALABLE_METRICS_PORT"


def inside(target: KubernetesTarget) -> bool:
    """Return whether this process is a pod of the cluster that it uses."""
    return ACCOUNT.exists() and not (target.kubeconfig or target.context or os.environ.get("KUBECONFIG"))


def cluster_known() -> bool:
    """Return whether something here says how to reach a cluster."""
    files = os.environ.get("KUBECONFIG", DEFAULT_CONFIG).split(os.pathsep)
    return ACCOUNT.exists() or any(Path(file).expanduser().is_file() for file in files)


def own_address() -> str:
    """Return the address of this pod, as others reach it."""
    if given := os.environ.get("POD_IP"):
        return given
    server = os.environ.get("KUBERNETES_SERVICE_HOST", "192.0.2.1"), 443  # nothing is sent there
    with socket.socket(socket.AF_INET6 if ":" in server[0] else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(server)
        return str(probe.getsockname()[0])


def metrics_port() -> int | None:
    """Return the port on which a driver in the cluster shows its figures to pods; none unless it is set."""
    text = os.environ.get(METRICS_PORT, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and 1024 <= int(text) <= 65535):
        raise UsageError(f"{METRICS_PORT} is {text!r}; write a port from 1024 to 65535, e.g. {METRICS_PORT}=9790")
    return int(text)


def own_pod() -> str:
    return os.environ.get("POD_NAME") or socket.gethostname()
