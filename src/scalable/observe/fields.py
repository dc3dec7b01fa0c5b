"""The fields of records, read with distrust: files may be old, damaged or written by others."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from scalable.errors import QuantityError
from scalable.quantities import LARGEST, Memory, Money

UNTAGGED = "(untagged)"  # work that any worker may take


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > LARGEST or not isfinite(value):
        return None
    return float(value)


def count(value: object) -> int:
    amount = number(value)
    return int(amount) if amount is not None and amount > 0 else 0


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def texts(value: object) -> tuple[str, ...]:
    return tuple(filter(None, map(text, listed(value))))


def tag_of(record: Mapping[str, Any]) -> str:
    return text(record.get("tag")) or UNTAGGED


def money(value: object) -> Money | None:
    """Return an amount from its shape ``{"amount", "currency"}``."""
    amount, currency = number(mapping(value).get("amount")), text(mapping(value).get("currency"))
    return Money(Decimal(repr(amount)), currency) if amount is not None and amount >= 0 and currency else None


def memory(value: object) -> int | None:
    """Return bytes, from a number or from a text like ``8GiB``."""
    amount = number(value)
    if amount is not None:
        return int(amount) if amount > 0 else None
    try:
        return Memory.parse(value).bytes if isinstance(value, str) else None
    except QuantityError:
        return None


def day(moment: float) -> str:
    """Return the day of a moment, as ``2026-04-30``, in UTC."""
    try:
        return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return ""


def month(moment: float) -> str:
    """Return the month a bill is for, as ``2026-04``; in UTC like every time here."""
    try:
        return f"{datetime.fromtimestamp(moment, UTC):%Y-%m}"
    except (ValueError, OverflowError, OSError):
        return ""
