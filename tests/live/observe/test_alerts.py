"""Alerts begin when a condition has held long enough, end when it has been over long enough, and say what to do."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from scalable.observe.alerts import RULES, Rule, scaled
from tests.tools.system import search_path


@pytest.mark.skipif(shutil.which("promtool", path=search_path()) is None, reason="promtool is not installed")
@pytest.mark.parametrize("rules", [RULES, scaled(0.001)], ids=["real", "scaled"])
def test_prometheus_reads_every_rule_as_it_is(rules: tuple[Rule, ...], tmp_path: Path) -> None:
    text = {
        "groups": [
            {
                "name": "scalable",
                "rules": [
                    {"alert": rule.name, "expr": rule.promql(), "annotations": rule.annotations()} for rule in rules
                ],
            }
        ]
    }
    path = tmp_path / "rules.yaml"  # JSON is YAML
    path.write_text(json.dumps(text), encoding="utf-8")
    done = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
