"""Anything as JSON: always valid, without secrets, and not longer than anyone would read."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from scalable.observe.redact import redact, suspicious

LONGEST_LINE = 1 << 16  # characters above which long texts in a record are cut
LONGEST_TEXT = 4000  # characters of a text in such a record
DEEPEST = 30  # levels of nesting that are written


def line_of(record: dict[str, Any]) -> bytes:
    """A record as a line of the journal."""
    try:
        text = encode(record)
    except (TypeError, ValueError, RecursionError):
        record = jsonable(record)
        text = encode(record)
    if len(text) > LONGEST_LINE:
        record = jsonable(record)
        text = encode(record)
    if suspicious(text):
        text = encode(redact(jsonable(record, len(text))))
    return (text + "\n").encode("utf-8", "backslashreplace")  # half a surrogate pair stays valid JSON that way


def text_of(value: Any) -> str:
    """Anything as JSON, whole."""
    try:
        text = encode(value)
    except (TypeError, ValueError, RecursionError):
        value = jsonable(value)
        text = encode(value)
    return encode(redact(jsonable(value, len(text)))) if suspicious(text) else text


def jsonable(value: Any, longest: int = LONGEST_TEXT, depth: int = 0) -> Any:
    """Anything as what JSON has; nothing of an unknown object is called."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value) if len(value) <= longest else f"{value[:longest]}… ({len(value):,} characters)"
    if isinstance(value, Enum):
        return jsonable(value.value, longest, depth + 1)
    if isinstance(value, Integral):
        return int(value) if abs(int(value)) < 1 << 64 else None
    if isinstance(value, Real | Decimal):
        return float(value) if isfinite(value) else None
    if isinstance(value, Path):
        return jsonable(str(value), longest)
    if depth > DEEPEST:
        return f"<{type(value).__name__}>"
    if isinstance(value, Mapping):
        return {
            name if isinstance(name, str) else str(jsonable(name)): jsonable(inner, longest, depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [jsonable(inner, longest, depth + 1) for inner in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name), longest, depth + 1) for field in fields(value)}
    return f"<{type(value).__name__}>"


encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=jsonable).encode
