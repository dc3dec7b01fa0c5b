"""Keys of NumPy arrays and pandas tables."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from scalable.store.caching import key_of
from tests.helpers.caching.arrays import np, tables
from tests.helpers.paths import ROOT


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


def test_arrays_differ_by_values_type_and_shape_and_have_their_keys_in_every_process() -> None:
    keys = [key_of(value) for value in arrays()]

    assert len(set(keys)) == len(keys)
    assert elsewhere("arrays") == keys


def test_tables_differ_by_labels_values_and_types() -> None:
    keys = [key_of(value) for value in tables()]

    assert len(set(keys)) == len(keys)
    assert elsewhere("tables") == keys


def elsewhere(which: str) -> list[str]:
    code = f"from {__name__} import {which}, key_of; print(*map(key_of, {which}()))"
    env = {**os.environ, "PYTHONHASHSEED": "3", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, timeout=60, check=True, text=True)
    return done.stdout.split()
