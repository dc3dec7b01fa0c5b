"""The relay's pod: what is said when it does not come, and that nobody waits for it longer than needed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from distributed.security import Security

from scalable.manifest.targets import KubernetesTarget
from scalable.providers.base import LaunchRefused, WorkerTemplate
from scalable.providers.kubernetes import here, reach
from scalable.providers.kubernetes.api import Cluster
from scalable.providers.kubernetes.launcher import KubernetesLauncher
from scalable.providers.kubernetes.objects import Site
from scalable.providers.kubernetes.reach import ThroughRelay
from scalable.relay import TOKEN_FILE
from tests.providers.kubernetes.server import NAMESPACE, Server, a_server

SITE = Site(run="r1", namespace=NAMESPACE, image="lab/work:1.0")
RELAY = "scalable-r1-relay"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


@asynccontextmanager
async def a_launcher() -> AsyncIterator[tuple[Server, KubernetesLauncher]]:
    async with a_server() as server:
        one = KubernetesLauncher(Cluster(NAMESPACE, url=server.url), SITE, reach=ThroughRelay(Security()))
        try:
            yield server, one
        finally:
            await one.close()


def launching(launcher: KubernetesLauncher) -> asyncio.Future[Any]:
    return asyncio.ensure_future(launcher.launch("small-0", WorkerTemplate("small"), "tls://127.0.0.1:1"))


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def test_workers_wait_for_the_relay_and_its_token_is_handed_out() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            launch = launching(launcher)
            await until(lambda: server.names("pods") == [RELAY])
            assert TOKEN_FILE in server.objects["secrets", "scalable-r1"]["data"]
            launcher.begin_closing()
            with pytest.raises(LaunchRefused, match="the cluster is closed"):
                await launch
        assert server.objects == {}

    run(scene())


def test_a_relay_whose_image_is_not_there_is_refused_with_the_registrys_words() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            launch = launching(launcher)
            await until(lambda: server.names("pods") == [RELAY])
            why = {"reason": "ErrImagePull", "message": "lab/work:1.0: not found"}
            server.change("pods", RELAY, containerStatuses=[{"name": "relay", "state": {"waiting": why}}])
            with pytest.raises(LaunchRefused, match=r"the relay: .*its image cannot be pulled.*not found") as refusal:
                await launch
            assert refusal.value.definite

    run(scene())


def test_a_relay_for_which_there_is_no_node_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            launch = launching(launcher)
            await until(lambda: server.names("pods") == [RELAY])
            unmet = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
            server.change("pods", RELAY, conditions=[unmet])
            with pytest.raises(LaunchRefused, match=r"did not start within 0\.3 s: no node has room for it: 0/0 nodes"):
                await launch

    monkeypatch.setattr(reach, "RUNS_WITHIN_S", 0.3)
    run(scene())


def test_a_relay_that_has_ended_is_started_anew() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            launch = launching(launcher)
            await until(lambda: server.names("pods") == [RELAY])
            server.change("pods", RELAY, phase="Failed")
            with pytest.raises(LaunchRefused, match="the relay: "):
                await launch
            again = launching(launcher)
            await until(lambda: len(server.asked("POST", "/pods")) == 2)
            assert server.objects["pods", RELAY]["status"]["phase"] == "Pending"
            launcher.begin_closing()
            with pytest.raises(LaunchRefused):
                await again

    run(scene())


def test_the_relays_node_is_not_one_of_the_workers() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            launch = launching(launcher)
            await until(lambda: server.names("pods") == [RELAY])
            server.objects["pods", RELAY]["spec"]["nodeName"] = "n1"
            server.change("pods", RELAY, startTime="2026-01-01T00:00:00Z")
            await until(lambda: launcher.board.pods.get(RELAY, {"spec": {}})["spec"].get("nodeName"))
            assert launcher.nodes() == []
            launcher.begin_closing()
            with pytest.raises(LaunchRefused):
                await launch

    run(scene())


def test_a_pod_knows_its_own_address_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "10.1.2.3")
    monkeypatch.setenv("POD_NAME", "driver-x")
    assert (here.own_address(), here.own_pod()) == ("10.1.2.3", "driver-x")
    monkeypatch.delenv("POD_IP")
    monkeypatch.delenv("POD_NAME")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    assert (here.own_address(), here.own_pod()) == ("127.0.0.1", socket.gethostname())


def test_who_names_a_kubeconfig_is_not_inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    account = tmp_path / "token"
    account.touch()
    monkeypatch.setattr(here, "ACCOUNT", account)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    target = KubernetesTarget(provider="kubernetes", image="lab/work:1.0")
    assert here.inside(target)
    assert not here.inside(target.model_copy(update={"context": "other"}))
    monkeypatch.setenv("KUBECONFIG", "config")
    assert not here.inside(target)
