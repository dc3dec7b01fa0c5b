"""The relay's pod: what is said when it does not come, and that nobody waits for it longer than needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from distributed.security import Security

from scalable.cluster.base import LaunchRefused, WorkerFate, WorkerTemplate
from scalable.cluster.kubernetes import reach
from scalable.cluster.kubernetes.api import Cluster
from scalable.cluster.kubernetes.launcher import KubernetesLauncher
from scalable.cluster.kubernetes.objects import KubernetesSite
from scalable.cluster.kubernetes.pods import WorkerPod
from scalable.cluster.kubernetes.reach import ThroughRelay
from scalable.cluster.kubernetes.relay import TOKEN_FILE
from scalable.engine.events import Loss
from scalable.worker.options import LOST_SCHEDULER
from tests.helpers.cluster.kubernetes.server import NAMESPACE, Server, a_server
from tests.helpers.waiting import LONG_S, soon

SITE = KubernetesSite(run="r1", namespace=NAMESPACE, image="lab/work:1.0")

RELAY = "scalable-r1-relay"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, LONG_S))


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


@asynccontextmanager
async def a_waiting_worker() -> AsyncIterator[tuple[Server, KubernetesLauncher, asyncio.Future[Any]]]:
    """A worker whose launch waits for the relay, whose pod is there; one that still waits at the end is refused."""
    async with a_launcher() as (server, launcher):
        launch = launching(launcher)
        await soon(lambda: server.names("pods") == [RELAY])
        yield server, launcher, launch
        if not launch.done():
            await refused_by_closing(launcher, launch)


@asynccontextmanager
async def a_lost_relay() -> AsyncIterator[tuple[Server, KubernetesLauncher]]:
    """A relay that has ended, and with it the launch that waited for it."""
    async with a_waiting_worker() as (server, launcher, launch):
        server.change("pods", RELAY, phase="Failed")
        with pytest.raises(LaunchRefused, match="the relay: "):
            await launch
        yield server, launcher


async def refused_by_closing(launcher: KubernetesLauncher, launch: asyncio.Future[Any]) -> None:
    launcher.begin_closing()
    with pytest.raises(LaunchRefused, match="the cluster is closed"):
        await launch


def test_workers_wait_for_the_relay_and_its_token_is_handed_out() -> None:
    async def scene() -> None:
        async with a_waiting_worker() as (server, _, launch):
            assert TOKEN_FILE in server.objects["secrets", "scalable-r1"]["data"]
            assert not launch.done()
        assert server.objects == {}

    run(scene())


def test_a_relay_whose_image_is_not_there_is_refused_with_the_registrys_words() -> None:
    async def scene() -> None:
        async with a_waiting_worker() as (server, _, launch):
            why = {"reason": "ErrImagePull", "message": "lab/work:1.0: not found"}
            server.change("pods", RELAY, containerStatuses=[{"name": "relay", "state": {"waiting": why}}])
            with pytest.raises(LaunchRefused, match=r"the relay: .*its image cannot be pulled.*not found") as refusal:
                await launch
            assert refusal.value.definite

    run(scene())


def test_a_relay_for_which_there_is_no_node_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with a_waiting_worker() as (server, _, launch):
            unmet = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
            server.change("pods", RELAY, conditions=[unmet])
            with pytest.raises(LaunchRefused, match=r"did not start within 0\.3 s: no node has room for it: 0/0 nodes"):
                await launch

    monkeypatch.setattr(reach, "RUNS_WITHIN_S", 0.3)
    run(scene())


def test_a_relay_that_has_ended_is_started_anew() -> None:
    async def scene() -> None:
        async with a_lost_relay() as (server, launcher):
            again = launching(launcher)
            await soon(lambda: len(server.asked("POST", "/pods")) == 2)
            assert server.objects["pods", RELAY]["status"]["phase"] == "Pending"
            await refused_by_closing(launcher, again)

    run(scene())


def test_a_relay_that_could_not_be_made_anew_is_made_by_the_next_who_needs_it() -> None:
    async def scene() -> None:
        async with a_lost_relay() as (server, launcher):
            server.fail("POST", "/pods", 403, reason="Forbidden", message="exceeded quota: team")
            with pytest.raises(LaunchRefused, match="quota"):
                await launching(launcher)
            again = launching(launcher)
            await soon(lambda: server.names("pods") == [RELAY])
            await refused_by_closing(launcher, again)

    run(scene())


def test_a_relay_that_has_ended_is_made_anew_once_by_all_who_need_it() -> None:
    async def scene() -> None:
        async with a_lost_relay() as (server, launcher):
            assert isinstance(launcher.reach, ThroughRelay)
            again = [asyncio.ensure_future(launcher.reach.running()) for _ in range(3)]
            await soon(lambda: len(server.asked("POST", "/pods")) == 2)
            server.change("pods", RELAY, phase="Running", podIP="10.0.0.9")
            assert [one["status"]["podIP"] for one in await asyncio.gather(*again)] == ["10.0.0.9"] * 3
            assert (len(server.asked("POST", "/pods")), len(server.asked("DELETE", "/pods"))) == (2, 1)

    run(scene())


def test_a_relay_whose_end_nobody_told_is_made_anew() -> None:
    async def scene() -> None:
        async with a_lost_relay() as (server, launcher):
            del server.objects["pods", RELAY]
            again = launching(launcher)
            await soon(lambda: server.names("pods") == [RELAY])
            await refused_by_closing(launcher, again)

    run(scene())


def test_workers_that_leave_because_the_relay_is_lost_are_not_to_blame() -> None:
    async def scene() -> None:
        async with a_waiting_worker() as (_, launcher, _):
            worker = WorkerPod("scalable-r1-small-0", launcher.kube, launcher.board)
            left = {"terminated": {"exitCode": LOST_SCHEDULER, "message": "the scheduler is gone"}}
            status = {"phase": "Failed", "containerStatuses": [{"name": "worker", "state": left}]}
            launcher.board.seen({"metadata": {"name": worker.name}, "status": status})
            assert (await worker.learn_fate(0.1)).cause is Loss.WORKER_LOST
            assert isinstance(launcher.reach, ThroughRelay)
            launcher.reach.heard("relay-lost", {"reason": "cut"})
            worker.fate = None
            assert await worker.learn_fate(0.1) == WorkerFate(
                Loss.PREEMPTED, f"the connection to the relay broke; pod {worker.name}: the scheduler is gone"
            )

    run(scene())


def test_pods_that_wait_for_a_node_while_the_relay_is_replaced_are_given_up() -> None:
    async def scene() -> None:
        async with a_launcher() as (server, launcher):
            assert isinstance(launcher.reach, ThroughRelay)
            launcher.reach.launcher = launcher
            await launcher.prepare()
            relay = asyncio.ensure_future(launcher.reach.running())
            await soon(lambda: server.names("pods") == [RELAY])
            workers = {}
            for name, host in (("a", "10.0.0.8"), ("b", "10.0.0.9"), ("c", "10.0.0.8")):
                launcher.board.seen(server.add("pods", {"metadata": {"name": name}, "spec": {}}))
                contact = f"tls://{host}:8786"
                workers[name] = WorkerPod(name, launcher.kube, launcher.board, None, contact)
            launcher.pods.update(workers)
            server.change("pods", "c", phase="Running")
            await soon(lambda: launcher.board.pods["c"]["status"]["phase"] == "Running")
            server.change("pods", RELAY, phase="Running", podIP="10.0.0.9")
            await relay
            await soon(lambda: server.names("pods") == ["b", "c", RELAY])
            assert workers["a"].fate == WorkerFate(
                Loss.PREEMPTED, "pod a had not started: the relay is now at 10.0.0.9"
            )
            assert workers["b"].fate is workers["c"].fate is None
            server.remove("pods", "b")
            server.remove("pods", "c")

    run(scene())


def test_the_relays_node_is_not_one_of_the_workers() -> None:
    async def scene() -> None:
        async with a_waiting_worker() as (server, launcher, _):
            server.objects["pods", RELAY]["spec"]["nodeName"] = "n1"
            server.change("pods", RELAY, startTime="2026-01-01T00:00:00Z")
            await soon(lambda: launcher.board.pods.get(RELAY, {"spec": {}})["spec"].get("nodeName"))
            assert launcher.nodes() == []

    run(scene())
