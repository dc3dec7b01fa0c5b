"""The example outside trading, run as its first lines say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.helpers.paths import ROOT
from tests.helpers.settings import without_settings

EXAMPLE = ROOT / "examples/ablation"
PATIENCE_S = 120


def test_the_ablation_of_a_pipeline_ends_with_a_decision_and_shares_what_scalers_have_in_common(tmp_path: Path) -> None:
    folder = tmp_path / "ablation"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".scalable", "__pycache__"))

    told = json.loads(scalable(folder, "run", "--format", "json"))
    assert told["complete"]
    assert told["executed"] == {"table": 3, "parts": 15, "filled": 15, "scaled": 30, "row": 45}

    again = scalable(folder, "run")
    assert "nothing: every row was there" in again
    assert "45 of 45 rows, complete" in again
    decision = json.loads(scalable(folder, "decide", "--format", "json"))
    assert decision["recommended"] == "standard"  # scaled features help logistic regression


def scalable(folder: Path, *arguments: str) -> str:
    env = without_settings()
    command = [sys.executable, "-m", "scalable", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
