"""The driver's end: one connection to the relay that is made anew when it breaks, and Dask's connections over it.

A ``Tunnel`` knows nothing of Dask: connections of workers are handed to a port of this machine, and ``dial`` gives a
socket that leads to a worker. ``listener`` hears what happens to the connection, as (kind, facts): ``relay-lost``,
``relay-back`` and, when it is not tried any more, ``relay-gone``, each with a reason.

A ``DaskTunnel`` is one that Dask uses. Dask chooses how to connect by the scheme of an address, for a whole process. So
while a tunnel is open, a detour stands in front of Dask's ``tcp`` and ``tls``. It takes a connection only if it was
asked for with the ``Security`` of a tunnel (``DaskTunnel.route``) and leads to a host behind that very tunnel; two
clusters may have the same addresses.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

from distributed.comm import registry
from distributed.comm.addressing import parse_host_port
from distributed.comm.core import Comm, CommClosedError, Connector
from distributed.comm.registry import Backend
from distributed.security import Security
from tornado.iostream import IOStream

from scalable.cluster.kubernetes.relay.link import (
    CHUNK,
    VERSION,
    FrameError,
    FrameKind,
    Link,
    Stream,
    StreamRefused,
    encoded,
    plain,
    read,
    shut,
)
from scalable.cluster.kubernetes.relay.server import HELLO_WITHIN_S, KEEP_S, words
from scalable.errors import ScalableError

logger = logging.getLogger("scalable")

FIRST_PAUSE_S = 0.2  # before another try to connect; doubles
MOST_PAUSE_S = 5.0
LOOPBACK = "127.0.0.1"
PAIR_WITHIN_S = 1.0  # to connect to oneself; more means that the machine has no more sockets
TRY_S = 20.0  # for one try: a port-forward through a distant API server takes seconds

Reach = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Makes a connection to the relay's control port, for example by a port-forward.

Raises ``OSError`` if another try may help, and a ``ScalableError`` if not.
"""
Listener = Callable[[str, dict[str, Any]], None]


class TunnelError(ScalableError):
    """The relay, or a worker behind it, is not reached."""


class TunnelRefused(TunnelError):  # noqa: N818 - what happened
    """The relay does not take this driver; asking again would lead to the same."""


