"""Keys of NumPy arrays and pandas tables."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalable.store.caching import key_of

ROOT = Path(__file__).parent.parent.parent
np = pytest.importorskip("numpy")


def arrays() -> list[Any]:
    base = np.arange(12)
    return [
        base,
        base.astype("i4"),
        base.astype(">i8"),
        base.astype("f8"),
        base.reshape(3, 4),
        base.reshape(4, 3),
        base.reshape(3, 4).T,
        base[::-1],
        base.astype("M8[s]"),
        base.astype("M8[ms]"),
        np.array(1),
        np.array([1]),
        np.int64(1),
        np.float64(1),
        np.bool_(True),
        np.str_("a"),
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        np.array([1, "b"], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("c", "f8")]),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.array([], dtype="U"),
        np.ma.masked_array([1, 2], [True, False]),
        np.ma.masked_array([1, 2], [False, True]),
        np.dtype("i4"),
        np.dtype("i8"),
        np.exp,
        np.log,
        np.mean,
        np.random.default_rng(1),
        np.random.default_rng(2),
    ]


def tables() -> list[Any]:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    return [
        frame,
        frame.rename(columns={"a": "c"}),
        frame.astype({"a": "f8"}),
        frame.astype({"a": "Int64"}),
        frame.astype({"b": object}),
        frame.astype({"b": "category"}),
        frame.astype({"b": pd.CategoricalDtype(["y", "x"])}),
        frame.astype({"b": pd.CategoricalDtype(["x", "y"], ordered=True)}),
        frame.assign(c=pd.arrays.IntervalArray.from_breaks([0, 1, 2])),
        frame.assign(c=pd.period_range("2026-01", periods=2, freq="M")),
        frame.assign(c=pd.array([1, None], dtype="Int64")),
        frame[["b", "a"]],
        frame.iloc[::-1],
        frame.set_index("b"),
        frame.set_index(["a", "b"]),
        frame.assign(c=pd.Timestamp("2026-01-01")),
        frame.assign(c=pd.Timestamp("2026-01-01", tz="UTC")),
        frame["a"],
        frame["a"].rename("c"),
        frame["a"].rename(None),
        frame.index,
        pd.Index([0, 1]),
        pd.Timestamp("2026-01-01"),
        pd.Timedelta("1s"),
        pd.NaT,
        pd.NA,
        frame.iloc[:0],
    ]


def test_arrays_differ_by_values_type_and_shape_and_have_their_keys_in_every_process() -> None:
    keys = [key_of(value) for value in arrays()]

    assert len(set(keys)) == len(keys)
    assert elsewhere("arrays") == keys


def test_how_an_array_lies_in_memory_does_not_count() -> None:
    base = np.arange(10_000_000, dtype="f4").reshape(1000, 10000)

    assert key_of(np.asfortranarray(base)) == key_of(base)
    assert key_of(np.repeat(base[:10], 2, axis=1)[:, ::2]) == key_of(base[:10])
    assert key_of(np.asfortranarray(base) + 1) != key_of(base)


def test_tables_differ_by_labels_values_and_types() -> None:
    keys = [key_of(value) for value in tables()]

    assert len(set(keys)) == len(keys)
    assert elsewhere("tables") == keys


def test_how_a_table_was_put_together_does_not_count() -> None:
    pd = pytest.importorskip("pandas")
    whole = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    pieces = pd.DataFrame({"a": [1, 2]})
    pieces["b"] = [3, 4]

    assert key_of(pieces) == key_of(whole)


def test_a_table_that_was_sent_has_the_key_it_had() -> None:
    pytest.importorskip("pandas")

    assert [key_of(pickle.loads(pickle.dumps(table))) for table in tables()] == [key_of(table) for table in tables()]


def elsewhere(which: str) -> list[str]:
    code = f"from {__name__} import {which}, key_of; print(*map(key_of, {which}()))"
    env = {**os.environ, "PYTHONHASHSEED": "3", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, timeout=60, check=True, text=True)
    return done.stdout.split()
