"""What the first version left behind stays readable: its run folder, its history and its database (``tests/data``)."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.helpers.cli.commands import Call, call
from tests.helpers.paths import ROOT

__all__ = ["call"]

LEFT = ROOT / "tests/data/first_version"
RUN = "run-20261117T202053Z-kept-da275875"


@pytest.fixture
def project(call: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of the first version, in the folder that commands run in."""
    folder = Path.cwd()
    shutil.copytree(LEFT, folder, dirs_exist_ok=True)
    (folder / ".scalable").mkdir()
    (folder / "runs").rename(folder / ".scalable/runs")
    with sqlite3.connect(folder / ".scalable/results.db") as database:
        database.executescript((folder / "results.sql").read_text())
    database.close()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_rows_are_found_and_still_count(call: Call, project: Path) -> None:
    found = call("results", "depths", "--format", "json").json
    assert (found["expected"], len(found["rows"])) == (12, 12)
    [failed] = [row for row in found["rows"] if row["run_status"] != "finished"]
    assert "no luck" in failed["error"]
    assert {row["metrics"]["accuracy"] for row in found["rows"] if row is not failed} >= {0.51, 0.52, 0.53}


def test_a_decision_rests_on_them(call: Call, project: Path) -> None:
    decision = call("decide", "depths", "--format", "json").json
    assert (decision["complete"], decision["baseline"]) == (False, 1)
    assert {each["variant"]: each["verdict"] for each in decision["variants"]} == {
        2: "KEEP_AVAILABLE",
        3: "KEEP_AVAILABLE",
    }


def test_its_run_is_reported_with_its_workers_and_its_failure(call: Call, project: Path) -> None:
    report = call("report", "--run-id", RUN, "--format", "json").json
    standard = report["workers"]["standard"]
    assert (standard["started"], standard["removed"], standard["final"]) == (1, 0, 1)
    assert report["run"]["run_id"] == RUN and "failed" in report["run"].values()
    assert "no luck" in call("report", "--run-id", RUN).out


@pytest.mark.parametrize("command", [("status",), ("incidents",), ("logs", "--lines", "2"), ("explain", "a 2 fold 0")])
def test_commands_about_runs_read_it(call: Call, project: Path, command: tuple[str, ...]) -> None:
    answer = call(*command, "--run-id", RUN)
    assert answer.status in {0, 1} and answer.out and "cannot be read" not in answer.out + answer.err


def test_a_plan_learns_from_its_history(call: Call, project: Path) -> None:
    assert any("measured" in text for text in call("plan", "--sweep", "depths", "--format", "json").json["assumptions"])
