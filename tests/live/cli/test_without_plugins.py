"""Without the trading workload, as in an environment in which it is not installed, all that is general works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WITHIN_S = 180.0
ABSENT = """
import importlib.metadata
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "scalable_finetune":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
every = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **asked: () if asked.get("group") == "scalable.workloads" else every(**asked)
"""
BENCH = """
def score(model, dataset, seed):
    return {"accuracy": len(model) / (len(dataset) + seed), "f1": 0.5}
"""
MANIFEST = """version: 1
project: {name: bench}
targets: {local: {provider: local, max_workers: 1, processes: true}}
sweeps:
  models: {run: "bench:score", compare: {model: [tree, forest]}, over: {dataset: [wine, digits]}, average: {seed: 2}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent/sitecustomize.py").write_text(ABSENT, encoding="utf-8")
    (tmp_path / "bench.py").write_text(BENCH, encoding="utf-8")
    return tmp_path


def scalable(folder: Path, *words: str) -> tuple[int, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCALABLE_")}
    ended = subprocess.run(
        [sys.executable, "-m", "scalable", *words], cwd=folder, env={**kept, "PYTHONPATH": str(folder / "absent")},
        capture_output=True, text=True, timeout=WITHIN_S, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


def test_a_plain_sweep_goes_from_the_check_to_the_report(folder: Path) -> None:
    (folder / "scalable.yaml").write_text(MANIFEST, encoding="utf-8")
    for command in ("validate", "plan", "run", "results", "decide", "report"):
        status, text = scalable(folder, command)
        assert status == 0, f"{command}: {text}"
    assert "accuracy" in scalable(folder, "results")[1]


@pytest.mark.parametrize(
    ("sweep", "place"),
    [
        ("factor: calibration, assets: [A]", "sweeps.mine.factor"),
        ("workload: finetune, compare: {calibration: [none, sigmoid]}, over: {asset: [A]}", "sweeps.mine.workload"),
    ],
)
def test_a_sweep_of_a_plugin_that_is_not_installed_names_it(folder: Path, sweep: str, place: str) -> None:
    text = f"version: 1\nproject: {{name: p}}\nsweeps:\n  mine: {{{sweep}}}\n"
    (folder / "scalable.yaml").write_text(text, encoding="utf-8")
    status, told = scalable(folder, "validate", "--format", "json")
    assert status == 1 and "missing-plugin" in told and place in told and "finetune" in told


def test_the_former_name_of_a_plugin_that_is_not_installed_names_it(folder: Path) -> None:
    text = MANIFEST.replace("bench:score", "scalable.finetune.discovery:WORKLOAD")
    (folder / "scalable.yaml").write_text(text, encoding="utf-8")
    status, told = scalable(folder, "run")
    assert status != 0 and "scalable_finetune" in told
