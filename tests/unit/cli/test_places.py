"""``scalable places``, and what makes several runs of ``scalable run`` one sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalable.cli.main import main
from scalable.store import open_store
from tests.helpers.cli.places import folder

__all__ = ["folder"]


STORE = "sqlite:///.scalable/results.db"


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
