"""``scalable places``, and what makes several runs of ``scalable run`` one sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from scalable.cli.main import main
from scalable.store import open_store

STORE = "sqlite:///.scalable/results.db"
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


def test_an_asset_runs_here_whatever_the_target_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--sweep", "trial", "--asset", "A", "--here", "--format", "json"]
    assert main(arguments) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["complete"], done["expected"], done["computed"]) == (True, 4, 4)
    assert main(["results", "trial"]) == 0
    assert main(["results", "trial", "--check"]) == 1
    assert "4 of 8 rows, incomplete" in capsys.readouterr().out
    assert main([*arguments[:4], "B", *arguments[5:]]) == 0
    assert main(["results", "trial", "--check", "--format", "json"]) == 0


def test_a_place_is_taken_shown_and_given_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["places"]) == 0
    assert "no sweep runs or waits" in capsys.readouterr().out
    assert main(["places", "take", "trial", "--holder", "nightly 1"]) == 0
    assert "trial may run as nightly 1: its place is kept 15 min after its last run" in capsys.readouterr().out
    assert main(["places", "--format", "json"]) == 0
    [place] = json.loads(capsys.readouterr().out)["places"]
    assert (place["name"], place["kind"], place["holder"], place["held"]) == ("trial", "normal", "nightly 1", True)
    assert main(["places"]) == 0
    assert "nightly 1" in capsys.readouterr().out
    assert main(["places", "leave", "trial", "--holder", "nightly 1"]) == 0
    with open_store(STORE) as store:
        assert store.leases().list() == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("places take", "which sweep, and for whom? write  scalable places take trial --holder ID"),
        ("places take trial", "write  scalable places take trial --holder ID"),
        ("places leave trail --holder x", "sweep 'trail' is not defined; known: trial"),
        ("places list trial", "list shows all places"),
        ("run --sweep trial --asset C --here", "sweeps.trial: asset 'C' is not defined; known: A, B"),
        ("run --sweep trail --here", "sweep 'trail' is not defined; known: trial"),
        ("run --task x --asset A", "--asset is about a sweep; name one: --sweep S"),
        ("run --task x --here", "--here is about a sweep"),
        ("run --workflow scored.py --holder x", "--holder is about a sweep"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, told: str
) -> None:
    assert main(arguments.split()) == 2
    assert told in capsys.readouterr().err.replace("\n", " ")
    assert not (folder / ".scalable" / "runs").exists()
