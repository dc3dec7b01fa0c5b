"""A real run on this machine, replayed by the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MANIFEST = """version: 1
project: {name: again}
targets: {local: {provider: local, max_workers: 2, processes: true}}
components: {model: {cpus: 1, memory: 500MiB}}
tasks:
  first: {component: model, run: "models:steps", arguments: {count: 30}}
  second: {component: model, run: "models:steps", arguments: {count: 20}}
  third: {component: model, run: "models:dies_once"}
  fourth: {component: model, run: "models:steps", arguments: {count: 30}}
  fifth: {component: model, run: "models:steps", arguments: {count: 20}}
policies: {retry: {times: 1, delay: 1s}}
"""
MODELS = """
import os
import time
from pathlib import Path

import scalable


def steps(count):
    for step in range(count):
        scalable.progress(step, count)
        time.sleep(0.1)


def dies_once():
    time.sleep(1)
    if not Path("died").exists():
        Path("died").touch()
        os.abort()
"""
WITHIN_S = 120


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("MANIFEST", "TARGET", "RUNS_DIR"):
        monkeypatch.delenv(f"SCALABLE_{name}", raising=False)
    Path("scalable.yaml").write_text(MANIFEST, encoding="utf-8")
    Path("models.py").write_text(MODELS, encoding="utf-8")
    return tmp_path


def scalable(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scalable", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)


def test_a_real_run_is_decided_again_as_it_was_and_its_simulation_ends_when_it_did() -> None:
    assert scalable("run").returncode == 0
    answer = scalable("forecast", "replay", "--format", "json")
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    assert found["same"]
    assert found["simulated"]["actual_s"] > 5, "two workers, 11 s of work and a retry after 1 s"
    assert abs(found["simulated"]["off"]) <= 0.05
