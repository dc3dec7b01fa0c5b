"""A real session that gives cause for alerts: silence, a long run, a full memory, a crash, a store that is not there,
and work that no worker is there for. Its tasks start when it is told to provoke, and end when it is told to calm down.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from scalable.chaos.damage import blocked
from scalable.session.session import ScalableSession
from scalable.store import Store, open_store
from scalable.store.urls import file_of
from tests.helpers.waiting import until

CODE = """\
import os
import signal
import time
from pathlib import Path

import scalable

HERE = Path(__file__).parent


def calm(alive=True):
    while not (HERE / "calm").exists():
        time.sleep(0.05)
        if alive:
            scalable.progress(1, 2)


def silent():
    scalable.progress(1, 2, "the last that is heard of it")
    calm(alive=False)


def large():
    held = bytearray(800 << 20)
    held[::4096] = b"x" * len(held[::4096])
    calm()


def crashing():
    if not (HERE / "crashed").exists():
        (HERE / "crashed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    while not (HERE / "blocked").exists():
        time.sleep(0.05)
        scalable.progress(1, 2)


def late():
    calm()
"""
TASKS = ("silent", "large", "crashing", "late")
ALERTS = {
    "Stuck": "a real run that says nothing for 3 s",
    "RunLong": "a real run of more than 6 s",
    "WorkerMemory": "a real run that holds 800 MiB on a worker of 1 GiB",
    "RetriesUsed": "a real run that is killed once",
    "DependencyDown": "the real store cannot be written",
    "PendingWork": "a real task for which there is no worker",
}


class Impatient(ScalableSession):
    """Misses its store as much sooner as the rules are faster."""

    def open_store(self) -> Store:
        return open_store(self.store_url, patience_s=0.2, ask_again_s=0.5)


class Real:
    alerts = ALERTS

    def __init__(self, session: ScalableSession, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self.run = session.folder.run_id
        self.pool = ThreadPoolExecutor()
        self.doing: list[Future[Any]] = []

    def provoke(self) -> None:
        self.doing += [self.pool.submit(self.work), self.pool.submit(self.block)]

    def calm(self) -> None:
        (self.folder / "calm").touch()
        self.doing.append(self.pool.submit(self.session.scale, {"late": 1}))

    def end(self) -> None:
        """Raises what went wrong meanwhile."""
        if not (self.folder / "calm").exists():
            self.calm()
        self.pool.shutdown()
        for one in self.doing:
            one.result()

    def work(self) -> None:
        self.session.scale({"late": 0})
        self.session.run_tasks()

    def block(self) -> None:
        """Until calm: the row of what was killed and run again cannot be stored."""
        crashed, may_end, calm = (self.folder / name for name in ("crashed", "blocked", "calm"))
        until(lambda: crashed.exists() or calm.exists())
        with blocked(file_of(self.session.store_url)):
            may_end.touch()
            until(calm.exists)


@contextmanager
def real_session(folder: Path) -> Iterator[Real]:
    """``folder`` is the current one, so that its code is found."""
    (folder / "trouble.py").write_text(CODE, encoding="utf-8")
    manifest = {
        "version": 1,
        "project": {"name": "proof"},
        "targets": {"here": {"provider": "local", "processes": True, "max_workers": len(TASKS)}},
        "components": {name: {"cpus": 1, "memory": "1GiB"} for name in TASKS},
        "tasks": {name: {"component": name, "run": f"trouble:{name}"} for name in TASKS},
        "policies": {"retry": {"delay": "0.1s"}},
    }
    path = folder / "scalable.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    session = Impatient.from_yaml(path)
    with session:
        real = Real(session, folder)
        try:
            yield real
        finally:
            real.end()
