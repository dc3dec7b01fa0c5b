"""Keys differ exactly when types or values differ, and are the same in every process."""

from __future__ import annotations

import dataclasses
import functools
import os
import pickle
import re
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from scalable.store.caching import key_of
from scalable.store.caching.keys import BULK
from tests.helpers.caching.keys import VALUES, Plain, Settings
from tests.helpers.paths import ROOT


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


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    depth: int = 3


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
