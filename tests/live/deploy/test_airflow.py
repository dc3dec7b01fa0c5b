"""The rendered DAG, loaded with stand-ins that remember what they were told; Airflow itself is in tests/system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scalable.deploy.airflow import render
from tests.helpers.deploy.airflow import CLUSTER, manifest


@pytest.mark.parametrize("target", ["cluster", "here"])
def test_the_file_is_formatted_as_people_format_theirs(tmp_path: Path, target: str) -> None:
    long = {
        "LONG_NAME_OF_A_VARIABLE": "a value that is long enough to need a line",
        "ANOTHER_VARIABLE_HERE": "and more",
    }
    made = manifest(target={"env": {**CLUSTER["env"], **long, "THIRD": 'with "quotes"'}})  # type: ignore[dict-item]
    [(name, text)] = render(made, target, "calibration", manifest_path=Path("lab.yaml")).items()
    assert name == "scalable_calibration.py"
    (tmp_path / name).write_text(text, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff"]
    options = ["--isolated", "--line-length", "120", str(tmp_path / name)]
    for command in (["format", "--diff"], ["check", "--select", "E,F,W,I,B"]):
        done = subprocess.run([*ruff, *command, *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
