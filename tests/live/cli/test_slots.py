"""``scalable ops slots``, and what makes several runs of ``scalable run`` one sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalable.cli.main import main
from tests.helpers.cli.slots import folder

__all__ = ["folder"]


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


def test_rows_that_failed_are_failures_wherever_a_run_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken").touch()
    assert main(["run", "--sweep", "trial", "--asset", "A", "--here"]) == 1
    told = capsys.readouterr()
    assert "0 of 4 rows in" in told.out and ", 4 failed" in told.out
    assert "0 jobs done, 4 failed" in told.err
    assert main(["report", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert sum(tasks["failed"] for tasks in report["tasks"].values()) == len(report["failures"]) == 4
    assert {failure["error"] for failure in report["failures"]} == {"ValueError: no"}
    assert main(["explain", report["failures"][0]["task"]]) == 0
    assert "1 of 1 row failed: ValueError: no" in capsys.readouterr().out
    assert main(["incidents"]) == 0
    assert "4 failures" in capsys.readouterr().out
