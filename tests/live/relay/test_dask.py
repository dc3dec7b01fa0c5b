"""Dask through the relay: a scheduler here, ``python -m scalable.worker`` in a network that only the relay leads to."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Scheduler
from distributed.comm import registry
from distributed.comm.core import CommClosedError, connect
from distributed.security import Security

from scalable.cluster.kubernetes.relay.client import DaskTunnel
from scalable.cluster.security import certified
from scalable.worker.options import LOST_SCHEDULER, WorkerOptions
from tests.helpers.relay.pods import Pods, a_cluster
from tests.helpers.waiting import soon

WITHIN_S = 120.0  # a test that hangs fails instead; a busy machine needs a while to start workers
SIZE = 10_000_000


class Driver:
    def __init__(self, pods: Pods, security: Security) -> None:
        self.pods = pods
        self.security = security
        self.told: list[str] = []
        self.tunnel = DaskTunnel(pods.reach, pods.token, lambda kind, facts: self.told.append(kind))
        self.scheduler: Any
        self.client: Any

    def worker(self, name: str) -> subprocess.Popen[str]:
        scheme = "tls" if self.security.require_encryption else "tcp"
        options = WorkerOptions(
            f"{scheme}://{self.pods.ip}:{self.pods.port}", name, {"any": 1.0}, handout=str(self.pods.folder)
        )
        return self.pods.start("scalable.worker", *options.arguments())


@asynccontextmanager
async def a_driver(pods: Pods, security: Security) -> AsyncIterator[Driver]:
    driver = Driver(pods, security)
    driver.tunnel.route(security)
    scheme = "tls" if security.require_encryption else "tcp"
    async with Scheduler(
        security=security, host="127.0.0.1", port=0, protocol=scheme, dashboard=False, dashboard_address="127.0.0.1:0"
    ) as driver.scheduler:
        await driver.tunnel.open(driver.scheduler.address, WITHIN_S)
        async with Client(driver.scheduler.address, security=security, asynchronous=True) as driver.client:
            yield driver
        await driver.tunnel.close()


def reachable(address: str) -> bool:
    host, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), 0.2).close()
    except OSError:
        return False
    return True


def test_work_and_results_pass_encrypted_and_a_cut_ends_the_workers(tmp_path: Path) -> None:
    before = dict(registry.backends)

    async def scene(pods: Pods) -> None:
        async with a_driver(pods, certified(pods.folder)) as driver:
            processes = [driver.worker("one"), driver.worker("two")]
            await driver.client.wait_for_workers(2)
            workers = list(driver.scheduler.workers)
            if pods.network:
                assert not any(map(reachable, workers))
            parts = [driver.client.submit(bytes, SIZE + n, workers=[at], pure=False) for n, at in enumerate(workers)]
            assert await driver.client.submit(len, parts[0], workers=[workers[1]]) == SIZE  # from worker to worker
            assert [len(part) for part in await driver.client.gather(parts)] == [SIZE, SIZE + 1]
            asked = await driver.client.run(lambda: "asked directly")
            assert asked == dict.fromkeys(workers, "asked directly")
            other = certified(tmp_path / "other")
            driver.tunnel.route(other)
            with pytest.raises(CommClosedError, match="certificate does not match"):
                await connect(workers[0], **other.get_connection_args("client"))
            assert driver.tunnel.link is not None
            driver.tunnel.link.writer.transport.abort()
            ends = await asyncio.gather(*(asyncio.to_thread(process.wait) for process in processes))
            assert ends == [LOST_SCHEDULER] * 2
            await soon(lambda: driver.told == ["relay-lost", "relay-back"])

    with a_cluster(tmp_path / "handout") as pods:
        asyncio.run(asyncio.wait_for(scene(pods), WITHIN_S))
    assert dict(registry.backends) == before


def test_two_clusters_with_the_same_addresses_are_used_at_once(tmp_path: Path) -> None:
    before = dict(registry.backends)

    async def scene(first: Pods, second: Pods) -> None:
        async with a_driver(first, certified(first.folder)) as one, a_driver(second, Security()) as two:
            one.worker("first")
            two.worker("second")
            await asyncio.gather(one.client.wait_for_workers(1), two.client.wait_for_workers(1))
            names = [await driver.client.run(lambda dask_worker: dask_worker.name) for driver in (one, two)]
            assert [list(found.values()) for found in names] == [["first"], ["second"]]
            await two.tunnel.close()
            assert list((await one.client.run(lambda: "still there")).values()) == ["still there"]

    with a_cluster(tmp_path / "first") as first, a_cluster(tmp_path / "second") as second:
        asyncio.run(asyncio.wait_for(scene(first, second), WITHIN_S))
    assert dict(registry.backends) == before


def test_a_killed_relay_is_told_and_workers_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalable.cluster.kubernetes.relay.client.KEEP_S", 0.5)

    async def scene(pods: Pods) -> None:
        async with a_driver(pods, certified(pods.folder)) as driver:
            process = driver.worker("alone")
            await driver.client.wait_for_workers(1)
            (address,) = driver.scheduler.workers
            pods.relay.send_signal(signal.SIGKILL)
            assert await asyncio.to_thread(process.wait) == LOST_SCHEDULER
            await soon(lambda: driver.told == ["relay-lost", "relay-gone"])
            await soon(lambda: not driver.scheduler.workers)
            with pytest.raises(OSError, match=r"the connection to the relay is lost|Timed out"):
                await driver.scheduler.rpc.connect(address, timeout=0.2)

    with a_cluster(tmp_path / "handout") as pods:
        asyncio.run(asyncio.wait_for(scene(pods), WITHIN_S))
