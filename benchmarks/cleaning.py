"""Label cleaning in the process beside the way that forks: the same labels, by turns, and the same labels found."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from scalable_finetune.cleaning import ranked_issues

SIZES = ((2_000, 2), (2_000, 3), (20_000, 3))  # events and classes: standard training sets, and the largest heavy one
WORKERS = {"forking, 2 workers": 2, "forking, as many as cores": None}
ROUNDS = 15
GOAL = 2.0  # times the forking way that it may take at most


def measure() -> dict[str, Any]:
    find = import_module("cleanlab.filter").find_label_issues
    found: dict[str, Any] = {"goal_ratio": GOAL}
    for events, classes in SIZES:
        labels, probabilities = made(events, classes)
        ways: dict[str, Callable[[], Any]] = {"in_process": partial(ranked_issues, labels, probabilities)}
        for name, workers in WORKERS.items():
            ways[name] = partial(
                find, labels, probabilities, return_indices_ranked_by="self_confidence", n_jobs=workers
            )
        expected = ways["in_process"]()
        assert all(np.array_equal(way(), expected) for way in ways.values())
        times = taken(ways)
        found[f"{events} × {classes}"] = {
            **{f"{name}_ms": each * 1000 for name, each in times.items()},
            "ratio": times["in_process"] / min(times[name] for name in WORKERS),
            "found": len(expected),
        }
    return found


def taken(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in times.items()}


def made(events: int, classes: int) -> tuple[Any, Any]:
    """Labels a tenth of which is wrong, and probabilities that know better."""
    random = np.random.default_rng(0)
    truth = random.integers(0, classes, events)
    probabilities = random.dirichlet([1.0] * classes, events) * 0.3 + 0.7 * np.eye(classes)[truth]
    wrong = random.random(events) < 0.1
    return np.where(wrong, (truth + 1) % classes, truth), probabilities
