"""Files that decide results are part of keys; a change names them, and files that nobody named are a finding."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scalable.manifest import load_file
from scalable.session.sweep.outcomes import changed
from scalable.store import open_store
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.files import InputFiles, changed_files
from scalable.sweeps.loading import importable
from scalable.sweeps.rows import row_of
from scalable.sweeps.stages import StageError
from scalable.sweeps.units import Computed, workload
from tests.helpers.sweeps.units import nothing_remembered

__all__ = ["nothing_remembered"]

CODE = """from scalable import FileType


def score(model, asset, fold):
    with open(f"data/{asset}.csv") as table:
        return {"score": float(table.read()) + fold}


def marked(model: FileType, asset, fold):
    with open(model) as table:
        return {"score": float(table.read()) + fold}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose function reads files, seen from a folder that is not its own."""
    (tmp_path / "data").mkdir()
    for name, value in (("x", "1"), ("y", "2")):
        (tmp_path / "data" / f"{name}.csv").write_text(value)
    module = f"reading_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write(tmp_path)
    return tmp_path


def write(project: Path, function: str = "score", variants: str = "a, b", inputs: str = "") -> None:
    module = next(project.glob("reading_*.py")).stem
    sweep = f"{{factor: model, variants: [{variants}], assets: [x, y], folds: 2, run: '{module}:{function}'{inputs}}}"
    (project / "scalable.yaml").write_text(f"version: 1\nproject: {{name: x}}\nsweeps: {{s: {sweep}}}\n")


def compile_rows(project: Path) -> Compiled:
    manifest = load_file(project / "scalable.yaml", env=os.environ).manifest
    with importable(project):
        return compiled(manifest, "s", {})


def compute(project: Path) -> list[Computed]:
    workload.cache_clear()
    rows = compile_rows(project)
    return [row for job in rows.units for row in rows.unit(job, "")()]


def test_a_changed_file_of_inputs_changes_every_key_and_is_named(project: Path) -> None:
    write(project, inputs=", inputs: [data/*.csv]")
    before = compile_rows(project)
    assert set(before.where) == set(compile_rows(project).where)
    (project / "data/y.csv").write_text("3")
    after = compile_rows(project)
    assert not set(before.where) & set(after.where)
    assert changed_files(before.data["x"], after.data["x"]) == ["data/y.csv"]
    (project / "data/z.csv").write_text("4")
    assert changed_files(after.data["x"], compile_rows(project).data["x"]) == ["data/z.csv"]


def test_a_file_that_is_not_among_the_inputs_changes_no_key(project: Path) -> None:
    write(project, inputs=", inputs: [data/x.csv]")
    before = compile_rows(project)
    (project / "data/y.csv").write_text("3")
    assert set(before.where) == set(compile_rows(project).where)


def test_a_run_says_which_file_changed(project: Path) -> None:
    write(project, inputs=", inputs: [data]")
    before = compile_rows(project)
    with open_store(f"sqlite:///{project / 'rows.db'}") as store:
        store.put(
            row_of("s", before.grid, cell, run_key=key, metrics={"score": 1.0},
                   code_fingerprint=before.workload.code_fingerprint(),
                   data_fingerprint=before.data[before.grid.group_of(cell)])
            for key, cell in before.expected
        )  # fmt: skip
        (project / "data/x.csv").write_text("5")
        after = compile_rows(project)
        assert "data/x.csv changed" in changed(after, after.where, store)


def test_a_marked_argument_counts_by_the_content_of_its_file(project: Path) -> None:
    write(project, "marked", "data/x.csv, data/y.csv")
    before = compile_rows(project)
    (project / "data/y.csv").write_text("3")
    after = compile_rows(project)
    same = {cell.variant[0] for key, cell in after.expected if key in before.where}
    assert same == {"data/x.csv"}
    assert {row.metrics["score"] for row in compute(project)} == {1.0, 2.0, 3.0, 4.0}


def test_inputs_that_match_nothing_are_refused(project: Path) -> None:
    write(project, inputs=", inputs: [dtaa/*.csv]")
    with pytest.raises(StageError, match=r"dtaa/\*\.csv"):
        compile_rows(project)


def test_relative_paths_start_from_the_project_and_files_that_nobody_named_are_reported(project: Path) -> None:
    rows = compute(project)
    assert not any(row.error for row in rows)
    assert {name for row in rows for name in row.unnamed} == {"data/x.csv", "data/y.csv"}
    assert Path.cwd() == project / "elsewhere"


@pytest.mark.parametrize(
    ("function", "variants", "inputs"), [("score", "a, b", ", inputs: ['data/*']"), ("marked", "data/x.csv", "")]
)
def test_files_that_are_named_or_marked_are_no_finding(
    project: Path, function: str, variants: str, inputs: str
) -> None:
    write(project, function, variants, inputs)
    assert {name for row in compute(project) for name in row.unnamed} == set()


def test_a_file_that_changes_during_a_run_fails_its_rows(project: Path) -> None:
    write(project, inputs=", inputs: [data/x.csv]")
    workload.cache_clear()
    rows = compile_rows(project)
    (project / "data/x.csv").write_text("9")
    assert all("StageError" in row.error for row in rows.unit(rows.units[0], "")())


def test_a_fingerprint_of_very_many_files_fits_a_row() -> None:
    files = InputFiles({f"data/part {number}.csv": "ab" * 32 for number in range(1000)})
    assert len(files.fingerprint("f" * 32)) < 1000
