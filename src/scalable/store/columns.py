"""Kinds of columns that keep a value's type and every digit in any database."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

from scalable.store.errors import StoreError
from scalable.store.plain import from_json, to_json
from scalable.wording import shown

Code = Text().with_variant(Text(collation="C"), "postgresql")
"""Keys and digests: ordered by their characters, as Python does, whatever language the server speaks."""


class JsonText(TypeDecorator[Any]):
    """JSON as text. A column declared JSON would be one of numbers in SQLite, which rounds long ones."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else to_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        try:
            return None if value is None else from_json(value)
        except ValueError as error:
            raise StoreError(f"{shown(value)} in the store is not JSON: {error}") from None


class VariantText(TypeDecorator[Any]):
    """A variant as people write it; only a text that could be taken for a number or a truth value has quotes."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return variant_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return value if value is None or unmistakable(value) else json.loads(value)


def variant_text(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) and unmistakable(value) else json.dumps(value)


@lru_cache(maxsize=10_000)  # variants are few, rows are many
def unmistakable(text: str) -> bool:
    """Not JSON, so nothing but a text."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False
