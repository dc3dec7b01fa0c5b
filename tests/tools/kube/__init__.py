"""A private Kubernetes on one machine: the real API server, controllers and scheduler, nodes played by processes.

``kube-up``, ``kube-down`` and ``virtual-kubelet`` beside this file do the work and serve people at a terminal as well.
"""

from __future__ import annotations

from tests.tools.kube.client import KubeClient, KubeError
from tests.tools.kube.cluster import PrivateKube, Settings, running

__all__ = ["KubeClient", "KubeError", "PrivateKube", "Settings", "running"]
