"""``scalable ops slots``, and what makes several runs of ``scalable run`` one sweep."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from scalable.cli.main import main
from scalable.engine.events import SweepKind
from scalable.observe import RunFolder
from scalable.session.sweep.slots import Slot
from scalable.store import ToldToStop, open_store
from tests.helpers.cli.slots import folder

__all__ = ["folder"]


STORE = "sqlite:///.scalable/results.db"


def test_a_slot_is_taken_shown_and_given_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "slots"]) == 1
    assert "no store at" in capsys.readouterr().err
    assert not (folder / ".scalable").exists()
    assert main(["ops", "slots", "take", "trial", "--holder", "nightly 1"]) == 0
    assert "trial may run as nightly 1: its slot is kept 15 min after its last run" in capsys.readouterr().out
    assert main(["ops", "slots", "--format", "json"]) == 0
    [slot] = json.loads(capsys.readouterr().out)["slots"]
    assert (slot["name"], slot["kind"], slot["holder"], slot["held"]) == ("trial", "normal", "nightly 1", True)
    assert main(["ops", "slots"]) == 0
    assert "nightly 1" in capsys.readouterr().out
    assert main(["ops", "slots", "leave", "trial", "--holder", "nightly 1"]) == 0
    capsys.readouterr()
    assert main(["ops", "slots"]) == 0
    assert "no sweep runs or waits" in capsys.readouterr().out
    with open_store(STORE) as store:
        assert store.leases().list() == []


def test_the_name_before_is_accepted_with_a_hint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["places", "take", "trial", "--holder", "x"]) == 0
    assert "scalable ops slots" in capsys.readouterr().err
    assert main(["places", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["places"] == answer["slots"] != []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("slots take", "which sweep, and for whom? write  scalable ops slots take trial --holder ID"),
        ("slots take trial", "write  scalable ops slots take trial --holder ID"),
        ("slots leave trail --holder x", "sweep 'trail' is not defined; known: trial"),
        ("slots list trial", "list shows all slots"),
        ("run --sweep trial --asset C --here", "sweeps.trial: asset 'C' is not defined; known: A, B"),
        ("run --sweep trail --here", "sweep 'trail' is not defined; known: trial"),
        ("run --task x --asset A", "--asset is about a sweep; name one: scalable run SWEEP"),
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


def test_a_slot_that_a_holder_does_not_have_cannot_be_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "slots", "take", "trial", "--holder", "nightly"]) == 0
    assert main(["ops", "slots", "leave", "trial", "--holder", "nihgtly"]) == 2
    assert "nightly has one" in capsys.readouterr().err
    with open_store(STORE) as store:
        assert [lease.holder for lease in store.leases().list()] == ["nightly"]


def test_who_waits_is_told_to_stop_by_name_and_who_runs_is_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(STORE) as store:
        first, second = (Slot(store, "trial", SweepKind.NORMAL, 1, print, holder) for holder in ("one", "two"))
        assert first.awaited() == "" and second.awaited() != ""
        assert main(["ops", "slots", "stop", "one"]) == 2
        assert main(["ops", "slots", "stop", "tow"]) == 2
        assert "two" in capsys.readouterr().err
        assert main(["ops", "slots", "stop", "two"]) == 0
        with pytest.raises(ToldToStop, match="told to stop by"), second:
            pass
        assert [(lease.holder, lease.held) for lease in store.leases().list()] == [("one", True)]


def test_slots_show_the_runs_that_have_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunFolder.create("proof")
    run.write_run({"host": socket.gethostname(), "pid": os.getpid(), "t": time.time()})
    with open_store(STORE) as store:
        slot, waiting = (Slot(store, "trial", SweepKind.NORMAL, 1, print) for _ in range(2))
        assert slot.awaited() == "" and waiting.awaited() != ""
        assert main(["ops", "slots", "--format", "json"]) == 0
        assert {each["run_id"] for each in json.loads(capsys.readouterr().out)["slots"]} == {run.run_id}
        assert main(["ops", "slots", "stop", run.run_id]) == 0
        with pytest.raises(ToldToStop):
            waiting.awaited()
