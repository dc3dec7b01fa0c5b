"""``scalable ops slots``, and what makes several runs of ``scalable run`` one sweep."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

CODE = """
import os

def score(depth, asset, fold):
    if os.path.exists("broken"):
        raise ValueError("no")
    return {"score": depth + fold}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sweep of 2 depths × 2 assets × 2 folds whose target is a cluster that nobody here can reach."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "scored", raising=False)  # that of another test in this process
    (tmp_path / "scored.py").write_text(CODE, encoding="utf-8")
    sweep = {"factor": "depth", "variants": [1, 2], "assets": ["A", "B"], "folds": 2, "run": "scored:score"}
    manifest = {
        "version": 1,
        "project": {"name": "proof"},
        "targets": {"far": {"provider": "slurm", "queue": "batch"}},
        "sweeps": {"trial": sweep},
        "policies": {"retry": {"delay": "0s"}, "concurrency": {"normal": 1}},
    }
    (tmp_path / "scalable.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    return tmp_path
