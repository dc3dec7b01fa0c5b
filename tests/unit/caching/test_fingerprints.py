"""An edited function is another function; one that was only moved or described is not."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from scalable.store.caching import CachingError, cacheable, key_of
from tests.helpers.caching.fingerprints import DIFFERENT, module, of

BASE = "def f(x):\n    'what it does'\n    return x + 1\n"

SAME = {
    "moved": "\n\n\n" + BASE,
    "commented": "def f(x):\n    'what it does'\n    # one more\n    return x + 1  # than before\n",
    "described anew": "def f(x):\n    'what it really does'\n    return x + 1\n",
    "beside others": "def g():\n    pass\n" + BASE + "LIMIT = 3\n",
}


@pytest.mark.parametrize("source", SAME.values(), ids=SAME)
def test_what_does_not_change_the_result_does_not_change_the_fingerprint(source: str) -> None:
    assert of(source) == of(BASE)


def test_every_change_of_code_changes_the_fingerprint() -> None:
    keys = {of(source) for source in [BASE, *DIFFERENT.values()]}

    assert len(keys) == 1 + len(DIFFERENT)


def test_a_docstring_that_is_also_returned_counts() -> None:
    assert of("def f():\n    'a'\n    return 'a'\n") != of("def f():\n    'b'\n    return 'b'\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 3\ndef f(x): return x < LIMIT", "LIMIT = 4\ndef f(x): return x < LIMIT"),
        ("LIMITS = {'a': [1]}\ndef f(x): return LIMITS[x]", "LIMITS = {'a': [2]}\ndef f(x): return LIMITS[x]"),
        ("def g(x): return 1\ndef f(x): return g(x)", "def g(x): return 2\ndef f(x): return g(x)"),
        ("def g(x=1): return x\ndef f(x): return g()", "def g(x=2): return x\ndef f(x): return g()"),
        (
            "def h(): return 1\ndef g(): return h()\ndef f(x): return [g() for _ in x]",
            "def h(): return 2\ndef g(): return h()\ndef f(x): return [g() for _ in x]",
        ),
        (
            "class C:\n  def m(self): return 1\ndef f(x): return C().m()",
            "class C:\n  def m(self): return 2\ndef f(x): return C().m()",
        ),
        (
            "class B:\n  @property\n  def m(self): return 1\nclass C(B): pass\ndef f(x): return C().m",
            "class B:\n  @property\n  def m(self): return 2\nclass C(B): pass\ndef f(x): return C().m",
        ),
        ("class C:\n  limit = 1\ndef f(x): return C.limit", "class C:\n  limit = 2\ndef f(x): return C.limit"),
        (
            "import enum\nclass C(enum.Enum):\n  A = 1\ndef f(x): return C.A.value",
            "import enum\nclass C(enum.Enum):\n  A = 2\ndef f(x): return C.A.value",
        ),
        (
            "from dataclasses import dataclass\n@dataclass\nclass C:\n  a: int = 1\nS = C()\ndef f(x): return S.a",
            "from dataclasses import dataclass\n@dataclass\nclass C:\n  a: int = 1\nS = C(2)\ndef f(x): return S.a",
        ),
        (
            "class C:\n  def m(self): return 1\nc = C()\ndef f(x): return c.m()",
            "class C:\n  def m(self): return 2\nc = C()\ndef f(x): return c.m()",
        ),
        (
            "class C:\n  def m(self): return 1\ndef t(c):\n  return lambda x: c.m()\nf = t(C())",
            "class C:\n  def m(self): return 2\ndef t(c):\n  return lambda x: c.m()\nf = t(C())",
        ),
        (
            "class C:\n  def __init__(self, n): self.n = n\ndef t(c):\n  return lambda x: c.n\nf = t(C(1))",
            "class C:\n  def __init__(self, n): self.n = n\ndef t(c):\n  return lambda x: c.n\nf = t(C(2))",
        ),
        (
            "from functools import lru_cache\n@lru_cache\ndef g(): return 1\ndef f(x): return g()",
            "from functools import lru_cache\n@lru_cache\ndef g(): return 2\ndef f(x): return g()",
        ),
        (
            "from functools import partial\ndef g(x): return x\nh = partial(g, 1)\ndef f(x): return h()",
            "from functools import partial\ndef g(x): return x\nh = partial(g, 2)\ndef f(x): return h()",
        ),
        (
            "from scalable.store.caching import cacheable\n@cacheable\ndef g(): return 1\ndef f(x): return g()",
            "from scalable.store.caching import cacheable\n@cacheable\ndef g(): return 2\ndef f(x): return g()",
        ),
        (
            "def t(n):\n  def by(x): return n * x\n  return by\na = t(2)\nb = t(3)\ndef f(x): return a(x) - b(x)",
            "def t(n):\n  def by(x): return n * x\n  return by\na = t(3)\nb = t(2)\ndef f(x): return a(x) - b(x)",
        ),
        (
            "class C:\n  def add(self, x): return 1\nc = C()\ndef f(x): return C().add(x)",
            "class C:\n  def add(self, x): return 2\nc = C()\ndef f(x): return C().add(x)",
        ),
    ],
)
def test_code_and_values_that_the_function_names_count(before: str, after: str) -> None:
    assert of(before) == of(before)
    assert of(before) != of(after)


def test_own_modules_are_followed_and_libraries_are_not() -> None:
    first = module("def g(x): return 1", "helpers")
    second = module("def g(x): return 2", "helpers")
    unused = module("def g(x): return 1\ndef h(x): return 3", "helpers")
    source = "def f(x): return helpers.g(x)"

    assert of(source, helpers=first) == of(source, helpers=unused)
    assert of(source, helpers=first) != of(source, helpers=second)
    for one in (first, second):
        one.__file__ = "/usr/lib/python3/site-packages/helpers.py"
    assert of(source, helpers=first) == of(source, helpers=second)


def test_an_installed_function_that_is_cached_has_its_package_followed() -> None:
    def key(value: int) -> str:
        installed = module(f"def g(x): return {value}\ndef f(x): return g(x)", "/lib/site-packages/installed")
        return cacheable(installed.f).cache_key(1)

    assert key(1) == key(1) != key(2)


def test_functions_that_name_each_other_are_fingerprinted() -> None:
    source = "def f(x): return g(x)\ndef g(x): return f(x) if x else {}"

    assert of(source.format(1)) != of(source.format(2))


def test_however_many_functions_call_each_other_they_are_followed() -> None:
    source = "def f(x): return f0(x)\n" + "\n".join(f"def f{n}(x): return f{n + 1}(x)" for n in range(2000))

    assert of(f"{source}\ndef f2000(x): return 1") != of(f"{source}\ndef f2000(x): return 2")


def test_global_values_that_contain_themselves_are_no_obstacle() -> None:
    source = "v = [{}]\nv.append(v)\ndef f(x): return v[x]"

    assert of(source.format(1)) == of(source.format(1)) != of(source.format(2))


def test_what_cannot_be_compared_counts_by_its_type_as_a_global_and_is_refused_around_a_function() -> None:
    def around(thing: Any) -> Callable[[], Any]:
        return lambda: thing

    reads = "def f(x): return thing"
    stream = (one for one in "abc")
    assert of(reads, thing=stream) == of(reads, thing=(one for one in "xyz")) != of(reads, thing=sys.stdout)
    with pytest.raises(CachingError, match=r"reads 'thing' of the function around it.*generator.*make it an argument"):
        key_of(around(stream))


def test_values_of_the_function_around_count_and_locks_do_not() -> None:
    lock = threading.Lock()

    def times(number: int) -> Callable[[int], int]:
        def by(x: int) -> int:
            with lock:
                return number * x

        return by

    assert key_of(times(2)) == key_of(times(2)) != key_of(times(3))


@pytest.mark.parametrize(
    "body",
    [
        "global v; v = v + [1]",
        "v.append(x)",
        "v[0] += x",
        "v[x] = [y for y in x]",
        "del v[x]",
        "[v.append(y) for y in x]",
        "v[0][1].extend(x)",
        "print(x, v.pop())",
        "(lambda: v.insert(0, x))()",
        "v[1:2] = x",
    ],
)
def test_what_a_function_changes_itself_is_bookkeeping(body: str) -> None:
    assert of(f"v = [1]\ndef f(x): {body}") == of(f"v = [2]\ndef f(x): {body}")


@pytest.mark.parametrize(
    "body",
    [
        "return v[x]",
        "return x.append(v)",
        "y = v.copy(); y[0] = 2",
        "x[v[0]] = 1",
        "w = sorted(v); w.append(1); w[0] = 1",
    ],
)
def test_what_a_function_only_reads_counts(body: str) -> None:
    assert of(f"v = [1]\ndef f(x): {body}") != of(f"v = [2]\ndef f(x): {body}")


def test_counting_calls_in_any_usual_way_does_not_change_a_function() -> None:
    calls: list[int] = []
    counts = {"f": 0}
    total = 0

    def made() -> Any:
        @cacheable
        def f(x: int) -> int:
            nonlocal total
            total += 1
            counts["f"] += 1
            calls.append(x)
            return x

        return f

    before = made().cache_key(1)
    made().__wrapped__(1)

    assert (calls, counts, total) == ([1], {"f": 1}, 1)
    assert made().cache_key(1) == before


def test_a_decorator_between_counts_with_its_options() -> None:
    def scaled(factor: int) -> Callable[[Callable[[int], int]], Callable[[int], int]]:
        def decorate(function: Callable[[int], int]) -> Callable[[int], int]:
            @functools.wraps(function)
            def call(x: int) -> int:
                return factor * function(x)

            return call

        return decorate

    def made(factor: int) -> Any:
        @cacheable
        @scaled(factor)
        def f(x: int) -> int:
            return x

        return f

    assert made(2).cache_key(1) == made(2).cache_key(1) != made(3).cache_key(1)


def test_a_helper_defined_anew_is_noticed_at_the_next_call() -> None:
    mine = module("def g(x): return 1\ndef f(x): return g(x)")
    cached = cacheable(mine.f)
    before = cached.cache_key(1)

    exec("def g(x): return 2", vars(mine))

    assert cached.cache_key(1) != before


def test_a_variable_around_that_is_assigned_anew_is_noticed_at_the_next_call() -> None:
    factor = 2

    @cacheable
    def f(x: int) -> int:
        return factor * x

    before = f.cache_key(1)
    factor = 3

    assert f.cache_key(1) != before
