"""The database behind a store: opening it, one transaction per group of entries, and reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, Table, case, create_engine, event, func, or_, select, tuple_
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL

from scalable.store.entries import Entry, merged
from scalable.store.errors import StoreError
from scalable.store.failures import explained
from scalable.store.interface import Filter
from scalable.store.outbox import sync_folder
from scalable.store.rows import Row, RowStatus, SweepRun
from scalable.store.tables import ROW_COLUMNS, create, ready, results, row, runs, values

PAGE = 1000  # rows fetched at once


class Database:
    """SQLite in a file. ``patience_s`` is how long one try waits for another writer."""

    def __init__(self, path: Path, place: str, patience_s: float) -> None:
        self.place = place
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"store {place}: its folder cannot be made: {error.strerror}") from None
        self.engine = create_engine(URL.create("sqlite", database=str(path)), hide_parameters=True)
        event.listen(self.engine, "connect", settings(patience_s))
        event.listen(self.engine, "begin", begin)
        self._upserts = {Row: upsert(results), SweepRun: upsert(runs)}
        self._writing = self.engine.execution_options(writes=True)
        try:
            with explained(place):
                self._prepare()
        except StoreError:
            self.close()
            raise
        sync_folder(path.parent)

    def _prepare(self) -> None:
        """Make the tables in a new database, or bring old ones up to date.

        One that has them is only read, so that a long writer is no obstacle.
        """
        with self.engine.begin() as connection:
            if ready(connection, f"store {self.place}"):
                return
        with self._writing.begin() as connection:
            if not ready(connection, f"store {self.place}"):
                create(connection)

    def write(self, entries: Sequence[Entry]) -> None:
        """Store the entries in one transaction, durable on return. Those that are there with a higher rank stay."""
        kept = [(entry.record, values(entry)) for entry in merged(entries)]
        with explained(self.place), self._writing.begin() as connection:
            for kind, statement in self._upserts.items():
                if found := [value for record, value in kept if isinstance(record, kind)]:
                    connection.execute(statement, found)

    def keys(self, wanted: Filter) -> set[str]:
        with explained(self.place), self.engine.connect() as connection:
            return set(connection.scalars(matching(select(results.c.run_key), wanted)))

    def rows(self, wanted: Filter) -> Iterator[Row]:
        """All from one moment, however long the reading takes."""
        statement = matching(select(*ROW_COLUMNS), wanted).order_by(results.c.written_at, results.c.run_key)
        with explained(self.place), self.engine.connect() as connection:
            for found in connection.execution_options(yield_per=PAGE).execute(statement):
                yield row(found._asdict())

    def get(self, run_key: str) -> Row | None:
        with explained(self.place), self.engine.connect() as connection:
            found = connection.execute(select(*ROW_COLUMNS).where(results.c.run_key == run_key)).first()
        return row(found._asdict()) if found else None

    def marked(self) -> dict[str, int]:
        with explained(self.place), self.engine.connect() as connection:
            found = connection.execute(select(results.c.run_key, results.c.attempt).where(results.c.marked))
            return {row.run_key: row.attempt for row in found}

    def runs(self, sweep: str | None) -> list[SweepRun]:
        columns = [runs.c[each.name] for each in fields(SweepRun)]
        statement = select(*columns).order_by(runs.c.started, runs.c.id)
        if sweep is not None:
            statement = statement.where(runs.c.sweep == sweep)
        with explained(self.place), self.engine.connect() as connection:
            return [SweepRun.from_dict(found._asdict()) for found in connection.execute(statement)]

    def close(self) -> None:
        self.engine.dispose()


def settings(patience_s: float) -> Any:
    """What every connection is set to: durable commits that readers do not hold up, and waiting for other writers."""

    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not where the driver guesses
        for setting in (
            f"busy_timeout = {int(patience_s * 1000)}",
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {setting}")

    return connected


def begin(connection: Connection) -> None:
    """A writer takes its lock at once; taken later, it could fail without waiting."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def upsert(table: Table) -> sqlite.Insert:
    statement = sqlite.insert(table)
    [key] = table.primary_key
    return statement.on_conflict_do_update(
        index_elements=[key],
        set_={column.name: statement.excluded[column.name] for column in table.columns if column is not key},
        where=rank(statement.excluded) > rank(table.c),
    )


def rank(columns: Any) -> Any:
    """``Entry.rank`` in the database's words."""
    if "run_key" in columns:
        counts = or_(columns.run_status == RowStatus.FINISHED.value, columns.marked)
        return tuple_(case((counts, 1), else_=0), columns.attempt, columns.marked, columns.digest)
    return tuple_(func.coalesce(columns.ended, -1.0), columns.digest)


def matching(statement: Select[Any], wanted: Filter) -> Select[Any]:
    for each in fields(wanted):
        value = getattr(wanted, each.name)
        if value is not None:
            statement = statement.where(results.c[each.name] == (value.value if isinstance(value, Enum) else value))
    return statement
