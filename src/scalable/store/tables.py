"""The tables of a store: their columns, and how a record goes in and comes out.

Whoever changes a table here adds a step to ``versions.CHANGES`` and raises ``versions.VERSION``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Double,
    Index,
    MetaData,
    Table,
    Text,
    false,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeDecorator, TypeEngine

from scalable.store.errors import StoreError
from scalable.store.json_values import decimal, from_json, to_json
from scalable.store.outbox import Entry
from scalable.store.rows import AttemptRow, IncidentRow, Row, SweepRun
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


AS_THEY_ARE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class AxesText(JsonText):
    """Axes as JSON in their own order and with characters as they are, so that SQL can compare texts in it."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return axes_text(value)


def axes_text(axes: Mapping[str, Any]) -> str:
    return AS_THEY_ARE.encode(axes)


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
    "scalable_rows",
    metadata,
    Column("run_key", Code, primary_key=True, doc="what the run is, as hexadecimal digits: same key, same row"),
    Column("name", Text, doc="of a task"),
    Column("sweep", Text, doc="of a row of a sweep"),
    Column(
        "axes",
        AxesText,
        nullable=False,
        doc="its value on every axis, as a JSON object: what is compared, repeated over, averaged",
    ),
    Column("compared", Text, doc="the names of the compared axes, joined by `/`"),
    Column(
        "variant",
        VariantText,
        doc="the value on the compared axis, of several joined by `/`; a text that looks like a number has quotes",
    ),  # follows from the two before it; SQL cannot tell which texts need quotes
    Column("metrics", JsonText, nullable=False, doc='as a JSON object; nan is `{"$float": "nan"}`'),
    Column("value", JsonText, doc="what a task returned, as JSON"),
    Column("elapsed_s", Double, doc="how long it took, in seconds"),
    Column("run_status", Text, nullable=False, doc="`finished` or `failed`"),
    Column("attempt", BigInteger, nullable=False, doc="counted from 1 over all runs"),
    Column("error", Text, doc="why it failed"),
    Column("code_fingerprint", Text, doc="of the stages that it comes from"),
    Column("config_fingerprint", Text, doc="of its configuration"),
    Column("data_fingerprint", Text, doc="of the data it read"),
    Column("worker", Text, doc="who computed it"),
    Column("marked", Boolean, nullable=False, server_default=false(), doc="a person said that it does not count"),
    Column("run_id", Text, doc="the run that computed it"),
    Column("written_at", Double, nullable=False, doc="Unix seconds"),
    Column("digest", Code, nullable=False, doc="of the content: tells two results of one key apart"),
    Index("scalable_rows_sweep", "sweep"),
    info={"says": "One row for each run that ended: the result of a sweep's row, or of a task."},
)

attempts = Table(
    "scalable_attempts",
    metadata,
    Column("run_key", Code, primary_key=True, doc="of the row"),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False, doc="counted from 1 over all runs"),
    Column("run_id", Text, nullable=False, doc="the run that made it"),
    Column("started", Double, nullable=False, doc="Unix seconds"),
    Column("ended", Double, doc="Unix seconds, of an attempt that ended without a result"),
    Column("cause", Text, doc="of its end"),
    Column("digest", Code, nullable=False, doc="of the content"),
    info={"says": "One row for each try to compute a row."},
)

runs = Table(
    "scalable_runs",
    metadata,
    Column("id", Text, primary_key=True, doc="the run and the sweep"),
    Column("sweep", Text, nullable=False, doc="its name"),
    Column("started", Double, nullable=False, doc="Unix seconds"),
    Column("ended", Double, doc="Unix seconds"),
    Column("status", Text, nullable=False, doc="`running`, `finished`, `failed`, `interrupted` or `lost`"),
    Column("expected", BigInteger, nullable=False, doc="how many rows it should give"),
    Column("target", Text, doc="where it runs"),
    Column("reason", Text, doc="why it did not finish"),
    Column("digest", Code, nullable=False, doc="of the content"),
    info={"says": "One row for each sweep that was started."},
)

incidents = Table(
    "scalable_incidents",
    metadata,
    Column("id", Text, primary_key=True, doc="the run and a number"),
    Column("sweep", Text, doc="its name"),
    Column("run", Text, doc="its id"),
    Column("kind", Text, nullable=False, doc="e.g. `stuck`"),
    Column("worker", Text, doc="its name"),
    Column("started", Double, nullable=False, doc="Unix seconds"),
    Column("summary", JsonText, nullable=False, doc="what is known of it, as JSON"),
    Column("written_at", Double, nullable=False, doc="Unix seconds"),
    Column("digest", Code, nullable=False, doc="of the content"),
    info={"says": "One row for each incident."},
)


