"""What the tests of the relay stand on: a relay in this loop, a tunnel to it, and things that connect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from scalable.cluster.kubernetes.relay import new_token
from scalable.cluster.kubernetes.relay.client import Tunnel
from scalable.cluster.kubernetes.relay.link import VERSION, FrameKind, encoded
from scalable.cluster.kubernetes.relay.server import Relay

LOOPBACK = "127.0.0.1"
WITHIN_S = 30.0  # a test that hangs fails instead

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, WITHIN_S))


class Desk:
    """A relay and where to find it."""

    def __init__(self, relay: Relay, workers: int, control: int) -> None:
        self.relay = relay
        self.workers = workers
        self.control = control
        self.told: list[str] = []
        self.reasons: list[str] = []

    async def reach(self) -> Streams:
        return await asyncio.open_connection(LOOPBACK, self.control)

    async def worker(self) -> Streams:
        """A connection as a worker makes it."""
        return await asyncio.open_connection(LOOPBACK, self.workers)

    def tunnel(self) -> Tunnel:
        return Tunnel(self.reach, self.relay.token, self.hear)

    def hear(self, kind: str, facts: dict[str, Any]) -> None:
        self.told.append(kind)
        self.reasons.append(facts["reason"])

    async def says_hello(self) -> Streams:
        """A driver that knows the token and says what the test wants."""
        reader, writer = await self.reach()
        writer.write(encoded(FrameKind.HELLO, 0, bytes([VERSION]) + self.relay.token))
        await reader.readexactly(len(encoded(FrameKind.READY)))
        return reader, writer


@asynccontextmanager
async def a_relay(keep: float = WITHIN_S) -> AsyncIterator[Desk]:
    relay = Relay(new_token(), keep)
    workers, control = await relay.listen((LOOPBACK, 0), (LOOPBACK, 0))
    try:
        yield Desk(relay, workers, control)
    finally:
        await relay.close()


@asynccontextmanager
async def a_server(handler: Handler) -> AsyncIterator[int]:
    """Something that listens, as the scheduler or as a worker does; gives its port."""
    server = await asyncio.start_server(handler, LOOPBACK, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def a_tunnel(desk: Desk, handler: Handler) -> AsyncIterator[Tunnel]:
    """A driver that is connected, with what listens as its scheduler."""
    async with a_server(handler) as port:
        tunnel = desk.tunnel()
        await tunnel.open(f"tls://{LOOPBACK}:{port}", WITHIN_S)
        try:
            yield tunnel
        finally:
            await tunnel.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # the other end was cut
    finally:
        writer.close()


async def echoed(connection: Streams, data: bytes) -> bytes:
    """Send and read it back, both at once."""
    reader, writer = connection
    writer.write(data)
    back = await reader.readexactly(len(data))
    await writer.drain()
    return back


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the other end closes the connection, in whatever way."""
    try:
        while await reader.read(65536):
            pass
    except OSError:
        pass
    return True


async def close(*connections: Streams) -> None:
    for _, writer in connections:
        writer.close()
    for _, writer in connections:
        with suppress(OSError):  # cut by the other end
            await writer.wait_closed()
