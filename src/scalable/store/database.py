"""The database behind a store: opening it, a transaction per group of entries, reading, and the live configuration."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select

from scalable.store.dialects import dialect_of, explained
from scalable.store.errors import ConfigChanged, LeaseLostError, RowError, StoreError
from scalable.store.interface import Config, Filter
from scalable.store.outbox import Entry, merged
from scalable.store.rows import (
    AttemptRow,
    IncidentRow,
    Row,
    SweepRun,
    check_axis,
    check_names,
    set_number,
    storable,
    stored,
)
from scalable.store.tables import (
    ROW_COLUMNS,
    TABLES,
    attempts,
    config,
    config_history,
    leases,
    results,
    row,
)
from scalable.store.urls import Location
from scalable.store.versions import VERSION, create, ready, version_of
from scalable.wording import shown

PAGE = 1000  # rows fetched at once, and keys asked for
UPGRADE_S = 1800.0  # how long to wait for another process that changes the tables; a million rows take minutes

logger = logging.getLogger("scalable.store")


CONFIG_COLUMNS = Config.__slots__


class Database:
    """An SQLite file or a PostgreSQL server. ``patience_s`` is how long one try waits for another writer."""

    def __init__(self, location: Location, patience_s: float) -> None:
        self.url = location.shown
        self._connect(location, patience_s)
        try:
            self._prepare(location, patience_s)
        except StoreError:
            self.close()
            raise
        self.dialect.prepare()

    def _connect(self, location: Location, patience_s: float) -> None:
        self.dialect = dialect_of(location, patience_s)
        self.engine = self.dialect.engine
        self._for_writing = self.engine.execution_options(writes=True)

    def _prepare(self, location: Location, patience_s: float) -> None:
        """Make the tables in a new database, or bring old ones up to date.

        One that has them is only read, so that a long writer is no obstacle. Who finds old ones waits for whoever is
        bringing them up to date already.
        """
        with self.reading() as connection:
            if ready(connection, f"store {self.url}"):
                return
            version = version_of(connection)
        if version is None:
            self._create()
            return
        self.close()
        self._connect(location, max(patience_s, UPGRADE_S))
        self._create()
        self.close()
        self._connect(location, patience_s)

    def _create(self) -> None:
        with self.writing("tables") as connection:
            if ready(connection, f"store {self.url}"):
                return
            version = version_of(connection)
            kept = self.dialect.back_up(version) if version is not None else ""
            create(connection)
        if version is not None:
            logger.warning("store %s: its tables changed from version %s to %s%s", self.url, version, VERSION, kept)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with explained(self.url), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, alone: str = "") -> Iterator[Connection]:
        """One transaction, durable at its end; ``alone`` names what nobody else may do meanwhile."""
        with explained(self.url), self._for_writing.begin() as connection:
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
            if any(isinstance(entry.record, SweepRun) for entry in kept):
                Configs(self).ensure(connection)
            for kind, table in TABLES.items():
                if of_kind := [entry for entry in kept if isinstance(entry.record, kind)]:
                    self.dialect.upsert(connection, table, of_kind)

    def check(self, connection: Connection, token: int | None) -> None:
        """Raise unless the lease with this token is held; until the transaction ends it cannot be taken away."""
        if token is None:
            return
        held = select(leases.c.id).where(leases.c.token == token).with_for_update(read=True)
        if connection.execute(held).first() is None:
            raise LeaseLostError(
                f"store {self.url}: the lease with token {token} is no longer held, somebody else may have it; "
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
            return set(connection.scalars(self.matching(select(results.c.run_key), wanted)))

    def matching(self, statement: Select[Any], wanted: Filter) -> Select[Any]:
        status = wanted.run_status and wanted.run_status.value
        for column, text in {"sweep": wanted.sweep, "name": wanted.name, "run_status": status}.items():
            if text is not None:
                statement = statement.where(results.c[column] == text)
        for axis, value in wanted.where.items():
            check_axis(axis, "filter")
            statement = statement.where(self.dialect.axis_is(axis, value))
        return statement

    def rows(self, wanted: Filter) -> Iterator[Row]:
        """All from one moment, however long the reading takes."""
        statement = self.matching(select(*ROW_COLUMNS), wanted).order_by(results.c.written_at, results.c.run_key)
        with self.reading() as connection:
            for record in connection.execution_options(yield_per=PAGE).execute(statement):
                yield row(record._asdict())

    def find(self, keys: Iterable[str]) -> dict[str, Row]:
        wanted = iter(dict.fromkeys(keys))
        rows: dict[str, Row] = {}
        with self.reading() as connection:
            while some := list(islice(wanted, PAGE)):
                for each in connection.execute(select(*ROW_COLUMNS).where(results.c.run_key.in_(some))):
                    rows[each.run_key] = row(each._asdict())
        return rows

    def attempts(self, keys: Iterable[str]) -> dict[str, list[AttemptRow]]:
        wanted = iter(dict.fromkeys(keys))
        columns = [attempts.c[each.name] for each in fields(AttemptRow)]
        by_key: dict[str, list[AttemptRow]] = {}
        with self.reading() as connection:
            while some := list(islice(wanted, PAGE)):
                statement = select(*columns).where(attempts.c.run_key.in_(some)).order_by(attempts.c.attempt)
                for each in connection.execute(statement):
                    by_key.setdefault(each.run_key, []).append(AttemptRow(**each._asdict()))
        return by_key

    def get(self, run_key: str) -> Row | None:
        return self.find([run_key]).get(run_key)

    def runs(self, sweep: str | None) -> list[SweepRun]:
        return [SweepRun.from_dict(record) for record in self.begun(SweepRun, sweep)]

    def incidents(self, sweep: str | None) -> list[IncidentRow]:
        return [IncidentRow.from_dict(record) for record in self.begun(IncidentRow, sweep)]

    def begun(self, kind: type[SweepRun] | type[IncidentRow], sweep: str | None) -> list[dict[str, Any]]:
        """Return records of a sweep, or of all, in the order they began."""
        table = TABLES[kind]
        statement = select(*(table.c[each.name] for each in fields(kind))).order_by(table.c.started, table.c.id)
        if sweep is not None:
            statement = statement.where(table.c.sweep == sweep)
        with self.reading() as connection:
            return [record._asdict() for record in connection.execute(statement)]

    def close(self) -> None:
        self.engine.dispose()


def written_in_order(entry: Entry) -> str:
    """Two writers that touch the same rows in the same order wait for each other instead of failing."""
    return entry.key[1]


class Configs:
    """The live configuration: one row that is it, and every version it ever was."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def current(self) -> Config:
        with self.database.reading() as connection:
            return current_config(connection)

    def history(self) -> list[Config]:
        with self.database.reading() as connection:
            columns = [config_history.c[name] for name in CONFIG_COLUMNS]
            versions = connection.execute(select(*columns).order_by(config_history.c.version))
            return [Config(*each) for each in versions]

    def ensure(self, connection: Connection) -> None:
        """Have a row of the configuration also while nothing was ever set, for those who ask the table itself."""
        if current_config(connection).written_at is not None:
            return
        self.database.dialect.lock(connection, "config")
        if current_config(connection).written_at is None:
            now = self.database.now(connection)
            connection.execute(insert(config).values(id=1, version=0, base_env={}, reason="", written_at=now))

    def set(self, wanted: Config, expect_version: int, now: float, token: int | None) -> Config:
        """Make ``wanted`` the current configuration if the version is the expected one."""
        with self.database.writing("config") as connection:
            self.database.check(connection, token)
            there = current_config(connection)
            if there.version != expect_version:
                raise ConfigChanged(
                    f"store {self.database.url}: the configuration was changed meanwhile, it has version "
                    f"{there.version} and not {expect_version} ({there.reason or 'nothing was ever set'}); look at it "
                    "and decide again"
                )
            values = {name: getattr(wanted, name) for name in CONFIG_COLUMNS}
            values |= {"version": expect_version + 1, "written_at": now}
            connection.execute(insert(config_history).values(values))
            connection.execute(delete(config))
            connection.execute(insert(config).values(id=1, **values))
            return current_config(connection)


