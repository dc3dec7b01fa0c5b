"""Keys differ exactly when types or values differ, and are the same in every process."""

from __future__ import annotations

import copyreg
import pickle
import struct
import sys
import threading
from collections import Counter, OrderedDict, deque
from enum import Enum
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings

from scalable.store.caching import CachingError, key_of
from tests.helpers.caching.keys import VALUES, Plain, Settings


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


def test_what_equals_has_one_key_however_it_came_about() -> None:
    used = Settings(frozenset("abc"))
    assert used.size == 3

    assert key_of(used) == key_of(Settings(frozenset("cba")))
    assert key_of(Plain(a=1, b=2)) == key_of(Plain(b=2, a=1))
    assert key_of(Counter("ab")) == key_of(Counter("ba"))
    shared = [1]
    assert key_of([shared, shared]) == key_of([[1], [1]])


def test_keys_stay_the_same_from_version_to_version() -> None:
    """What is kept is found by its key: if this fails, everything that was kept before is computed again."""
    value = {"text": "é", "numbers": [1, -2.5, 3 + 4j], "flags": (True, None), "bytes": b"\0", "set": {1, 2}}
    assert key_of(value) == "e618129c0de990ddd1d14d1ff42459bc"
    assert key_of(bytes((1 << 16) - 1)) == "f0dd54442382e3beb300a0185a452594"
    assert key_of(bytes(1 << 16)) == "a9a6ee9e5c7e1e77891bd5a0fa29d3e5"


def fast(number: int) -> Enum:
    class Mode(Enum):
        FAST = number

    return Mode.FAST


def test_the_value_of_an_enums_member_counts_beside_its_name() -> None:
    assert key_of(fast(1)) == key_of(fast(1)) != key_of(fast(2))


class Made:
    """An object that pickle makes by calling something."""

    def __init__(self, make: Any, *arguments: Any) -> None:
        self.reduced = make, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.reduced


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Made(list, 1), Made(dict, 1)),
        (Made(list, 1), Made(list, 2)),
        (Plain(a=1), Plain(a=2)),
        (deque([1]), deque([2])),
        (deque([1], maxlen=1), deque([1], maxlen=2)),
        (Counter("a"), Counter("b")),
        (partial(int, base=2), partial(int, base=3)),
        (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
    ],
)
def test_objects_differ_by_what_makes_them_by_their_state_and_by_what_they_hold(one: Any, other: Any) -> None:
    assert key_of(one) == key_of(one) != key_of(other)


def test_what_a_type_says_of_itself_comes_before_what_is_registered_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    outspoken, silent = key_of(Made(list, 1)), key_of(Plain(a=1))
    for kind in (Made, Plain):
        monkeypatch.setitem(copyreg.dispatch_table, kind, lambda value: (list, ("registered",)))
    assert key_of(Made(list, 1)) == outspoken
    assert key_of(Plain(a=1)) != silent


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
