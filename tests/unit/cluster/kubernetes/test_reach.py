"""The relay's pod: what is said when it does not come, and that nobody waits for it longer than needed."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from scalable.cluster.kubernetes import provider
from scalable.cluster.kubernetes.cluster import listening
from scalable.manifest.targets import KubernetesTarget


def test_a_pod_with_an_address_of_the_new_family_has_it_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    target = KubernetesTarget(provider="kubernetes", image="lab/work:1.0")
    monkeypatch.setenv("POD_IP", "fd00::7")
    assert listening(target, within=True) == {"host": "[fd00::7]"}
    monkeypatch.setenv("POD_IP", "10.1.2.3")
    assert listening(target, within=True) == {"host": "10.1.2.3"}


def test_a_pod_knows_its_own_address_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "10.1.2.3")
    monkeypatch.setenv("POD_NAME", "driver-x")
    assert (provider.own_address(), provider.own_pod()) == ("10.1.2.3", "driver-x")
    monkeypatch.delenv("POD_IP")
    monkeypatch.delenv("POD_NAME")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    assert (provider.own_address(), provider.own_pod()) == ("127.0.0.1", socket.gethostname())


def test_who_names_a_kubeconfig_is_not_inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    account = tmp_path / "token"
    account.touch()
    monkeypatch.setattr(provider, "ACCOUNT", account)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    target = KubernetesTarget(provider="kubernetes", image="lab/work:1.0")
    assert provider.inside(target)
    assert not provider.inside(target.model_copy(update={"context": "other"}))
    monkeypatch.setenv("KUBECONFIG", "config")
    assert not provider.inside(target)
