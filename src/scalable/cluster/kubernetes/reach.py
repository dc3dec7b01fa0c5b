"""The way between workers in the cluster and this process: directly, or through a relay pod.

Inside the cluster, or where a contact address is given, workers connect to the scheduler itself. Everywhere else pods
cannot reach this machine, nor it them: one more pod, the relay, stands between, and this process connects to it through
the API server (``Forwarder``), which is the one way in that a cluster always has.
"""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import httpx_ws
from distributed.security import Security

from scalable.cluster.base import LaunchRefused
from scalable.cluster.kubernetes import objects, reasons
from scalable.cluster.kubernetes.answers import Object, refused
from scalable.cluster.kubernetes.api import LOST, Api, ApiError, Kube
from scalable.cluster.kubernetes.relay import CONTROL_PORT, TOKEN_FILE, WORKER_PORT, new_token
from scalable.cluster.kubernetes.relay.client import DaskTunnel, TunnelError
from scalable.cluster.kubernetes.watch import older
from scalable.engine.events import Loss

if TYPE_CHECKING:
    from scalable.cluster.kubernetes.launcher import KubernetesLauncher

RUNS_WITHIN_S = 900.0  # the relay: a node that has to be made first, and its image
REACHED_WITHIN_S = 30.0  # once it runs
GONE_WITHIN_S = 30.0  # an old relay, before another can have its name


class Reach(Protocol):
    """The way of workers to the scheduler in this process."""

    @property
    def trouble(self) -> str:
        """Return why workers do not get to it, while they do not."""
        ...

    @property
    def files(self) -> dict[str, bytes]:
        """Return what pods need to know for it."""
        ...

    async def address(self, scheduler: str, launcher: KubernetesLauncher) -> str:
        """Return what workers are to connect to; raises ``LaunchRefused`` or ``ApiError``."""
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
        self.tunnel = DaskTunnel(self.connect, self.token, self.heard)
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
            relay = await self.running()
            if not self.open:
                try:
                    await self.tunnel.open(scheduler, REACHED_WITHIN_S)
                except TunnelError as error:
                    raise LaunchRefused(str(error)) from None
                self.open, self.trouble = True, ""
            host = relay["status"]["podIP"]
            protocol = scheduler.partition("://")[0]
            return f"{protocol}://{f'[{host}]' if ':' in host else host}:{WORKER_PORT}"

    async def running(self) -> dict[str, Any]:
        """Return the relay's pod; another one if it has ended."""
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
        """Return the name of its pod, which is made if there is none that runs or will."""
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
        """Connect to the relay's control port."""
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

    def heard(self, kind: str, facts: dict[str, Any]) -> None:
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
    """Return the address of a pod once its container runs."""
    status = pod.get("status") or {}
    return str(status.get("podIP") or "") if status.get("phase") == "Running" else ""


DATA, ERRORS = 0, 1
CHUNK = 256 * 1024  # bytes in one message
PROTOCOL = "v4.channel.k8s.io"

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Forwarder:
    """Connections to ports of pods through the API server; ``close`` ends those it has made.

    The API server carries each as a websocket, in messages that begin with a channel's number: 0 has the bytes, 1 the
    errors, and the first message of each names the port. kr8s has a port-forward of its own; it opens a port for
    everybody on this machine, and where a pod is gone it asks for it without end or pause.
    """

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.tasks: set[asyncio.Task[None]] = set()

    async def connect(self, pod: str, port: int) -> Ends:
        """Connect to a port; raises ``OSError`` if it may work later, ``ApiError`` if the server refuses it."""
        ours, theirs = socket.socketpair()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self.carry(pod, port, theirs, ready))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        try:
            await ready
        except BaseException:
            task.cancel()
            ours.close()
            raise
        return await asyncio.open_connection(sock=ours, limit=CHUNK)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def carry(self, pod: str, port: int, end: socket.socket, ready: asyncio.Future[None]) -> None:
        """Carry one connection; a websocket belongs to the task that opened it, which is this one."""
        writer, api = None, None
        try:
            reader, writer = await asyncio.open_connection(sock=end, limit=CHUNK)
            api = await self.kube.open()
            async with api.open_websocket(
                namespace=self.kube.cluster.namespace,
                url=f"pods/{pod}/portforward",
                params={"ports": str(port)},
                subprotocols=[PROTOCOL],
            ) as websocket:
                ready.set_result(None)
                await either(send(websocket, reader), receive(websocket, writer))
        except (*LOST, httpx_ws.HTTPXWSException) as error:
            why = await self.explained(error, pod, api)
            if not ready.done():
                ready.set_exception(why)
        finally:
            if not ready.done():
                ready.set_exception(ConnectionError(f"the connection to {pod} was closed"))
            if writer is not None:
                writer.close()
            else:
                end.close()

    async def explained(self, error: BaseException, pod: str, api: Api | None) -> Exception:
        """Return what may pass is an ``OSError``; so are credentials that have expired, which are read anew."""
        if not isinstance(error, httpx_ws.WebSocketUpgradeError):
            return ConnectionError(f"{pod}: {error or type(error).__name__}")
        status = error.response.status_code
        if status == 401 and api is not None:
            self.kube.renew(api)
        if status != 403:
            return ConnectionError(f"{pod}: the API server answers {status}")
        return await self.forbidden(pod)

    async def forbidden(self, pod: str) -> ApiError:
        """Return the refusal in the server's words, which it does not say to who wants a websocket."""
        body: Object = {"message": "pods/portforward is forbidden"}
        with suppress(ApiError):
            answer = await self.kube.ask("create", "GET", "pods", f"{pod}/portforward", within=0.0)
            body = answer.body if answer.status == 403 else body
        return refused(403, {"reason": "Forbidden", **body}, "create", "pods/portforward")


async def either(*works: Any) -> None:
    """Run until one has ended; the others end with it."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def send(websocket: Any, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(CHUNK):
        await websocket.send_bytes(bytes([DATA]) + data)


async def receive(websocket: Any, writer: asyncio.StreamWriter) -> None:
    named: set[int] = set()
    while True:
        message = await websocket.receive_bytes()
        channel = message[0]
        if channel not in named:  # the first one names the port
            named.add(channel)
        elif channel == DATA:
            writer.write(message[1:])
            await writer.drain()
        else:
            return  # nothing listens there any more
