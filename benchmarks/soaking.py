"""What the sessions of a soak do: tasks of which one hangs once, own sweeps, sweeps of the shipped workload.

Sizes are those of a machine with two cores; memory limits are real ones, and heavy work comes near to its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers import WORKERS

PLAINS = 40
CODE = '''
import time
from pathlib import Path

from scalable import progress


def score(asset, variant, fold, seed):
    """Some tenths of a second in steps that are told, and a number that depends on all it was given."""
    number = seed
    for step in range(8):
        progress(step, 8)
        time.sleep(0.03)
        for letter in f"{asset} {variant} {fold} {step}":
            number = (number * 31 + ord(letter)) % 1_000_003
    return {"score": float(number)}


def hoard(asset, variant, fold, seed):
    """Half a second with most of the memory that its worker may have."""
    held = bytearray(400 << 20)
    held[::4096] = b"x" * len(held[::4096])
    found = score(asset, variant, fold, seed)
    return {"score": found["score"] + len(held) % 7}


def step(number, **before):
    for at in range(5):
        progress(at, 5)
        time.sleep(0.1)
    return number + sum(before.values())


def hang_once(name):
    """Stuck until it was found to be, and killed for that, not by a storm sooner."""
    flag = Path(name)
    if not flag.exists() or time.time() - flag.stat().st_mtime < 3:
        flag.touch()
        progress(0, 1)
        time.sleep(3600)
    return 7
'''
PATIENT = {"times": 50, "delay": "0.1s", "cap": "1s"}  # storms hit the same run more than once
STEPS = ("first", "second", "third", "fourth")
ANSWERS = {
    "first": 0, "second": 1, "third": 3, "fourth": 7, "hanging": 7, **{f"plain {n}": n * n for n in range(PLAINS)},
}  # fmt: skip


def square(number: int) -> int:
    """A plain Dask task. It stands in a module that is imported, so that it travels by its name."""
    return number * number


@dataclass(frozen=True)
class Kind:
    name: str
    expected: int
    """Rows, or results of tasks."""
    sections: Mapping[str, Any]
    sweep: str = ""
    stuck_after: str = "60s"
    faults: int = 6
    storm_s: float = 4.0
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What comes out of tasks; what comes out of a sweep is what a calm one gave."""

    def manifest(self) -> dict[str, Any]:
        return {
            "version": 1,
            "project": {"name": self.name},
            "targets": {"here": {"provider": "local", "max_workers": WORKERS, "processes": True}},
            "store": "sqlite:///results.db",
            "artefacts": "artefacts",
            "policies": {"retry": PATIENT, "stuck": {"after": self.stuck_after}},
            **self.sections,
        }


def chain() -> dict[str, Any]:
    """Tasks that wait for one another, and one that hangs."""
    tasks: dict[str, Any] = {
        name: {"component": "model", "run": "soaking_code:step", "arguments": {"number": at}, "needs": list(STEPS[:at])}
        for at, name in enumerate(STEPS)
    }
    hanging = {"component": "model", "run": "soaking_code:hang_once", "arguments": {"name": "hung"}}
    return {"components": {"model": {"memory": "1GiB"}}, "tasks": {**tasks, "hanging": hanging}}


def own(function: str, **sweep: Any) -> dict[str, Any]:
    usual = {"factor": "size", "variants": [1, 2], "assets": ["A", "BB", "CCC"], "folds": 4}
    return {"sweeps": {"own": {**usual, "run": f"soaking_code:{function}", **sweep}}}


def shipped(factor: str, **sweep: Any) -> dict[str, Any]:
    usual = {"assets": ["AAVEUSDC", "UNIUSDC"], "folds": 2, "costs_bps": [10, 20], "trials": 6}
    return {"sweeps": {"factor": {"factor": factor, "settings": {"years": 1}, **usual, **sweep}}}


def profile(memory: str, *, alone: bool = False) -> dict[str, Any]:
    size = {"cpu": 1, "memory": memory}
    return {"request": size, "limit": size, "alone": alone}


SMALL = {"profiles": {"standard": profile("512MiB"), "heavy": profile("768MiB", alone=True)}}
KINDS = {
    kind.name: kind
    for kind in (
        Kind("tasks", len(ANSWERS), chain(), stuck_after="3s", faults=4, storm_s=5.0, answers=ANSWERS),
        Kind("own", 24, {**own("score"), **SMALL}, "own"),
        Kind("hoard", 12, {**own("hoard", folds=2, profile="heavy"),
             "profiles": {"heavy": profile("768MiB", alone=True)}}, "own"),
        Kind("normal", 24, {**shipped("calibration"), **SMALL}, "factor", storm_s=4.0),
        Kind("heavy", 54, {**shipped("cusum_training_mode", assets=["AAVEUSDC", "UNIUSDC", "LDOUSDC"], folds=3,
             trials=10, settings={"years": 3}), **SMALL}, "factor", faults=30, storm_s=60.0),
    )
}  # fmt: skip
LONG = ("tasks", "own", "normal", "heavy", "hoard", "tasks", "normal", "own", "hoard", "normal")
SHORT = ("tasks", "hoard")
