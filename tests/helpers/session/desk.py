"""A server that takes messages as Slack does, or refuses them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "T0-B0-hidden"


@contextmanager
def desk(status: int = 200, headers: Mapping[str, str] | None = None) -> Iterator[tuple[str, list[str]]]:
    """Its address, which is a secret, and the texts that came."""
    came: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/services/{SECRET}", came
        finally:
            server.shutdown()
