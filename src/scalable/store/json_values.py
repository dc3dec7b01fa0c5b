"""Values as JSON that every database accepts: ASCII text, limited depth, and nan or infinity written as an object.

JSON has no word for nan, and yet a metric may be one (a ratio without a trade); ``{"$float": "nan"}`` stands for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any

NOT_FINITE = "$float"
DEEPEST = 100  # levels; far from where Python's own recursion ends, so what could be written can be read
JSON_TYPES = frozenset({bool, float, str, type(None)})
SCALARS = ("b", "i", "u", "f")  # NumPy's kinds of truth values and numbers, alone or as an array without an axis
MOST_BITS = 1024  # of a whole number; beyond, Python refuses to print it

ENCODER = json.JSONEncoder(allow_nan=False, sort_keys=True, separators=(",", ":"))
IN_ORDER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


class NotJsonError(ValueError):
    """A part of a value that JSON cannot hold; the text says which and why."""


def json_value(value: Any, where: str, depth: int = 0) -> Any:
    """Return a copy made only of what JSON has; numbers of other libraries become Python's own."""
    if type(value) in JSON_TYPES:
        return value
    match value:
        case str():
            return str.__str__(value)
        case Integral():
            return whole(int(value), where)
        case Real():
            return float(value)
    if getattr(value, "shape", None) == () and getattr(getattr(value, "dtype", None), "kind", None) in SCALARS:
        return json_value(value.item(), where, depth)
    if depth == DEEPEST:
        raise NotJsonError(f"{where} is nested more than {DEEPEST} levels deep")
    match value:
        case Mapping():
            return mapping(value, where, depth + 1)
        case list() | tuple():
            return [json_value(item, f"{where}[{number}]", depth + 1) for number, item in enumerate(value)]
    raise NotJsonError(
        f"{where} is a {type(value).__name__}, which JSON does not have; convert it to numbers, text or lists"
    )


def mapping(value: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    for key, item in value.items():
        name = key_text(key, where)
        if name in copy:
            raise NotJsonError(f"{where} has the key {name!r} twice, once as text and once as {type(key).__name__}")
        copy[name] = json_value(item, f"{where}.{name}", depth)
    if set(copy) == {NOT_FINITE}:
        raise NotJsonError(
            f"{where} is an object with the only key {NOT_FINITE!r}, which is taken; name it differently"
        )
    return copy


def key_text(key: object, where: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, Integral) and not isinstance(key, bool):
        return str(whole(int(key), where))
    raise NotJsonError(f"{where} has the key {key!r}, a {type(key).__name__}; write keys as text")


def whole(value: int, where: str) -> int:
    if value.bit_length() > MOST_BITS:
        raise NotJsonError(f"{where} is a whole number of more than {MOST_BITS} bits")
    return value


def to_json(value: Any) -> str:
    """Return the one text of a plain value: keys sorted, no spaces, ASCII."""
    try:
        return ENCODER.encode(value)
    except ValueError:
        return ENCODER.encode(with_objects(value, lambda number: not isfinite(number)))


def decimal(value: Any) -> Any:
    """Return a value in which floats that decimals cannot tell from other numbers are objects."""
    return with_objects(value, lambda number: not isfinite(number) or "e+" in repr(number) or repr(number) == "-0.0")


def with_objects(value: Any, unusual: Callable[[float], bool]) -> Any:
    """Return a value in which unusual floats are objects that hold their text."""
    match value:
        case float() if unusual(value):
            return {NOT_FINITE: repr(value)}
        case dict():
            return {key: with_objects(item, unusual) for key, item in value.items()}
        case list():
            return [with_objects(item, unusual) for item in value]
    return value


def from_json(text: str) -> Any:
    return json.loads(text, object_hook=not_finite if NOT_FINITE in text else None)


def not_finite(mapping: dict[str, Any]) -> Any:
    return float(mapping[NOT_FINITE]) if set(mapping) == {NOT_FINITE} else mapping
