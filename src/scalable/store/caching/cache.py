"""The results of one function: from a call to its key, to what is kept under it, and to the function if nothing is."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

from scalable.store.caching.content import RETURN, Kind, contents, kinds_of
from scalable.store.caching.entries import MISSING, Entry
from scalable.store.caching.errors import CacheWarning, CachingError, ContentError
from scalable.store.caching.fingerprints import DECORATED, Fingerprint, fingerprint_of
from scalable.store.caching.keys import Encoder, module_of, too_deep
from scalable.store.leases.files import file_lease
from scalable.wording import file_name

VARIABLE = "SCALABLE_CACHE_DIR"
DEFAULT_FOLDER = ".scalable/cache"
LONGEST_NAME = 100  # characters of a function's name in that of its folder
WARNED: set[tuple[str, type]] = set()


class Cache:
    """What the decorator knows of a function; it is sent along where the function is sent by value."""

    def __init__(
        self,
        function: FunctionType,
        given: Mapping[str, Kind],
        cache_dir: str | os.PathLike[str] | None = None,
        recompute: bool = False,
    ) -> None:
        DECORATED.add(function)
        self.function = function
        self.given = given
        self.cache_dir = None if cache_dir is None else os.fspath(cache_dir)
        self.recompute = recompute
        self.signature = inspect.signature(function, follow_wrapped=False)
        self.name = file_name(f"{module_of(function)}.{function.__qualname__}", LONGEST_NAME, also=".")
        self.hits = self.misses = 0
        self.kinds: Mapping[str, Kind] | None = None
        self.known: tuple[Fingerprint, bytes] | None = None

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], recompute: bool) -> Any:
        try:
            arguments = self.arguments(args, kwargs)
        except TypeError:
            return self.function(*args, **kwargs)  # which says what is wrong with them
        entry = Entry(self.folder(), self.key(arguments))
        if not recompute and (value := self.found(entry)) is not MISSING:
            return value
        with file_lease(entry.part, wait=not recompute) as claim:
            if not recompute and (value := self.found(entry)) is not MISSING:
                return value
            self.misses += 1
            value = self.function(*args, **kwargs)
            self.keep(entry, value, claim)
        return value

    def found(self, entry: Entry) -> Any:
        """A result that is there and, if it leads to a file or folder, still leads to what it led to."""
        stored = entry.load()
        if stored is MISSING:
            return MISSING
        value, proof = stored
        kind = self.marked().get(RETURN)
        if kind is not None:
            try:
                if contents(kind, value) != proof:
                    return MISSING
            except ContentError:
                return MISSING
        self.hits += 1
        return value

    def keep(self, entry: Entry, value: Any, claim: int | None) -> None:
        kind = self.marked().get(RETURN)
        try:
            proof = None if kind is None else contents(kind, value)
            entry.save((value, proof), claim)
        except Exception as error:  # noqa: BLE001, pickling runs anybody's code, and the result is worth more than its copy
            self.warn(entry, error)

    def warn(self, entry: Entry, error: Exception) -> None:
        """Once for what is wrong with a disk, once for what is wrong with a function's results."""
        is_disk = isinstance(error, OSError) and not isinstance(error, ContentError)
        reason = (str(Path(entry.folder).parent) if is_disk else self.name, type(error))
        if reason not in WARNED:
            WARNED.add(reason)
            warnings.warn(
                f"{self.function.__qualname__}: the result is returned but could not be kept in {entry.folder}, "
                f"so the next call computes it again: {error}",
                CacheWarning,
                stacklevel=5,
            )

    def key(self, arguments: inspect.BoundArguments) -> str:
        kinds = self.marked()
        encoder = Encoder()
        encoder.out += self.identity()
        for name, value in arguments.arguments.items():
            encoder.put(name)
            start, kind = len(encoder.out), kinds.get(name)
            try:
                if kind is None:
                    encoder.put(value)
                else:
                    encoder.out += b"@"
                    encoder.put(contents(kind, value))
            except RecursionError:
                raise self.refusal(name, too_deep(value)) from None
            except CachingError as error:
                if value is not self.signature.parameters[name].default:
                    raise self.refusal(name, error) from None
                encoder.out[start:] = b"-"  # left out: the function's code says what that means
            except ContentError as error:
                raise ContentError(self.about(name, error)) from None
        return encoder.key()

    def refusal(self, name: str, error: Exception) -> CachingError:
        return CachingError(self.about(name, error))

    def about(self, name: str, error: Exception) -> str:
        return f"argument {name!r} of {self.function.__qualname__}: {error}"

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def identity(self) -> bytes:
        """The function as it is now: a helper may have been defined anew since the last call."""
        if self.known is None or not self.known[0].holds():
            fingerprint, kind = fingerprint_of(self.function), self.marked().get(RETURN)
            encoder = Encoder()
            encoder.put_name(self.function)
            encoder.put((fingerprint.key, kind and kind.value))
            self.known = (fingerprint, bytes(encoder.out))
        return self.known[1]

    def marked(self) -> Mapping[str, Kind]:
        if self.kinds is None:
            self.kinds = kinds_of(self.function, self.signature, self.given)
        return self.kinds

    def folder(self) -> str:
        """Where this function's results are, as an absolute path: the function may change the current folder."""
        base = self.cache_dir or os.environ.get(VARIABLE) or DEFAULT_FOLDER
        if base.startswith("~"):
            base = str(Path(base).expanduser())
        return f"{base}/{self.name}" if base.startswith("/") else f"{os.getcwd()}/{base}/{self.name}"  # noqa: PTH109, twice as fast

    def __getstate__(self) -> dict[str, Any]:
        """Sent to another process by value, the function takes along what was found out about it here."""
        state = {name: getattr(self, name) for name in ("function", "given", "cache_dir", "recompute")}
        return state | {"kinds": self.marked(), "head": self.identity()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kinds, head = state.pop("kinds"), state.pop("head")
        self.__init__(**state)  # type: ignore[misc]
        self.kinds, self.known = kinds, (Fingerprint(""), head)

    def __dask_tokenize__(self) -> object:
        """What counts when another function that names this one is fingerprinted."""
        return (self.function, sorted((name, kind.value) for name, kind in self.marked().items()))
