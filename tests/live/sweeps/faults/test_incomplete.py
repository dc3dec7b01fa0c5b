"""A sweep with one failed run: reported as incomplete, never a reason to lock anything, and whole once resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from scalable.cli.main import main
from tests.helpers.session.builders import Project
from tests.helpers.session.fixtures import project

__all__ = ["project"]

CODE = """
from pathlib import Path

def score(*, asset, fold, calibration="none"):
    if Path("broken").exists() and (asset, fold, calibration) == ("C", 3, "isotonic"):
        raise ValueError("no price at 2024-03-01")
    noise = (7 * fold + 3 * ord(asset)) % 11 / 20
    gain = 1.0 + noise / 2 if calibration == "isotonic" else 0.0
    return {"sharpe": 1 + noise + gain, "sortino": 2 + noise + gain, "trades": 90 + fold}
"""


def manifest(module: str) -> str:
    sweep = {"factor": "calibration", "variants": ["none", "isotonic"], "assets": list("ABCDE"), "folds": 5}
    document = {
        "version": 1, "project": {"name": "small"}, "targets": {"here": {"provider": "local", "max_workers": 2}},
        "policies": {"retry": {"delay": "0s"}}, "sweeps": {"calibration": {**sweep, "run": f"{module}:score"}},
    }  # fmt: skip
    return yaml.safe_dump(document)


@pytest.mark.journey
def test_a_failed_run_makes_a_sweep_incomplete_and_its_verdict_no_lock_until_it_is_resumed(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("scalable.yaml").write_text(manifest(project.module(CODE)), encoding="utf-8")
    broken = Path("broken")
    broken.touch()

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(list(arguments))
        printed = capsys.readouterr()
        return status, printed.out, " ".join(printed.err.split())

    status, out, _ = call("run", "--sweep", "calibration", "--format", "json")
    told = json.loads(out)
    assert (status, told["complete"], told["finished"], told["expected"]) == (1, False, 49, 50)
    assert told["failed"] == {"isotonic C fold 3": "ValueError: no price at 2024-03-01"}
    assert project.ended()[0] == "failed"

    status, out, _ = call("decide", "calibration", "--format", "json")
    assert status == 1
    assert [one["verdict"] for one in json.loads(out)["variants"]] != ["LOCK"]
    status, _, said = call("lock", "calibration", "isotonic")
    assert status == 1 and "1 row failed" in said

    broken.unlink()
    status, out, _ = call("run", "--sweep", "calibration", "--format", "json")
    assert (status, json.loads(out)["computed"]) == (0, 1)
    status, out, _ = call("decide", "calibration", "--format", "json")
    assert (status, [one["verdict"] for one in json.loads(out)["variants"]]) == (0, ["LOCK"])
    assert call("lock", "calibration", "isotonic")[0] == 0
