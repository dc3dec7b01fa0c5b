"""A project on Slurm whose driver is a batch job, and what its commands say from a shell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from scalable.observe.drivers import DriverFolder
from tests.helpers.slurm.helpers import SMALL, WITHIN_S
from tests.helpers.waiting import eventually

LONG_S = 3 * WITHIN_S  # two drivers begin one after the other, on a busy machine
CODE = """
import time
from pathlib import Path

NOTES = Path({notes!r})


def note(text):
    with NOTES.open("a") as file:
        file.write(text + "\\n")


def wait_for(name):
    while not NOTES.with_name(name).exists():
        time.sleep(0.1)


def first():
    note("first begins")
    wait_for("go-on")
    note("first ends")
    return 1


def second(first):
    note("second")
    return first + 1
"""


class Lab:
    """A project on Slurm, and what its commands say from a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        driver = {"walltime": "00:30:00", "memory": SMALL, "grace": "5m"}
        target = {"provider": "slurm", "queue": "main", "interface": "lo", "walltime": "00:30:00", "max_workers": 1}
        tasks = {
            "first": {"component": "small", "run": "lab:first", "cache": True},
            "second": {"component": "small", "run": "lab:second", "needs": ["first"]},
        }
        manifest = {
            "version": 1, "project": {"name": "lab"}, "targets": {"hpc": {**target, "driver": driver}},
            "components": {"small": {"memory": SMALL}}, "tasks": tasks, "budget": {"allocation": "50 core-hours"},
        }  # fmt: skip
        (folder / "scalable.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
        (folder / "lab.py").write_text(CODE.format(notes=str(self.notes)))

    def call(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "scalable", *words], cwd=self.folder, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def detach(self) -> DriverFolder:
        """Start the driver from a shell of its own, which ends at once with everything in its session."""
        command = f"{sys.executable} -m scalable run --detach --format json > started.json; kill -KILL -- -$$"
        shell = subprocess.run(["setsid", "--wait", "bash", "-c", command], cwd=self.folder, check=False)
        assert shell.returncode != 0, "the shell and its session were killed"
        started = json.loads((self.folder / "started.json").read_text())
        return DriverFolder.find(started["driver"], self.folder / ".scalable/runs")

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.call("status", "--format", "json"))
        return status

    def noted(self) -> list[str]:
        return self.notes.read_text().split("\n")[:-1] if self.notes.exists() else []

    def wait_until(self, text: str) -> None:
        eventually(lambda: text in self.noted(), lambda: f"{text!r} in {self.noted()}; {self.told()}", LONG_S)

    def told(self) -> list[str]:
        return [driver.log.read_text() for driver in DriverFolder.all(self.folder / ".scalable/runs")]

    def go_on(self) -> None:
        self.folder.joinpath("go-on").touch()


def finished(driver: DriverFolder) -> None:
    eventually(lambda: driver.over, lambda: f"{driver.id} to be over: {driver.log.read_text()}", LONG_S)
