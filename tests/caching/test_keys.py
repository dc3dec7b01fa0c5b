"""Keys differ exactly when types or values differ, and are the same in every process."""

from __future__ import annotations

import dataclasses
import functools
import os
import pickle
import re
import struct
import subprocess
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalable.store.caching import CachingError, key_of
from scalable.store.caching.keys import BULK

ROOT = Path(__file__).parent.parent.parent

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


def same(one: Any, other: Any) -> bool:
    """Equal in type and value, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, set | frozenset):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    if isinstance(one, dict):
        pairs = other.items()
        return len(one) == len(other) and all(any(same(a, b) for b in pairs) for a in one.items())
    return bool(one == other)


@settings(max_examples=500)
@given(VALUES, VALUES)
def test_keys_are_equal_exactly_when_types_and_values_are(one: Any, other: Any) -> None:
    assert (key_of(one) == key_of(other)) == same(one, other)


@given(VALUES)
def test_a_copy_has_the_key_of_its_original(value: Any) -> None:
    assert key_of(pickle.loads(pickle.dumps(value))) == key_of(value)


@settings(max_examples=5)
@given(st.lists(VALUES, min_size=20, max_size=40), st.integers(0, 2**32 - 1))
def test_keys_are_the_same_in_a_process_with_another_hash_seed(values: list[Any], seed: int) -> None:
    assert keys_elsewhere(values, seed) == [key_of(value) for value in values]


def keys_elsewhere(values: list[Any], seed: int) -> list[str]:
    code = "import pickle, sys; from scalable.store.caching import key_of as key"
    code += "; print(*map(key, pickle.load(sys.stdin.buffer)))"
    env = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(values), capture_output=True, env=env, timeout=60, check=True
    )
    return done.stdout.decode().split()


class Colour(Enum):
    RED = 1
    BLUE = 2


class Tone(Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Settings:
    names: frozenset[str]
    depth: int = 3

    @functools.cached_property
    def size(self) -> int:
        return len(self.names)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    depth: int = 3


class Plain:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Number(int):
    pass


Point = namedtuple("Point", "x y")
Pair = namedtuple("Pair", "x y")

DIFFERENT: list[Any] = [
    Colour.RED,
    Colour.BLUE,
    Tone.RED,
    Settings(frozenset("abc")),
    Settings(frozenset("abc"), 4),
    Slotted(3),
    Slotted(4),
    Plain(depth=3),
    Plain(depth=3.0),
    Plain(names={"x", "y", "z"}),
    3,
    Number(3),
    Number(4),
    Point(1, 2),
    Point(2, 1),
    Pair(1, 2),
    (1, 2),
    [1, 2],
    {1, 2},
    frozenset({1, 2}),
    bytearray(b"12"),
    memoryview(b"12"),
    b"12",
    date(2026, 1, 1),
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")),
    datetime(2026, 1, 1),  # noqa: DTZ001, without a zone is another value
    timedelta(1),
    Decimal("1.0"),
    Decimal("1.00"),
    Fraction(1, 2),
    UUID(int=1),
    Path("a/b"),
    "a/b",
    range(3),
    slice(3),
    ...,
    re.compile("a"),
    re.compile("a", re.IGNORECASE),
    Counter("aab"),
    {"a": 2, "b": 1},
    defaultdict(int, {"a": 2, "b": 1}),
    OrderedDict(a=1, b=2),
    OrderedDict(b=2, a=1),
    ValueError("x"),
    KeyError("x"),
    int,
    bool,
    len,
    [].append,
    [1].append,
    "x".upper,
    functools.partial(max, 1),
    functools.partial(max, 2),
    functools.partial(min, 1),
    10**5000,
    -(10**5000),
    os,
    os.path,
    ("ab", "c"),
    ("a", "bc"),
    "ab" * BULK,
    "ab" * BULK + "c",
    b"ab" * BULK,
    [[1], [2]],
    [[1, 2], []],
    [1, [2]],
]


def test_values_of_many_types_all_have_different_keys_that_hold_in_other_processes() -> None:
    keys = [key_of(value) for value in DIFFERENT]

    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in keys)
    unpicklable = [value for value in DIFFERENT if isinstance(value, memoryview) or value in (os, os.path)]
    sent = [value for value in DIFFERENT if not any(value is one for one in unpicklable)]
    there = keys_elsewhere(sent, 7)
    assert [repr(value)[:80] for value, key in zip(sent, there, strict=True) if key_of(value) != key] == []


def test_what_equals_has_one_key_however_it_came_about() -> None:
    used = Settings(frozenset("abc"))
    assert used.size == 3

    assert key_of(used) == key_of(Settings(frozenset("cba")))
    assert key_of(Plain(a=1, b=2)) == key_of(Plain(b=2, a=1))
    assert key_of(Counter("ab")) == key_of(Counter("ba"))
    shared = [1]
    assert key_of([shared, shared]) == key_of([[1], [1]])


def test_a_value_may_say_itself_what_counts() -> None:
    class Handle:
        def __init__(self, name: str) -> None:
            self.name, self.lock = name, threading.Lock()

        def __dask_tokenize__(self) -> str:
            return self.name

    assert key_of(Handle("a")) == key_of(Handle("a")) != key_of(Handle("b"))


@pytest.mark.parametrize("value", [threading.Lock(), object(), (one for one in "abc"), sys.stdout, [threading.Lock()]])
def test_what_cannot_be_compared_is_refused(value: Any) -> None:
    with pytest.raises(CachingError, match=r"no content that could be compared|equals nothing but itself"):
        key_of(value)


def test_what_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(CachingError, match="contains itself"):
        key_of(endless)
