"""A target on Kubernetes from the manifest to results, with real workers behind a small API server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalable.cluster.base import DeploymentSpec
from scalable.cluster.kubernetes.provider import KubernetesProvider
from scalable.errors import UsageError
from tests.helpers.cluster.kubernetes.provider import server, spec

__all__ = ["server", "spec"]


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
