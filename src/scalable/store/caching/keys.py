"""Keys of values: 128 bits that differ whenever a value, its type or the order of a sequence differs.

A value is written as bytes in a canonical form and hashed. Every part says its type and its length, so no two values
share a form; sets and dictionaries are sorted by the bytes of their members, so the form is the same in every process,
whatever its hash seed. Objects are written as pickle would take them apart, without pickle's memory of identities.
"""

from __future__ import annotations

import copyreg
import functools
import pickle
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from enum import Enum
from hashlib import blake2b, sha256
from inspect import getattr_static
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

from scalable.errors import ScalableError

KEY_BYTES = 16  # 128 bit: two of a billion results collide with probability 1e-21
BULK = 1 << 16  # bytes from which a buffer is written as its digest: hashing it again would cost a copy
REDUCE_PROTOCOL = 4  # the first that takes apart every object that pickle can; later ones only move buffers faster
NEW = copyreg.__newobj__  # type: ignore[attr-defined]
NEW_WITH_NAMES = copyreg.__newobj_ex__  # type: ignore[attr-defined]
UNPICKLABLE = (TypeError, ValueError, AttributeError, RuntimeError, pickle.PicklingError)


class CachingError(ScalableError, TypeError):
    """A function, a mark or a value that cannot be cached as it is written."""


def key_of(value: object) -> str:
    """Return the key of any value, the same in every process.

    >>> key_of(1) == key_of(1), key_of(1) == key_of("1"), key_of(1) == key_of(1.0), key_of(1) == key_of(True)
    (True, False, False, False)
    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    encoder = Encoder()
    try:
        encoder.put(value)
    except RecursionError:
        raise too_deep(value) from None
    return encoder.key()


class Encoder:
    """Writes values to ``out``, one after the other."""

    lenient = False
    """Whether objects nobody can tell apart count by their type alone instead of being refused."""

    def __init__(self) -> None:
        self.out = bytearray()

    def key(self) -> str:
        return blake2b(self.out, digest_size=KEY_BYTES).hexdigest()

    def put(self, value: Any) -> None:
        write = WRITERS.get(type(value))
        if write is not None:
            write(self, value)
        else:
            self.put_other(value)

    def put_other(self, value: Any) -> None:
        """Put a value of a type that has no form of its own."""
        kind = type(value)
        if isinstance(value, type):
            self.put_code(value)
        elif isinstance(value, Enum):
            self.out += b"e"
            self.put_name(kind)
            self.put(value.name)
            self.put(value.value)
        elif kind.__module__.partition(".")[0] in ("numpy", "pandas") and self.put_array(value):
            pass
        elif hasattr(kind, "__dask_tokenize__"):
            self.out += b"k"
            self.put_name(kind)
            self.put(value.__dask_tokenize__())
        elif self.lenient and not is_dataclass(value) and kind is not BuiltinFunctionType:
            self.out += b"?"
            self.put_kind(kind)
            self.put(getattr_static(value, "__wrapped__", None))
        else:
            self.put_object(value)

    def put_object(self, value: Any) -> None:
        """Put an object as pickle takes it apart: what makes it, from what, and its state."""
        kind = type(value)
        if kind is object:
            raise CachingError("object() equals nothing but itself, in this process alone; pass None or an Enum member")
        try:
            reduced = reduce(value)
        except UNPICKLABLE:
            if self.lenient:
                self.put_kind(kind)
            else:
                self.put_token(value)
            return
        self.out += b"o"
        self.put_kind(kind)
        if isinstance(reduced, str):
            self.put(known_as(str(getattr(value, "__module__", None))))
            self.put(reduced)
            return
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if make is NEW or make is NEW_WITH_NAMES:
            self.put(arguments[1:])
        else:
            self.put_maker(make)
            self.put(arguments)
        self.put(without_cached_properties(kind, state))
        self.put(None if items is None else list(items))
        pairs = None if pairs is None else list(pairs)
        self.put(pairs if pairs is None or isinstance(value, OrderedDict) else dict(pairs))

    def put_maker(self, make: Any) -> None:
        """Put what makes an object: its name is enough, unless it is bound to another object."""
        bound = make.__self__ if isinstance(make, BuiltinFunctionType) else None
        if isinstance(make, type | FunctionType | BuiltinFunctionType) and isinstance(bound, NoneType | ModuleType):
            self.put_name(make)
        else:
            self.put(make)

    def put_token(self, value: Any) -> None:
        """Put Dask's token of what pickle refuses."""
        from dask.tokenize import TokenizationError, tokenize

        try:
            token = tokenize(value, ensure_deterministic=True)
        except TokenizationError:
            kind = type(value)
            raise CachingError(
                f"a value of type {kind.__module__}.{kind.__qualname__} has no content that could be compared; "
                "pass what it is made from"
            ) from None
        self.out += b"d"
        self.put_name(type(value))
        self.put(token)

    def put_code(self, source: Any) -> None:
        """Put a function or class: its code counts, and the code it names."""
        from scalable.store.caching.fingerprints import fingerprint_of

        self.out += b"c"
        self.put(fingerprint_of(source).key)

    def put_array(self, value: Any) -> bool:
        from scalable.store.caching.arrays import put_array

        return put_array(self, value)

    def put_kind(self, kind: type) -> None:
        """Put the class of an object; an argument is data, so its class counts by name."""
        self.put_name(kind)

    def put_name(self, source: Any) -> None:
        self.put(f"{module_of(source)}:{source.__qualname__}")

    def put_buffer(self, tag: bytes, data: bytes | bytearray | memoryview) -> None:
        if len(data) < BULK:
            self.out += b"%s%d:" % (tag, len(data))
            self.out += data
        else:
            self.out += b"%s%d#" % (tag, len(data))
            self.out += sha256(data).digest()

    def put_sorted(self, tag: bytes, values: Iterable[object]) -> None:
        parts = sorted(map(self.apart, values))
        self.out += b"%s%d:" % (tag, len(parts))
        self.out += b"".join(parts)

    def apart(self, value: object) -> bytes:
        """Return the form of a value, not written yet."""
        start = len(self.out)
        self.put(value)
        part = bytes(self.out[start:])
        del self.out[start:]
        return part


