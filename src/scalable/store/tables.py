"""The tables of a store: their columns, how a record goes in and comes out, and the steps from earlier versions.

``create`` makes them, or changes those of an earlier version step by step; whoever changes a table here adds a step to
``CHANGES`` and raises ``VERSION``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
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
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateColumn
from sqlalchemy.types import TypeDecorator, TypeEngine

from scalable.store.errors import StoreError
from scalable.store.json_values import decimal, from_json, to_json
from scalable.store.outbox import Entry
from scalable.store.rows import AttemptRow, IncidentRow, Row, SweepRun
from scalable.wording import shown

VERSION = 4


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


class JsonDocument(TypeDecorator[Any]):
    """JSON that PostgreSQL can look into; elsewhere it is text.

    PostgreSQL keeps numbers as decimals: a float that it would give back as a whole number is written as an object.
    """

    impl = JsonText
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(postgresql.JSONB() if dialect.name == "postgresql" else JsonText())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return decimal(value) if dialect.name == "postgresql" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return from_json(json.dumps(value)) if dialect.name == "postgresql" else value


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


metadata = MetaData()

results = Table(
    "finetune_results",
    metadata,
    Column("run_key", Code, primary_key=True),
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
    Column("run_id", Text),
    Column("written_at", Double, nullable=False),
    Column("digest", Code, nullable=False),
    Index("finetune_results_sweep", "sweep"),
)

attempts = Table(
    "scalable_attempts",
    metadata,
    Column("run_key", Code, primary_key=True),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("run_id", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("ended", Double),
    Column("cause", Text),
    Column("digest", Code, nullable=False),
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
    Column("digest", Code, nullable=False),
)

incidents = Table(
    "scalable_incidents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sweep", Text),
    Column("run", Text),
    Column("kind", Text, nullable=False),
    Column("worker", Text),
    Column("started", Double, nullable=False),
    Column("summary", JsonText, nullable=False),
    Column("written_at", Double, nullable=False),
    Column("digest", Code, nullable=False),
)


def configuration_columns() -> list[Column[Any]]:
    return [
        Column("base_env", JsonDocument, nullable=False),
        Column("factor", Text),
        Column("variant", VariantText),
        Column("reason", Text, nullable=False),
        Column("written_at", Double, nullable=False),
    ]


config = Table(
    "ftf_config",
    metadata,
    Column("id", BigInteger, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),  # there is one row
    Column("version", BigInteger, nullable=False),
    *configuration_columns(),
)

config_history = Table(
    "ftf_config_history",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    *configuration_columns(),
)

letters = Table(
    "scalable_dead_letters",
    metadata,
    Column("id", Code, primary_key=True),
    Column("written_at", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("tries", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("content", Text, nullable=False),
)

leases = Table(
    "scalable_leases",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("token", BigInteger, unique=True),  # of a waiting one there is none
    Column("requested_at", Double, nullable=False),
    Column("heartbeat", Double, nullable=False),
    Column("expires", Double, nullable=False),
)

counters = Table(
    "scalable_counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("last", BigInteger, nullable=False),
)

schema = Table("scalable_schema", metadata, Column("version", BigInteger, primary_key=True, autoincrement=False))

TABLES: dict[type[Row] | type[AttemptRow] | type[SweepRun] | type[IncidentRow], Table] = {
    Row: results,
    AttemptRow: attempts,
    SweepRun: runs,
    IncidentRow: incidents,
}
ROW_COLUMNS = tuple(results.c[each.name] for each in fields(Row))


def values(entry: Entry) -> dict[str, Any]:
    """An entry as the columns of its table."""
    found = {**entry.record.to_dict(), "digest": entry.digest}
    if "written_at" in TABLES[type(entry.record)].c:
        found["written_at"] = entry.written_at
    return found


def row(found: Mapping[str, Any]) -> Row:
    try:
        return Row.from_dict(found)
    except ValueError as error:
        raise StoreError(f"the row {found['run_key']} of {results.name} cannot be read: {error}") from None


def ready(connection: Connection, store: str) -> bool:
    """Whether the tables are there as this version needs them; raises if they can never be."""
    there = set(inspect(connection).get_table_names())
    if schema.name not in there:
        if taken := there & set(metadata.tables):
            raise StoreError(f"{store} has a table {min(taken)} that scalable did not make; name another place for it")
        return False
    if (version := version_of(connection)) not in (*CHANGES, VERSION):
        raise StoreError(
            f"{store} has tables of version {version}, and this scalable knows version {VERSION}; "
            "update scalable, or name another place for the store"
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
    add_column(connection, results.c.marked)


def add_column(connection: Connection, column: Column[Any]) -> None:
    written = CreateColumn(column).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {column.table.name} ADD COLUMN {written}")


def add_what_is_beside_rows(connection: Connection) -> None:
    """Live configuration, incidents, dead letters and leases."""
    added = (config, config_history, incidents, letters, leases, counters)
    metadata.create_all(connection, tables=added)


def count_attempts(connection: Connection) -> None:
    """Attempts, the run of a row, and a configuration whose keys PostgreSQL can be asked for."""
    metadata.create_all(connection, tables=(attempts,))
    add_column(connection, results.c.run_id)
    if connection.dialect.name == "postgresql":
        for table in (config, config_history):
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ALTER base_env TYPE jsonb USING base_env::jsonb")


CHANGES: dict[int, Callable[[Connection], None]] = {1: add_marked, 2: add_what_is_beside_rows, 3: count_attempts}
"""What leads from each earlier version to the next."""
