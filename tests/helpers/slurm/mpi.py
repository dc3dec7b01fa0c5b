"""A project on Slurm whose task is a program of four processes on two nodes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from scalable.observe import RunFolder
from scalable.observe.journal import read
from scalable.session.session import ScalableSession
from tests.helpers.slurm.helpers import left_by

RANK = """
import os, pathlib, sys, time
folder, what = pathlib.Path(sys.argv[1]), sys.argv[2]
rank, node = int(os.environ["SLURM_PROCID"]), os.environ["SLURMD_NODENAME"]
threads = os.environ["OMP_NUM_THREADS"]
(folder / f"rank-{rank}-{node}-{os.environ['SLURM_NTASKS']}-{threads}").touch()
if what == "hold":
    held = b"x" * (60 * 2**20)
    while not (folder / "measured").exists():
        time.sleep(0.05)
if what == "stay":
    time.sleep(600)
if what == "grow" and rank == 3:
    held = []
    while True:
        held.append(b"x" * (20 * 2**20))
        time.sleep(0.05)
if what == "grow":
    time.sleep(600)
if what == "fail" and rank == 2:
    sys.exit(9)
if what == "fail":
    time.sleep(600)
"""
MODEL = f"""
import pathlib, sys, threading, time
from scalable import mpi

def ranks(folder, what):
    mpi.run([{sys.executable!r}, "rank.py", folder, what])
    return sorted(path.name for path in pathlib.Path(folder).glob("rank-*"))

def measured(folder):
    def watch():
        while not mpi.highest:
            time.sleep(0.05)
        (pathlib.Path(folder) / "measured").touch()
    watching = threading.Thread(target=watch)
    watching.start()
    found = ranks(folder, "hold")
    watching.join()
    return found
"""


class MpiProject:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = folder / "told"
        self.told.mkdir()
        (folder / "model.py").write_text(MODEL)
        (folder / "rank.py").write_text(RANK)

    def session(self, function: str, **arguments: Any) -> ScalableSession:
        """A session with one task, on a component of two nodes with two processes each."""
        size = {"nodes": 2, "tasks_per_node": 2, "memory": "500M", "env": {"LEFT_BY": self.folder.name}}
        hpc = {"provider": "slurm", "queue": "main", "interface": "lo", "walltime": "00:30:00", "cpu_price": "1 EUR/h"}
        task = {"component": "model", "run": f"model:{function}", "arguments": {"folder": str(self.told), **arguments}}
        manifest = {
            "version": 1, "project": {"name": "ranks"}, "targets": {"hpc": hpc}, "components": {"model": size},
            "tasks": {"job": task}, "policies": {"retry": {"times": 0}},
        }  # fmt: skip
        (self.folder / "scalable.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
        return ScalableSession.from_yaml(self.folder / "scalable.yaml", target="hpc")

    def journal(self, kind: str) -> list[dict[str, Any]]:
        (run,) = RunFolder.list(self.folder / ".scalable/runs")
        return [record for record in read(run.journal) if record["kind"] == kind]

    def ranks(self) -> list[int]:
        """Living processes of the program, on whichever node."""
        return [pid for pid in left_by(self.folder.name) if b"rank.py" in command(pid)]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1]
    except (OSError, IndexError):
        return b""
