"""A server that answers as it is told and remembers what it was asked: for what a real one does only when it is ill."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scalable.store.tracking import Status, SweepRecord

RUN = {"info": {"run_id": "7", "artifact_uri": "mlflow-artifacts:/1/7/artifacts"}}
ANSWERS: dict[str, Any] = {
    "experiments/get-by-name": {"experiment": {"experiment_id": "1"}},
    "runs/search": {},
    "runs/create": {"run": RUN},
}
ROWS = [
    {"variant": variant, "asset": asset, "sharpe": sharpe, "odd": odd}
    for variant, asset, sharpe, odd in [
        ("none", "X", 1.0, float("nan")),
        ("none", "Y", 2.0, None),
        ("sigmoid", "X", 3.0, 5),
    ]
]


class Desk:
    def __init__(self) -> None:
        self.status = 200
        self.said = "{}"
        self.asked: list[tuple[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def names(self) -> list[str]:
        return [name for name, _ in self.asked]

    def bodies(self, name: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == name]


@contextmanager
def desk(port: int = 0) -> Iterator[Desk]:
    one = Desk()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            name = self.path.partition("?")[0].removeprefix("/api/2.0/").removeprefix("mlflow/")
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            one.headers.append(dict(self.headers))
            one.asked.append((name, json.loads(content) if content else None))
            said = json.dumps(ANSWERS.get(name, {})) if one.status == 200 else one.said
            self.send_response(one.status)
            self.end_headers()
            self.wfile.write(said.encode())

        do_GET = do_POST = do_PUT = answer  # noqa: N815, so the base calls them

        def log_message(self, format: str, *args: Any) -> None:
            """Not on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    one.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def record(**changes: Any) -> SweepRecord:
    facts: dict[str, Any] = {
        "id": "run-20260415-lab-1a2b",
        "experiment": "lab",
        "name": "calibration",
        "started": 1000.0,
        "ended": 1060.5,
        "status": Status.FINISHED,
        "params": {"factor": "calibration", "assets": ["X", "Y"]},
        "metrics": {"sigmoid/sharpe": 3.0, "none/odd": float("nan")},
        "decision": {"verdict": "LOCK", "why": {"p": 0.01}},
        "rows": ROWS,
    }
    return SweepRecord(**{**facts, **changes})