def checked_config(base_env: Mapping[str, Any], factor: str | None, variant: Any, reason: str) -> Config:
    """Return a configuration that can be stored; RowError says what is wrong with it."""
    where = "configuration"
    if not isinstance(base_env, Mapping):
        raise RowError(f"{where}: base_env is a {type(base_env).__name__}; write a mapping of names to values")
    if not isinstance(reason, str) or not reason.strip():
        raise RowError(f"{where}: reason is {shown(reason)}; say why it is changed, for those who ask later")
    config = Config(0, stored(base_env, where, "base_env"), factor, variant, reason)
    check_texts(config.base_env, f"{where}: base_env")
    check_names(config, where, "factor", "reason")
    if isinstance(variant, str):
        check_names(config, where, "variant")
    elif not isinstance(variant, bool):
        set_number(config, "variant", where, keep_whole=True)
    return config


def check_texts(value: Any, where: str) -> None:
    """Refuse texts that PostgreSQL cannot keep as JSON, in every database alike."""
    match value:
        case str() if value != storable(value):
            raise RowError(f"{where} is {shown(value)}; write a text without the character 0 or half characters")
        case Mapping():
            for name, item in value.items():
                check_texts(name, f"{where}: a key")
                check_texts(item, f"{where}.{name}")
        case list():
            for number, item in enumerate(value):
                check_texts(item, f"{where}[{number}]")


def current_config(connection: Connection) -> Config:
    row = connection.execute(select(*[config.c[name] for name in CONFIG_COLUMNS])).first()
    return Config(*row) if row else Config()
