"""The results of one function: from a call to its key, to what is kept under it, and to the function if nothing is.

A result is one file, written beside and renamed: ``MAGIC``, the pickled result, and a SHA-256 of its key and of both.
A file that is torn, corrupt, of another key or not to be unpickled counts as no result. Nothing is forced onto the
disk: what a power cut tears is a miss.
"""

from __future__ import annotations

import inspect
import os
import pickle
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BufferedReader, FileIO
from pathlib import Path
from types import FunctionType
from typing import IO, Any
from uuid import uuid4

from scalable.store.caching.content import RETURN, ContentError, ContentKind, contents, kinds_of
from scalable.store.caching.fingerprints import DECORATED, Fingerprint, fingerprint_of
from scalable.store.caching.keys import CachingError, Encoder, module_of, too_deep
from scalable.store.leases.files import file_lease, is_at
from scalable.wording import file_name

VARIABLE = "SCALABLE_CACHE_DIR"
DEFAULT_FOLDER = ".scalable/cache"
LONGEST_NAME = 100  # characters of a function's name in that of its folder
MAGIC = b"SCR1"
DIGEST_BYTES = 32
SMALL = 1 << 20  # bytes up to which a result is read at once; larger ones are checked first, then read again
PROTOCOL = 5
MISSING: Any = object()

WARNED: set[tuple[str, type]] = set()


class CacheWarning(UserWarning):
    """A result was computed and returned but not kept: the next call computes it again."""


class Cache:
    """The cache of a function; it is sent along where the function is sent by value."""

    def __init__(
        self,
        function: FunctionType,
        given: Mapping[str, ContentKind],
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
        self.kinds: Mapping[str, ContentKind] | None = None
        self.known: tuple[Fingerprint, bytes] | None = None

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], recompute: bool) -> Any:
        try:
            arguments = self.arguments(args, kwargs)
        except TypeError:
            return self.function(*args, **kwargs)  # which says what is wrong with them
        entry = ResultFile(self.folder(), self.key(arguments))
        if not recompute and (value := self.stored_value(entry)) is not MISSING:
            return value
        with file_lease(entry.part, wait=not recompute) as claim:
            if not recompute and (value := self.stored_value(entry)) is not MISSING:
                return value
            self.misses += 1
            value = self.compute(args, kwargs)
            self.keep(entry, value, claim)
        return value

    def compute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what is kept for a call; a subclass may keep more than the function's own result."""
        return self.function(*args, **kwargs)

    def stored_value(self, entry: ResultFile) -> Any:
        """Return a result that is there and, if it leads to a file or folder, still leads to what it led to."""
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

    def keep(self, entry: ResultFile, value: Any, claim: int | None) -> None:
        kind = self.marked().get(RETURN)
        try:
            proof = None if kind is None else contents(kind, value)
            entry.save((value, proof), claim)
        except Exception as error:  # noqa: BLE001, pickling runs anybody's code, and the result is worth more than its copy
            self.warn(entry, error)

    def warn(self, entry: ResultFile, error: Exception) -> None:
        """Warn once for what is wrong with a disk, once for what is wrong with a function's results."""
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
        """Return the function as it is now: a helper may have been defined anew since the last call."""
        if self.known is None or not self.known[0].holds():
            fingerprint, kind = fingerprint_of(self.function), self.marked().get(RETURN)
            encoder = Encoder()
            encoder.put_name(self.function)
            encoder.put((fingerprint.key, kind and kind.value))
            self.known = (fingerprint, bytes(encoder.out))
        return self.known[1]

    def marked(self) -> Mapping[str, ContentKind]:
        if self.kinds is None:
            self.kinds = kinds_of(self.function, self.signature, self.given)
        return self.kinds

    def folder(self) -> str:
        """Return where this function's results are, as an absolute path: the function may change the current folder."""
        base = self.cache_dir or os.environ.get(VARIABLE) or DEFAULT_FOLDER
        if base.startswith("~"):
            base = str(Path(base).expanduser())
        return f"{base}/{self.name}" if base.startswith("/") else f"{os.getcwd()}/{base}/{self.name}"  # noqa: PTH109, twice as fast

    def __getstate__(self) -> dict[str, Any]:
        """Take along what was found out about the function when it is sent to another process by value."""
        state = {name: getattr(self, name) for name in ("function", "given", "cache_dir", "recompute")}
        return state | {"kinds": self.marked(), "head": self.identity()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kinds, head = state.pop("kinds"), state.pop("head")
        self.__init__(**state)  # type: ignore[misc]
        self.kinds, self.known = kinds, (Fingerprint(""), head)

    def __dask_tokenize__(self) -> object:
        """Return what counts when another function that names this one is fingerprinted."""
        return (self.function, sorted((name, kind.value) for name, kind in self.marked().items()))


@dataclass(frozen=True, slots=True)
class ResultFile:
    """The file of one result."""

    folder: str
    key: str

    @property
    def path(self) -> Path:
        return Path(f"{self.folder}/{self.key}.pickle")

    @property
    def part(self) -> Path:
        return Path(f"{self.folder}/{self.key}.part")

    def load(self) -> Any:
        """Return what was saved under the key, or ``MISSING``."""
        try:
            with FileIO(f"{self.folder}/{self.key}.pickle") as file:
                size = os.fstat(file.fileno()).st_size
                if size > SMALL:
                    return self.load_large(file, size)
                data = file.readall()
        except OSError:
            return MISSING
        body = memoryview(data)[:-DIGEST_BYTES]
        digest = sha256(self.key.encode())
        digest.update(body)
        if not data.startswith(MAGIC) or digest.digest() != data[-DIGEST_BYTES:]:
            return MISSING
        return unpickled(lambda: pickle.loads(body[len(MAGIC) :]))

    def load_large(self, file: FileIO, size: int) -> Any:
        """Load without ever holding both the file and the result in memory."""
        if file.read(len(MAGIC)) != MAGIC:
            return MISSING
        digest = sha256(self.key.encode() + MAGIC)
        left = size - len(MAGIC) - DIGEST_BYTES
        while left and (chunk := file.read(min(left, SMALL))):
            digest.update(chunk)
            left -= len(chunk)
        if file.read() != digest.digest():
            return MISSING
        file.seek(len(MAGIC))
        with BufferedReader(file) as buffered:
            return unpickled(lambda: pickle.load(buffered))

    def save(self, value: object, claim: int | None) -> None:
        """Publish a result, in the claimed file if there is one; raises what the disk or pickle has to say."""
        if claim is not None and is_at(claim, self.part):
            os.ftruncate(claim, 0)
            with os.fdopen(claim, "wb", closefd=False) as file:
                self.write(value, file)
            self.part.replace(self.path)
            return
        self.part.parent.mkdir(parents=True, exist_ok=True)
        beside = self.part.with_suffix(f".{uuid4().hex}.part")
        try:
            with beside.open("xb") as file:
                self.write(value, file)
            beside.replace(self.path)
        finally:
            beside.unlink(missing_ok=True)

    def write(self, value: object, file: IO[bytes]) -> None:
        summed = Summed(file, self.key)
        summed.write(MAGIC)
        pickle.dump(value, summed, PROTOCOL)
        file.write(summed.digest.digest())


class Summed:
    """A file that is hashed as it is written, so that a large result is never held as bytes."""

    def __init__(self, file: IO[bytes], key: str) -> None:
        self.file = file
        self.digest = sha256(key.encode())

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self.file.write(data)


def unpickled(load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception:  # noqa: BLE001, the classes of a result may have changed or gone and raise whatever they like
        return MISSING
