"""The decorator: what is computed, what is found again, and what is refused."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import cloudpickle
import pytest

from scalable.store.caching import CachingError, FileType, cacheable

CALLS: list[Any] = []


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALABLE_CACHE_DIR", str(tmp_path / "cache"))
    CALLS.clear()


@cacheable
def subtract(a: int, b: int = 2, *, scale: float = 1.0) -> float:
    CALLS.append((a, b, scale))
    return scale * (a - b)


def counted(function: Callable[..., Any] = lambda *args, **kwargs: args) -> tuple[Any, list[Any]]:
    """A cached function that takes anything, and the list of the calls that were computed."""
    calls: list[Any] = []

    @cacheable
    def f(*args: Any, **kwargs: Any) -> Any:
        calls.append((args, kwargs))
        return function(*args, **kwargs)

    return f, calls


def test_the_second_call_finds_what_the_first_computed() -> None:
    assert [subtract(5, 3), subtract(5, 3)] == [2.0, 2.0]
    assert CALLS == [(5, 3, 1.0)]
    assert subtract.cache_info()[:2] == (1, 1)


def test_order_types_and_values_of_arguments_count() -> None:
    f, calls = counted()
    arguments: list[tuple[Any, ...]] = [(5, 3), (3, 5), (1,), ("1",), (1.0,), (True,), (), (None,), ([1],), ((1,),)]

    assert [f(*one) for one in arguments] == arguments
    assert len(calls) == len(arguments)
    assert [f(*one) for one in arguments] == arguments
    assert len(calls) == len(arguments)


def test_how_arguments_are_passed_does_not_count() -> None:
    keys = {
        subtract.cache_key(1),
        subtract.cache_key(1, 2),
        subtract.cache_key(a=1),
        subtract.cache_key(b=2, a=1),
        subtract.cache_key(1, scale=1.0),
    }

    assert len(keys) == 1
    assert keys != {subtract.cache_key(1, scale=1)}
    f, _ = counted()
    assert f.cache_key(x=1, y=2) == f.cache_key(y=2, x=1) != f.cache_key(x=2, y=1)


def test_nothing_is_a_result_like_any_other() -> None:
    f, calls = counted(lambda: None)

    assert (f(), f()) == (None, None)
    assert len(calls) == 1


def test_functions_with_equal_arguments_do_not_share_results() -> None:
    @cacheable
    def one(x: int) -> str:
        return "one"

    @cacheable
    def other(x: int) -> str:
        return "other"

    assert (one(1), other(1), one(1), other(1)) == ("one", "other", "one", "other")


def test_a_result_is_a_copy_that_may_be_changed() -> None:
    f, _ = counted(lambda: [1])
    f().append(2)
    f().append(3)

    assert f() == [1]


def test_recompute_replaces_what_is_there() -> None:
    calls: list[int] = []

    def compute(x: int) -> int:
        calls.append(x)
        return 10 * len(calls)

    f, g = cacheable(compute), cacheable(recompute=True)(compute)
    assert (f(1), f(1)) == (10, 10)
    assert (f.recompute(1), f(1)) == (20, 20)
    assert (g(1), f(1)) == (30, 30)


def test_an_exception_is_raised_again_and_not_kept() -> None:
    failing = True

    def fail() -> str:
        if failing:
            raise ValueError("not now")
        return "fine"

    f, calls = counted(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="not now"):
            f()
    failing = False
    assert (f(), f()) == ("fine", "fine")
    assert len(calls) == 3


def test_wrong_arguments_raise_what_the_function_raises() -> None:
    with pytest.raises(TypeError, match=r"subtract\(\) missing 1 required positional argument: 'a'"):
        subtract()  # type: ignore[call-arg]


def test_a_value_that_has_no_key_is_refused_by_the_name_of_its_argument() -> None:
    with pytest.raises(CachingError, match=r"argument 'b' of subtract: a value of type _thread\.lock has no content"):
        subtract(1, threading.Lock())  # type: ignore[arg-type]
    assert CALLS == []


def test_a_default_that_has_no_key_stands_for_being_left_out() -> None:
    missing = object()

    @cacheable
    def f(x: int, y: object = missing) -> int:
        return x

    assert f(1) == f(1) == 1
    assert f.cache_key(1) == f.cache_key(1, missing) != f.cache_key(1, None)
    with pytest.raises(CachingError, match="argument 'y' of"):
        f(1, object())


def test_results_are_in_the_folder_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folders() -> set[str]:
        files = tmp_path.rglob("*.pickle")
        return {str(file.relative_to(tmp_path).parent.parent) for file in files}

    subtract(1)
    assert folders() == {"cache"}
    cacheable(cache_dir=tmp_path / "option")(subtract.__wrapped__)(1)
    assert folders() == {"cache", "option"}
    monkeypatch.delenv("SCALABLE_CACHE_DIR")
    monkeypatch.chdir(tmp_path)
    subtract(1)
    assert folders() == {"cache", "option", ".scalable/cache"}


def test_a_function_that_changes_the_current_folder_finds_its_result_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALABLE_CACHE_DIR", "relative")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    f, calls = counted(lambda: monkeypatch.chdir(tmp_path / "elsewhere"))
    f()
    monkeypatch.chdir(tmp_path)
    f()

    assert len(calls) == 1


def test_only_results_stay_in_the_folder(tmp_path: Path) -> None:
    subtract(1)
    subtract.recompute(1)
    subtract(2)

    assert sorted(file.suffix for file in tmp_path.rglob("*") if file.is_file()) == [".pickle", ".pickle"]


def test_a_function_may_call_itself() -> None:
    @cacheable
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    assert fibonacci(20) == 6765
    assert fibonacci.cache_info().misses == 21


def test_a_function_that_asks_for_what_it_computes_fails_as_it_would_without_a_cache() -> None:
    @cacheable
    def endless(n: int) -> int:
        return endless(n)

    with pytest.raises(RecursionError):
        endless(1)


@dataclasses.dataclass
class Model:
    weight: float

    @cacheable
    def predict(self, x: float) -> float:
        CALLS.append(x)
        return self.weight * x

    @staticmethod
    @cacheable
    def twice(x: int) -> int:
        return 2 * x

    @classmethod
    @cacheable
    def named(cls, x: int) -> str:
        return f"{cls.__name__} {x}"


def test_a_method_counts_the_object_it_belongs_to() -> None:
    assert [Model(2.0).predict(3.0), Model(4.0).predict(3.0), Model(2.0).predict(3.0)] == [6.0, 12.0, 6.0]
    assert CALLS == [3.0, 3.0]
    assert Model.predict.recompute(Model(2.0), 3.0) == 6.0
    assert (Model.twice(2), Model.twice(2)) == (4, 4)
    named: Any = Model.named  # which mypy takes for a method that is not bound
    assert (named(1), named(1)) == ("Model 1", "Model 1")


async def later() -> None: ...


def yielding() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (later, r"later is async.*asyncio\.to_thread"),
        (yielding, "yielding yields.*return a list"),
        (staticmethod(len), "write @staticmethod above @cacheable"),
        (len, "a builtin_function_or_method is not a Python function"),
        (Model, "a type is not a Python function"),
        ("folder", "a str is not a Python function"),
    ],
)
def test_what_cannot_be_cached_is_refused_when_it_is_decorated(function: Any, message: str) -> None:
    with pytest.raises(CachingError, match=message):
        cacheable(function)


def test_options_that_mark_nothing_are_refused_when_they_are_written() -> None:
    def f(config: str) -> None: ...

    with pytest.raises(CachingError, match=r"argument 'confg' is not defined; known: config; write config"):
        cacheable(confg=FileType)(f)
    with pytest.raises(
        CachingError, match=r"config=<class 'int'> is no mark; write config= one of ValueType, FileType"
    ):
        cacheable(config=int)(f)


def test_a_cached_function_looks_like_the_function() -> None:
    assert subtract.__name__ == "subtract"  # type: ignore[attr-defined]
    assert subtract.__wrapped__(5, 3) == 2.0
    assert_type(subtract(1), float)
    assert_type(subtract.recompute(1, scale=2.0), float)
    assert_type(Model(1.0).predict(2.0), float)


def the_type_checker_refuses() -> None:
    """Never called: an error that is no error any more makes its comment one."""
    subtract("a")  # type: ignore[arg-type]
    subtract.recompute(c=1)  # type: ignore[call-arg]
    Model(1.0).predict("a")  # type: ignore[arg-type]
    cacheable(recompute=1)  # type: ignore[call-overload]


def test_functions_of_modules_are_pickled_by_their_name() -> None:
    assert pickle.loads(pickle.dumps(subtract)) is subtract
    assert pickle.loads(pickle.dumps(subtract.recompute)) is subtract.recompute


def test_functions_that_are_sent_by_value_find_the_same_results() -> None:
    f, calls = counted()
    f(1)

    sent = cloudpickle.loads(cloudpickle.dumps(f))

    assert sent.cache_key(1) == f.cache_key(1)
    assert sent(1) == (1,)
    assert (sent.cache_info().hits, len(calls)) == (1, 1)
    assert cloudpickle.loads(cloudpickle.dumps(sent)).cache_key(1) == f.cache_key(1)