class Tunnel:
    """See the module. ``open`` it once the scheduler listens, ``close`` it in the same loop."""

    def __init__(self, reach: Reach, token: bytes, listener: Listener | None = None) -> None:
        self.reach = reach
        self.token = token
        self.listener = listener
        self.scheduler = ("", 0)
        self.workers: set[str] = set()
        """Hosts that have connected through the relay."""
        self.link: Link | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.upkeep: asyncio.Task[None] | None = None
        self.carrying: set[asyncio.Task[None]] = set()

    async def open(self, scheduler: str, within: float = KEEP_S) -> None:
        """Connect to the relay; workers that connect to it are led to the scheduler at this address from now on."""
        self.scheduler = address(scheduler)
        await self.stop()
        self.loop = asyncio.get_running_loop()
        self.link = await self.connect(within)
        self.upkeep = asyncio.ensure_future(self.keep_up(self.link))

    async def close(self) -> None:
        await self.stop()

    async def stop(self) -> None:
        if self.upkeep is not None:
            self.upkeep.cancel()
            await asyncio.gather(self.upkeep, *self.carrying, return_exceptions=True)
            self.upkeep = None

    def knows(self, host: str, port: int) -> bool:
        """Return whether an address is that of a worker behind the relay."""
        return plain(host) in self.workers and (plain(host), port) != self.scheduler

    async def dial(self, host: str, port: int) -> socket.socket:
        """Return a socket to a worker; from any thread with a loop, while the loop of ``open`` runs."""
        if self.loop is None:
            raise TunnelError("the tunnel to the relay is not open yet")
        if self.loop is asyncio.get_running_loop():
            return await self.dial_here(host, port)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.dial_here(host, port), self.loop))

    async def dial_here(self, host: str, port: int) -> socket.socket:
        ours, theirs = pair()
        stream = None
        try:
            if self.link is None:
                raise StreamRefused("the connection to the relay is lost")
            stream = self.link.open(plain(host), port)
            await stream.opened
            reader, writer = await asyncio.open_connection(sock=ours, limit=CHUNK)
        except BaseException as error:
            ours.close()
            theirs.close()
            if stream is not None:
                stream.close()
            if isinstance(error, StreamRefused):
                raise TunnelError(str(error)) from None
            raise
        task = asyncio.ensure_future(stream.carry(reader, writer))
        self.carrying.add(task)
        task.add_done_callback(self.carrying.discard)
        return theirs

    async def accept(self, stream: Stream) -> None:
        """Lead a worker that looks for the scheduler to it."""
        self.workers.add(stream.host)
        try:
            reader, writer = await asyncio.open_connection(*self.scheduler, limit=CHUNK)
        except OSError as error:
            stream.close(f"the scheduler is not reached: {words(error)}")
            return
        stream.link.say(FrameKind.OPENED, stream.number)
        await stream.carry(reader, writer)

    async def keep_up(self, link: Link) -> None:
        """Serve the connection, and make another when it breaks."""
        try:
            while True:
                reason = await link.serve()
                self.link = None
                if link.refused:
                    raise TunnelRefused(reason)
                self.tell("relay-lost", reason)
                link = self.link = await self.connect(KEEP_S)
                self.tell("relay-back", reason)
        except ScalableError as error:  # also one of who makes the connection
            self.tell("relay-gone", str(error))
        finally:
            self.link = None
            link.end("the driver has closed it")

    async def connect(self, within: float) -> Link:
        """Try until the relay answers, it refuses, or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await asyncio.wait_for(self.greet(), min(TRY_S, within))
            except TimeoutError:
                reason = "no answer"
            except (OSError, EOFError) as error:
                reason = str(error)
            except FrameError as error:
                raise TunnelRefused(f"what answers is no relay: {error}") from None
            if loop.time() + pause > deadline:
                raise TunnelError(f"the relay was not reached within {within:g} s: {reason}")
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # not all drivers of a cluster at once
            pause = min(2 * pause, MOST_PAUSE_S)

    async def greet(self) -> Link:
        reader, writer = await self.reach()
        try:
            writer.write(encoded(FrameKind.HELLO, 0, bytes([VERSION]) + self.token))
            answer = await asyncio.wait_for(read(reader), HELLO_WITHIN_S)
            if answer.kind is FrameKind.REFUSED:
                raise TunnelRefused(f"the relay refuses this driver: {answer.words}")
            if answer.kind is not FrameKind.READY:
                raise FrameError(f"{answer.kind.name} as the first answer")
        except BaseException:
            await shut(writer, flush=False)
            raise
        return Link(reader, writer, self.accept, first=2)

    def tell(self, kind: str, reason: str) -> None:
        logger.warning("%s: %s", kind.replace("-", " "), reason)
        if self.listener is not None:
            self.listener(kind, {"reason": reason})


def address(scheduler: str) -> tuple[str, int]:
    """Return host and port of ``tls://127.0.0.1:8786``."""
    parts = urlsplit(scheduler)
    with suppress(ValueError):
        if parts.hostname and parts.port:
            return plain(parts.hostname), parts.port
    raise TunnelError(f"{scheduler!r} is no address of a scheduler; it looks like tls://127.0.0.1:8786")


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two sockets that lead to each other by TCP, since Dask sets options that only TCP has.

    On the loopback the kernel connects them at once, so nobody waits.
    """
    with socket.create_server((LOOPBACK, 0)) as listening, ExitStack() as undo:
        listening.settimeout(PAIR_WITHIN_S)
        ours = undo.enter_context(socket.create_connection(listening.getsockname(), PAIR_WITHIN_S))
        while True:
            theirs, peer = listening.accept()
            if peer == ours.getsockname():
                break
            theirs.close()  # somebody else on this machine was quicker
        undo.pop_all()
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


ARGUMENT = "scalable-tunnel"
"""Among ``extra_conn_args``, which Dask hands to whoever connects."""
SCHEMES = ("tcp", "tls")


class DaskTunnel(Tunnel):
    """A tunnel that Dask uses.

    >>> tunnel = DaskTunnel(reach, token)  # doctest: +SKIP
    >>> tunnel.route(security)  # doctest: +SKIP
    >>> scheduler = await Scheduler(security=security, host="127.0.0.1")  # doctest: +SKIP
    >>> await tunnel.open(scheduler.address)  # doctest: +SKIP
    """

    detoured = False

    def route(self, security: Security) -> None:
        """Have connections with this ``Security`` go through the tunnel; called before anything uses it."""
        security.extra_conn_args = {**security.extra_conn_args, ARGUMENT: self}

    async def open(self, scheduler: str, within: float = KEEP_S) -> None:
        await super().open(scheduler, within)
        if not self.detoured:
            self.detoured = True
            detours.add()

    async def close(self) -> None:
        if self.detoured:
            self.detoured = False
            detours.remove()
        await super().close()


class Detours:
    """Stand in Dask's registry as long as any tunnel is open."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # clusters of one process may have a thread each
        self.count = 0

    def add(self) -> None:
        with self.lock:
            self.count += 1
            if self.count == 1:
                for scheme in SCHEMES:
                    registry.backends[scheme] = Detour(registry.get_backend(scheme))

    def remove(self) -> None:
        with self.lock:
            self.count -= 1
            for scheme in SCHEMES if self.count == 0 else ():
                backend = registry.backends[scheme]
                if isinstance(backend, Detour):  # else somebody has put another in front of it
                    registry.backends[scheme] = backend.own


