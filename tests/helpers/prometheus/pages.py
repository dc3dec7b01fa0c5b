"""Pages on free ports: one with figures that a test makes up, and one that takes the messages meant for Slack."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from scalable.observe.metrics import CONTENT_TYPE, METRICS, Sample, exposition


class Server(ThreadingHTTPServer):
    """What it shows, and what it was told."""

    daemon_threads = True
    shown = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.answer(CONTENT_TYPE, self.server.shown)

    def do_POST(self) -> None:
        self.server.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer("text/plain", "ok")

    def answer(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what is of interest is asserted."""


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="page")
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Figures:
    """A page with made-up figures that Prometheus finds as it finds a session; a change is there at the next scrape."""

    def __init__(self, server: Server, targets: Path, run: str) -> None:
        self.server = server
        self.values = {name: well(name) for name in METRICS}
        self.show({})
        targets.mkdir(parents=True, exist_ok=True)
        labels = {"run": run, "project": "proof", "role": "driver"}
        text = json.dumps([{"targets": [server.address], "labels": labels}])
        (targets / f"{run}.json").write_text(text, encoding="utf-8")

    def show(self, changed: Mapping[str, float]) -> None:
        self.values |= changed
        self.server.shown = exposition(samples(self.values))

    def reset(self) -> None:
        """All is well again, but what was counted stays counted; money is, in another month, none again."""
        kept = {name for name, metric in METRICS.items() if metric.kind == "counter" and "month" not in name}
        self.show({name: well(name) for name in METRICS if name not in kept})


def samples(values: Mapping[str, float]) -> Sequence[Sample]:
    """One sample of each metric, with labels as a real run has them."""
    return [
        Sample(name, value, {label: LABELS[label] for label in METRICS[name].labels}) for name, value in values.items()
    ]


def well(metric: str) -> float:
    """A figure at which all is well: half of a limit, everything up, nothing waiting."""
    if metric.endswith(
        ("_limit_cores", "_limit_bytes", "_capacity_cores", "_capacity_bytes", "_month", "_up", "_info")
    ):
        return 1.0
    return 0.0


LABELS = {
    "worker": "standard-1", "tag": "standard", "node": "node-1", "state": "done", "cause": "out of memory",
    "sweep": "calibration", "dependency": "store", "currency": "EUR", "kind": "oom", "project": "proof",
    "target": "here", "provider": "local", "version": "1",
}  # fmt: skip
