"""Differences between the databases: how a connection is set up, how writers keep out of each other's way, how several
records become one statement, whose clock counts, and the words for what a database reports. Everything else is one
path.

A database's own text may hold the statement and a row's values, so of what it says about data only the kind is told.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from math import ceil
from pathlib import Path
from sqlite3 import SQLITE_BUSY, OperationalError
from typing import Any, Protocol

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Table,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    create_engine,
    event,
    extract,
    false,
    func,
    literal,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from scalable.axes import Value
from scalable.store.errors import RefusedError, StoreError
from scalable.store.json_values import to_json
from scalable.store.outbox import Entry, sync_folder
from scalable.store.rows import Row, RowStatus
from scalable.store.tables import TABLES, axes_text, results, values, variant_text
from scalable.store.urls import DatabaseServer, Location
from scalable.wording import install_hint

LARGEST_STATEMENT = 8_000_000  # characters of records sent at once; PostgreSQL takes a thousand times as many at most
SWITCH_AGAIN_S = 0.01  # creating the tables, which others wait for, takes a few times as long
SHORTEST_CONNECT_S = 2  # libpq takes shorter times for this one
LOCKS = {  # ours among all of a server's
    "tables": 0x5CA1AB1E01, "leases": 0x5CA1AB1E02, "config": 0x5CA1AB1E03, "ledger": 0x5CA1AB1E04,
}  # fmt: skip
ESCAPED = "\\u"  # starts a character in JSON that the server's encoding may lack; as text inside it stays as it is
SILENT_S = 30  # a connection on which nothing arrives for so long is taken for dead


class Dialect(Protocol):
    """One kind of database."""

    engine: Engine

    def prepare(self) -> None:
        """Do what is done once, after the database was opened."""
        ...

    def lock(self, connection: Connection, what: str) -> None:
        """Let nobody else do this at the same time until the transaction ends; ``what`` is one of LOCKS."""
        ...

    def now(self, connection: Connection) -> float:
        """Return Unix seconds, the same for all who use this database."""
        ...

    def upsert(self, connection: Connection, table: Table, entries: Sequence[Entry]) -> None:
        """Store entries of one table, each key once, and keep those that are there with a higher rank."""
        ...

    def axis_is(self, axis: str, value: Value) -> ColumnElement[bool]:
        """Return the condition that a row has this value on this axis."""
        ...

    def back_up(self, version: int) -> str:
        """Keep a copy of a database whose tables have an earlier version; return where it is, in words."""
        ...


def dialect_of(location: Location, patience_s: float) -> Dialect:
    return (
        Postgresql(location, location.at, patience_s)
        if isinstance(location.at, DatabaseServer)
        else Sqlite(location, patience_s)
    )


class Sqlite:
    """A file, used by the processes of one machine, whose clock therefore is everybody's."""

    def __init__(self, location: Location, patience_s: float) -> None:
        assert isinstance(location.at, Path)
        self.path = location.at
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"store {location.shown}: its folder cannot be made: {error.strerror}") from None
        self.read_only = cannot_change(self.path)
        self.engine = create_engine(sqlite_url(self.path, self.read_only), hide_parameters=True)
        if not self.read_only:
            event.listen(self.engine, "connect", sqlite_settings(patience_s))
        event.listen(self.engine, "begin", begin)
        self._upserts = {table: upserting(table, sqlite.insert(table)) for table in TABLES.values()}

    def prepare(self) -> None:
        if not self.read_only:
            sync_folder(self.path.parent)

    def lock(self, connection: Connection, what: str) -> None:
        """Do nothing: whoever writes is alone already."""

    def now(self, connection: Connection) -> float:
        return time.time()

    def upsert(self, connection: Connection, table: Table, entries: Sequence[Entry]) -> None:
        connection.execute(self._upserts[table], [values(entry) for entry in entries])

    def axis_is(self, axis: str, value: Value) -> ColumnElement[bool]:
        path = f'$."{axis}"'
        kind = func.json_type(results.c.axes, path)
        if isinstance(value, bool):
            return kind == ("true" if value else "false")
        kinds = ("text",) if isinstance(value, str) else ("integer", "real")
        return and_(kind.in_(kinds), func.json_extract(results.c.axes, path) == value)

    def back_up(self, version: int) -> str:
        """Copy the file as others read it now; whoever calls this is the only writer."""
        copy = next(each for each in backups(self.path, version) if not each.exists())
        partial = copy.with_name(f"{copy.name}.partial")
        try:
            partial.unlink(missing_ok=True)
            reading = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
            with closing(reading) as source, closing(sqlite3.connect(partial)) as target:
                source.backup(target)
            shutil.copymode(self.path, partial)
            with partial.open("rb") as file:
                os.fsync(file.fileno())
            partial.rename(copy)
            sync_folder(copy.parent)
        except (OSError, sqlite3.Error) as error:
            partial.unlink(missing_ok=True)
            raise StoreError(f"{self.path} cannot be copied to {copy} before its tables change: {error}") from None
        return f"; the file as it was is {copy}"