detours = Detours()


class Detour(Backend):
    """Dask's own backend but for how it connects."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def get_connector(self) -> Connector:
        return DetourConnector(self.own.get_connector())

    def get_listener(self, loc: str, handle_comm: Any, deserialize: bool, **connection_args: Any) -> Any:
        return self.own.get_listener(loc, handle_comm, deserialize, **connection_args)

    def get_address_host(self, loc: str) -> Any:
        return self.own.get_address_host(loc)

    def get_address_host_port(self, loc: str) -> Any:
        return self.own.get_address_host_port(loc)

    def resolve_address(self, loc: str) -> Any:
        return self.own.resolve_address(loc)

    def get_local_address_for(self, loc: str) -> Any:
        return self.own.get_local_address_for(loc)


class DetourConnector(Connector):
    def __init__(self, own: Any) -> None:
        self.own = own

    async def connect(self, address: str, deserialize: bool = True, **connection_args: Any) -> Comm:
        tunnel = (connection_args.get("extra_conn_args") or {}).get(ARGUMENT)
        if tunnel is not None and tunnel.knows(*parse_host_port(address)):
            self.own.client = TunnelClient(tunnel)  # of this connector only; Dask makes one for each connection
        comm: Comm = await self.own.connect(address, deserialize=deserialize, **connection_args)
        return comm


class TunnelClient:
    """In place of the ``TCPClient`` that Dask's connectors get their streams from."""

    def __init__(self, tunnel: Tunnel) -> None:
        self.tunnel = tunnel

    async def connect(
        self, host: str, port: int, *, ssl_options: Any = None, max_buffer_size: int | None = None
    ) -> IOStream:
        try:
            socket = await self.tunnel.dial(host, port)
        except TunnelError as error:
            raise CommClosedError(str(error)) from error
        stream = IOStream(socket, max_buffer_size=max_buffer_size)
        if ssl_options is None:
            return stream
        return await stream.start_tls(False, ssl_options=ssl_options, server_hostname=host)
