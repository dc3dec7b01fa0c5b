"""What ``admin deploy kubernetes`` renders: valid objects that run the sweep, without secrets or open doors."""

from __future__ import annotations

import os
import socket
import ssl
import urllib.error
import urllib.request
from contextlib import suppress

import pytest

from scalable.cluster.base import DeploymentSpec
from scalable.cluster.kubernetes.cluster import KubernetesCluster
from scalable.manifest import load_text
from tests.helpers.deploy.rendering import (
    MANIFEST,
    URL,
    only,
    render,
)
from tests.tools.slurm.daemons import free_ports

WITHIN_S = 30.0  # a driver that does not answer for so long hangs

ALERT, ALERT_BYTES = b"\x15\x03", 7  # TLS's own "this is no TLS"


def test_the_driver_speaks_only_to_those_with_certificates_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalable.cluster.kubernetes.cluster.inside", lambda target: True)
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    text = only(render(), "ConfigMap")["data"]["scalable.yaml"]
    manifest = load_text(text, env={"SCALABLE_STORE_URL": URL}).manifest
    with KubernetesCluster(DeploymentSpec.from_manifest(manifest, target_name="cluster")) as cluster:
        scheme, _, place = cluster.scheduler_address.partition("://")
        host, port = place.split(":")
        assert scheme == "tls"
        stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection((host, int(port)), WITHIN_S) as plain,
            stranger.wrap_socket(plain) as connection,
            pytest.raises(ssl.SSLError, match="certificate required"),
        ):
            connection.recv(1)
        with socket.create_connection((host, int(port)), WITHIN_S) as plain:
            plain.sendall(b"x" * 64)
            assert not hears(plain)


def test_figures_are_shown_on_the_port_that_was_asked_for_and_tasks_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalable.cluster.kubernetes.cluster.inside", lambda target: True)
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    monkeypatch.setenv("SCALABLE_METRICS_PORT", str(free_ports(1)))
    manifest = load_text(MANIFEST, env={"SCALABLE_STORE_URL": URL}).manifest
    with KubernetesCluster(DeploymentSpec.from_manifest(manifest, target_name="cluster")) as cluster:
        server = cluster.scheduler.http_server
        assert (server.port, server.address) == (int(os.environ["SCALABLE_METRICS_PORT"]), "0.0.0.0")
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health", timeout=WITHIN_S) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/info/main/workers.html", timeout=WITHIN_S)
        refused.value.close()


def hears(connection: socket.socket) -> bytes:
    """What a driver says to one who does not encrypt: at most that this was no TLS, and nothing after it."""
    said = b""
    with suppress(ConnectionResetError):
        while more := connection.recv(1024):
            said += more
    return b"" if said.startswith(ALERT) and len(said) == ALERT_BYTES else said
