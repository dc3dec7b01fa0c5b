"""The trading workload in miniature: a loop that shares nothing, and sweeps of the same cells in other ways."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from scalable.session.session import ScalableSession
from scalable.store import Filter, open_store
from scalable_finetune.settings import DEFAULTS
from scalable_finetune.workload import WORKLOAD

Cell = tuple[object, str, int, float]
Metrics = dict[Cell, dict[str, Any]]

NAME = "calibration"
TRIALS = 3
SETTINGS = {"years": 1.2, "fold_size": "60d", "n_features": 30, "btc_features": "on"}
SWEEP = {
    "factor": NAME, "variants": ["none", "isotonic"], "assets": ["AAVEUSDC", "OPUSDC"], "folds": 2,
    "costs_bps": [10.0], "trials": TRIALS, "settings": SETTINGS, "run_minutes": 0.01,
}  # fmt: skip


def write(folder: Path, target: dict[str, Any], **sweep: Any) -> Path:
    """A manifest with the sweep; results and artefacts are kept beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    small = {"cpu": 1, "memory": "1GiB"}
    manifest = {
        "version": 1, "project": {"name": "trading"}, "targets": {"here": target},
        "profiles": {"small": {"request": small, "limit": small}}, "store": f"sqlite:///{folder}/results.db",
        "artefacts": f"{folder}/artefacts", "policies": {"retry": {"delay": "0s"}},
        "sweeps": {NAME: {**SWEEP, "profile": "small", **sweep}},
    }  # fmt: skip
    file = folder / "scalable.yaml"
    file.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    return file


def swept(folder: Path, target: dict[str, Any], **sweep: Any) -> Metrics:
    """The rows that a session in this process gives."""
    session = ScalableSession.from_yaml(write(folder, target, **sweep), target="here")
    outcome = session.run_sweep(NAME)
    assert outcome.complete, outcome.why()
    return rows(folder)


def rows(folder: Path) -> Metrics:
    with open_store(f"sqlite:///{folder}/results.db") as store:
        found = list(store.rows(Filter(sweep=NAME)))
    assert all(row.finished for row in found)
    return {
        (row.variant, str(row.axes["asset"]), int(row.axes["fold"]), float(row.axes["cost_bps"])): dict(row.metrics)
        for row in found
    }


@cache
def naive(folds: int = 2) -> Metrics:
    """Cell by cell, every stage of each called as the function it is, in this process."""
    found: Metrics = {}
    for variant in SWEEP["variants"]:  # type: ignore[attr-defined]
        for asset in SWEEP["assets"]:  # type: ignore[attr-defined]
            for fold in range(folds):
                cell = {
                    **DEFAULTS, **SETTINGS, "trials": TRIALS, "asset": asset, "folds": folds, "fold": fold,
                    "cost_bps": 10.0, NAME: variant,
                }  # fmt: skip
                found[variant, asset, fold, 10.0] = row_of(cell)
    return found


def row_of(cell: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for stage in WORKLOAD.stages:
        if stage.left_out(cell):
            values[stage.name] = values[stage.needs[0]]
            continue
        inputs = [values[need] if given else None for need, given in stage.needed(cell).items()]
        values[stage.name] = stage(*inputs, **{name: cell[name] for name in stage.reads})
    return dict(values[WORKLOAD.row.name])


def assert_same(one: Metrics, other: Metrics, within: float = 1e-12) -> None:
    """Every metric of every row, NaN where the other is."""
    assert set(one) == set(other)
    for cell, metrics in one.items():
        assert set(metrics) == set(other[cell])
        for name, value in metrics.items():
            theirs = other[cell][name]
            both_nan = value != value and theirs != theirs
            assert both_nan or abs(value - theirs) <= within * max(1.0, abs(value)), f"{cell} {name}"
