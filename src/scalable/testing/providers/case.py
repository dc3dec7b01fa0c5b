"""The base of a provider's tests: a cluster to use, waiting for workers, tasks for them, what must be gone after.

Part of ``scalable.testing.providers.ProviderContract``, which is what to run.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import psutil
import pytest
from distributed import get_worker

from scalable import proc
from scalable.cluster.base import ClusterHandle, DeploymentProvider, DeploymentSpec
from scalable.cluster.client import ScalableClient
from scalable.planning.resources import ScalePlan

LASTING_THREADS = ("Dask-Offload", "Dask-Callback")  # made once for a whole process and kept by Dask


class ProviderCase:
    """See ``ProviderContract``."""

    workers_within_s: ClassVar[float] = 60.0
    """How long a worker may take to come, to go, and to be replaced."""
    own_processes: ClassVar[bool] = True
    """Workers are processes of their own; the provider warns where they are not."""

    # What a subclass may have to say differently

    @staticmethod
    def die() -> None:
        """Lose the worker it is called on without notice."""
        os.kill(os.getpid(), signal.SIGKILL)

    @classmethod
    def die_later(cls) -> None:
        """Lose the worker, but not before the scheduler can know that the task runs."""
        time.sleep(1.2)
        cls.die()

    def left_behind(self) -> list[str]:
        """Return what is still there of closed clusters, as far as the backend itself knows; e.g. batch jobs."""
        return []

    # A cluster to use, and help

    @pytest.fixture(scope="class")
    @classmethod
    def standing(
        cls, provider: DeploymentProvider, spec: DeploymentSpec
    ) -> Iterator[tuple[ClusterHandle, ScalableClient]]:
        with cls.built(provider, spec) as handle, handle.client_factory() as client:
            yield handle, client

    @pytest.fixture
    def shared(
        self, provider: DeploymentProvider, spec: DeploymentSpec, standing: tuple[ClusterHandle, ScalableClient]
    ) -> tuple[ClusterHandle, ScalableClient]:
        """Give one worker of each tag, whatever the tests before have left; for those that leave it as it was."""
        handle, client = standing
        provider.scale(handle, ScalePlan(dict.fromkeys(spec.components, 1)))
        self.come(client, dict.fromkeys(spec.components, 1))
        return handle, client

    @pytest.fixture
    def client(self, shared: tuple[ClusterHandle, ScalableClient]) -> ScalableClient:
        return shared[1]

    @staticmethod
    @contextmanager
    def built(provider: DeploymentProvider, spec: DeploymentSpec) -> Iterator[ClusterHandle]:
        handle = provider.build_cluster(spec)
        try:
            yield handle
        finally:
            provider.close(handle)

    @contextmanager
    def leaving_nothing(self) -> Iterator[None]:
        """Check that all processes, ports and threads that come up inside are gone at one moment afterwards.

        Each look is judged by itself: the cluster that other tests share goes on, and any later look may meet a program
        that it has just started.
        """
        before = footprint()
        yield
        left: set[str] = set()

        def nothing_left() -> bool:
            left.clear()
            left.update(footprint() - before, self.left_behind())
            return not left

        assert self.until(nothing_left), left

    @classmethod
    def until(cls, condition: Callable[[], object], within: float | None = None) -> bool:
        """Wait for something to come true; whether it did."""
        deadline = time.monotonic() + (within or cls.workers_within_s)
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    @classmethod
    def come(cls, client: ScalableClient, counts: dict[str, int]) -> None:
        """Wait until there are so many workers of each tag, not more and not fewer."""
        cls.until(lambda: {tag: client.worker_count(tag) for tag in counts} == counts)
        assert {tag: client.worker_count(tag) for tag in counts} == counts


def moment(*anything: object) -> tuple[str, int]:
    """Return where and when it was called; another call gives another answer."""
    return str(get_worker().name), time.time_ns()


def slowly(number: int) -> str:
    time.sleep(0.05)
    return str(get_worker().name)


def variables(names: list[str]) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in names}


def workers_of(client: ScalableClient) -> dict[str, dict[str, Any]]:
    """Return what the scheduler knows of each, by its address."""
    workers: dict[str, dict[str, Any]] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


def names_of(client: ScalableClient, tag: str | None = None) -> set[str]:
    workers = workers_of(client).values()
    return {str(worker["name"]) for worker in workers if tag is None or tag in worker["resources"]}


def names_and_places(client: ScalableClient) -> set[str]:
    return set(workers_of(client))


def is_worker(pid: int) -> bool:
    try:
        return "scalable.worker" in psutil.Process(pid).cmdline()
    except psutil.Error:
        return False


def footprint() -> set[str]:
    """Return the processes, ports and threads of this process; what comes to them must go again."""
    parts = {f"process {pid}" for pid in proc.tree(os.getpid())[1:] if proc.alive(pid)}
    ports = [
        connection.laddr
        for connection in psutil.Process().net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    parts |= {f"port {address}" for address in ports}
    threads = Counter(t.name for t in threading.enumerate() if not t.name.startswith(LASTING_THREADS))
    return parts | {f"thread {name} {number}" for name, count in threads.items() for number in range(count)}
