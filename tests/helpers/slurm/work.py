"""Tasks for tests. Each is made inside a function, so that it travels by value: the tests are not on the nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path


def hoarding() -> Callable[[], int]:
    def hoard() -> int:
        """Uses more memory than any worker of the tests may."""
        much = bytearray(900_000_000)
        time.sleep(60)
        return len(much)

    return hoard


def waiting() -> Callable[[Path], str]:
    def finish_when_told(told: Path) -> str:
        """Says in which job it runs, and goes on until a file is there."""
        (told.parent / f"running-{os.environ['SLURM_JOB_ID']}").touch()
        while not told.exists():
            time.sleep(0.05)
        return told.name

    return finish_when_told


def calling() -> Callable[[str], int]:
    def start_a_child(name: str) -> int:
        """Waits for a process of its own, as code does that calls a program."""
        return subprocess.run(["sleep", "300"], env={**os.environ, "LEFT_BY": name}, check=False).returncode

    return start_a_child


def unknown_to_nodes() -> Callable[[], str]:
    """A function that travels by name, of a module that only this process has."""
    ghost = sys.modules["ghost"] = types.ModuleType("ghost")
    exec("def appear():\n    return 'never'", ghost.__dict__)
    function: Callable[[], str] = ghost.__dict__["appear"]
    return function
