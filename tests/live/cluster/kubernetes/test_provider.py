"""A target on Kubernetes from the manifest to results, with real workers behind a small API server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from scalable.cluster.base import ClusterHandle, DeploymentSpec, Landlord, LaunchRefused, get_provider
from scalable.cluster.kubernetes.provider import KubernetesProvider
from scalable.errors import UsageError
from scalable.manifest.load import load_file
from scalable.planning.resources import ScalePlan
from tests.helpers.cluster.kubernetes.kubelet import NODE, RunningServer, a_running_server
from tests.helpers.cluster.kubernetes.server import NAMESPACE
from tests.helpers.waiting import LONG_S

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


@pytest.fixture
def handle(spec: DeploymentSpec) -> Iterator[ClusterHandle]:
    provider = get_provider("kubernetes")
    handle = provider.build_cluster(spec)
    try:
        yield handle
    finally:
        provider.close(handle)


def pods_of(server: RunningServer) -> list[str]:
    names: list[str] = server.do(lambda: server.server.names("pods"))
    return names


def where() -> tuple[str | None, str | None]:
    return os.environ.get("WHO"), os.environ.get("WHERE")


def test_work_runs_in_pods_and_nothing_is_left(server: RunningServer, spec: DeploymentSpec, tmp_path: Path) -> None:
    provider = KubernetesProvider()
    handle = provider.build_cluster(spec)
    assert server.do(lambda: dict(server.server.objects)) == {}
    try:
        provider.scale(handle, ScalePlan({"model": 2}))
        with handle.client_factory() as client:
            assert client.submit(where, tag="model").result(LONG_S) == ("the model", "the cluster")
            handle.backend.wait_until({"model": 2}, LONG_S)
            pod = server.do(lambda: next(one for (kind, _), one in server.server.objects.items() if kind == "pods"))
            assert pod["spec"]["nodeSelector"] == {"pool": "compute"}
            launcher = handle.backend.launcher
            assert isinstance(launcher, Landlord)
            assert [(node.name, node.pool) for node in launcher.nodes()] == [(NODE, "compute")]
            provider.scale(handle, ScalePlan({"model": 1}))
            server.until(lambda: len(server.server.names("pods")) == 1)
            provider.scale(handle, ScalePlan({"model": 0}))
            server.until(lambda: server.server.names("pods") == [])
    finally:
        provider.close(handle)
    assert server.do(lambda: dict(server.server.objects)) == {}
    assert "connected to" in (tmp_path / "run/logs/model-0.log").read_text()


def test_a_worker_that_is_evicted_hands_its_work_over(
    server: RunningServer, handle: ClusterHandle, tmp_path: Path
) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    cluster = handle.backend
    cluster.listeners.append(lambda kind, facts: told.append((kind, facts)))
    cluster.add_workers(1, "model")
    with handle.client_factory() as client:
        future = client.submit(slow, tmp_path / "begun", tag="model")
        server.until((tmp_path / "begun").exists)
        [name] = pods_of(server)
        server.do(lambda: server.kubelet.evict(name))
        assert future.result(LONG_S) == "done"
        server.until(lambda: any(kind in ("worker-lost", "worker-removed") for kind, _ in told))
    [lost] = [facts for kind, facts in told if kind == "worker-lost"]
    assert lost["cause"] == "preempted"


def slow(begun: Path) -> str:
    begun.touch()
    time.sleep(1.5)
    return "done"


def test_a_refusal_reaches_the_caller(server: RunningServer, handle: ClusterHandle) -> None:
    text = 'pods is forbidden: User "me" cannot create resource "pods" in API group "" in the namespace "work"'
    server.do(lambda: server.server.fail("POST", "/pods", 403, reason="Forbidden", message=text))
    with pytest.raises(LaunchRefused, match="me may not create pods in the namespace work; have a Role"):
        handle.backend.add_workers(1, "model")


def test_a_target_without_a_cluster_or_with_a_wrong_file_is_reported(
    spec: DeploymentSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = KubernetesProvider()
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    assert provider.validate(spec).ok
    wrong = replace(spec, target=spec.target.model_copy(update={"kubeconfig": "/nowhere/config"}))
    [error] = provider.validate(wrong).errors
    assert error.path == "targets.cluster.kubeconfig"
    unknown = replace(spec, target=spec.target.model_copy(update={"kubeconfig": None}))
    [warning] = provider.validate(unknown).warnings
    assert "set KUBECONFIG" in warning.remedy


def test_a_kind_of_worker_that_no_pod_can_be_is_refused_before_anything_starts(spec: DeploymentSpec) -> None:
    mounted = replace(spec.components["model"], mounts={"/data": "/data"})
    wrong = replace(spec, components={"model": mounted})
    with pytest.raises(UsageError, match="cannot be mounted in a pod"):
        KubernetesProvider().build_cluster(wrong)
    [error] = KubernetesProvider().validate(wrong).errors
    assert (error.path, error.remedy) == ("components.model", "put it into the image or an object store")
    moving = replace(spec, components={"model": replace(spec.components["model"], image="lab/basins:latest")})
    assert "lab/basins:latest changes under you" in str(KubernetesProvider().validate(moving).errors)
