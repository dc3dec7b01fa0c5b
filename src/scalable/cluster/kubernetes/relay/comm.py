"""Dask over a tunnel: connections to workers behind a relay go through it, all others as ever.

Dask chooses how to connect by the scheme of an address, for a whole process. So while a tunnel is open, a detour stands
in front of Dask's ``tcp`` and ``tls``. It takes a connection only if it was asked for with the ``Security`` of a tunnel
(``DaskTunnel.route``) and leads to a host behind that very tunnel; two clusters may have the same addresses.
"""

from __future__ import annotations

import threading
from typing import Any

from distributed.comm import registry
from distributed.comm.addressing import parse_host_port
from distributed.comm.core import Comm, CommClosedError, Connector
from distributed.comm.registry import Backend
from distributed.security import Security
from tornado.iostream import IOStream

from scalable.cluster.kubernetes.relay.client import Tunnel, TunnelError
from scalable.cluster.kubernetes.relay.server import KEEP_S

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
        """Connections made with this go to the tunnel's workers through it. To be called before anything uses it."""
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
