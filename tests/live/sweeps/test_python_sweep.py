"""A script without a guard runs its sweep in processes of their own, and a second time computes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json
import scalable

print("started")

def weight(model):
    return {"logreg": 1, "svm": 2}[model]

@scalable.stage
def prepared(dataset):
    return len(dataset)

def score(prepared, model, fold):
    return {"accuracy": prepared * weight(model) + fold / 10 + (fold - 1) * weight(model) / 100}

sweep = scalable.Sweep(score, compare={"model": ["logreg", "svm"]}, metrics={"accuracy": "higher"},
                       over={"dataset": ["wine", "digits"], "fold": scalable.folds(3)})
result = sweep.run(workers=2, progress=False)
print(json.dumps({"computed": result.outcome.computed, "executed": dict(result.outcome.executed),
                  "rows": len(result.frame), "best": result.leaderboard().lines[0].variant,
                  "complete": sweep.decide().complete}))
"""


def run(*command: str, folder: Path, source: str | None = None) -> tuple[list[str], dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, input=source, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    return lines, json.loads(last)


@pytest.mark.journey
def test_a_script_without_a_guard_runs_its_sweep_once(tmp_path: Path) -> None:
    script = tmp_path / "bench.py"
    script.write_text(SCRIPT)
    lines, first = run("bench.py", folder=tmp_path)
    assert lines == ["started"], "no worker runs the script"
    assert first == {
        "computed": 12, "executed": {"prepared": 2, "score": 12}, "rows": 12, "best": "svm", "complete": True
    }  # fmt: skip
    lines, second = run("bench.py", folder=tmp_path)
    assert lines == ["started"]
    assert second["computed"] == 0 and second["complete"]
    script.write_text(SCRIPT.replace("fold / 10", "fold / 20"))
    lines, changed = run("bench.py", folder=tmp_path)
    assert lines == ["started"]
    assert changed["computed"] == 12


def test_code_without_a_file_runs_its_sweep(tmp_path: Path) -> None:
    lines, first = run("-", folder=tmp_path, source=SCRIPT)
    assert (lines, first["computed"]) == (["started"], 12)
