"""``@cacheable``: a function whose results are kept on disk and found again by every process that asks for the same.

The same means: the same function with the same code, and arguments of the same names, types and values.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast, overload

from scalable.store.caching.cache import Cache
from scalable.store.caching.content import MARKS, RETURN, ContentKind, kinds_in
from scalable.store.caching.keys import CachingError
from scalable.wording import not_defined

P = ParamSpec("P")
Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class CacheInfo(NamedTuple):
    """The numbers of results found and computed in this process, and where they are."""

    hits: int
    misses: int
    folder: str


class CachedFunction(Protocol[P, R_co]):
    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def recompute(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Compute the result whether it is there or not, and replace it."""

    def cache_key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Return the key that the result is kept under."""

    def cache_info(self) -> CacheInfo: ...

    @overload
    def __get__(self, instance: None, owner: type) -> CachedFunction[P, R_co]: ...
    @overload
    def __get__(
        self: CachedFunction[Concatenate[Any, Q], R_co], instance: object, owner: type
    ) -> Callable[Q, R_co]: ...


class Decorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> CachedFunction[P, R]: ...


@overload
def cacheable(function: Callable[P, R], /) -> CachedFunction[P, R]: ...
@overload
def cacheable(
    *,
    recompute: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    return_type: object = None,
    **marks: object,
) -> Decorator: ...
def cacheable(
    function: Any = None,
    /,
    *,
    recompute: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    return_type: object = None,
    **marks: object,
) -> Any:
    """Keep the results of a function on disk.

    ``recompute`` computes and replaces them at every call. ``cache_dir`` is where they are kept; otherwise it is
    ``SCALABLE_CACHE_DIR``, or ``.scalable/cache`` below the current folder. ``return_type`` and all other options mark
    the result and the arguments of these names as ``FileType``, ``DirType`` or ``ValueType``.
    """

    def decorate(function: Any) -> Any:
        refuse_what_cannot_be_cached(function)
        return decorated(Cache(function, given_kinds(function, return_type, marks), cache_dir, recompute))

    return decorate if function is None else decorate(function)


def decorated(cache: Cache) -> Any:
    """Make a real function: pickle finds it by its name, cloudpickle sends it, and a class binds it as a method."""
    function = cache.function

    @wraps(function)
    def cached(*args: Any, **kwargs: Any) -> Any:
        return cache.call(args, kwargs, cache.recompute)

    @wraps(function)
    def recompute(*args: Any, **kwargs: Any) -> Any:
        return cache.call(args, kwargs, True)

    @wraps(function)
    def cache_key(*args: Any, **kwargs: Any) -> str:
        return cache.key(cache.arguments(args, kwargs))

    def cache_info() -> CacheInfo:
        return CacheInfo(cache.hits, cache.misses, cache.folder())

    result = cast(Any, cached)
    methods: dict[str, Any] = {"recompute": recompute, "cache_key": cache_key, "cache_info": cache_info}
    for name, method in methods.items():
        method.__module__, method.__name__ = function.__module__, name
        method.__qualname__ = f"{function.__qualname__}.{name}"
        setattr(result, name, method)
    return result


def given_kinds(function: FunctionType, return_type: object, marks: Mapping[str, object]) -> dict[str, ContentKind]:
    given: dict[str, ContentKind] = {}
    names = inspect.signature(function, follow_wrapped=False).parameters
    for name, mark in {**marks, RETURN: return_type}.items():
        if name == RETURN and mark is None:
            continue
        if name != RETURN and name not in names:
            message, remedy = not_defined("argument", name, names)
            raise CachingError(f"{function.__qualname__}: {message}; {remedy}")
        kinds = kinds_in(mark)
        if len(kinds) != 1:
            option = "return_type" if name == RETURN else name
            raise CachingError(
                f"{function.__qualname__}: {option}={mark!r} is no mark; write {option}= one of {', '.join(MARKS)}"
            )
        given[name] = kinds.pop()
    return given


def refuse_what_cannot_be_cached(function: object) -> None:
    match function:
        case staticmethod() | classmethod() | property():
            kind = type(function).__name__
            raise CachingError(f"a {kind} cannot be cached; write @{kind} above @cacheable")
        case FunctionType():
            pass
        case _:
            raise CachingError(
                f"a {type(function).__name__} is not a Python function; write @cacheable, or @cacheable(...) with its "
                "options by name, above a def"
            )
    name = function.__qualname__
    if inspect.iscoroutinefunction(function):
        raise CachingError(
            f"{name} is async, and cached results are not awaited; make the part that computes a plain function, "
            "cache that and await asyncio.to_thread(...)"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise CachingError(f"{name} yields, and what it yields is gone once it is used; return a list instead")
