"""Keys differ exactly when types or values differ, and are the same in every process."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from hypothesis import strategies as st

SCALARS = st.sampled_from(
    [None, True, False, 0, 1, -1, 0.0, -0.0, 1.0, 1j, "", "1", "1:", "i1;", b"", b"1", "é", "\ud800"]
)

KEYS = st.one_of(SCALARS, st.tuples(SCALARS, SCALARS), st.frozensets(SCALARS, max_size=2))

VALUES = st.recursive(
    SCALARS | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
        | st.frozensets(KEYS, max_size=3)
    ),
    max_leaves=6,
)


@dataclasses.dataclass(frozen=True)
class Settings:
    names: frozenset[str]
    depth: int = 3

    @functools.cached_property
    def size(self) -> int:
        return len(self.names)


class Plain:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)
