"""The ledger of decisions in a database: an entry per decision, counted on, never deleted with rows or runs."""

from __future__ import annotations

from dataclasses import fields, replace

from sqlalchemy import Connection, func, insert, select, update

from scalable.store.database import Database
from scalable.store.decisions import DecisionRow
from scalable.store.tables import ledger

COLUMNS = [ledger.c[each.name] for each in fields(DecisionRow)]


class Ledger:
    """The entries of one database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def entries(self, sweep: str | None) -> list[DecisionRow]:
        """Return the entries of a sweep, or all, in the order of their first look."""
        statement = select(*COLUMNS).order_by(ledger.c.number)
        if sweep is not None:
            statement = statement.where(ledger.c.sweep == sweep)
        with self.database.reading() as connection:
            return [DecisionRow(**record._asdict()) for record in connection.execute(statement)]

    def record(self, decision: DecisionRow) -> DecisionRow:
        """Enter a decision, or count another look at it, and return the entry; nobody else numbers one meanwhile."""
        with self.database.writing("ledger") as connection:
            now = self.database.now(connection)
            dated = tuple({"at": now, **lock} for lock in decision.locks)
            there = self.entry(connection, decision.id)
            if there is None:
                number = (connection.execute(select(func.max(ledger.c.number))).scalar() or 0) + 1
                entry = replace(decision, number=number, looks=1, first_at=now, last_at=now, locks=dated)
                connection.execute(insert(ledger).values(values(entry)))
                return entry
            entry = replace(
                there,
                decided=decision.decided,
                level=max((each for each in (there.level, decision.level) if each is not None), default=None),
                verdicts=decision.verdicts if repr(decision.baseline) == repr(there.baseline) else there.verdicts,
                locks=(*there.locks, *dated),
                looks=there.looks + 1,
                last_at=now,
            )
            connection.execute(update(ledger).where(ledger.c.id == decision.id).values(values(entry)))
            return entry

    def entry(self, connection: Connection, id: str) -> DecisionRow | None:
        record = connection.execute(select(*COLUMNS).where(ledger.c.id == id)).first()
        return None if record is None else DecisionRow(**record._asdict())


def values(entry: DecisionRow) -> dict[str, object]:
    """Return an entry as the columns of its table."""
    return {each.name: getattr(entry, each.name) for each in fields(DecisionRow)}
