"""A run of real processes that do nothing: workers that keep marked runners alive, and a journal that tells of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scalable import proc
from scalable.mpi import RUNNER_MARK
from scalable.observe import Journal, RunFolder
from tests.helpers.waiting import until

RUNNER = "import subprocess, time; subprocess.Popen(['sleep', '300']); time.sleep(300)"
WORKER = f"""
import os, subprocess, sys, time
runners = []
while True:
    runners = [one for one in runners if one.poll() is None]
    while len(runners) < int(sys.argv[1]):
        env = {{**os.environ, {RUNNER_MARK!r}: os.urandom(8).hex()}}
        runners.append(subprocess.Popen([sys.executable, "-S", "-c", {RUNNER!r}], env=env, start_new_session=True))
    time.sleep(0.02)
"""


@dataclass
class Crowd:
    run: RunFolder
    journal: Journal
    workers: dict[str, subprocess.Popen[bytes]]

    @classmethod
    @contextmanager
    def gathered(cls, workers: int, runners: int) -> Iterator[Crowd]:
        run = RunFolder.create("crowd")
        facts = {"t": time.time(), "run_id": run.run_id, "pid": os.getpid(), "host": socket.gethostname()}
        run.write_run({**facts, "scheduler": "tcp://127.0.0.1:1"})
        command = [sys.executable, "-S", "-c", WORKER, str(runners)]
        with Journal(run.journal) as journal:
            journal.write("run-started", **facts)
            made = cls(run, journal, {})
            try:
                for number in range(workers):
                    made.workers[f"model-{number}"] = subprocess.Popen(command, start_new_session=True)
                for name, process in made.workers.items():
                    made.join(name, process.pid)
                assert until(lambda: len(made.marked()) == 2 * workers * runners)  # runners, and a child of each
                yield made
            finally:
                for process in made.workers.values():
                    proc.kill_tree(process.pid)
                    process.wait()

    def join(self, name: str, pid: int, host: str = "127.0.0.1", t: float | None = None) -> None:
        self.journal.write("worker-joined", worker=name, tag="model", pid=pid, host=host, **({"t": t} if t else {}))
        self.journal.flush()

    def marked(self) -> list[int]:
        below = [pid for worker in self.workers.values() for pid in proc.tree(worker.pid)[1:]]
        return [pid for pid in below if proc.alive(pid) and f"\0{RUNNER_MARK}=".encode() in environ(pid)]


def environ(pid: int) -> bytes:
    try:
        return b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
