"""The live configuration in the database: one row that is it, and every version it ever was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select

from scalable.store.answers import Config
from scalable.store.database import Database
from scalable.store.errors import ConfigChanged, RowError
from scalable.store.rows import check_names, set_number, stored
from scalable.store.tables import config, config_history
from scalable.wording import shown

COLUMNS = Config.__slots__


class Configs:
    def __init__(self, database: Database) -> None:
        self.database = database

    def current(self) -> Config:
        with self.database.reading() as connection:
            return read(connection)

    def history(self) -> list[Config]:
        with self.database.reading() as connection:
            columns = [config_history.c[name] for name in COLUMNS]
            found = connection.execute(select(*columns).order_by(config_history.c.version))
            return [Config(*each) for each in found]

    def set(self, wanted: Config, expect_version: int, now: float, token: int | None) -> Config:
        """Make ``wanted`` the current configuration if the version is the expected one."""
        with self.database.writing("config") as connection:
            self.database.check(connection, token)
            there = read(connection)
            if there.version != expect_version:
                raise ConfigChanged(
                    f"store {self.database.place}: the configuration was changed meanwhile, it has version "
                    f"{there.version} and not {expect_version} ({there.reason or 'nothing was ever set'}); look at it "
                    "and decide again"
                )
            values = {name: getattr(wanted, name) for name in COLUMNS}
            values |= {"version": expect_version + 1, "written_at": now}
            connection.execute(insert(config_history).values(values))
            connection.execute(delete(config))
            connection.execute(insert(config).values(id=1, **values))
            return read(connection)


def checked(base_env: Mapping[str, Any], factor: str | None, variant: Any, reason: str) -> Config:
    """A configuration that can be stored; RowError says what is wrong with it."""
    where = "configuration"
    if not isinstance(base_env, Mapping):
        raise RowError(f"{where}: base_env is a {type(base_env).__name__}; write a mapping of names to values")
    if not isinstance(reason, str) or not reason.strip():
        raise RowError(f"{where}: reason is {shown(reason)}; say why it is changed, for those who ask later")
    found = Config(0, stored(base_env, where, "base_env"), factor, variant, reason)
    check_names(found, where, "factor", "reason")
    if isinstance(variant, str):
        check_names(found, where, "variant")
    elif not isinstance(variant, bool):
        set_number(found, "variant", where, keep_whole=True)
    return found


def read(connection: Connection, table: Table = config) -> Config:
    found = connection.execute(select(*[table.c[name] for name in COLUMNS])).first()
    return Config(*found) if found else Config()
