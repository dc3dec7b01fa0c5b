"""``scalable report --format html``: where the file goes, and what wrong use is answered with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalable.store import open_store
from tests.helpers.cli.commands import Call, call
from tests.helpers.observe.builders import a_run, sweep_started
from tests.helpers.report.builders import plain_run

__all__ = ["call"]  # a fixture


def test_the_page_goes_into_a_file_named_after_the_run(call: Call, tmp_path: Path) -> None:
    folder = plain_run(tmp_path / ".scalable/runs")
    shown = call("report", "--format", "html")
    assert (shown.status, shown.out.strip()) == (0, f"wrote report-{folder.run_id}.html")
    text = (tmp_path / f"report-{folder.run_id}.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and folder.run_id in text


def test_the_page_goes_where_it_is_asked_for(call: Call, tmp_path: Path) -> None:
    folder = plain_run(tmp_path / ".scalable/runs")
    shown = call("report", "--run-id", folder.run_id, "--format", "html", "--output", "page.html")
    assert shown.status == 0 and (tmp_path / "page.html").exists()


REFUSED = [
    (".", 2, "is a folder; name a file, e.g. --output report.html"),
    ("gone/page.html", 1, "cannot be written"),
]


@pytest.mark.parametrize(("output", "status", "says"), REFUSED)
def test_a_place_that_cannot_be_written_is_an_error_in_words(
    call: Call, tmp_path: Path, output: str, status: int, says: str
) -> None:
    plain_run(tmp_path / ".scalable/runs")
    shown = call("report", "--format", "html", "--output", output)
    assert shown.status == status and says in shown.err


def test_a_run_that_is_not_recorded_is_an_error_that_names_those_that_are(call: Call, tmp_path: Path) -> None:
    folder = plain_run(tmp_path / ".scalable/runs")
    shown = call("report", "--format", "html", "--run-id", "other")
    assert shown.status == 2 and f"the latest: {folder.run_id}" in shown.err


def test_only_reports_can_be_pages(call: Call) -> None:
    shown = call("status", "--format", "html")
    assert shown.status == 2 and "invalid choice: 'html'" in shown.err


SENT = """version: 1
project: {name: sent}
store: sqlite:///results.db
targets: {hpc: {provider: local, max_workers: 1}}
components: {model: {cpus: 1, memory: 1GiB}}
sweeps:
  trial: {factor: depth, variants: [1, 2], assets: [A], folds: 2, costs_bps: [1], run: "taking:score"}
"""


def test_a_run_that_somebody_sent_has_no_code_run_and_no_file_shown(call: Call, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.mkdir()
    (sent / "scalable.yaml").write_text(SENT, encoding="utf-8")
    (sent / "taking.py").write_text(
        f"import os\nos.mkdir({str(tmp_path / 'taken')!r})\ndef score(depth, asset, fold): ...\n"
    )
    with open_store(f"sqlite:///{sent}/results.db"):
        pass  # an empty one
    place: dict[str, Any] = {"manifest": str(sent / "scalable.yaml"), "cwd": str(sent)}
    folder = a_run(sent, sweep_started("trial"), **place)
    assert call("report", "--format", "html", "--run-id", str(folder.path), "--output", "page.html").status == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not (tmp_path / "taken").exists()
    assert "only code of the folder you are in is run" in text and "taking:score" not in text
    named = ("--manifest", str(sent / "scalable.yaml"))
    assert call("report", "--format", "html", "--run-id", str(folder.path), *named).status == 0
    assert (tmp_path / "taken").exists()  # the user named it
    assert "taking:score" in (tmp_path / f"report-{folder.run_id}.html").read_text(encoding="utf-8")
