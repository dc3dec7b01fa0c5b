"""The tables, their versions, and how a row goes in and comes out. The only place that knows the columns' types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Double,
    Index,
    MetaData,
    Table,
    Text,
    false,
    func,
    inspect,
    select,
)
from sqlalchemy.schema import CreateColumn
from sqlalchemy.types import TypeDecorator

from scalable.store.entries import Entry
from scalable.store.errors import StoreError
from scalable.store.plain import from_json, to_json
from scalable.store.rows import Row
from scalable.wording import shown

VERSION = 2


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
        if value is None:
            return None
        return value if isinstance(value, str) and unmistakable(value) else json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return value if value is None or unmistakable(value) else json.loads(value)


def unmistakable(text: str) -> bool:
    """Not JSON, so nothing but a text."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


metadata = MetaData()

results = Table(
    "finetune_results",
    metadata,
    Column("run_key", Text, primary_key=True),
    Column("name", Text),
    Column("sweep", Text),
    Column("factor", Text),
    Column("variant", VariantText),
    Column("asset", Text),
    Column("fold", BigInteger),
    Column("cost_bps", Double),
    Column("metrics", JsonText, nullable=False),
    Column("value", JsonText),
    Column("buys", BigInteger),
    Column("elapsed_s", Double),
    Column("run_status", Text, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("error", Text),
    Column("code_fingerprint", Text),
    Column("config_fingerprint", Text),
    Column("data_fingerprint", Text),
    Column("worker", Text),
    Column("marked", Boolean, nullable=False, server_default=false()),
    Column("written_at", Double, nullable=False),
    Column("digest", Text, nullable=False),
    Index("finetune_results_sweep", "sweep"),
)

runs = Table(
    "finetune_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sweep", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("ended", Double),
    Column("status", Text, nullable=False),
    Column("expected", BigInteger, nullable=False),
    Column("target", Text),
    Column("reason", Text),
    Column("digest", Text, nullable=False),
)

schema = Table("scalable_schema", metadata, Column("version", BigInteger, primary_key=True))

ROW_COLUMNS = tuple(results.c[each.name] for each in fields(Row))


def ready(connection: Connection, place: str) -> bool:
    """Whether the tables are there as this version needs them; raises if they can never be."""
    there = set(inspect(connection).get_table_names())
    if schema.name not in there:
        if taken := there & set(metadata.tables):
            raise StoreError(f"{place} has a table {min(taken)} that scalable did not make; name another file for it")
        return False
    if (version := version_of(connection)) not in (*CHANGES, VERSION):
        raise StoreError(
            f"{place} has tables of version {version}, and this scalable knows version {VERSION}; "
            "update scalable, or name another file for the store"
        )
    return version == VERSION


def create(connection: Connection) -> None:
    """Make the tables, or change those of an earlier version step by step."""
    if schema.name in inspect(connection).get_table_names():
        for version in range(version_of(connection) or VERSION, VERSION):
            CHANGES[version](connection)
    else:
        metadata.create_all(connection)
    connection.execute(schema.insert().values(version=VERSION))


def version_of(connection: Connection) -> int | None:
    found: int | None = connection.execute(select(func.max(schema.c.version))).scalar()
    return found


def add_marked(connection: Connection) -> None:
    column = CreateColumn(results.c.marked).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {results.name} ADD COLUMN {column}")


CHANGES: dict[int, Callable[[Connection], None]] = {1: add_marked}
"""What leads from each earlier version to the next."""


def values(entry: Entry) -> dict[str, Any]:
    """An entry as the columns of its table."""
    found = {**entry.record.to_dict(), "digest": entry.digest}
    if isinstance(entry.record, Row):
        found["written_at"] = entry.written_at
    return found


def row(found: Mapping[str, Any]) -> Row:
    try:
        return Row.from_dict(found)
    except ValueError as error:
        raise StoreError(f"the row {found['run_key']} of {results.name} cannot be read: {error}") from None
