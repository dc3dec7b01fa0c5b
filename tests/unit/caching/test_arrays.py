"""Keys of NumPy arrays and pandas tables."""

from __future__ import annotations

import pickle

import pytest

from scalable.store.caching import key_of
from tests.helpers.caching.arrays import np, tables


def test_how_an_array_lies_in_memory_does_not_count() -> None:
    base = np.arange(10_000_000, dtype="f4").reshape(1000, 10000)

    assert key_of(np.asfortranarray(base)) == key_of(base)
    assert key_of(np.repeat(base[:10], 2, axis=1)[:, ::2]) == key_of(base[:10])
    assert key_of(np.asfortranarray(base) + 1) != key_of(base)


def test_how_a_table_was_put_together_does_not_count() -> None:
    pd = pytest.importorskip("pandas")
    whole = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    pieces = pd.DataFrame({"a": [1, 2]})
    pieces["b"] = [3, 4]

    assert key_of(pieces) == key_of(whole)


def test_a_table_that_was_sent_has_the_key_it_had() -> None:
    pytest.importorskip("pandas")

    assert [key_of(pickle.loads(pickle.dumps(table))) for table in tables()] == [key_of(table) for table in tables()]
