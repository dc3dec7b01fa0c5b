"""A real MLflow server takes what is sent to it, shows it, and may be killed meanwhile.

It is installed on first use, about a minute; its environment is kept in the user's cache.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from scalable import proc
from scalable.store.tracking import Status, averaged, open_tracker
from scalable.store.tracking.mlflow import MlflowServer
from tests.helpers.tracking.desk import ROWS, record
from tests.tools import packages
from tests.tools.errors import ToolMissingError

START_S = 120.0  # it imports for long, and longer on a busy machine
PATIENCE_S = 60.0

pytestmark = pytest.mark.long


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return packages.environment("mlflow", ["mlflow>=3"]) / "mlflow"
    except ToolMissingError as error:
        pytest.skip(str(error))


@contextmanager
def served(program: Path, folder: Path, port: int) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"
    command = [
        *(str(program), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder}/runs.db", "--artifacts-destination", f"{folder}/files"),
    ]
    env = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # else it starts seven more processes
    with (
        (folder / "log").open("ab") as log,
        subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True) as server,
    ):
        try:
            deadline = time.monotonic() + START_S
            while not answers(url):
                assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
                time.sleep(0.2)
            yield url
        finally:
            proc.end_tree(server.pid)


def answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def runs(url: str) -> list[dict[str, Any]]:
    server = MlflowServer(url)
    found: list[dict[str, Any]] = server.post("runs/search", {"experiment_ids": [server.experiment("lab")]})["runs"]
    return found


def test_a_sweep_is_logged_to_a_real_server_that_is_killed_meanwhile(program: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told: list[str] = []
    outbox = tmp_path / "outbox"
    begun = record(ended=None, status=Status.RUNNING, metrics={}, decision={}, rows=[])
    ended = record(metrics=averaged(ROWS, ["sharpe", "odd"]))
    with open_tracker(f"http://127.0.0.1:{port}", outbox=outbox, tell=told.append) as tracker:
        with served(program, tmp_path, port) as url:
            tracker.log(begun)
            assert tracker.flush(PATIENCE_S)
            (run,) = runs(url)
            assert run["info"]["status"] == "RUNNING"
            assert told == []
        tracker.log(ended)
        assert not tracker.flush(PATIENCE_S, tries=1)
        assert len(told) == 1
        with served(program, tmp_path, port) as url:
            tracker.log(record(id="second", name="focal_loss"))
            assert tracker.flush(PATIENCE_S)
            second, first = sorted(runs(url), key=lambda one: one["info"]["run_name"], reverse=True)
    assert second["info"]["run_name"] == "focal_loss"
    assert first["info"]["run_id"] == run["info"]["run_id"]
    assert (first["info"]["status"], first["info"]["start_time"], first["info"]["end_time"]) == (
        "FINISHED", 1_000_000, 1_060_500,
    )  # fmt: skip
    data = first["data"]
    assert {one["key"]: one["value"] for one in data["metrics"]} == averaged(ROWS, ["sharpe", "odd"])
    assert {one["key"]: one["value"] for one in data["params"]} == {"factor": "calibration", "assets": '["X", "Y"]'}
    assert {"verdict": "LOCK"}.items() <= {one["key"]: one["value"] for one in data["tags"]}.items()
    (table,) = (tmp_path / "files").rglob(f"{run['info']['run_id']}/artifacts/rows.json")
    assert len(json.loads(table.read_text())["data"]) == len(ROWS)
    assert not list(outbox.glob("*.json"))
