"""A row that exists can be stored: whatever could not be is refused where the row is made, in words."""

from __future__ import annotations

import pickle
from enum import StrEnum
from fractions import Fraction
from typing import Any

import pytest

from scalable.store import Row, RowError, RowStatus, SweepRun, SweepStatus
from scalable.testing.store import a_failed_row, a_row, key

NESTED: list[Any] = []
for _ in range(200):
    NESTED = [NESTED]

CYCLE: dict[str, Any] = {}
CYCLE["itself"] = CYCLE


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run_key": "abc"}, "'abc' is not a row's key; write 32 to 128 hexadecimal digits"),
        ({"run_key": "A" * 32}, "lower case"),
        ({"run_key": b"a" * 32}, "is not a row's key"),
        ({"sweep": None}, "has neither a name nor a sweep"),
        ({"worker": ""}, "worker is ''; write a text that is not empty"),
        ({"worker": 5}, "worker is 5; write a text"),
        ({"axes": {"asset": ""}}, "asset is ''; write a text that is not empty"),
        ({"axes": {"asset": "x" * 1001}}, "asset has 1001 characters; at most 1000 fit"),
        ({"axes": {"asset": "a\0b"}}, "without the character 0"),
        ({"axes": {"size": 10**400}}, "size is a number over"),
        ({"axes": {"size": float("inf")}}, "size is inf; write a finite number"),
        ({"axes": {"size": float("nan")}}, "size is nan; write a finite number"),
        ({"axes": {"size": [1]}}, "size is"),
        ({"axes": {"size": None}}, "size is nothing; write a finite number"),
        ({"axes": {"a/b": 1}}, "an axis is called 'a/b'"),
        ({"axes": {4: 1}}, "an axis is called 4"),
        ({"compared": "calibration"}, "compared is 'calibration'; write a tuple of names"),
        ({"compared": ("size",)}, "names that axes has"),
        ({"worker": "\ud800"}, "half characters"),
        ({"attempt": 0}, "attempt is 0; write a whole number from 1"),
        ({"attempt": 1.5}, "attempt is 1.5"),
        ({"attempt": True}, "attempt is true"),
        ({"attempt": 2**63}, "attempt is a number over"),
        ({"attempt": None}, "attempt is nothing"),
        ({"elapsed_s": "3"}, "elapsed_s is '3'"),
        ({"run_status": "finished"}, "write RowStatus.FINISHED or .FAILED"),
        ({"metrics": None}, "metrics is a NoneType; write a mapping"),
        ({"metrics": {"a": {"b": [0, {1, 2}]}}}, r"metrics\.a\.b\[1\] is a set, which JSON does not have"),
        ({"metrics": {("a", "b"): 1}}, "has the key .* a tuple; write keys as text"),
        ({"metrics": {1: 0, "1": 0}}, "metrics has the key '1' twice"),
        ({"value": {"$float": "nan"}}, "which is taken"),
        ({"value": NESTED}, "nested more than 100 levels deep"),
        ({"value": CYCLE}, "nested more than 100 levels deep"),
        ({"value": 1 << 5000}, "more than 1024 bits"),
        ({"value": "x" * (16 * 1024 * 1024)}, "write it to a file"),
        ({"value": b"bytes"}, "value is a bytes"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_the_place_and_what_to_write(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RowError, match=said):
        a_row(**changes)


def test_every_refusal_names_the_row() -> None:
    with pytest.raises(RowError, match=f"row {key('row')}: fold"):
        a_row(axes={"fold": ""})


def test_numbers_and_texts_of_other_types_become_plain_ones() -> None:
    class Colour(StrEnum):
        RED = "red"

    axes = {"cost_bps": Fraction(5, 2), "asset": Colour.RED}
    row = a_row(metrics={"ratio": Fraction(1, 4), 2030: True, "is": Colour.RED}, axes=axes, elapsed_s=3)
    assert row.metrics == {"ratio": 0.25, "2030": True, "is": "red"}
    assert {type(value) for value in row.metrics.values()} == {float, bool, str}
    assert (row.axes["cost_bps"], type(row.axes["cost_bps"])) == (2.5, float)
    assert (row.axes["asset"], type(row.axes["asset"])) == ("red", str)
    assert type(row.elapsed_s) is float


def test_truth_values_and_numbers_of_numpy_become_plain_ones() -> None:
    np = pytest.importorskip("numpy")
    found = a_row(metrics={"is": np.bool_(True), "n": np.int64(3), "one": np.array(0.5), "few": [np.float32(0.5)]})
    assert found.metrics == {"is": True, "n": 3, "one": 0.5, "few": [0.5]} and found.metrics["is"] is True
    with pytest.raises(RowError, match=r"metrics\.when is a datetime64"):
        a_row(metrics={"when": np.datetime64("2030-01-01", "ns")})


def test_a_row_does_not_change_with_the_objects_it_was_made_of() -> None:
    metrics = {"folds": [1, 2]}
    row = a_row(metrics=metrics)
    metrics["folds"].append(3)
    assert row.metrics == {"folds": [1, 2]}


def test_rows_are_equal_when_their_content_is() -> None:
    assert a_row(metrics={"a": float("nan"), "b": 1}) == a_row(metrics={"b": 1, "a": float("nan")}, written_at=5.0)
    assert a_row(attempt=1) != a_row(attempt=2)
    assert a_row(axes={"calibration": 1}) != a_row(axes={"calibration": True})
    assert a_row() != "a row"
    assert len({a_row(), a_row(), a_row("other")}) == 2


def test_a_row_travels_between_processes() -> None:
    row = a_failed_row(axes={"calibration": True}, value={"a": [float("inf")]}, written_at=4.0)
    back = pickle.loads(pickle.dumps(row))
    assert back == row
    assert back.written_at == 4.0
    assert back.run_status is RowStatus.FAILED
    assert not back.finished


def test_a_row_survives_being_a_dictionary() -> None:
    row = a_failed_row(axes={"calibration": 3})
    assert Row.from_dict(row.to_dict()) == row


def test_a_failures_text_is_cut_rather_than_refused() -> None:
    row = a_failed_row(error="x" * 100_000)
    assert row.error is not None
    assert len(row.error) == 20_000
    assert row.error.endswith("x ...")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": ""}, "id is empty"),
        ({"sweep": "a\0"}, "without the character 0"),
        ({"started": float("nan")}, "started is nan"),
        ({"started": None}, "started is missing"),
        ({"ended": 2.0}, "is running with ended 2.0; only a running one has none"),
        ({"status": SweepStatus.FINISHED}, "is finished with ended nothing"),
        ({"status": "running"}, "write a SweepStatus"),
        ({"expected": -1}, "expected is -1"),
        ({"expected": None}, "expected is nothing"),
    ],
)
def test_a_sweeps_entry_that_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"id": "run-1", "sweep": "calibration", "started": 1.0}
    with pytest.raises(RowError, match=said):
        SweepRun(**{**given, **changes})
