"""The ledger of decisions at the command line: what ``decide``, ``lock`` and ``ledger`` write, show and refuse."""

from __future__ import annotations

import csv
import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scalable import decide
from scalable.store import StoreError
from scalable.store.sql import SqlStore
from tests.helpers.cli.commands import Call, call
from tests.helpers.sweeps.gates.builders import an_outcome, key
from tests.helpers.sweeps.gates.stores import a_folder, drop_all, fill

__all__ = ["call"]  # a fixture

GAINS = {"isotonic": {"sharpe": 2.0, "sortino": 2.0}, "sigmoid": {"f1": -2.0}}


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALABLE_STORE_URL", raising=False)


@pytest.fixture
def project(call: Call, tmp_path: Path) -> Call:
    a_folder(tmp_path, GAINS)
    return call


def other_rows(folder: Path) -> None:
    """Compute everything again, to other values."""
    drop_all(folder)
    with closing(sqlite3.connect(folder / ".scalable/results.db")) as file:
        file.execute("DELETE FROM scalable_rows")
        file.commit()
    made = an_outcome(GAINS, seed=5)
    fill(folder, lambda cell: made.rows.get(key(cell)))


def test_decide_says_how_many_decisions_there_were_and_what_chance_would_do(project: Call, tmp_path: Path) -> None:
    chance = "by chance, 0.05 of 1 such sweep would lock something"
    said = f"this was decision 1 on this project (2 variants tried): {chance}"
    assert said in project("decide", "calibration").out
    assert "(2 variants tried), seen 2 times: by chance" in project("decide", "calibration").out
    other_rows(tmp_path)
    assert "decision 2 on this project (4 variants tried): by chance, 0.1 of 2 such sweeps would" in (
        project("decide", "calibration").out
    )


def test_machines_and_scripts_get_the_counts(project: Call) -> None:
    told = project("decide", "calibration", "--format", "json").json["ledger"]
    assert {name: told[name] for name in ("sweeps", "variants", "expected_false_locks")} == {
        "sweeps": 1, "variants": 2, "expected_false_locks": 0.05,
    }  # fmt: skip
    ledger = decide("calibration").ledger
    assert (ledger.number, ledger.looks, ledger.sweeps) == (1, 2, 1)


def test_the_ledger_lists_every_decision(project: Call, tmp_path: Path) -> None:
    assert "nothing was decided yet" in project("ledger").out
    for _ in range(2):
        project("decide", "calibration")
    other_rows(tmp_path)
    project("decide", "calibration")
    lines = [line.split() for line in project("ledger").out.splitlines()]
    entries = [line for line in lines if "calibration" in line]
    assert [(line[0], line[5:]) for line in entries] == [
        ("1", ["sharpe", "2", "1", "LOCK,", "1", "inconclusive", "2"]),
        ("2", ["sharpe", "2", "1", "LOCK,", "1", "inconclusive", "1"]),
    ]
    assert entries[0][4] != entries[1][4], "the fingerprints of the rows"
    told = project("ledger", "--format", "json").json
    assert (told["sweeps"], told["variants"], told["expected_false_locks"], told["next_level"]) == (2, 4, 0.1, 0.05)
    assert [(each["number"], each["looks"], each["baseline"]) for each in told["entries"]] == [
        (1, 2, "none"), (2, 1, "none"),
    ]  # fmt: skip
    assert {each["variant"]: each["verdict"] for each in told["entries"][0]["verdicts"]} == {
        "sigmoid": "KEEP_AVAILABLE", "isotonic": "LOCK",
    }  # fmt: skip


def test_the_ledger_is_a_table_for_spreadsheets(project: Call) -> None:
    project("decide", "calibration")
    [line] = csv.DictReader(io.StringIO(project("ledger", "--format", "csv").out))
    assert (line["sweep"], line["primary_metric"]) == ("calibration", "sharpe")
    assert (line["looks"], line["level"]) == ("1", "0.05")
    assert line["verdicts"] == "sigmoid KEEP_AVAILABLE; isotonic LOCK"
    assert len(line["data"]) == 32


def test_the_ledger_of_one_sweep_can_be_asked_for_by_name(project: Call) -> None:
    project("decide", "calibration")
    assert [each["sweep"] for each in project("ledger", "calibration", "--format", "json").json["entries"]] == [
        "calibration"
    ]
    none = project("ledger", "trees", "--format", "json").json
    assert (none["entries"], none["sweeps"]) == ([], 1)
    assert "nothing was decided about trees yet; scalable decide trees" in project("ledger", "trees").out
    wrong = project("ledger", "calibrations")
    assert wrong.status == 2
    assert "write calibration" in wrong.err
    assert project("ledger", "--format", "xml").status == 2


def test_a_sweep_that_the_manifest_no_longer_has_stays_in_the_ledger(project: Call, tmp_path: Path) -> None:
    project("decide", "calibration")
    manifest = tmp_path / "scalable.yaml"
    lines = [line for line in manifest.read_text(encoding="utf-8").splitlines() if "calibration:" not in line]
    manifest.write_text("\n".join(lines), encoding="utf-8")
    assert len(project("ledger", "calibration", "--format", "json").json["entries"]) == 1


