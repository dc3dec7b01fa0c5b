"""The console's HTTP server: strangers who open connections and say nothing cannot use it up.

Anybody on this machine may connect. Who sends no complete request in time is disconnected; there is a limit on
connections well below that on open files; at the limit, connections that never showed a token make room, oldest first.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

if TYPE_CHECKING:
    from tornado.web import Application

REQUEST_S = 20.0  # for the headers of a request, and again for its body; also how long a connection may be idle
MOST_CONNECTIONS = 256
SHARE_OF_FILES = 4  # connections take at most one in so many of the files this process may open
FULL_S = 1.0  # how long nobody is let in after this process, or the machine, had no file left
LARGEST = 1 << 16  # bytes of an action, and of headers


class ConsoleServer(HTTPServer):
    """Call ``accept_from`` once; ``stop`` also closes the listening socket."""

    listening: socket.socket

    def initialize(self, application: Application) -> None:  # type: ignore[override]
        super().initialize(
            application,
            idle_connection_timeout=REQUEST_S,
            body_timeout=REQUEST_S,
            max_body_size=LARGEST,
            max_header_size=LARGEST,
        )
        self.strangers: dict[IOStream, None] = {}  # in the order in which they came
        self.admitted: set[IOStream] = set()
        self.most = min(MOST_CONNECTIONS, max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE_OF_FILES))

    def accept_from(self, listening: socket.socket) -> None:
        self.listening = listening
        asyncio.get_running_loop().add_reader(listening, self.accept)

    def accept(self) -> None:
        try:
            connection, address = self.listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # no file is left: asking again at once would fail again, for ever
            self.rest()
            return
        self.handle_stream(IOStream(connection), address)

    def rest(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.listening)
        loop.call_later(FULL_S, lambda: self.listening.fileno() >= 0 and loop.add_reader(self.listening, self.accept))

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        self.strangers[stream] = None
        if len(self.strangers) + len(self.admitted) > self.most:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.close()
        if stream in self.strangers:
            super().handle_stream(stream, address)

    def admit(self, stream: IOStream) -> None:
        """Keep the connection of a page that showed its token."""
        if stream in self.strangers:
            del self.strangers[stream]
            self.admitted.add(stream)

    def on_close(self, server_conn: object) -> None:
        stream = server_conn.stream  # type: ignore[attr-defined]
        self.strangers.pop(stream, None)
        self.admitted.discard(stream)
        super().on_close(server_conn)

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self.listening)
        self.listening.close()
