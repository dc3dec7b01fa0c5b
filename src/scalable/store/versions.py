"""Which version the tables of a database have, and the steps from each earlier one to the next."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, func, inspect, select
from sqlalchemy.schema import CreateColumn

from scalable.store import tables
from scalable.store.errors import StoreError
from scalable.store.tables import metadata, results, schema

VERSION = 3


def ready(connection: Connection, place: str) -> bool:
    """Whether the tables are there as this version needs them; raises if they can never be."""
    there = set(inspect(connection).get_table_names())
    if schema.name not in there:
        if taken := there & set(metadata.tables):
            raise StoreError(f"{place} has a table {min(taken)} that scalable did not make; name another place for it")
        return False
    if (version := version_of(connection)) not in (*CHANGES, VERSION):
        raise StoreError(
            f"{place} has tables of version {version}, and this scalable knows version {VERSION}; "
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
    column = CreateColumn(results.c.marked).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {results.name} ADD COLUMN {column}")


def add_what_is_beside_rows(connection: Connection) -> None:
    """Live configuration, incidents, dead letters and leases."""
    added = (tables.config, tables.config_history, tables.incidents, tables.letters, tables.leases, tables.counters)
    metadata.create_all(connection, tables=added)


CHANGES: dict[int, Callable[[Connection], None]] = {1: add_marked, 2: add_what_is_beside_rows}
"""What leads from each earlier version to the next."""
