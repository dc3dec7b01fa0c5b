"""What differs between the databases: how a connection is set up, how writers keep out of each other's way, how several
records become one statement, and whose clock counts. Everything else is one path.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import (
    JSON,
    Connection,
    Engine,
    Executable,
    Table,
    Text,
    bindparam,
    case,
    cast,
    column,
    create_engine,
    event,
    extract,
    false,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL

from scalable.store.columns import variant_text
from scalable.store.entries import Entry
from scalable.store.errors import StoreError
from scalable.store.outbox import sync_folder
from scalable.store.places import Place, Server
from scalable.store.plain import to_json
from scalable.store.rows import Row, RowStatus
from scalable.store.tables import TABLES, values

LARGEST_STATEMENT = 8_000_000  # characters of records sent at once; PostgreSQL takes a thousand times as many at most
SHORTEST_CONNECT_S = 2  # libpq takes shorter times for this one
LOCKS = {"tables": 0x5CA1AB1E01, "leases": 0x5CA1AB1E02, "config": 0x5CA1AB1E03}  # ours among all of a server's
ESCAPED = "\\u"  # starts a character in JSON that the server's encoding may lack; as text inside it stays as it is
SILENT_S = 30  # a connection on which nothing arrives for so long is taken for dead


class Dialect(Protocol):
    engine: Engine

    def prepare(self) -> None:
        """What is done once, after the database was opened."""
        ...

    def lock(self, connection: Connection, what: str) -> None:
        """Let nobody else do this at the same time until the transaction ends; ``what`` is one of LOCKS."""
        ...

    def now(self, connection: Connection) -> float:
        """Unix seconds, the same for all who use this database."""
        ...

    def upsert(self, connection: Connection, table: Table, entries: Sequence[Entry]) -> None:
        """Store entries of one table, each place once, and keep those that are there with a higher rank."""
        ...


def dialect_of(place: Place, patience_s: float) -> Dialect:
    return Postgresql(place, place.at, patience_s) if isinstance(place.at, Server) else Sqlite(place, patience_s)


class Sqlite:
    """A file, used by the processes of one machine, whose clock therefore is everybody's."""

    def __init__(self, place: Place, patience_s: float) -> None:
        assert isinstance(place.at, Path)
        self.path = place.at
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"store {place.shown}: its folder cannot be made: {error.strerror}") from None
        self.engine = create_engine(URL.create("sqlite", database=str(self.path)), hide_parameters=True)
        event.listen(self.engine, "connect", sqlite_settings(patience_s))
        event.listen(self.engine, "begin", begin)
        self._upserts = {table: upserting(table, sqlite.insert(table)) for table in TABLES.values()}

    def prepare(self) -> None:
        sync_folder(self.path.parent)

    def lock(self, connection: Connection, what: str) -> None:
        """Whoever writes is alone already."""

    def now(self, connection: Connection) -> float:
        return time.time()

    def upsert(self, connection: Connection, table: Table, entries: Sequence[Entry]) -> None:
        connection.execute(self._upserts[table], [values(entry) for entry in entries])


def sqlite_settings(patience_s: float) -> Any:
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


class Postgresql:
    """A server, used by any number of machines; none of their clocks is asked, only the server's."""

    def __init__(self, place: Place, server: Server, patience_s: float) -> None:
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
                f"store {place.shown} needs psycopg, which is not installed; run  pip install 'scalable[postgres]'"
            ) from None
        event.listen(self.engine, "connect", server_settings(patience_s))
        self._upserts = {table: upserting(table, from_records(table)) for table in TABLES.values()}

    def prepare(self) -> None:
        """Nothing."""

    def lock(self, connection: Connection, what: str) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(LOCKS[what])))

    def now(self, connection: Connection) -> float:
        """Of this moment: the transaction may have waited since it began."""
        return float(connection.execute(select(extract("epoch", func.clock_timestamp()))).scalar_one())

    def upsert(self, connection: Connection, table: Table, entries: Sequence[Entry]) -> None:
        for part in parts(entries):
            records = ",".join(map(as_record, part))
            connection.execute(self._upserts[table], {"records": f"[{records}]"})


def server_settings(patience_s: float) -> Any:
    """Waiting for other writers has an end, and what is committed is on disk even if the server thinks otherwise."""
    durable = (
        "CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END"
    )
    patience = max(1, int(patience_s * 1000))

    def connected(connection: Any, _: object) -> None:
        connection.execute(f"SELECT set_config('lock_timeout', '{patience}ms', false), {durable}")
        connection.commit()

    return connected


def as_record(entry: Entry) -> str:
    """An entry as one JSON object, of which the server makes a row: its content as it is, if that can be."""
    record = entry.record
    simple = ESCAPED not in entry.text
    if simple and isinstance(record, Row):
        variant, value = record.variant, record.value
        simple = value is None or isinstance(value, dict | list)
        simple = simple and (not isinstance(variant, str) or variant_text(variant) == variant)
    if simple:
        return f'{entry.text[:-1]},"digest":"{entry.digest}","written_at":{entry.written_at!r}}}'
    found = values(entry)
    for name in ("metrics", "summary", "value"):
        if found.get(name) is not None:
            found[name] = to_json(found[name])
    if "variant" in found:
        found["variant"] = variant_text(found["variant"])
    return json.dumps(found)


def parts(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """The entries in statements of a bearable size."""
    start = size = 0
    for number, entry in enumerate(entries):
        if size and size + len(entry.text) > LARGEST_STATEMENT:
            yield entries[start:number]
            start, size = number, 0
        size += len(entry.text)
    yield entries[start:]


def from_records(table: Table) -> postgresql.Insert:
    """One statement for any number of records, sent as one text: three times as fast as a statement for each."""
    given = func.json_to_recordset(cast(bindparam("records", type_=Text), JSON))
    columns = [column(each.name, each.type) for each in table.columns]
    incoming = given.table_valued(*columns, name="incoming").render_derived(with_types=True)
    taken = [func.coalesce(each, false()) if each.name == "marked" else each for each in incoming.c]  # see content()
    return postgresql.insert(table).from_select([each.name for each in table.columns], select(*taken))


def upserting(table: Table, statement: Any) -> Executable:
    [key] = table.primary_key
    changed: Executable = statement.on_conflict_do_update(
        index_elements=[key],
        set_={each.name: statement.excluded[each.name] for each in table.columns if each is not key},
        where=rank(statement.excluded) > rank(table.c),
    )
    return changed


def rank(columns: Any) -> Any:
    """``Entry.rank`` in the database's words."""
    if "run_key" in columns:
        counts = or_(columns.run_status == RowStatus.FINISHED.value, columns.marked)
        return tuple_(case((counts, 1), else_=0), columns.attempt, columns.marked, columns.digest)
    if "ended" in columns:
        return tuple_(func.coalesce(columns.ended, -1.0), columns.digest)
    return tuple_(columns.written_at, columns.digest)