def reduce(value: Any) -> Any:
    """Reduce as pickle does, but what a type says itself comes before what a library may have registered for it."""
    kind: Any = type(value)
    says_nothing = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    registered = copyreg.dispatch_table.get(kind) if says_nothing else None
    return registered(value) if registered else value.__reduce_ex__(REDUCE_PROTOCOL)


def module_of(source: Any) -> str:
    """Return the module that defines a function or class, by the name that keys have for it."""
    return known_as(str(source.__module__))


def known_as(module: str) -> str:
    """Return the name that keys have for a module, so that a package that is renamed keeps its results.

    A package says by ``__stored_as__`` what it was called before. A spawned process knows the main module by another
    name.
    """
    package, dot, rest = module.partition(".")
    if package == "__mp_main__":
        return "__main__"
    names = getattr(sys.modules.get(package), "__dict__", {})
    return f"{names.get('__stored_as__', package)}{dot}{rest}"


def too_deep(value: object) -> CachingError:
    return CachingError(f"the {type(value).__name__} contains itself, or is nested too deeply to be compared")


def without_cached_properties(kind: type, state: Any) -> Any:
    """Leave out cached properties: whether one was asked for already does not change what an object is."""
    if not isinstance(state, dict):
        return state
    return {
        name: value
        for name, value in state.items()
        if not isinstance(getattr(kind, str(name), None), functools.cached_property)
    }


def put_none(encoder: Encoder, value: None) -> None:
    encoder.out += b"N"


def put_bool(encoder: Encoder, value: bool) -> None:
    encoder.out += b"T" if value else b"F"


def put_int(encoder: Encoder, value: int) -> None:
    encoder.out += b"i%x;" % value


def put_float(encoder: Encoder, value: float) -> None:
    encoder.out += b"f"
    encoder.out += struct.pack(">d", value)


def put_complex(encoder: Encoder, value: complex) -> None:
    encoder.out += b"j"
    encoder.out += struct.pack(">dd", value.real, value.imag)


def put_str(encoder: Encoder, value: str) -> None:
    encoder.put_buffer(b"s", value.encode("utf-8", "surrogatepass"))


def put_bytes(encoder: Encoder, value: bytes) -> None:
    encoder.put_buffer(b"b", value)


def put_bytearray(encoder: Encoder, value: bytearray) -> None:
    encoder.put_buffer(b"y", value)


def put_memoryview(encoder: Encoder, value: memoryview) -> None:
    encoder.out += b"v"
    encoder.put((value.format, value.shape))
    encoder.put_buffer(b"b", value.tobytes())


def put_sequence(tag: bytes) -> Callable[[Encoder, Any], None]:
    def put(encoder: Encoder, value: tuple[object, ...] | list[object]) -> None:
        encoder.out += b"%s%d:" % (tag, len(value))
        for item in value:
            encoder.put(item)

    return put


def put_dict(encoder: Encoder, value: dict[object, object]) -> None:
    encoder.out += b"m%d:" % len(value)
    for part, item in sorted(((encoder.apart(key), item) for key, item in value.items()), key=lambda pair: pair[0]):
        encoder.out += part
        encoder.put(item)


def put_set(encoder: Encoder, value: set[object]) -> None:
    encoder.put_sorted(b"S", value)


def put_frozenset(encoder: Encoder, value: frozenset[object]) -> None:
    encoder.put_sorted(b"Z", value)


def put_function(encoder: Encoder, value: FunctionType) -> None:
    encoder.put_code(value)


def put_method(encoder: Encoder, value: MethodType) -> None:
    encoder.out += b"M"
    encoder.put(value.__func__)
    encoder.put(value.__self__)


def put_partial(encoder: Encoder, value: functools.partial[object]) -> None:
    encoder.out += b"P"
    encoder.put(value.func)
    encoder.put(value.args)
    encoder.put(value.keywords)


def put_module(encoder: Encoder, value: ModuleType) -> None:
    encoder.out += b"I"
    encoder.put(value.__name__)


WRITERS: dict[type, Callable[[Encoder, Any], None]] = {
    NoneType: put_none,
    bool: put_bool,
    int: put_int,
    float: put_float,
    complex: put_complex,
    str: put_str,
    bytes: put_bytes,
    bytearray: put_bytearray,
    memoryview: put_memoryview,
    tuple: put_sequence(b"t"),
    list: put_sequence(b"l"),
    dict: put_dict,
    set: put_set,
    frozenset: put_frozenset,
    FunctionType: put_function,
    MethodType: put_method,
    functools.partial: put_partial,
    ModuleType: put_module,
}