def configuration_columns() -> list[Column[Any]]:
    return [
        Column("base_env", JsonDocument, nullable=False, doc="the settings, as JSON"),
        Column("factor", Text, doc="what was locked last"),
        Column("variant", VariantText, doc="which variant of it"),
        Column("reason", Text, nullable=False, doc="why"),
        Column("written_at", Double, nullable=False, doc="Unix seconds"),
    ]


config = Table(
    "ftf_config",
    metadata,
    Column("id", BigInteger, CheckConstraint("id = 1"), primary_key=True, autoincrement=False, doc="always 1"),
    Column("version", BigInteger, nullable=False, doc="counted from 0"),
    *configuration_columns(),
    info={"says": "The live configuration: what every further sweep is run on top of. One row."},
)

config_history = Table(
    "ftf_config_history",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False, doc="counted from 1"),
    *configuration_columns(),
    info={"says": "Every version of the live configuration."},
)

ledger = Table(
    "scalable_ledger",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False, doc="counted from 1"),
    Column("id", Code, nullable=False, unique=True, doc="of the sweep, the rows, the primary metric and the method"),
    Column("sweep", Text, nullable=False, doc="its name; of a lock that no sweep tested, the factor"),
    Column(
        "decided", Boolean, nullable=False, doc="rows allowed a verdict on a variant: only such entries are counted"
    ),
    Column("data", Code, doc="fingerprint of the rows that were judged"),
    Column("baseline", VariantText, doc="what the variants were compared with at the first look"),
    Column("primary_metric", Text, doc="the metric that decides"),
    Column("method", Text, doc="the test"),
    Column("level", Double, doc="the p below which a variant is proven better; of several looks the largest"),
    Column("variants", BigInteger, nullable=False, doc="how many were tried, without the baseline"),
    Column(
        "verdicts",
        JsonText,
        nullable=False,
        doc="of each variant, as a JSON list; as of the last look with this baseline",
    ),
    Column("locks", JsonText, nullable=False, doc="that rest on it, as a JSON list: variant, forced, reason, at"),
    Column("looks", BigInteger, nullable=False, doc="how often it was decided on the same rows"),
    Column("first_at", Double, nullable=False, doc="the first look, Unix seconds"),
    Column("last_at", Double, nullable=False, doc="the last look, Unix seconds"),
    info={"says": "The ledger: one row for each decision about a sweep. It stays when rows or runs are deleted."},
)

letters = Table(
    "scalable_dead_letters",
    metadata,
    Column("id", Code, primary_key=True, doc="of its content"),
    Column("written_at", Double, nullable=False, doc="Unix seconds"),
    Column("reason", Text, nullable=False, doc="why it was refused"),
    Column("tries", BigInteger, nullable=False, doc="how often"),
    Column("kind", Text, nullable=False, doc="`row`, `attempt`, `sweep`, `incident` or `line`"),
    Column("content", Text, nullable=False, doc="the line it is in an outbox"),
    info={"says": "What the database refused for good, kept until a person decides."},
)

leases = Table(
    "scalable_leases",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False, doc="counted on"),
    Column("name", Text, nullable=False, doc="e.g. of the sweep"),
    Column("kind", Text, nullable=False, doc="e.g. `heavy`"),
    Column("holder", Text, nullable=False, doc="host, process and run"),
    Column("token", BigInteger, unique=True, doc="of a holder, higher than all before it; none while it waits"),
    Column("requested_at", Double, nullable=False, doc="Unix seconds"),
    Column("heartbeat", Double, nullable=False, doc="when it was last heard of"),
    Column("expires", Double, nullable=False, doc="Unix seconds"),
    info={"says": "Who has a place, e.g. to run a sweep, and who waits for one."},
)

counters = Table(
    "scalable_counters",
    metadata,
    Column("name", Text, primary_key=True, doc="of the kind"),
    Column("last", BigInteger, nullable=False, doc="the number"),
    info={"says": "The last number given of each kind."},
)

schema = Table(
    "scalable_schema",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False, doc="of the tables; the highest counts"),
    info={"says": "The versions that the tables have had."},
)

TABLES: dict[type[Row] | type[AttemptRow] | type[SweepRun] | type[IncidentRow], Table] = {
    Row: results,
    AttemptRow: attempts,
    SweepRun: runs,
    IncidentRow: incidents,
}
ROW_COLUMNS = tuple(results.c[each.name] for each in fields(Row))


def values(entry: Entry) -> dict[str, Any]:
    """An entry as the columns of its table."""
    columns = {**entry.record.to_dict(), "digest": entry.digest}
    if "written_at" in TABLES[type(entry.record)].c:
        columns["written_at"] = entry.written_at
    if isinstance(entry.record, Row):
        columns["variant"] = entry.record.variant
    return columns


def row(record: Mapping[str, Any]) -> Row:
    try:
        return Row.from_dict(record)
    except ValueError as error:
        raise StoreError(f"the row {record['run_key']} of {results.name} cannot be read: {error}") from None
