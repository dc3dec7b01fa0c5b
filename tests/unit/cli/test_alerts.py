"""What commands show of alerts: those that last now in the status, those there were in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.cli.main import main
from scalable.observe import Journal, RunFolder


def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, over: bool) -> None:
    """A run of this machine's that had two alerts, one of which is told as a retry anyway."""
    monkeypatch.setenv("SCALABLE_RUNS_DIR", str(tmp_path))
    folder = RunFolder.create("lab")
    memory = {"alert": "WorkerMemory", "severity": "page", "text": "model-0 uses 90 %", "labels": {"worker": "model-0"}}
    retried = {"alert": "RetriesUsed", "severity": "warning", "text": "runs were run again", "labels": {}}
    with Journal(folder.journal) as journal:
        journal.write("run-started", run_id=folder.run_id, project="lab", target="here", host="elsewhere", pid=1)
        for alert in (memory, retried):
            journal.write("alert", state="firing", remedy="give it more", **alert)
        if over:
            journal.write("alert", state="resolved", remedy="give it more", **memory)


def test_status_shows_what_fires_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path, monkeypatch, over=False)
    assert main(["status"]) == 0
    printed = capsys.readouterr().out
    assert "WorkerMemory: model-0 uses 90 %; give it more" in printed
    assert "runs were run again" not in printed


def test_status_does_not_show_what_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path, monkeypatch, over=True)
    assert main(["status"]) == 0
    assert "WorkerMemory" not in capsys.readouterr().out


def test_the_report_shows_when_an_alert_began_and_that_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path, monkeypatch, over=True)
    assert main(["report"]) == 0
    lines = [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines() if "model-0" in line]
    assert lines == ["model-0 uses 90 %", "over: model-0 uses 90 %"]
