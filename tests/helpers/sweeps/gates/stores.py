"""A folder with a manifest, a workload that computes nothing, and a store with made-up rows of its sweep."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scalable.manifest import load_file
from scalable.store import Row, RowStatus, open_store
from scalable.sweeps.grid import Cell
from scalable.sweeps.loading import outcome
from scalable.sweeps.rows import row_of
from tests.helpers.sweeps.gates.builders import ASSETS, Gains, an_outcome, key

MANIFEST = f"""version: 1
project: {{name: small}}
targets: {{local: {{provider: local, max_workers: 2, processes: true}}}}
profiles: {{standard: {{request: {{cpu: 1, memory: 1GiB}}, limit: {{cpu: 1, memory: 2GiB}}}}}}
sweeps:
  calibration: {{factor: calibration, assets: [{", ".join(ASSETS)}], folds: 5, costs_bps: [10, 30], run: "toy:score"}}
  trees: {{factor: trees, variants: [50, 100, 0.5], assets: [X, Y], folds: 2, run: "toy:score"}}
  forest: {{factor: trees, variants: [50, 200], assets: [X], folds: 2, run: "toy:score"}}
"""
WORKLOAD = '''"""What a sweep would compute."""


def score(*, asset, fold, calibration="none", trees=50):
    return {"sharpe": 1.0}
'''


def a_folder(path: Path, gains: Gains | None = None, **options: Any) -> Path:
    """A finished sweep ``calibration``; what is left out or has failed is up to ``options``, as in ``an_outcome``."""
    (path / "scalable.yaml").write_text(MANIFEST, encoding="utf-8")
    (path / "toy.py").write_text(WORKLOAD, encoding="utf-8")
    made = an_outcome(gains, **options)
    fill(path, lambda cell: made.rows.get(key(cell)))
    return path


def fill(path: Path, make: Callable[[Cell], Row | None], sweep: str = "calibration") -> None:
    manifest = load_file(path / "scalable.yaml", env=os.environ).manifest
    with open_store(f"sqlite:///{path / '.scalable/results.db'}") as store:
        results = outcome(manifest, sweep, store, path)
        rows = []
        for run_key, cell in results.expected:
            if (found := make(cell)) is not None:
                told: dict[str, Any] = {"metrics": found.metrics, "run_status": found.run_status, "error": found.error}
                rows.append(row_of(sweep, results.grid, cell, run_key=run_key, elapsed_s=2.5, **told))
        store.put(rows)


def drop_all(path: Path) -> None:
    """As if nothing of it had ever counted."""
    with open_store(f"sqlite:///{path / '.scalable/results.db'}") as store:
        store.mark_failed(store.keys(), "wrong prices")
        assert all(row.run_status is RowStatus.FAILED for row in store.rows())
