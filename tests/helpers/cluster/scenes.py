"""What the tests of all clouds do with a cluster: kinds of workers, tasks for them, losing one, killing the driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest

from scalable.cluster.base import ClusterHandle, WorkerTemplate
from scalable.cluster.client import WorkerKilledError
from scalable.quantities import Memory
from tests.helpers.cluster.hands import Running
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LONG_S, until

SECRET = "a password nobody else may read"
PARTS = {
    "small": WorkerTemplate("small", cpus=1, memory=Memory.of_gib(1), env={"WHO": "small", "PASSWORD": SECRET}),
    "large": WorkerTemplate("large", cpus=2, env={"WHO": "large"}),
}


def variable(name: str) -> str | None:
    return os.environ.get(name)


def die() -> None:
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def expect_no_secrets(shown: str, handle: ClusterHandle) -> None:
    """In what others may see of a worker."""
    key = Path(handle.backend.handout, "key.pem").read_text().splitlines()[1]
    assert "lab/worker:1.0" in shown
    for secret in (SECRET, key, "PRIVATE KEY"):
        assert secret not in shown


def lose_a_worker(handle: ClusterHandle) -> dict[str, Any]:
    """What is told of a worker that its task killed; another one has come in its place."""
    heard: list[tuple[str, dict[str, Any]]] = []
    handle.backend.listeners.append(lambda what, facts: heard.append((what, facts)))
    with handle.client_factory() as client:
        with pytest.raises(WorkerKilledError):
            client.submit(die, tag="small", retries=0).result(timeout=LONG_S)
        [facts, *_] = until(lambda: [facts for what, facts in heard if what == "worker-lost"])
        assert until(lambda: client.worker_count("small") == 1)
    return facts


def all_ended(running: Iterable[Running]) -> bool:
    return all(one.process.poll() is not None for one in running)


class Driver:
    """A program of its own that has started a worker, said which run it is, and can be killed."""

    def __init__(self, folder: Path, text: str) -> None:
        script = folder / "driver.py"
        script.write_text(text)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout is not None
        self.run = self.process.stdout.readline().strip()
        assert self.run

    def kill(self) -> list[psutil.Process]:
        """The processes that it leaves behind to clear away."""
        reapers = psutil.Process(self.process.pid).children()
        self.process.kill()
        self.process.communicate()
        return reapers
