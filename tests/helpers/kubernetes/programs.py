"""A user's program on Kubernetes, in a process of its own, to be ended in all the ways programs end."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.helpers.kubernetes.helpers import SMALL, Project

PROGRAM = """
import signal, subprocess, time
from scalable.session.session import ScalableSession

signal.signal(signal.SIGINT, signal.default_int_handler)  # what was started in the background would ignore it

session = ScalableSession.from_yaml("scalable.yaml", target="there")
client = session.start()
def call(number):
    return subprocess.run(["sleep", "300"]).returncode
futures = client.map(call, range({workers}), tag="demeter")
cluster = session.live().cluster
while cluster.worker_count() < {workers}:
    time.sleep(0.05)
time.sleep(0.5)
print(cluster.launcher.reaper.process.pid, flush=True)
time.sleep(300)
"""


class Program:
    """Starts workers, keeps them busy, and waits to be ended."""

    def __init__(self, project: Project, pool: str = "steady", workers: int = 2, wall: list[str] | None = None) -> None:
        project.write(project.target(pool, max_workers=workers), components={"demeter": SMALL})
        (project.folder / "program.py").write_text(PROGRAM.format(workers=workers))
        self.process = subprocess.Popen(
            [*(wall or []), sys.executable, "program.py"], cwd=project.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, "PYTHONPATH": ""},
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.reaper = int(line)

    def over(self) -> str:
        """What it printed as it ended."""
        return self.process.communicate(timeout=60)[1]

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.communicate()
