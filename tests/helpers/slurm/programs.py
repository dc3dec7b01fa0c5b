"""A user's program on Slurm, in a process of its own, to be ended in all the ways programs end."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from functools import cached_property
from pathlib import Path

from tests.helpers.slurm.helpers import left_by, workers_of
from tests.tools.slurm import PrivateSlurm

PROGRAM = """
import os, subprocess, sys, time
from scalable.cluster.client import ScalableClient
from scalable.cluster.slurm.provider import SlurmCluster

cluster = SlurmCluster(queue="main", interface="lo", walltime="00:10:00")
cluster.add_container(tag="wide", cpus=4, memory="400M", env={{"LEFT_BY": {name!r}}})
cluster.add_workers(n={workers}, tag="wide")
client = ScalableClient(cluster)
def call(number):
    return subprocess.run(["sleep", "300"]).returncode
futures = client.map(call, range({workers}), tag="wide")
while cluster.worker_count() < {busy}:
    time.sleep(0.05)
time.sleep(0.5)
print(cluster.launcher.reaper.process.pid, flush=True)
{end}
"""


class Program:
    """A running program; ``reaper`` waits until its workers are busy."""

    def __init__(self, folder: Path, end: str, workers: int, busy: int) -> None:
        self.folder = folder
        self.name = folder.name
        text = PROGRAM.format(name=self.name, workers=workers, busy=busy, end=textwrap.dedent(end))
        (folder / "program.py").write_text(text)
        self.process = subprocess.Popen(
            [sys.executable, "program.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    @cached_property
    def reaper(self) -> int:
        """The process that it leaves behind to clean up."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline() or 0)

    def left(self, slurm: PrivateSlurm) -> list[object]:
        return [*slurm.living(), *workers_of(self.folder), *left_by(self.name), *self.folder.rglob("*.pem")]
