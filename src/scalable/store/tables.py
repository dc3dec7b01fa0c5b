"""The tables, and how a record goes in and comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Double, Index, MetaData, Table, Text, false

from scalable.store.columns import Code, JsonText, VariantText
from scalable.store.entries import Entry
from scalable.store.errors import StoreError
from scalable.store.incidents import IncidentRow
from scalable.store.rows import Row, SweepRun

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
    Column("written_at", Double, nullable=False),
    Column("digest", Code, nullable=False),
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
        Column("base_env", JsonText, nullable=False),
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

TABLES: dict[type[Row] | type[SweepRun] | type[IncidentRow], Table] = {
    Row: results,
    SweepRun: runs,
    IncidentRow: incidents,
}
ROW_COLUMNS = tuple(results.c[each.name] for each in fields(Row))


def values(entry: Entry) -> dict[str, Any]:
    """An entry as the columns of its table."""
    found = {**entry.record.to_dict(), "digest": entry.digest}
    if not isinstance(entry.record, SweepRun):
        found["written_at"] = entry.written_at
    return found


def row(found: Mapping[str, Any]) -> Row:
    try:
        return Row.from_dict(found)
    except ValueError as error:
        raise StoreError(f"the row {found['run_key']} of {results.name} cannot be read: {error}") from None