def cannot_change(path: Path) -> bool:
    """Return whether a file is in a folder that cannot be written, and no process has it open.

    SQLite opens a file that has a write-ahead log only where it can make files beside it, unless it is told that the
    file never changes. The log is there as long as a process has the file open, or after one died.
    """
    log = path.with_name(f"{path.name}-wal")
    return path.exists() and not os.access(path.parent, os.W_OK) and not log.exists()


def sqlite_url(path: Path, read_only: bool) -> URL:
    if not read_only:
        return URL.create("sqlite", database=str(path))
    return URL.create("sqlite", database=path.absolute().as_uri(), query={"immutable": "1", "uri": "true"})


def backups(path: Path, version: int) -> Iterator[Path]:
    """Yield the names that a copy of a file of this version may have, e.g. ``results.db.version-4``."""
    yield path.with_name(f"{path.name}.version-{version}")
    for number in count(2):
        yield path.with_name(f"{path.name}.version-{version}.{number}")


def sqlite_settings(patience_s: float) -> Any:
    """Return a listener that sets connections to durable commits and to waiting for other writers."""

    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not where the driver guesses
        connection.execute(f"PRAGMA busy_timeout = {int(patience_s * 1000)}")
        use_write_ahead_log(connection, patience_s)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    return connected


def use_write_ahead_log(connection: Any, patience_s: float) -> None:
    """Switch a new file to write-ahead logging, which readers do not hold up; it stays so from then on.

    Of several processes that open a new file at once, SQLite refuses the switch to all but one without waiting for
    ``busy_timeout``, so the waiting is done here.
    """
    until = time.monotonic() + patience_s
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except OperationalError as error:
            if error.sqlite_errorcode != SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(SWITCH_AGAIN_S)


def begin(connection: Connection) -> None:
    """Take a writer's lock at once; taken later, it could fail without waiting."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class Postgresql:
    """A server, used by any number of machines; none of their clocks is asked, only the server's."""

    def __init__(self, location: Location, server: DatabaseServer, patience_s: float) -> None:
        url = URL.create(
            "postgresql+psycopg", server.user, server.password, server.host, server.port, server.database,
            server.options,
        )  # fmt: skip
        settings = {
            "connect_timeout": max(SHORTEST_CONNECT_S, ceil(patience_s)),
            "keepalives_idle": SILENT_S // 3,
            "keepalives_interval": SILENT_S // 6,
            "keepalives_count": 4,
            "tcp_user_timeout": SILENT_S * 1000,
            "application_name": "scalable",
        }
        try:
            self.engine = create_engine(
                url,
                hide_parameters=True,
                pool_pre_ping=True,  # a server that was started again is not met with a connection to the old one
                connect_args={name: value for name, value in settings.items() if name not in server.options},
            )
        except ImportError:
            raise StoreError(
                f"store {location.shown} needs psycopg, which is not installed; {install_hint('postgres')}"
            ) from None
        event.listen(self.engine, "connect", server_settings(patience_s))
        self._upserts = {table: upserting(table, from_records(table)) for table in TABLES.values()}

    def prepare(self) -> None:
        """Do nothing."""

    def lock(self, connection: Connection, what: str) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(LOCKS[what])))

    def now(self, connection: Connection) -> float:
        """Return the seconds of this moment: the transaction may have waited since it began."""
        return float(connection.execute(select(extract("epoch", func.clock_timestamp()))).scalar_one())

    def upsert(self, connection: Connection, table: Table, entries: Sequence[Entry]) -> None:
        for part in parts(entries):
            records = ",".join(map(as_record, part))
            connection.execute(self._upserts[table], {"records": f"[{records}]"})

    def axis_is(self, axis: str, value: Value) -> ColumnElement[bool]:
        there = cast(results.c.axes, postgresql.JSONB).op("->")(literal(axis, Text))
        return there == cast(literal(json.dumps(value, ensure_ascii=False), Text), postgresql.JSONB)

    def back_up(self, version: int) -> str:
        """Copy nothing: the step that replaces tables keeps them under another name."""
        return ""


