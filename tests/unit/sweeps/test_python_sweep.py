"""A sweep written in Python is the same sweep as in a manifest: the same rows, keys, stages and errors."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import scalable
from scalable.errors import UsageError
from scalable.manifest import ManifestError, load_file
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.loading import importable
from scalable.sweeps.rows import row_of
from scalable.sweeps.stages import StageError
from scalable.sweeps.workload import find_workload
from tests.helpers.sweeps.units import nothing_remembered

__all__ = ["nothing_remembered"]

CODE = """import scalable

CALLS = []


@scalable.stage
def prepared(dataset, fold):
    CALLS.append((dataset, fold))
    return len(dataset) + fold


def score(prepared, model, size=1):
    return {"accuracy": prepared * size / 10 + len(model)}
"""
AXES: dict[str, Any] = {
    "compare": {"model": ["logreg", "svm"], "size": [1, 10]},
    "over": {"dataset": ["wine", "digits"], "fold": scalable.folds(3)},
    "metrics": {"accuracy": "higher"},
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with a function and a stage beside it, in a folder of its own that is the current one."""
    name = f"bench_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return __import__(name)


def compile_rows(sweep: scalable.Sweep) -> Compiled:
    session = sweep.session()
    with session.open_store() as store:
        return session.compile(sweep.name, store)


def test_a_sweep_shows_itself(module: Any) -> None:
    sweep = scalable.Sweep(module.score, **AXES)
    assert repr(sweep) == "<Sweep score: 24 rows = 4 variants × 6 blocks>"
    assert "compare" in sweep._repr_html_()
    plan = sweep.plan(workers=2)
    assert plan.rows == 24 and "24 rows" in repr(plan) and "24 rows" in plan._repr_html_()


def test_the_same_sweep_in_yaml_has_the_same_keys(module: Any, tmp_path: Path) -> None:
    sweep = scalable.Sweep(module.score, **AXES)
    (tmp_path / "scalable.yaml").write_text(sweep.to_yaml())
    manifest = load_file(tmp_path / "scalable.yaml", env=os.environ).manifest
    with importable(tmp_path):
        written = compiled(manifest, "score", {})
    assert list(written.where) == list(compile_rows(sweep).where)
    again = scalable.Sweep.from_manifest("score")
    assert list(compile_rows(again).where) == list(written.where)
    assert yaml.safe_load(again.to_yaml()) == yaml.safe_load(sweep.to_yaml())


def test_a_stage_beside_the_function_is_computed_once_for_all_rows_that_share_it(module: Any) -> None:
    rows = compile_rows(scalable.Sweep(module.score, **AXES))
    assert [stage.name for stage in rows.workload.stages] == ["prepared", "score"]
    assert rows.sharing() == {"prepared": (24, 6), "score": (24, 24)}
    jobs = [pickle.loads(pickle.dumps(rows.unit(job, ""))) for job in rows.units]
    results = [row for job in jobs for row in job()]
    assert len(jobs) == 6 and not any(row.error for row in results)
    assert sum(row.executed.count("prepared") for row in results) == 6


def test_code_travels_with_a_job_whose_module_nobody_can_import(module: Any, tmp_path: Path) -> None:
    rows = compile_rows(scalable.Sweep(module.score, **AXES))
    packed = pickle.dumps(rows.unit(rows.units[0], ""))
    del sys.modules[module.__name__]
    next(tmp_path.glob("bench_*.py")).unlink()
    assert [row.error for row in pickle.loads(packed)()] == [""] * 4


def compute(sweep: scalable.Sweep) -> None:
    """Compute every row of a sweep called ``score`` in this process and store it."""
    session = sweep.session()
    with session.open_store() as store:
        rows = session.compile("score", store)
        results = {row.run_key: row.metrics for job in rows.units for row in rows.unit(job, "")()}
        made = (row_of("score", rows.grid, rows.where[key], run_key=key, metrics=got) for key, got in results.items())
        store.put(made)


def test_results_of_a_sweep_are_a_table_a_leaderboard_and_a_decision(module: Any) -> None:
    sweep = scalable.Sweep(module.score, **AXES)
    compute(sweep)
    result = sweep.results()
    assert result.complete and len(result.frame) == 24
    assert set(result.frame.columns) >= {"model", "size", "dataset", "fold", "accuracy"}
    board = sweep.leaderboard()
    assert [line.variant for line in board][:2] == ["logreg/10", "svm/10"]
    assert [line.verdict for line in board].count("") == 1, "the baseline is compared with nothing"
    assert "logreg/10" in repr(result) and "<table>" in result._repr_html_()
    assert sweep.decide().complete


