"""A project is found from any folder: paths in a manifest, its runs and its data are relative to the manifest."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from scalable.cli.main import main
from scalable.manifest import load_file
from scalable.observe import RunFolder, runs_dir
from scalable.observe.folders import project_folder, state_file
from scalable.planning.pins import Pin
from scalable.session.machine import history
from scalable.session.operate.rollback import PinScope, hold, pin_of
from scalable.store import Row, open_store
from scalable.store.urls import location_of, rooted
from scalable.sweeps.loading import artefacts_url, outcome, store_url
from scalable.sweeps.project import in_project, located
from tests.helpers.cli.slots import folder

__all__ = ["folder"]


@pytest.fixture
def elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder that is the current one, while the project with its rows is in another."""
    manifest = load_file(folder / "scalable.yaml", env={}).manifest
    with open_store(store_url(manifest)) as store:
        expected = outcome(manifest, "trial", store, folder).expected
        store.put(Row(run_key=key, sweep="trial", metrics={"score": 1.0}) for key, _ in expected)
    current = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(current)
    return current


def test_results_of_a_manifest_elsewhere_are_shown_and_nothing_is_made_here(
    elsewhere: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results", "trial", "--manifest", str(folder / "scalable.yaml"), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (len(answer["rows"]), answer["complete"]) == (8, True)
    assert main(["admin", "dlq", "list", "--manifest", os.path.relpath(folder / "scalable.yaml")]) == 0
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "command", ["results trial", "decide trial", "slots", "dlq list", "lock --list", "mark-failed trial --reason x"]
)
def test_who_only_reads_makes_no_store(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 1
    assert f"no store at {folder / '.scalable/results.db'} yet" in capsys.readouterr().err.replace("\n", "")
    assert not (folder / ".scalable").exists()


def test_the_environment_names_a_store_from_here(
    elsewhere: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCALABLE_STORE_URL", "sqlite:///other.db")
    assert main(["admin", "dlq", "list", "--manifest", str(folder / "scalable.yaml")]) == 1
    assert str(elsewhere / "other.db") in capsys.readouterr().err.replace("\n", "")


def test_paths_of_a_manifest_start_from_its_folder(elsewhere: Path, folder: Path) -> None:
    manifest = load_file(folder / "scalable.yaml", env={}).manifest
    assert manifest.store == "sqlite:///.scalable/results.db"  # as it is written, for who deploys it
    assert store_url(manifest) == f"sqlite:///{folder}/.scalable/results.db"
    assert artefacts_url(manifest) == str(folder / ".scalable/artefacts")
    assert runs_dir(manifest=folder / "scalable.yaml") == folder / ".scalable/runs"
    assert runs_dir() == Path(".scalable/runs")
    outbox = location_of("postgresql://db/results", manifest.folder).beside
    assert outbox.is_relative_to(folder / ".scalable/outbox")


def test_a_manifest_from_a_pipe_is_of_the_current_folder(elsewhere: Path) -> None:
    assert runs_dir(manifest="/dev/stdin") == Path(".scalable/runs")
    assert project_folder("/proc/self/fd/0") == elsewhere


@pytest.mark.parametrize("url", ["sqlite:////data/r.db", "sqlite:///~/r.db", "postgresql://db/r", "nonsense", ""])
def test_a_url_that_is_not_relative_stays_as_it_is(url: str) -> None:
    assert rooted(url, Path("/project")) == url


def test_data_lie_beside_the_manifest_where_that_folder_is_there(elsewhere: Path, folder: Path) -> None:
    with in_project(folder):
        assert (located("bars"), located("/data/bars")) == (folder / "bars", Path("/data/bars"))
    with in_project("/not/on/this/node"):
        assert located("bars") == Path("bars")


def test_what_belongs_to_all_runs_lies_beside_them_and_is_moved_there_once(folder: Path) -> None:
    runs = folder / ".scalable/runs"
    run = RunFolder.create("proof")
    (runs / "history.json").write_text(json.dumps({"seconds": {"tag:a": [1.0]}}), encoding="utf-8")
    assert history(folder / "scalable.yaml").seconds["tag:a"] == (1.0,)
    scope = PinScope.of(folder / "scalable.yaml", "far")
    hold(scope, Pin.from_plan(run.run_id, {"sweep": "trial", "workers_by_tag": {"standard": 2}, "sizes": {}}))
    assert pin_of(scope) is not None
    run.targets_file.parent.mkdir()
    assert [path.name for path in runs.iterdir()] == [run.run_id]
    assert {path.name for path in runs.parent.iterdir()} >= {"runs", "history.json", "pinned.json", "targets"}


def test_runs_in_a_folder_of_the_users_choice_keep_all_of_it_there(tmp_path: Path) -> None:
    assert state_file("history.json", tmp_path / "chosen") == tmp_path / "chosen" / "history.json"
