"""Commands find their project from any folder of it, and what a project has lies beside its manifest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import scalable
from scalable.observe.folders import find_manifest, runs_dir
from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.runs import a_story
from tests.helpers.observe.builders import a_run
from tests.helpers.sweeps.gates.stores import a_folder

__all__ = ["call"]


@pytest.fixture
def below(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in a project with results, in which commands run."""
    a_folder(tmp_path)
    folder = tmp_path / "notebooks" / "march"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_results_are_found_from_a_folder_of_the_project(call: Call, below: Path) -> None:
    assert call("results", "calibration", "--check").status == 0
    assert call("decide", "calibration", "--format", "json").json["complete"]
    assert scalable.results("calibration").attrs["complete"]
    assert not (below / ".scalable").exists()


def test_runs_are_found_from_a_folder_of_the_project(call: Call, below: Path, tmp_path: Path) -> None:
    run = a_run(tmp_path / ".scalable/runs", *a_story())
    assert runs_dir() == tmp_path / ".scalable/runs"
    assert run.run_id in call("report").out and run.run_id in call("runs").out


def test_the_nearest_project_is_meant(below: Path, tmp_path: Path) -> None:
    (below.parent / "scalable.yaml").write_text("version: 1\n")
    assert find_manifest() == below.parent / "scalable.yaml"
    (below / ".scalable").mkdir()
    assert find_manifest() == Path("scalable.yaml"), "what ran here without a manifest left its runs here"


def test_a_manifest_above_that_is_of_another_user_is_not_taken(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if (below.parents[1] / "scalable.yaml").stat().st_uid == 0:
        os.chown(below.parents[1] / "scalable.yaml", 54321, -1)
    assert find_manifest() == Path("scalable.yaml")


def test_without_any_manifest_the_one_that_could_be_here_is_named(call: Call) -> None:
    answer = call("plan")
    assert answer.status == 2 and "scalable.yaml" in answer.err
