"""What a database refuses for good is set aside, told of, and can be tried again or dropped; the rest is stored."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.tools.postgres import PrivatePostgres

BAD_FOLD = 13


def refuse(url: str, table: str = "finetune_results", condition: str = f"fold = {BAD_FOLD}") -> None:
    """Let the database refuse some records, as a trigger or constraint of its owner's would."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            new = " AND ".join(f"NEW.{part}" for part in condition.split(" AND "))
            connection.execute(
                f"CREATE TRIGGER no BEFORE INSERT ON {table} WHEN {new} BEGIN SELECT RAISE(ABORT, 'hush'); END"
            )
            connection.commit()
    else:
        with PrivatePostgres.connection_to(url) as connection:
            connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT no CHECK (NOT ({condition})) NOT VALID")


def allow(url: str, table: str = "finetune_results") -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("DROP TRIGGER no")
            connection.commit()
    else:
        with PrivatePostgres.connection_to(url) as connection:
            connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT no")
