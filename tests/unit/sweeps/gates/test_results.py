"""What a sweep has given: as a table for notebooks, as sums by variant, and what is said of rows that are not there."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from sys import float_info

import pytest

from scalable.errors import ScalableError
from scalable.manifest import load_file
from scalable.store import open_store
from scalable.sweeps import loading
from scalable.sweeps.results import Outcome
from scalable.verdicts.rule import Verdict
from tests.helpers.sweeps.gates.builders import GRID, TRADING, a_cell, an_outcome, cells, key, row
from tests.helpers.sweeps.gates.stores import a_folder

GOOD = {"isotonic": {"sharpe": 2.0, "sortino": 2.0}}
FIRST = a_cell("none", "AAVEUSDC", 0, 10.0)


def test_the_table_has_a_line_for_every_cell_and_a_column_for_every_metric() -> None:
    outcome = an_outcome()
    frame = outcome.frame()
    assert frame.shape[0] == 150
    assert list(frame.columns[:6]) == ["factor", "variant", "block", "calibration", "asset", "fold"]
    assert list(frame.columns[6:9]) == ["cost_bps", "run_key", "run_status"]
    assert set(frame.columns) >= {"sharpe", "trades", "elapsed_s", "attempt"}
    assert frame.sharpe[0] == outcome.rows[key(FIRST)].metrics["sharpe"]
    assert (frame.attrs["complete"], frame.attrs["expected"], frame.attrs["baseline"]) == (True, 150, "none")


def test_a_metric_cannot_say_which_row_it_is_of() -> None:
    named = row(FIRST, {"sharpe": 1.0, "fold": 9, "variant": "other", "run_status": "odd", "buys": 3})
    found = an_outcome(of=[FIRST])
    line = replace(found, rows={key(FIRST): named}).frame().iloc[0]
    assert (line.fold, line.variant, line.run_status, line.buys) == (0, "none", "finished", 3)


def test_the_largest_number_there_is_as_a_metric_hides_no_other() -> None:
    outcome = an_outcome()
    worst = {key: replace(row, metrics={**row.metrics, "loss": float_info.max}) for key, row in outcome.rows.items()}
    [none, *_] = replace(outcome, rows=worst).summary()
    assert none["metrics"]["sharpe"] == outcome.summary()[0]["metrics"]["sharpe"]


def test_a_metric_that_rows_did_not_measure_is_named_and_counted() -> None:
    outcome = an_outcome()
    rows = {
        key: replace(row, metrics={**row.metrics, "latency": None, "f1": None if row.axes["fold"] == 0 else 0.5})
        for key, row in outcome.rows.items()
    }
    partly = replace(outcome, rows=rows)
    assert partly.unmeasured == {"f1": 30, "latency": 150}
    assert [(line["metrics"]["latency"], line["metrics"]["f1"]) for line in partly.summary()] == [(None, 0.5)] * 3


def test_failed_and_missing_cells_are_in_the_table_without_metrics() -> None:
    frame = an_outcome(failing=lambda cell: cell.block[1] == 1, without=lambda cell: cell.block[1] == 2).frame()
    assert frame.run_status.value_counts().to_dict() == {"finished": 90, "failed": 30, "missing": 30}
    assert frame[frame.run_status != "finished"].sharpe.isna().all()
    assert frame[frame.run_status == "failed"].error.unique().tolist() == ["killed: out of memory"]
    assert frame.attrs["complete"] is False


def test_failed_rows_count_in_no_mean() -> None:
    outcome = an_outcome()
    wrong = replace(row(FIRST, {"sharpe": 1e9}), run_status=outcome.rows[key(FIRST)].run_status.__class__.FAILED)
    spoilt = replace(outcome, rows={**outcome.rows, key(FIRST): wrong})
    none = spoilt.summary()[0]
    assert (none["finished"], none["failed"], none["expected"]) == (49, 1, 50)
    assert none["metrics"]["sharpe"] < 2
    assert ("AAVEUSDC", 0) not in spoilt.pairs[False, "none"]


def test_the_mean_of_a_fold_is_that_of_its_costs() -> None:
    outcome = an_outcome()
    both = [outcome.rows[key(FIRST._replace(averaged=(cost,)))].metrics["sharpe"] for cost in (10.0, 30.0)]
    assert outcome.pairs[False, "none"]["AAVEUSDC", 0]["sharpe"] == pytest.approx(sum(both) / 2)


def test_a_fold_in_which_a_cost_has_no_value_has_none() -> None:
    outcome = an_outcome()
    metrics = {**outcome.rows[key(FIRST)].metrics, "sharpe": float("nan"), "curve": [1.0, {"end": float("inf")}]}
    outcome = replace(outcome, rows={**outcome.rows, key(FIRST): row(FIRST, metrics)})
    assert math.isnan(outcome.pairs[False, "none"]["AAVEUSDC", 0]["sharpe"])
    told = outcome.to_dict()["rows"][0]["metrics"]  # JSON has no word for nan
    assert told["sharpe"] is None and told["curve"] == [1.0, {"end": None}]


def test_rows_of_another_key_are_not_taken_for_this_sweeps() -> None:
    made = an_outcome()
    outcome = Outcome(
        "calibration", GRID, [(run_key[::-1], cell) for run_key, cell in made.expected], made.rows, "none", 150
    )
    assert not outcome.complete
    assert outcome.finished == 0
    assert "150 rows of this name were made with other code, data, settings or libraries" in outcome.shortfall()


def test_a_sweep_without_cells_is_not_complete() -> None:
    assert not Outcome("calibration", GRID, [], {}, "none").complete


def test_trades_are_the_metric_buys_where_no_other_counts_them() -> None:
    every = cells(("none",))
    rows = {key(cell): row(cell, {"sharpe": 1.0, "buys": 60 + int(cell.block[1])}) for cell in every}
    outcome = Outcome("calibration", GRID, [(key(cell), cell) for cell in every], rows, "none", question=TRADING)
    assert outcome.evidence[False, "none"]["OPUSDC", 3] == 63
    assert outcome.summary()[0]["trades"] == 62


def test_a_sweep_is_read_by_its_name_from_manifest_and_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_folder(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCALABLE_STORE_URL", raising=False)
    frame = loading.results("calibration")
    assert frame.run_status.eq("finished").all()
    assert frame.groupby("variant").sharpe.mean().idxmax() == "isotonic"
    decision = loading.decide("calibration", manifest=tmp_path / "scalable.yaml")
    assert [(one.variant, one.verdict) for one in decision.variants][1] == ("isotonic", Verdict.LOCK)


def test_what_is_locked_changes_which_rows_are_expected_of_other_factors(tmp_path: Path) -> None:
    a_folder(tmp_path, GOOD)
    manifest = load_file(tmp_path / "scalable.yaml", env=os.environ).manifest
    with open_store(f"sqlite:///{tmp_path / '.scalable/results.db'}") as store:
        before = [loading.outcome(manifest, name, store, tmp_path) for name in ("calibration", "trees")]
        store.set_config(
            {"calibration": "isotonic"}, factor="calibration", variant="isotonic", reason="it won", expect_version=0
        )
        after = [loading.outcome(manifest, name, store, tmp_path) for name in ("calibration", "trees")]
    assert after[0].complete  # its own factor is the sweep's to vary
    assert (before[0].baseline, after[0].baseline) == ("none", "isotonic")
    assert {run_key for run_key, _ in before[1].expected}.isdisjoint(run_key for run_key, _ in after[1].expected)


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ScalableError, match="frames"):
        an_outcome(of=[FIRST]).frame()
