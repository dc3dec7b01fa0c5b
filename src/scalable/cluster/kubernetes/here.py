"""What this process knows of the cluster it is in, if it is in one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from scalable.errors import UsageError
from scalable.manifest.targets import KubernetesTarget

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")  # where every pod has it that may use the API
DEFAULT_CONFIG = "~/.kube/config"
METRICS_PORT = "SCALABLE_METRICS_PORT"


def inside(target: KubernetesTarget) -> bool:
    """This process is a pod of the cluster that it uses."""
    return ACCOUNT.exists() and not (target.kubeconfig or target.context or os.environ.get("KUBECONFIG"))


def cluster_known() -> bool:
    """Something here says how to reach a cluster."""
    files = os.environ.get("KUBECONFIG", DEFAULT_CONFIG).split(os.pathsep)
    return ACCOUNT.exists() or any(Path(file).expanduser().is_file() for file in files)


def own_address() -> str:
    """Of this pod, as others reach it."""
    if given := os.environ.get("POD_IP"):
        return given
    server = os.environ.get("KUBERNETES_SERVICE_HOST", "192.0.2.1"), 443  # nothing is sent there
    with socket.socket(socket.AF_INET6 if ":" in server[0] else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(server)
        return str(probe.getsockname()[0])


def metrics_port() -> int | None:
    """On which a driver in the cluster shows its figures to other pods; on none unless it is told to."""
    text = os.environ.get(METRICS_PORT, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and 1024 <= int(text) <= 65535):
        raise UsageError(f"{METRICS_PORT} is {text!r}; write a port from 1024 to 65535, e.g. {METRICS_PORT}=9790")
    return int(text)


def own_pod() -> str:
    return os.environ.get("POD_NAME") or socket.gethostname()