def server_settings(patience_s: float) -> Any:
    """Return a listener that bounds waits for other writers, and has commits on disk whatever the server's default."""
    durable = (
        "CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END"
    )
    patience = max(1, int(patience_s * 1000))

    def connected(connection: Any, _: object) -> None:
        connection.execute(f"SELECT set_config('lock_timeout', '{patience}ms', false), {durable}")
        connection.commit()

    return connected


def as_record(entry: Entry) -> str:
    """Return an entry as one JSON object, of which the server makes a row: its content as it is, if that can be."""
    record = entry.record
    simple = ESCAPED not in entry.text
    if simple and isinstance(record, Row):
        simple = record.value is None or isinstance(record.value, dict | list)
    if simple:
        variant = f',"variant":{json.dumps(variant_text(record.variant))}' if isinstance(record, Row) else ""
        return f'{entry.text[:-1]}{variant},"digest":"{entry.digest}","written_at":{entry.written_at!r}}}'
    columns = values(entry)
    for name in ("metrics", "summary", "value"):
        if columns.get(name) is not None:
            columns[name] = to_json(columns[name])
    if isinstance(record, Row):
        columns |= {"axes": axes_text(record.axes), "variant": variant_text(record.variant)}
    return json.dumps(columns)


def parts(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Yield the entries in statements of a bearable size."""
    start = size = 0
    for number, entry in enumerate(entries):
        if size and size + len(entry.text) > LARGEST_STATEMENT:
            yield entries[start:number]
            start, size = number, 0
        size += len(entry.text)
    yield entries[start:]


def from_records(table: Table) -> postgresql.Insert:
    """Return one statement for any number of records, sent as one text: three times as fast as one for each."""
    given = func.json_to_recordset(cast(bindparam("records", type_=Text), JSON))
    columns = [column(each.name, each.type) for each in table.columns]
    incoming = given.table_valued(*columns, name="incoming").render_derived(with_types=True)
    taken = [func.coalesce(each, false()) if each.name == "marked" else each for each in incoming.c]  # see content()
    return postgresql.insert(table).from_select([each.name for each in table.columns], select(*taken))


def upserting(table: Table, statement: Any) -> Executable:
    changed: Executable = statement.on_conflict_do_update(
        index_elements=list(table.primary_key),
        set_={each.name: statement.excluded[each.name] for each in table.columns if not each.primary_key},
        where=rank(statement.excluded) > rank(table.c),
    )
    return changed


def rank(columns: Any) -> Any:
    """Return ``Entry.rank`` in the database's words."""
    if "run_status" in columns:
        counts = or_(columns.run_status == RowStatus.FINISHED.value, columns.marked)
        return tuple_(case((counts, 1), else_=0), columns.attempt, columns.marked, columns.digest)
    if "ended" in columns:
        return tuple_(func.coalesce(columns.ended, -1.0), columns.digest)
    return tuple_(columns.written_at, columns.digest)


LOCKED = "is locked by another writer; end that process, or wait for it"
NO_USER = "has no such user; create it with  createuser NAME , or name another"
LOST = "does not answer: the connection was lost; start the server again, or wait for it"

SQLITE_REASONS = {
    "BUSY": LOCKED,
    "LOCKED": LOCKED,
    "FULL": "cannot grow: database or disk is full; free some space",
    "READONLY": "is read-only; allow writing to the file and its folder, or name another file",
    "PERM": "may not be used; allow reading and writing, or name another file",
    "CANTOPEN": "cannot be opened; allow reading and writing of the file and its folder, or name another file",
    "CORRUPT": "is damaged; restore it from a copy, or name another file",
    "NOTADB": "is not a database; name another file",
    "IOERR": "cannot be read or written: the disk reports an error",
}
SQLITE_REFUSALS = {
    "CONSTRAINT": "refuses it: a constraint or trigger that was added to its tables does not allow it",
    "TOOBIG": "refuses it: it is larger than the database allows",
    "MISMATCH": "refuses it: a value is of a kind that its column does not take",
}

SERVER_REASONS = {
    "08": LOST,
    "25006": "is read-only; name the primary server, not a standby",
    "28": "refuses this user; allow it in pg_hba.conf, or name another user",
    "3D000": "has no such database; create it with  createdb NAME , or name another",
    "3F": "has no such schema; create it, or leave search_path out of the URL",
    "40": "was busy with another writer; it is asked again",
    "42501": "may not be used by this user; grant it the right to create and change tables, or name another user",
    "42": "has tables that scalable did not make; name another database",
    "53100": "cannot grow: its disk is full; free some space",
    "53300": "has too many connections; end some, or raise its max_connections",
    "53": "is short of memory or disk; free some",
    "55P03": LOCKED,
    "57014": "took too long and was stopped; raise its statement_timeout, or leave it out",
    "57": LOST,
    "58": "cannot be read or written: its disk reports an error",
    "XX": "is damaged or has an internal error; see its log",
}
SERVER_REFUSALS = {
    "22P05": "refuses it: its encoding has no place for one of the characters; make the database with ENCODING 'UTF8'",
    "22": "refuses it: a value is of a kind or size that its column does not take",
    "23": "refuses it: a constraint that was added to its tables does not allow it",
    "54": "refuses it: it is larger than the database allows",
    "P0": "refuses it: a trigger that was added to its tables does not allow it",
}
BEFORE_A_CONNECTION = (  # what libpq says when there is no connection yet, which has no code
    ("password authentication failed", "refuses the password; write the right one, or leave it to PGPASSWORD"),
    ("no password supplied", "wants a password; write one into the URL, into PGPASSWORD or into ~/.pgpass"),
    ("authentication failed", SERVER_REASONS["28"]),
    ("no pg_hba.conf entry", SERVER_REASONS["28"]),
    ("too many clients", SERVER_REASONS["53300"]),
    ("connection slots", SERVER_REASONS["53300"]),
    ("translate host name", "cannot be found: no host has this name; correct it"),
    ("resolve host", "cannot be found: no host has this name; correct it"),
    ("starting up", "is starting; wait for it"),
    ("shutting down", "is shutting down; start it again"),
    ("refused", "cannot be reached: nothing listens there; start the server, or correct host and port"),
    ("No such file", "cannot be reached: nothing listens there; start the server, or name its host"),
    ("timeout", "cannot be reached in time; check host, port and firewall"),
    ("unreachable", "cannot be reached: there is no way to that host; check host and network"),
    ("No route", "cannot be reached: there is no way to that host; check host and network"),
    ("invalid connection option", "has an option in its URL that PostgreSQL does not know; leave it out"),
    ("SSL", "and this machine do not agree on encryption; write ?sslmode=require or ?sslmode=disable"),
)  # fmt: skip


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Tell what the database reports as one sentence."""
    try:
        yield
    except SQLAlchemyError as error:
        kind, words = reported(error)
        raise kind(f"store {url} {words}") from None


def reported(error: SQLAlchemyError) -> tuple[type[StoreError], str]:
    original: Any = error.orig if isinstance(error, DBAPIError) else error
    if name := getattr(original, "sqlite_errorname", ""):
        kind = name.removeprefix("SQLITE_").split("_")[0]
        if kind in SQLITE_REFUSALS:
            return RefusedError, SQLITE_REFUSALS[kind]
        if kind in SQLITE_REASONS:
            return StoreError, SQLITE_REASONS[kind]
    elif code := getattr(original, "sqlstate", None):
        for start in (code, code[:2]):
            if start in SERVER_REFUSALS:
                return RefusedError, f"{SERVER_REFUSALS[start]} ({code})"
            if start in SERVER_REASONS:
                return StoreError, SERVER_REASONS[start]
        return StoreError, f"cannot be used: PostgreSQL reports {code}"
    elif isinstance(error, DataError | IntegrityError):  # seen before it was sent
        return RefusedError, SERVER_REFUSALS["22"]
    elif type(original).__module__.startswith("psycopg"):
        return StoreError, without_a_connection(str(original))
    text = str(original).strip().splitlines() or [type(original).__name__]
    return StoreError, f"cannot be used: {text[0]}"


def without_a_connection(text: str) -> str:
    if "does not exist" in text and "FATAL" in text:
        return NO_USER if "role" in text else SERVER_REASONS["3D000"]
    for sign, words in BEFORE_A_CONNECTION:
        if sign in text:
            return words
    return LOST
