"""Which version the tables of a database have, and the steps that lead from earlier versions to this one.

``create`` makes the tables, or changes those of an earlier version step by step, all in the caller's transaction: a
process that dies in the middle leaves the tables as they were. Old tables are described as far as a step needs them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    MetaData,
    Table,
    Text,
    false,
    func,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn

from scalable.store.errors import StoreError
from scalable.store.json_values import from_json
from scalable.store.outbox import Entry
from scalable.store.rows import Row, digest, storable
from scalable.store.tables import (
    VariantText,
    attempts,
    config,
    config_history,
    counters,
    incidents,
    leases,
    ledger,
    letters,
    metadata,
    results,
    runs,
    schema,
    values,
)
from scalable.store.views import VIEWS, create_views

VERSION = 6
PAGE = 1000  # rows that are moved at once

logger = logging.getLogger("scalable.store")


def ready(connection: Connection, store: str) -> bool:
    """Return whether the tables are there as this version needs them; raise if they can never be."""
    there = {*inspect(connection).get_table_names(), *inspect(connection).get_view_names()}
    if schema.name not in there:
        if taken := there & {*metadata.tables, *VIEWS}:
            raise StoreError(f"{store} has a table {min(taken)} that scalable did not make; name another place for it")
        return False
    if (version := version_of(connection)) not in (*CHANGES, VERSION):
        raise StoreError(
            f"{store} has tables of version {version}, and this scalable knows version {VERSION}; "
            "update scalable, or name another place for the store"
        )
    return version == VERSION


def version_of(connection: Connection) -> int | None:
    """Return the version of the tables; None if there are none."""
    if schema.name not in inspect(connection).get_table_names():
        return None
    version: int | None = connection.execute(select(func.max(schema.c.version))).scalar()
    return version


def create(connection: Connection) -> None:
    """Make the tables, or change those of an earlier version step by step."""
    version = version_of(connection)
    if version is None:
        metadata.create_all(connection)
        create_views(connection)
    else:
        for step in range(version, VERSION):
            CHANGES[step](connection)
    connection.execute(schema.insert().values(version=VERSION))


before_axes = MetaData()

results_before_axes = Table(
    "finetune_results",
    before_axes,
    Column("run_key", Text, primary_key=True),
    Column("name", Text),
    Column("sweep", Text),
    Column("factor", Text),
    Column("variant", VariantText),
    Column("asset", Text),
    Column("fold", BigInteger),
    Column("cost_bps", Double),
    Column("metrics", Text, nullable=False),
    Column("value", Text),
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
    Column("digest", Text, nullable=False),
)
runs_before_axes = Table("finetune_runs", before_axes, *(Column(each.name, each.type) for each in runs.columns))


def add_marked(connection: Connection) -> None:
    add_column(connection, results_before_axes.c.marked)


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
    add_column(connection, results_before_axes.c.run_id)
    if connection.dialect.name == "postgresql":
        for table in (config, config_history):
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ALTER base_env TYPE jsonb USING base_env::jsonb")


def put_rows_on_axes(connection: Connection) -> None:
    """Move rows and runs to tables for any axes, and put views in the place of the old tables.

    On a server the old tables stay under another name, and who had rights to them has these to their successors; a file
    was copied as a whole before.
    """
    server = connection.dialect.name == "postgresql"
    if server:
        connection.exec_driver_sql(f"LOCK TABLE {', '.join(before_axes.tables)} IN ACCESS EXCLUSIVE MODE")
    metadata.create_all(connection, tables=(results, runs))
    columns = [each for each in results_before_axes.columns if each.name != "digest"]  # is of the content as it was
    old = select(*columns).execution_options(yield_per=PAGE)
    for partition in connection.execute(old).partitions():
        entries = list(moved(connection, [record._asdict() for record in partition]))
        if entries:
            connection.execute(insert(results), [values(entry) for entry in entries])
    names = [each.name for each in runs.columns]
    connection.execute(insert(runs).from_select(names, select(*(runs_before_axes.c[name] for name in names))))
    successors = {results_before_axes.name: results.name, runs_before_axes.name: runs.name}
    if server:
        hand_over(connection, successors)
    else:
        for name in successors:
            connection.exec_driver_sql(f"DROP TABLE {name}")
        create_views(connection)


def moved(connection: Connection, records: list[dict[str, Any]]) -> Iterator[Entry]:
    """Yield rows of the old table as they are written now; what nobody could read becomes a dead letter."""
    for record in records:
        try:
            known = {name: from_json(record[name]) for name in ("metrics", "value") if record[name] is not None}
            yield Entry.of(Row.from_dict({**record, **known}), record["written_at"])
        except (ValueError, TypeError) as error:
            reason = f"the row {record['run_key']} of {results_before_axes.name} could not be read: {error}"
            logger.warning("%s; it is a dead letter now", reason)
            content = json.dumps({"row": record})
            letter = {"id": digest(content)[:16], "written_at": record["written_at"], "reason": storable(reason)}
            connection.execute(insert(letters).values(**letter, tries=1, kind="row", content=content))


def hand_over(connection: Connection, successors: dict[str, str]) -> None:
    """Give the old tables of a server another name; rights to them, and views on them, follow to what succeeds them."""
    rights = "SELECT quote_ident(rolname), privilege_type FROM pg_class, aclexplode(relacl) AS acl " + (
        "LEFT JOIN pg_roles ON pg_roles.oid = grantee WHERE pg_class.oid = to_regclass(:name) AND grantee <> relowner"
    )
    views = "SELECT DISTINCT view.oid::regclass::text, pg_get_viewdef(view.oid) FROM pg_depend " + (
        "JOIN pg_rewrite ON pg_rewrite.oid = objid JOIN pg_class AS view ON view.oid = ev_class "
        "WHERE classid = 'pg_rewrite'::regclass AND refobjid = to_regclass(:name)"
    )
    grants: list[str] = []
    dependants: dict[str, str] = {}
    for name, successor in successors.items():
        for role, privilege in connection.execute(text(rights), {"name": name}):
            grants.append(f"GRANT {privilege} ON {successor} TO {role or 'PUBLIC'}")
            if privilege == "SELECT":
                grants.append(f"GRANT SELECT ON {name} TO {role or 'PUBLIC'}")
        dependants.update((view, definition) for view, definition in connection.execute(text(views), {"name": name}))
        kept = kept_name(connection, name)
        connection.exec_driver_sql(f"ALTER TABLE {name} RENAME TO {kept}")
        logger.warning("the table %s as it was is kept as %s", name, kept)
    create_views(connection)
    for statement in grants:
        connection.exec_driver_sql(statement)
    for view, definition in dependants.items():
        try:
            with connection.begin_nested():
                connection.execute(text(f"CREATE OR REPLACE VIEW {view} AS {definition}".replace(":", "\\:")))
        except DBAPIError:
            logger.warning("the view %s still shows the rows as they were before this change; create it anew", view)


def kept_name(connection: Connection, name: str) -> str:
    """Return the name under which an old table stays: that of its version, and a number if it is taken."""
    taken = set(inspect(connection).get_table_names())
    kept = f"{name}_version_4"
    numbered = (f"{kept}_{number}" for number in count(2))
    return next(each for each in chain([kept], numbered) if each not in taken)


def add_ledger(connection: Connection) -> None:
    metadata.create_all(connection, tables=(ledger,))


CHANGES: dict[int, Callable[[Connection], None]] = {
    1: add_marked,
    2: add_what_is_beside_rows,
    3: count_attempts,
    4: put_rows_on_axes,
    5: add_ledger,
}
"""What leads from each earlier version to the next."""
