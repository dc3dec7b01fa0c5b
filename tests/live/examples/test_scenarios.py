"""The example of scenarios by years, run as its first lines say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.settings import without_settings

EXAMPLE = ROOT / "examples/scenarios"
PATIENCE_S = 180
JOBS = {"simulate": 48, "trend": 3, "compare": 1}


def test_scenarios_by_years_are_computed_once_and_only_what_is_missing_again(tmp_path: Path) -> None:
    folder = tmp_path / "scenarios"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".scalable", "__pycache__", "out"))
    assert told(folder, "plan")["jobs"] == JOBS

    results = told(folder, "run")["results"]
    tables = sorted((folder / "out").glob("*/*.csv"))
    assert len(tables) == 48
    assert results["trend"]["low"] < results["trend"]["middle"] < results["trend"]["high"]
    assert results["trend"]["high"] == pytest.approx(0.05, abs=0.01)
    assert (folder / "out/summary.csv").read_text().startswith("scenario,degrees a year\nlow,0.0")
    assert recalled(folder) == {"simulate": 0, "trend": 0}

    (folder / "out/middle/2033.csv").unlink()
    assert told(folder, "run")["results"] == results
    assert len(sorted((folder / "out").glob("*/*.csv"))) == 48
    assert recalled(folder) == {"simulate": 47, "trend": 3}, "the file is as it was, so nothing follows from it"
    plan = told(folder, "plan")
    assert plan["jobs"] == JOBS and plan["wall_s"] > 0


def recalled(folder: Path) -> dict[str, int]:
    """By task: how many results of the last run came from the cache."""
    return {task: each["recalled"] for task, each in told(folder, "report")["fan_outs"].items()}


def told(folder: Path, command: str) -> dict[str, Any]:
    env = without_settings()
    line = [sys.executable, "-m", "scalable", command, "--format", "json"]
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
