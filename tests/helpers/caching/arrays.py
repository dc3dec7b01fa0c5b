"""Keys of NumPy arrays and pandas tables."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")


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
