"""``scalable report --format html``: where the file goes, and what wrong use is answered with."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from scalable.observe import RunFolder
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


def received(sent: Path, taken: Path, **facts: Any) -> RunFolder:
    """A project with a run, as it is unpacked from somebody's archive: the code in it makes a folder."""
    sent.mkdir(exist_ok=True)
    sys.modules.pop("taking", None)  # of another test
    (sent / "scalable.yaml").write_text(SENT, encoding="utf-8")
    (sent / "taking.py").write_text(f"import os\nos.mkdir({str(taken)!r})\ndef score(depth, asset, fold): ...\n")
    with open_store(f"sqlite:///{sent}/results.db"):
        pass  # an empty one
    folder = a_run(sent, sweep_started("trial"), **{"manifest": str(sent / "scalable.yaml"), "cwd": str(sent), **facts})
    unsealed = {name: value for name, value in folder.facts().items() if name != "seal"}
    folder.run_file.write_text(json.dumps(unsealed | {"seal": "0" * 64}), encoding="utf-8")
    return folder


@pytest.mark.parametrize("manifest", ["absolute", "relative"])
def test_a_received_folder_is_not_ones_own_by_going_there(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: str
) -> None:
    sent, taken = tmp_path / "sent", tmp_path / "taken"
    folder = received(sent, taken, **({"manifest": "scalable.yaml"} if manifest == "relative" else {}))
    monkeypatch.chdir(sent)
    assert call("report", "--format", "html", "--run-id", str(folder.path), "--output", "page.html").status == 0
    assert not taken.exists()
    assert "only code of the folder you are in is run" in (sent / "page.html").read_text(encoding="utf-8")


def test_the_code_of_a_run_made_here_is_used_without_a_question(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, taken = tmp_path / "sent", tmp_path / "taken"
    folder = received(sent, taken)
    folder.write_run({name: value for name, value in folder.facts().items() if name != "seal"})
    monkeypatch.chdir(sent)
    assert call("report", "--format", "html", "--run-id", str(folder.path)).status == 0
    assert taken.exists()


def test_a_seal_counts_only_where_the_run_was_made(tmp_path: Path) -> None:
    folder = a_run(tmp_path, manifest=str(tmp_path / "scalable.yaml"), cwd=str(tmp_path))
    assert folder.is_sealed()
    (tmp_path / "other").mkdir()
    assert not RunFolder(folder.path.rename(tmp_path / "other" / folder.run_id)).is_sealed()


def test_a_named_manifest_does_not_let_artefacts_be_loaded_from_elsewhere(call: Call, tmp_path: Path) -> None:
    sent, taken, elsewhere = tmp_path / "sent", tmp_path / "taken", tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = received(sent, taken, cwd=str(elsewhere))
    named = ("--manifest", str(sent / "scalable.yaml"), "--output", "page.html")
    assert call("report", "--format", "html", "--run-id", str(folder.path), *named).status == 0
    assert not taken.exists()
    assert str(elsewhere) in (tmp_path / "page.html").read_text(encoding="utf-8")


class Taking:
    """What makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def test_work_of_a_run_that_somebody_sent_is_not_unpickled(call: Call, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    folder = received(tmp_path / "sent", taken)
    folder.works.mkdir()
    folder.work("first").write_bytes(pickle.dumps((Taking(taken), (), {})))
    shown = call("debug", "first", "--run-id", str(folder.path))
    assert shown.status == 1
    assert "was not made by you" in shown.err
    assert not taken.exists()


def test_a_run_that_somebody_sent_has_no_code_run_and_no_file_shown(call: Call, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    folder = received(sent, tmp_path / "taken")
    assert call("report", "--format", "html", "--run-id", str(folder.path), "--output", "page.html").status == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not (tmp_path / "taken").exists()
    assert "only code of the folder you are in is run" in text and "taking:score" not in text
    named = ("--manifest", str(sent / "scalable.yaml"))
    assert call("report", "--format", "html", "--run-id", str(folder.path), *named).status == 0
    assert (tmp_path / "taken").exists()  # the user named it
    assert "taking:score" in (tmp_path / f"report-{folder.run_id}.html").read_text(encoding="utf-8")
