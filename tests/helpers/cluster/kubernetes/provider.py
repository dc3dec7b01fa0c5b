"""A target on Kubernetes from the manifest to results, with real workers behind a small API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scalable.cluster.base import DeploymentSpec
from scalable.manifest.load import load_file
from tests.helpers.cluster.kubernetes.kubelet import RunningServer, a_running_server
from tests.helpers.cluster.kubernetes.server import NAMESPACE

MANIFEST = """
version: 1
project: {{name: basins}}
targets:
  cluster:
    provider: kubernetes
    namespace: work
    image: lab/basins:1.4
    kubeconfig: {kubeconfig}
    contact_address: 127.0.0.1
    env: {{WHERE: the cluster}}
nodes:
  large: {{cpu: 16, memory: 64GiB}}
pools:
  compute: {{node: large, min: 0, max: 2, labels: {{pool: compute}}}}
components:
  model: {{cpus: 1, memory: 1GiB, env: {{WHO: the model}}}}
tasks:
  one: {{component: model, run: "steps:one"}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with a_running_server(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture
def spec(server: RunningServer, tmp_path: Path) -> DeploymentSpec:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "small", "user": "me", "namespace": NAMESPACE}}],
        "clusters": [{"name": "small", "cluster": {"server": server.server.url}}],
        "users": [{"name": "me", "user": {"token": "of no value"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    (tmp_path / "scalable.yaml").write_text(MANIFEST.format(kubeconfig=tmp_path / "config"))
    (tmp_path / "run/logs").mkdir(parents=True)
    manifest = load_file(tmp_path / "scalable.yaml", env={}).manifest
    return DeploymentSpec.from_manifest(
        manifest, target_name="cluster", folder=str(tmp_path), run_folder=str(tmp_path / "run")
    )
