"""A unit computes each distinct stage once, goes on from what is kept, and tells of failures row by row."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalable.store.artefacts import open_artefacts
from scalable.sweeps import units
from scalable.sweeps.stages import stage
from scalable.sweeps.units import Evaluation, RowWork, Unit, WorkloadResultError, checked_metrics
from scalable.sweeps.workload import Keys, Workload, find_workload
from scalable.worker.runner import stamp
from tests.helpers.sweeps.builders import CALLS, SCRATCH, SMALL
from tests.helpers.sweeps.units import nothing_remembered

__all__ = ["nothing_remembered"]


def works(workload: Workload, *cells: dict[str, Any]) -> tuple[RowWork, ...]:
    keys = Keys(workload)
    whole = [workload.configured({"asset": "AAVE", "seed": 0, "fold": 0, "cost_bps": 0.0, **cell}) for cell in cells]
    return tuple(RowWork(f"{number:032x}", one, keys.of(one)) for number, one in enumerate(whole))


def unit(folder: Path, *cells: dict[str, Any]) -> Unit:
    return Unit("tests.helpers.sweeps.builders:SMALL", str(folder), works(SMALL, *cells))


COSTS = ({"cost_bps": 1.0}, {"cost_bps": 2.0}, {"cost_bps": 3.0})


def test_rows_that_differ_at_the_end_share_the_rest(tmp_path: Path) -> None:
    found = unit(tmp_path, *COSTS)()
    assert [one.metrics["score"] for one in found] == [4.0, 3.0, 2.0]
    assert CALLS == ["table AAVE", "fitted 1 0"]
    assert [one.executed for one in found] == [("table", "fitted", "row"), ("row",), ("row",)]


def test_another_process_finds_what_is_kept(tmp_path: Path) -> None:
    unit(tmp_path, *COSTS)()
    units.RECENT.clear()
    CALLS.clear()
    again = pickle.loads(pickle.dumps(unit(tmp_path, *COSTS, {"cost_bps": 9.0})))()
    assert CALLS == [] and again[-1].metrics == {"score": -4.0}


def test_results_are_the_same_with_and_without_artefacts(tmp_path: Path) -> None:
    cells = ({"noise": "loud", "fold": 3}, {"depth": 4}, {"asset": "UNI"})
    kept = [one.metrics for one in unit(tmp_path, *cells)()]
    units.RECENT.clear()
    alone = Evaluation(SMALL, None)
    assert [alone.row(work).metrics for work in works(SMALL, *cells)] == kept


def test_a_damaged_artefact_is_computed_again(tmp_path: Path) -> None:
    unit(tmp_path, *COSTS)()
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.stat().st_size > 8:
            file.write_bytes(file.read_bytes()[:-1] + b"?")
    units.RECENT.clear()
    CALLS.clear()
    assert [one.metrics["score"] for one in unit(tmp_path, *COSTS)()] == [4.0, 3.0, 2.0]
    assert CALLS == ["table AAVE", "fitted 1 0"]


@stage(reads=("asset",), keep=False)
def shaky(*, asset: str) -> str:
    CALLS.append(f"shaky {asset}")
    if asset == "BAD":
        raise ValueError("no such asset")
    if asset == "AWAY":
        raise ConnectionError("try again")
    return asset


@stage(reads=("cost_bps",), keep=False)
def priced(shaky: str, *, cost_bps: float) -> dict[str, float]:
    return {"score": len(shaky) - cost_bps}


SHAKY = Workload((shaky, priced))


def test_a_row_that_fails_is_told_beside_those_that_finish_and_not_tried_for_each(tmp_path: Path) -> None:
    cells = ({"asset": "BAD"}, {"asset": "BAD", "cost_bps": 1.0}, {"asset": "GOOD"})
    work = Evaluation(SHAKY, open_artefacts(str(tmp_path)))
    found = [work.row(one) for one in works(SHAKY, *cells)]
    assert [one.error for one in found] == ["ValueError: no such asset"] * 2 + [""]
    assert CALLS == ["shaky BAD", "shaky GOOD"]


def test_an_error_that_may_pass_ends_the_unit_so_that_it_is_tried_again(tmp_path: Path) -> None:
    work = Evaluation(SHAKY, open_artefacts(str(tmp_path)))
    with pytest.raises(ConnectionError):
        work.row(works(SHAKY, {"asset": "AWAY"})[0])


def test_what_is_no_row_is_refused_by_name(tmp_path: Path) -> None:
    @stage(reads=("asset",), keep=False)
    def answer(*, asset: str) -> int:
        return 42

    found = Evaluation(Workload((answer,)), None).row(works(Workload((answer,)), {})[0])
    assert found.error.endswith("answer must return a mapping of metrics, as {'score': 0.9}; it returned 42")


@stage(reads=("asset", "marks"), keep=False)
def odd(*, asset: str, marks: list[str]) -> dict[str, Any]:
    marks.append(asset)
    CALLS.append(asset)
    if asset == "EXIT":
        sys.exit(3)
    if asset == "LOCK":
        return {"score": 1.0, "lock": threading.Lock()}
    return {"score": float(len(marks))}


def test_what_one_row_does_to_its_process_is_the_end_of_no_other(tmp_path: Path) -> None:
    marked = Workload((odd,), defaults={"marks": []})
    work = Evaluation(marked, open_artefacts(str(tmp_path)))
    found = [work.row(one) for one in works(marked, *({"asset": name} for name in ("EXIT", "LOCK", "GOOD")))]
    assert found[0].error == "SystemExit: 3" and "'lock' as a lock" in found[1].error
    assert found[2].metrics == {"score": 1.0}


@pytest.mark.parametrize(
    "value", [nan, inf, -inf, "0.9", [0.9], np.float32("nan"), np.array([1.0, 2.0]), 1j, {"mean": 1.0}]
)
def test_a_metric_that_is_no_finite_number_is_refused_by_name_and_value(value: object) -> None:
    with pytest.raises(WorkloadResultError) as refused:
        checked_metrics("score", {"accuracy": 0.9, "loss": value})
    assert "'loss'" in str(refused.value) and repr(value) in str(refused.value)


def test_numbers_of_any_kind_are_metrics_and_none_is_one_that_was_not_measured() -> None:
    given = {"a": np.float64(0.5), "b": np.int64(3), "c": True, "d": Fraction(1, 4), "e": np.array(2.0), "f": None}
    metrics = checked_metrics("score", given)
    assert metrics == {"a": 0.5, "b": 3, "c": 1, "d": 0.25, "e": 2.0, "f": None}
    assert {type(value) for value in metrics.values()} == {float, int, type(None)}


def test_a_row_that_measured_nothing_at_all_is_no_row() -> None:
    with pytest.raises(WorkloadResultError):
        checked_metrics("score", {"accuracy": None})


def test_a_stage_has_a_folder_for_half_done_work(tmp_path: Path) -> None:
    lone = find_workload("tests.helpers.sweeps.builders:lone")
    found = Unit("tests.helpers.sweeps.builders:lone", str(tmp_path), works(lone, {}))()
    assert found[0].metrics["there"] == 1.0
    where = SCRATCH.pop()
    assert where is not None and not where.exists()


@stage(reads=("asset",))
def listed(*, asset: str) -> list[float]:
    return [float(len(asset))]


@stage(reads=("depth",), keep=False)
def lengthened(listed: list[float], *, depth: int) -> list[float]:
    """As carelessly as many do it: what it was given is no longer what it was."""
    listed.append(float(depth))
    return listed


@stage(reads=("cost_bps",), keep=False)
def total(listed: list[float], lengthened: list[float], *, cost_bps: float) -> dict[str, float]:
    return {"score": sum(lengthened) - cost_bps, "listed": sum(listed)}


@pytest.mark.parametrize("kept", [True, False])
def test_a_stage_that_changes_what_it_is_given_changes_it_for_no_other(tmp_path: Path, kept: bool) -> None:
    careless = Workload((listed, lengthened, total))
    work = Evaluation(careless, open_artefacts(tmp_path) if kept else None)
    cells = works(careless, {"depth": 10}, {"depth": 100}, {"depth": 100, "cost_bps": 1.0})
    assert [work.row(cell).metrics for cell in cells] == [
        {"score": 14.0, "listed": 4.0},
        {"score": 104.0, "listed": 4.0},
        {"score": 103.0, "listed": 4.0},
    ]


def test_a_process_remembers_a_few_results_of_each_stage() -> None:
    recent = units.Recent(2)
    for number in range(3):
        recent.put("table", str(number), number)
    recent.put("other", "0", 0)
    assert [recent.get("table", str(number)) is units.MISSING for number in range(3)] == [True, False, False]


def test_what_a_process_remembers_has_no_more_bytes_than_it_may() -> None:
    recent = units.Recent(8, most_bytes=30_000)
    for number in range(3):
        recent.put("table", str(number), np.zeros(1250))
    assert [recent.get("table", str(number)) is units.MISSING for number in range(3)] == [True, False, False]
    recent.put("table", "huge", np.zeros(5000))
    assert recent.get("table", "huge") is units.MISSING


def test_nothing_is_kept_under_the_key_of_other_code(tmp_path: Path) -> None:
    """As where somebody edits the code while a sweep runs, and a new process imports it."""

    def made(code: str) -> Workload:
        names: dict[str, Any] = {"__name__": "tests.sweeps.made"}
        exec(f"def score(*, asset):\n    return {{'score': {code}}}", names)
        return Workload((stage(reads=("asset",))(names["score"]),))

    before, after = made("1.0"), made("2.0")
    work = works(before, {})[0]
    found = Evaluation(after, open_artefacts(str(tmp_path))).row(work)
    assert "stage score is not the one this sweep was started with" in found.error and found.executed == ()
    assert Evaluation(before, open_artefacts(str(tmp_path))).row(work).metrics == {"score": 1.0}


def test_nothing_is_kept_under_the_key_of_other_data(tmp_path: Path) -> None:
    data = ["old"]

    def score(*, asset: str) -> dict[str, Any]:
        return {"score": 1.0}

    workload = Workload((stage(reads=("asset",), inputs=lambda asset: data[0], keep=False)(score),))
    work = works(workload, {})[0]
    data[0] = "new"
    assert "the data it reads" in Evaluation(workload, None).row(work).error


def test_who_waits_for_anothers_result_is_not_taken_for_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = stamp.Stamp.create()
    stamp.use(page)
    seen: list[bool] = []
    kept = open_artefacts(str(tmp_path))

    @contextmanager
    def claimed(name: str, key: str) -> Iterator[None]:
        seen.append(page.read().until is not None)
        yield

    @stage(reads=("asset",))
    def score(*, asset: str) -> dict[str, float]:
        attached = stamp.attached()
        seen.append(attached is None or attached.read().until is not None)
        return {"score": 1.0}

    monkeypatch.setattr(kept, "claimed", claimed)
    workload = Workload((score,))
    try:
        assert Evaluation(workload, kept).row(works(workload, {})[0]).metrics == {"score": 1.0}
    finally:
        page.close()
    assert seen == [True, False], "while it waits, and not while it computes"


def test_the_size_of_a_training_set_is_told_once_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[dict[str, Any]] = []
    monkeypatch.setattr("scalable.worker.runner.notes._tell", notes.append)
    sized = replace(SMALL, matrix=(SMALL.stages[0].name, lambda made: (1000, 80)))
    units.RECENT.clear()
    work = Evaluation(sized, None)
    for cell in works(sized, *COSTS):
        work.row(cell)
    assert notes == [{"event": "training-set", "samples": 1000, "features": 80}]
