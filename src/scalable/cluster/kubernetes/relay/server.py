"""The relay itself: two ports, one for workers and one for the driver, and what is let through between them.

It reads nothing of what passes, which is encrypted from end to end. It dials only hosts that have connected to it: it
leads from the driver to its workers and nowhere else in the cluster. Without a driver for a while it ends.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from scalable.cluster.kubernetes.relay.link import (
    CHUNK,
    VERSION,
    FrameError,
    FrameKind,
    Link,
    Stream,
    StreamRefused,
    encoded,
    notice_death,
    plain,
    read,
    shut,
)

KEEP_S = 60.0  # a driver that lost its connection may come back for so long; then nobody needs this pod
HELLO_WITHIN_S = 10.0  # for whoever connects as a driver to show the token
DIAL_WITHIN_S = 10.0  # pods of one cluster answer within milliseconds; Dask tries again
MOST_FROM_ONE_HOST = 512  # so that one pod that means harm cannot take all connections; a worker has two or three

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Relay:
    def __init__(self, token: bytes, keep: float = KEEP_S) -> None:
        self.token = token
        self.keep = keep
        self.link: Link | None = None
        self.linked = asyncio.Event()
        self.alone = asyncio.Event()
        self.known: set[str] = set()
        """Hosts that have connected since the driver has."""
        self.connections: Counter[str] = Counter()
        self.handlers: set[asyncio.Task[None]] = set()
        self.servers: list[asyncio.Server] = []

    async def listen(self, workers: tuple[str, int], control: tuple[str, int]) -> tuple[int, int]:
        """Open both ports; says which they are."""
        ports = []
        for handler, (host, port) in ((self.worker, workers), (self.driver, control)):
            server = await asyncio.start_server(self.handled(handler), host, port, limit=CHUNK)
            self.servers.append(server)
            ports.append(int(server.sockets[0].getsockname()[1]))
        return ports[0], ports[1]

    async def until_unused(self) -> str:
        """Wait until there was no driver for too long; returns what to say then."""
        while True:
            try:
                await asyncio.wait_for(self.linked.wait(), self.keep)
            except TimeoutError:
                return f"no driver for {self.keep:g} s"
            await self.alone.wait()

    async def close(self) -> None:
        for server in self.servers:
            server.close()
        for task in list(self.handlers):
            task.cancel()
        await asyncio.gather(*self.handlers, return_exceptions=True)

    async def worker(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand a worker through that looks for the scheduler, or keep it waiting while the driver is away."""
        host, port = peer(writer)
        self.connections[host] += 1
        carried = False
        try:
            if self.connections[host] > MOST_FROM_ONE_HOST:
                return
            notice_death(writer)
            await asyncio.wait_for(self.linked.wait(), self.keep)
            if self.link is None:  # it came and went
                return
            stream = self.link.open(host, port)
            self.known.add(host)
            carried = True
            await stream.carry(reader, writer)
        except (OSError, TimeoutError, StreamRefused):
            pass  # it tries again
        finally:
            self.connections[host] -= 1
            if not carried:
                await shut(writer, flush=False)

    async def driver(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reason = await asyncio.wait_for(self.stranger(reader), HELLO_WITHIN_S)
        except (OSError, EOFError, FrameError, TimeoutError):
            await shut(writer, flush=False)  # not a driver
            return
        if reason:
            say(f"a driver was refused: {reason}")
            writer.write(encoded(FrameKind.REFUSED, 0, reason))
            await shut(writer, flush=True)
            return
        if self.link is not None:
            self.link.refuse("a newer connection of the driver has replaced this one")
        link = self.link = Link(reader, writer, self.dial, first=1)
        self.known.clear()
        self.alone.clear()
        self.linked.set()
        link.say(FrameKind.READY)
        say("the driver is connected")
        try:
            ended = await link.serve()
        finally:
            if self.link is link:
                self.link = None
                self.linked.clear()
                self.alone.set()
        say(f"the driver is gone: {ended}")

    async def stranger(self, reader: asyncio.StreamReader) -> str:
        """Return why whoever has connected is not our driver; empty if it is."""
        frame = await read(reader)
        if frame.kind is not FrameKind.HELLO:
            raise FrameError("no greeting")
        version, token = frame.payload[:1], frame.payload[1:]
        if version != bytes([VERSION]):
            return f"the relay speaks version {VERSION}, this driver another; use an image with the driver's version"
        if not hmac.compare_digest(token, self.token):
            return "the token is not that of this run"
        return ""

    async def dial(self, stream: Stream) -> None:
        """Connect the driver to a worker."""
        if stream.host not in self.known:
            stream.close(f"{stream.host} has not connected to the relay, and only workers that have are dialled")
            return
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(stream.host, stream.port, limit=CHUNK), DIAL_WITHIN_S
            )
        except TimeoutError:
            stream.close(f"{stream.host}:{stream.port} does not answer the relay")
        except OSError as error:
            stream.close(f"{stream.host}:{stream.port} cannot be reached from the relay: {words(error)}")
        else:
            notice_death(writer)
            stream.link.say(FrameKind.OPENED, stream.number)
            await stream.carry(reader, writer)

    def handled(self, handler: Handler) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(handler(reader, writer))
            self.handlers.add(task)
            task.add_done_callback(self.handlers.discard)

        return connected


def peer(writer: asyncio.StreamWriter) -> tuple[str, int]:
    address = writer.get_extra_info("peername")
    return (plain(address[0]), int(address[1])) if address else ("", 0)


async def serve(workers: tuple[str, int], control: tuple[str, int], token: bytes) -> int:
    """Serve until told to end (0), or until nobody needs it (1)."""
    relay = Relay(token)
    unused = asyncio.ensure_future(relay.until_unused())
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, unused.cancel)
    try:
        ports = await relay.listen(workers, control)
        say(f"workers connect to port {ports[0]}, the driver to port {ports[1]}")
        say(f"{await unused}; ends")
        return 1
    except asyncio.CancelledError:
        return 0
    finally:
        await relay.close()


def words(error: OSError) -> str:
    """Return the system's words for an error, for which asyncio has its own."""
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)


def say(text: str) -> None:
    with suppress(OSError):  # nobody reads any more
        print(f"scalable relay: {text}", file=sys.stderr, flush=True)
