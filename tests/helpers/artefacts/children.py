"""What the tests let other processes do to artefacts: ``python -m tests.helpers.artefacts.children ACTION URL …``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from scalable.store.artefacts import MISSING, Artefacts, open_artefacts
from tests.helpers.paths import ROOT

PATIENCE_S = 60.0  # a child that takes longer hangs
STAGE, KEY = "search", "1" * 32
NUMBERS = 40_000  # of a value: large enough to have a part of its own, and to be caught while it is written


@contextmanager
def child(*arguments: object) -> Iterator[Popen[str]]:
    command = [sys.executable, "-m", "tests.helpers.artefacts.children", *map(str, arguments)]
    with Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: Popen[str]) -> str:
    """The child's next line; a child that has died says nothing."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def value(number: int) -> dict[str, Any]:
    """One that tells if a part of it is of another."""
    import numpy as np

    return {"number": number, "array": np.full(NUMBERS, number, dtype=np.float64)}


def is_whole(found: Any) -> bool:
    return bool(len(found["array"]) == NUMBERS and (found["array"] == found["number"]).all())


def save(artefacts: Artefacts) -> None:
    """The same artefact over and over, until somebody ends it."""
    until = time.monotonic() + PATIENCE_S
    number = 0
    while time.monotonic() < until:
        with artefacts.claimed(STAGE, KEY):
            artefacts.save(STAGE, KEY, value(number))
        number += 1
        if number == 1:
            print("saved", flush=True)


def compute(artefacts: Artefacts, calls: str) -> None:
    """As whoever needs a result does: look, claim, look again, compute."""
    print("ready", flush=True)
    sys.stdin.readline()
    found = artefacts.load(STAGE, KEY)
    if found is MISSING:
        with artefacts.claimed(STAGE, KEY):
            found = artefacts.load(STAGE, KEY)
            if found is MISSING:
                with Path(calls).open("a", encoding="ascii") as file:
                    file.write("called\n")
                time.sleep(0.3)
                found = value(7)
                artefacts.save(STAGE, KEY, found)
    print(found["number"], is_whole(found), flush=True)


def hold(artefacts: Artefacts) -> None:
    """A claim, until somebody ends it."""
    with artefacts.claimed(STAGE, KEY):
        folder = artefacts.scratch(STAGE, KEY)
        assert folder is not None
        (folder / "half").write_text("done", encoding="ascii")
        print("held", flush=True)
        sys.stdin.readline()


def use(artefacts: Artefacts) -> None:
    with artefacts.using("sweep", [KEY]):
        print("using", flush=True)
        sys.stdin.readline()


def collect(artefacts: Artefacts) -> None:
    print(f"removed {len(artefacts.collect(keep_bytes=0).removed)}", flush=True)


ACTIONS: dict[str, Callable[..., None]] = {
    "save": save,
    "compute": compute,
    "hold": hold,
    "use": use,
    "collect": collect,
}

if __name__ == "__main__":
    action, url, *rest = sys.argv[1:]
    ACTIONS[action](open_artefacts(url), *rest)
