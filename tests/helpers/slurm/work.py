"""Tasks for tests. Each is made inside a function, so that it travels by value: the tests are not on the nodes."""

from __future__ import annotations

import ctypes
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


def outlasting() -> Callable[[Path], int]:
    def outlast(begun: Path) -> int:
        """Notes that it was begun, and takes longer than any job of the tests."""
        with begun.open("a") as file:
            file.write("x")
        time.sleep(3000)
        return 1

    return outlast


def crashing() -> Callable[[], None]:
    def crash() -> None:
        """Reads where there is no memory, as a compiled model with a wrong index does."""
        ctypes.string_at(0)

    return crash


def unknown_to_nodes() -> Callable[[], str]:
    """A function that travels by name, of a module that only this process has."""
    ghost = sys.modules["ghost"] = types.ModuleType("ghost")
    exec("def appear():\n    return 'never'", ghost.__dict__)
    function: Callable[[], str] = ghost.__dict__["appear"]
    return function