def test_a_decision_in_python_is_counted_once_for_each_result(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = scalable.Sweep(module.score, **AXES)
    compute(sweep)
    result = sweep.results()
    assert repr(result) and result.leaderboard() and result._repr_html_()
    ledger = result.decide().ledger
    assert (ledger.number, ledger.looks, ledger.sweeps, ledger.variants) == (1, 1, 1, 3)
    assert sweep.decide().ledger.looks == 2
    assert sweep.decide().to_dict()["ledger"]["expected_false_locks"] == 0.05

    later = sweep.results()
    assert later.complete

    def away(*_: object) -> None:
        raise scalable.StoreError("store x does not answer")

    monkeypatch.setattr(type(later.session), "open_store", away)
    decision = later.decide()
    assert (decision.complete, decision.ledger.problem) == (True, "store x does not answer")


def test_a_variant_without_rows_is_last_on_the_leaderboard_without_figures(module: Any) -> None:
    sweep = scalable.Sweep(module.score, compare={"model": ["svm", "nn"]}, over={"dataset": ["wine"], "fold": [1]})
    assert len(sweep.results().frame) == 2 and "0 of 2" in sweep.results()._repr_html_()
    session = sweep.session()
    with session.open_store() as store:
        rows = session.compile("score", store)
        key = next(iter(rows.where))
        store.put([row_of("score", rows.grid, rows.where[key], run_key=key, metrics={"accuracy": 1.0})])
    lines = sweep.leaderboard().lines
    assert [line.variant for line in lines] == ["svm", "nn"]
    assert (lines[1].mean, lines[1].difference, lines[1].interval) == (None, None, None)
    assert not sweep.results().complete and "1 of 2" in repr(sweep.results())


@pytest.mark.parametrize(
    "wrong",
    [
        {"compare": {}},
        {"compare": {"model": []}},
        {"over": {"fold": 5}},
        {"metrics": {"accuracy": "best"}},
        {"baseline": {"model": "forest"}},
        {"compaer": {"model": [1]}},
    ],
)
def test_what_is_wrong_is_said_when_a_sweep_is_made(module: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises((ManifestError, TypeError)):
        scalable.Sweep(module.score, **{**AXES, **wrong})


def test_a_value_that_no_manifest_can_write_is_refused(module: Any) -> None:
    with pytest.raises(UsageError):
        scalable.Sweep(module.score, compare={"model": [object()]})


def test_the_number_of_workers_is_that_of_the_chosen_target(module: Any, tmp_path: Path) -> None:
    targets = {name: {"provider": "local", "max_workers": 1} for name in ("here", "there")}
    document = {"version": 1, "project": {"name": "bench"}, "targets": targets}
    (tmp_path / "scalable.yaml").write_text(yaml.safe_dump(document))
    sweep = scalable.Sweep(module.score, **AXES)
    session = sweep.session(manifest="scalable.yaml", target="there", workers=3)
    limits = {name: getattr(each, "max_workers", None) for name, each in session.manifest.targets.items()}
    assert limits == {"here": 1, "there": 3}
    with pytest.raises(UsageError):
        scalable.Sweep.from_manifest("score")


def test_what_cannot_be_sent_to_workers_is_refused(module: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec("import threading\nlock = threading.Lock()\ndef score(size):\n    with lock:\n        return {}\n", names)
    with pytest.raises(StageError):
        scalable.Sweep(names["score"], compare={"size": [1, 2]})


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(StageError):
        scalable.Sweep(print, compare={"model": [1, 2]}, name="printing")


def test_code_without_a_file_is_run_and_its_code_is_in_the_keys(tmp_path: Path) -> None:
    def cell(code: str) -> Compiled:
        names: dict[str, Any] = {}
        exec(code, names)
        return compile_rows(scalable.Sweep(names["score"], **AXES, folder=tmp_path))

    first, again, other = cell(CODE), cell(CODE), cell(CODE.replace("/ 10", "/ 20"))
    jobs = [pickle.loads(pickle.dumps(first.unit(job, ""))) for job in first.units]
    assert [row.error for job in jobs for row in job()] == [""] * 24
    assert list(first.where) == list(again.where)
    assert not set(first.where) & set(other.where)


def test_a_stage_that_changes_and_nothing_else_changes_keys(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = scalable.Sweep(module.score, **AXES)
    before = list(compile_rows(sweep).where)
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(CODE.replace("len(dataset) + fold", "len(dataset) - fold"), names)
    monkeypatch.setattr(module, "prepared", names["prepared"])
    assert not set(before) & set(compile_rows(sweep).where)
    monkeypatch.undo()


def test_a_script_that_is_imported_for_its_function_does_not_run_its_sweep(module: Any, tmp_path: Path) -> None:
    call = "scalable.Sweep(score, compare={'model': ['a', 'b']}, over={'dataset': ['x'], 'fold': [1]}).run()"
    (tmp_path / "unguarded.py").write_text(f"{CODE}\n{call}\n")
    with pytest.raises(StageError, match="__main__"):
        find_workload("unguarded:score")
