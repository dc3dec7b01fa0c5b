"""A connection to a port of a pod through the API server, which is the one way in that a cluster always has.

The API server carries it as a websocket, in messages that begin with a channel's number: 0 has the bytes, 1 the errors,
and the first message of each names the port. kr8s has a port-forward of its own; it opens a port for everybody on this
machine, and where a pod is gone it asks for it without end or pause.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import httpx_ws

from scalable.cluster.kubernetes.answers import Object, refused
from scalable.cluster.kubernetes.api import LOST, Api, ApiError, Kube

DATA, ERRORS = 0, 1
CHUNK = 256 * 1024  # bytes in one message
PROTOCOL = "v4.channel.k8s.io"

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Forwarder:
    """Keeps the connections it has made; ``close`` ends them."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.tasks: set[asyncio.Task[None]] = set()

    async def connect(self, pod: str, port: int) -> Ends:
        """Raises ``OSError`` if it may work later, and ``ApiError`` if the server refuses it."""
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
        """A websocket belongs to the task that opened it; this is that task."""
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
        """What may pass is an ``OSError``; so are credentials that have expired, which are read anew."""
        if not isinstance(error, httpx_ws.WebSocketUpgradeError):
            return ConnectionError(f"{pod}: {error or type(error).__name__}")
        status = error.response.status_code
        if status == 401 and api is not None:
            self.kube.renew(api)
        if status != 403:
            return ConnectionError(f"{pod}: the API server answers {status}")
        return await self.forbidden(pod)

    async def forbidden(self, pod: str) -> ApiError:
        """In the server's words, which it does not say to who wants a websocket."""
        body: Object = {"message": "pods/portforward is forbidden"}
        with suppress(ApiError):
            answer = await self.kube.ask("create", "GET", "pods", f"{pod}/portforward", within=0.0)
            body = answer.body if answer.status == 403 else body
        return refused(403, {"reason": "Forbidden", **body}, "create", "pods/portforward")


async def either(*works: Any) -> None:
    """Until one has ended; the others end with it."""
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
