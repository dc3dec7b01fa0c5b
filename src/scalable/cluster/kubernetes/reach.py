"""How workers in the cluster and this process reach each other: directly, or through a relay pod.

Inside the cluster, or where a contact address is given, workers connect to the scheduler itself. Everywhere else pods
cannot reach this machine, nor it them: one more pod, the relay, stands between, and this process connects to it through
the API server.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Protocol

from distributed.security import Security

from scalable.cluster.base import LaunchRefused
from scalable.cluster.kubernetes import objects, reasons
from scalable.cluster.kubernetes.api import ApiError
from scalable.cluster.kubernetes.board import older
from scalable.cluster.kubernetes.forward import Ends, Forwarder
from scalable.cluster.kubernetes.relay import CONTROL_PORT, TOKEN_FILE, WORKER_PORT, new_token
from scalable.cluster.kubernetes.relay.client import TunnelError
from scalable.cluster.kubernetes.relay.comm import DaskTunnel
from scalable.engine.events import Loss

if TYPE_CHECKING:
    from scalable.cluster.kubernetes.launcher import KubernetesLauncher

RUNS_WITHIN_S = 900.0  # the relay: a node that has to be made first, and its image
REACHED_WITHIN_S = 30.0  # once it runs
GONE_WITHIN_S = 30.0  # an old relay, before another can have its name


class Reach(Protocol):
    """How workers get to the scheduler in this process."""

    @property
    def trouble(self) -> str:
        """Why workers do not get to it, while they do not."""
        ...

    @property
    def files(self) -> dict[str, bytes]:
        """What pods need to know for it."""
        ...

    async def address(self, scheduler: str, launcher: KubernetesLauncher) -> str:
        """What workers are to connect to; raises ``LaunchRefused`` or ``ApiError``."""
        ...

    async def close(self) -> None: ...


class Directly:
    trouble = ""
    files: dict[str, bytes] = {}  # noqa: RUF012 - nobody writes to it

    async def address(self, scheduler: str, launcher: KubernetesLauncher) -> str:
        return scheduler

    async def close(self) -> None:
        return


class ThroughRelay:
    def __init__(self, security: Security) -> None:
        self.token = new_token()
        self.tunnel = DaskTunnel(self.connect, self.token, self.told)
        self.tunnel.route(security)
        self.files = {TOKEN_FILE: self.token}
        self.trouble = ""
        self.launcher: KubernetesLauncher | None = None
        self.forwarder: Forwarder | None = None
        self.opening = asyncio.Lock()
        self.starting = asyncio.Lock()
        self.open = False

    async def address(self, scheduler: str, launcher: KubernetesLauncher) -> str:
        async with self.opening:
            self.launcher = launcher
            self.forwarder = self.forwarder or Forwarder(launcher.kube)
            found = await self.running()
            if not self.open:
                try:
                    await self.tunnel.open(scheduler, REACHED_WITHIN_S)
                except TunnelError as error:
                    raise LaunchRefused(str(error)) from None
                self.open, self.trouble = True, ""
            host = found["status"]["podIP"]
            protocol = scheduler.partition("://")[0]
            return f"{protocol}://{f'[{host}]' if ':' in host else host}:{WORKER_PORT}"

    async def running(self) -> dict[str, Any]:
        """The relay's pod; another one if it has ended."""
        assert self.launcher is not None
        board = self.launcher.board
        async with self.starting:  # a worker may want it while the lost connection to it is being made anew
            name = await self.there()
        await board.until(lambda: self.decided(name), RUNS_WITHIN_S)
        if self.launcher.closing:
            raise LaunchRefused("the cluster is closed")
        if board.refused is not None:
            raise board.refused
        pod, events = board.pods[name], board.events_of(name)
        if fate := reasons.fate(pod, events, gone=name in board.gone):
            raise LaunchRefused(f"the relay: {fate.detail}", definite=fate.cause is Loss.CANNOT_START)
        if not ip(pod):
            waits = reasons.waits(pod, events)
            raise LaunchRefused(f"the relay, pod {name}, did not start within {RUNS_WITHIN_S:g} s: {waits}")
        self.launcher.moved(ip(pod))
        return pod

    async def there(self) -> str:
        """The name of its pod, which is made if there is none that runs or will."""
        assert self.launcher is not None
        kube, board = self.launcher.kube, self.launcher.board
        body = objects.relay_pod(self.launcher.site)
        name = str(body["metadata"]["name"])
        if self.over(name):
            if not await kube.delete("pods", name, grace=1):
                board.gone.setdefault(name, time.time())
            if not await board.until(lambda: name in board.gone, GONE_WITHIN_S):
                raise LaunchRefused(f"the relay has ended, and its pod {name} does not go")
        if name not in board.pods or name in board.gone:
            made = await self.launcher.ours("pods", body)  # who made it last may have been cancelled before the answer
            if not older(made, board.pods.get(name)):  # else it was heard of already, perhaps that it has gone
                board.gone.pop(name, None)
            board.seen(made)
        return name

    def decided(self, name: str) -> bool:
        assert self.launcher is not None
        board = self.launcher.board
        if board.refused is not None:  # pods may be listed but not watched: nothing more would be heard of it
            return True
        return self.launcher.closing or name in board.gone or self.over(name) or bool(ip(board.pods[name]))

    def over(self, name: str) -> bool:
        assert self.launcher is not None
        board = self.launcher.board
        pod = board.pods.get(name)
        there = pod is not None and name not in board.gone
        return there and reasons.fate(pod, board.events_of(name)) is not None

    async def connect(self) -> Ends:
        """A connection to the relay's control port."""
        assert self.forwarder is not None
        assert self.launcher is not None
        try:
            pod = await self.running()
        except LaunchRefused as refusal:
            raise ConnectionError(str(refusal)) from None
        except ApiError as error:
            if error.unclear:
                raise ConnectionError(str(error)) from None
            raise
        return await self.forwarder.connect(pod["metadata"]["name"], CONTROL_PORT)

    def told(self, kind: str, facts: dict[str, Any]) -> None:
        if kind == "relay-lost" and self.launcher is not None:
            self.launcher.board.cut_at = time.monotonic()
        self.trouble = "" if kind == "relay-back" else f"the relay is lost: {facts['reason']}"
        if kind == "relay-gone":
            self.open = False  # the next worker that is wanted has it opened again

    async def close(self) -> None:
        await self.tunnel.close()
        if self.forwarder is not None:
            await self.forwarder.close()


def ip(pod: dict[str, Any]) -> str:
    """Once its container runs."""
    status = pod.get("status") or {}
    return str(status.get("podIP") or "") if status.get("phase") == "Running" else ""
