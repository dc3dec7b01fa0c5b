"""The database behind a store: opening it, one transaction per group of entries, and reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from enum import Enum
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, select

from scalable.store.dialects import dialect_of
from scalable.store.entries import Entry, merged
from scalable.store.errors import LeaseLostError, StoreError
from scalable.store.failures import explained
from scalable.store.incidents import IncidentRow
from scalable.store.interface import Filter
from scalable.store.places import Place
from scalable.store.rows import Row, SweepRun
from scalable.store.tables import ROW_COLUMNS, TABLES, incidents, leases, results, row, runs
from scalable.store.versions import create, ready

PAGE = 1000  # rows fetched at once, and keys asked for


class Database:
    """An SQLite file or a PostgreSQL server. ``patience_s`` is how long one try waits for another writer."""

    def __init__(self, place: Place, patience_s: float) -> None:
        self.place = place.shown
        self.dialect = dialect_of(place, patience_s)
        self.engine = self.dialect.engine
        self._for_writing = self.engine.execution_options(writes=True)
        try:
            self._prepare()
        except StoreError:
            self.close()
            raise
        self.dialect.prepare()

    def _prepare(self) -> None:
        """Make the tables in a new database, or bring old ones up to date.

        One that has them is only read, so that a long writer is no obstacle.
        """
        with self.reading() as connection:
            if ready(connection, f"store {self.place}"):
                return
        with self.writing("tables") as connection:
            if not ready(connection, f"store {self.place}"):
                create(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with explained(self.place), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, alone: str = "") -> Iterator[Connection]:
        """One transaction, durable at its end; ``alone`` names what nobody else may do meanwhile."""
        with explained(self.place), self._for_writing.begin() as connection:
            if alone:
                self.dialect.lock(connection, alone)
            yield connection

    def now(self, connection: Connection) -> float:
        return self.dialect.now(connection)

    def write(self, entries: Sequence[Entry]) -> None:
        """Store the entries in one transaction, durable on return. Those that are there with a higher rank stay."""
        kept = sorted(merged(entries), key=written_in_order)
        with self.writing() as connection:
            for token in {entry.token for entry in kept if entry.token is not None}:
                self.check(connection, token)
            for kind, table in TABLES.items():
                if found := [entry for entry in kept if isinstance(entry.record, kind)]:
                    self.dialect.upsert(connection, table, found)

    def check(self, connection: Connection, token: int | None) -> None:
        """Raise unless the lease with this token is held; until the transaction ends it cannot be taken away."""
        if token is None:
            return
        held = select(leases.c.id).where(leases.c.token == token).with_for_update(read=True)
        if connection.execute(held).first() is None:
            raise LeaseLostError(
                f"store {self.place}: the lease with token {token} is no longer held, somebody else may have it; "
                "nothing was written. Stop this sweep and start it again"
            )

    def still(self, token: int) -> None:
        """Raise LeaseLostError if the lease is known to be lost; a database that does not answer says nothing."""
        try:
            with self.reading() as connection:
                self.check(connection, token)
        except LeaseLostError:
            raise
        except StoreError:
            return

    def keys(self, wanted: Filter) -> set[str]:
        with self.reading() as connection:
            return set(connection.scalars(matching(select(results.c.run_key), wanted)))

    def rows(self, wanted: Filter) -> Iterator[Row]:
        """All from one moment, however long the reading takes."""
        statement = matching(select(*ROW_COLUMNS), wanted).order_by(results.c.written_at, results.c.run_key)
        with self.reading() as connection:
            for found in connection.execution_options(yield_per=PAGE).execute(statement):
                yield row(found._asdict())

    def find(self, keys: Iterable[str]) -> dict[str, Row]:
        wanted = iter(dict.fromkeys(keys))
        found: dict[str, Row] = {}
        with self.reading() as connection:
            while some := list(islice(wanted, PAGE)):
                for each in connection.execute(select(*ROW_COLUMNS).where(results.c.run_key.in_(some))):
                    found[each.run_key] = row(each._asdict())
        return found

    def get(self, run_key: str) -> Row | None:
        return self.find([run_key]).get(run_key)

    def runs(self, sweep: str | None) -> list[SweepRun]:
        columns = [runs.c[each.name] for each in fields(SweepRun)]
        statement = select(*columns).order_by(runs.c.started, runs.c.id)
        if sweep is not None:
            statement = statement.where(runs.c.sweep == sweep)
        with self.reading() as connection:
            return [SweepRun.from_dict(found._asdict()) for found in connection.execute(statement)]

    def incidents(self, sweep: str | None) -> list[IncidentRow]:
        columns = [incidents.c[each.name] for each in fields(IncidentRow)]
        statement = select(*columns).order_by(incidents.c.started, incidents.c.id)
        if sweep is not None:
            statement = statement.where(incidents.c.sweep == sweep)
        with self.reading() as connection:
            return [IncidentRow.from_dict(found._asdict()) for found in connection.execute(statement)]

    def close(self) -> None:
        self.engine.dispose()


def written_in_order(entry: Entry) -> str:
    """Two writers that touch the same rows in the same order wait for each other instead of failing."""
    return entry.place[1]


def matching(statement: Select[Any], wanted: Filter) -> Select[Any]:
    for each in fields(wanted):
        value = getattr(wanted, each.name)
        if value is not None:
            statement = statement.where(results.c[each.name] == (value.value if isinstance(value, Enum) else value))
    return statement