def test_without_a_store_there_is_no_ledger_and_none_is_made(call: Call, tmp_path: Path) -> None:
    a_folder(tmp_path)
    store = tmp_path / ".scalable/results.db"
    for file in store.parent.glob("results.db*"):
        file.unlink()
    answer = call("ledger")
    assert answer.status != 0
    assert "no store at" in answer.err
    assert not store.exists()


def test_deleting_results_and_runs_deletes_no_entry(project: Call, tmp_path: Path) -> None:
    project("decide", "calibration")
    before = project("ledger", "--format", "json").json
    project("mark-failed", "calibration", "--reason", "wrong prices", "--yes")
    project("runs", "delete", "--older-than", "0s", "--yes")
    with closing(sqlite3.connect(tmp_path / ".scalable/results.db")) as file:
        for table in ("scalable_rows", "scalable_runs", "scalable_attempts"):
            file.execute(f"DELETE FROM {table}")
        file.commit()
    assert project("results", "calibration", "--format", "json").json["rows"] == []
    assert project("ledger", "--format", "json").json == before


def test_a_forced_lock_is_in_the_ledger_and_a_refused_one_is_not(project: Call) -> None:
    assert project("lock", "calibration", "sigmoid").status == 1
    assert project("lock", "calibration", "sigmoid", "--force").status == 2
    assert project("ledger", "--format", "json").json["entries"] == []
    for _ in range(2):  # the second changes nothing
        assert project("lock", "calibration", "sigmoid", "--force", "--reason", "agreed").status == 0
    [entry] = project("ledger", "--format", "json").json["entries"]
    [lock] = entry["locks"]
    assert (lock["variant"], lock["forced"]) == ("sigmoid", True)
    assert lock["reason"].startswith("forced: agreed (the verdict was KEEP_AVAILABLE")
    assert (entry["decided"], entry["looks"], entry["variants"]) == (True, 1, 2)
    assert "sigmoid (forced)" in project("ledger").out


def test_a_lock_by_verdict_is_noted_with_its_decision_and_makes_no_other_of_the_same_rows(project: Call) -> None:
    project("decide", "calibration")
    project("lock", "calibration", "isotonic")
    project("decide", "calibration")
    [entry] = project("ledger", "--format", "json").json["entries"]
    assert [(each["variant"], each["forced"]) for each in entry["locks"]] == [("isotonic", False)]
    assert (entry["looks"], entry["baseline"]) == (3, "none")
    assert {each["variant"] for each in entry["verdicts"]} == {"sigmoid", "isotonic"}, "those of the first baseline"


def test_a_forced_lock_without_a_sweep_is_listed_and_not_counted(project: Call) -> None:
    assert project("lock", "cleanlab", "prune", "--force", "--reason", "agreed").status == 0
    told = project("ledger", "--format", "json").json
    assert (told["sweeps"], [each["sweep"] for each in told["entries"]]) == (0, ["cleanlab"])
    assert "a lock was forced; not counted as a decision" in project("ledger").out


def test_a_ledger_that_cannot_be_written_does_not_stop_decide_or_lock(
    project: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("store x is read-only")

    monkeypatch.setattr(SqlStore, "record_decision", refuse)
    shown = project("decide", "calibration")
    assert shown.status == 0
    assert "LOCK ← recommended" in shown.out
    assert "not in the ledger, which could not be written: store x is read-only" in " ".join(shown.out.split())
    assert project("decide", "calibration", "--format", "json").json["ledger"]["problem"] == "store x is read-only"
    locked = project("lock", "calibration", "isotonic")
    assert (locked.status, "locked calibration isotonic" in locked.out) == (0, True)
    assert "could not be written: store x is read-only" in locked.err


def test_programme_wide_control_is_switched_on_in_the_manifest(project: Call, tmp_path: Path) -> None:
    manifest = tmp_path / "scalable.yaml"
    usual = manifest.read_text(encoding="utf-8")
    manifest.write_text(f"{usual}policies: {{verdicts: {{control: programme}}}}\n", encoding="utf-8")
    shown = project("decide", "calibration")
    assert "judged at 0.025 instead of 0.05" in shown.out
    assert "LOCK needs sharpe better (Holm p < 0.025)" in project("decide", "calibration", "--variant", "isotonic").out
    other_rows(tmp_path)
    told = project("decide", "calibration", "--format", "json").json["ledger"]
    assert (told["control"], told["decision"], round(told["level"], 4)) == ("programme", 2, 0.0083)
    assert round(project("ledger", "--format", "json").json["next_level"], 4) == 0.0042
    manifest.write_text(f"{usual}policies: {{verdicts: {{control: everything}}}}\n", encoding="utf-8")
    wrong = project("validate")
    assert wrong.status != 0
    assert "control" in wrong.out + wrong.err
