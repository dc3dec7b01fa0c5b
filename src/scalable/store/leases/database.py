"""Leases in a database: rows with a heartbeat, an expiry and a fencing token, held by as many as a rule allows.

Every decision is made in one transaction that no other decision can overlap: the dead are removed, the rule is shown
who holds a lease and who waits before the asker, and the asker takes its own or not. A lease past its expiry is lost as
soon as somebody else asks; until then its holder may come back, since nobody can have acted in its stead.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from scalable.store.database import Database
from scalable.store.errors import RowError, ToldToStop
from scalable.store.leases import TTL_S, Decide, Lease
from scalable.store.rows import LONGEST_NAME, storable
from scalable.store.tables import counters, leases
from scalable.wording import shown

COUNTER = "leases"
PAUSES_S = (0.05, 1.0)  # between two tries of one who waits: a lease is free for a second at most before it is taken
STOP = ", told to stop by "  # stands in the row of one who waits, behind its name, so that all see it
BEATS_PER_LIFE = 3  # heartbeats within the time after which a silent holder is taken for dead
RUN, JOB = "work: run", "work: job"  # kinds of leases that ``leases.work`` keeps; who waits in line does not see them


class SqlLeases:
    """The leases in a database. ``ttl_s`` is how long one who is not heard of keeps its lease."""

    def __init__(self, database: Database, ttl_s: float = TTL_S) -> None:
        self.database = database
        self.ttl_s = ttl_s
        self.beat_every_s = ttl_s / BEATS_PER_LIFE

    def ask(self, name: str, kind: str, holder: str = "", *, shared: bool = False) -> SqlTicket:
        holder = holder or f"{socket.gethostname()}:{os.getpid()}"
        for what, text in (("name", name), ("kind", kind), ("holder", holder)):
            if not isinstance(text, str) or not text or len(text) > LONGEST_NAME or text != storable(text):
                raise RowError(f"a lease's {what} is {shown(text)}; write a text of 1 to {LONGEST_NAME} characters")
        ticket = SqlTicket(self, {"name": name, "kind": kind, "holder": holder}, shared)
        with self.database.writing("leases") as connection:
            self.remove_expired(connection)
            ticket.stand_in_line(connection)
        return ticket

    def tell_to_stop(self, lease: Lease, who: str) -> bool:
        waits = (leases.c.id == lease.id) & leases.c.token.is_(None)
        shown_as = f"{lease.holder}{STOP}{who}"[:LONGEST_NAME]
        with self.database.writing("leases") as connection:
            return connection.execute(update(leases).where(waits).values(holder=shown_as)).rowcount == 1

    def list(self) -> Sequence[Lease]:
        with self.database.reading() as connection:
            now = self.database.now(connection)
            everyone = all_leases(connection)
        return sorted((lease for lease in everyone if lease.expires > now), key=lambda lease: not lease.held)

    def holds(self, token: int) -> bool:
        with self.database.reading() as connection:
            return connection.execute(select(leases.c.id).where(leases.c.token == token)).first() is not None

    def remove_expired(self, connection: Connection) -> None:
        connection.execute(delete(leases).where(leases.c.expires <= self.database.now(connection)))

    def alive(self, connection: Connection) -> dict[str, float]:
        now = self.database.now(connection)
        return {"heartbeat": now, "expires": now + self.ttl_s}


class SqlTicket:
    """A claim on a row; see ``Ticket``."""

    pauses_s = PAUSES_S

    def __init__(self, line: SqlLeases, who: dict[str, str], shared: bool) -> None:
        self.line = line
        self.beat_every_s = line.beat_every_s
        self.who = who
        self.shared = shared
        self.id = 0
        self.token: int | None = None

    def stand_in_line(self, connection: Connection) -> None:
        self.token = None
        if self.shared and self._join(connection):
            return
        self.id = next_number(connection)
        alive = self.line.alive(connection)
        values = {"id": self.id, **self.who, "requested_at": alive["heartbeat"], **alive}
        connection.execute(insert(leases).values(values))

    def take(self) -> bool:
        """Take the lease unless somebody has, or asked earlier for, one of the same name."""

        def alone(holders: list[Lease], before: list[Lease]) -> str:
            return next((lease.holder for lease in (*holders, *before) if lease.name == self.who["name"]), "")

        return isinstance(self.try_take(alone), Lease)

    def try_take(self, decide: Decide) -> Lease | str:
        # The row this ticket believes in is its own only after the transaction: on failure nothing was asked for.
        before_id, before_token = self.id, self.token
        try:
            with self.line.database.writing("leases") as connection:
                return self._decided(connection, decide)
        except BaseException:
            self.id, self.token = before_id, before_token
            raise

    def _decided(self, connection: Connection, decide: Decide) -> Lease | str:
        if not self._renew(connection):
            self.stand_in_line(connection)
        self.line.remove_expired(connection)
        everyone = all_leases(connection)
        [own] = [lease for lease in everyone if lease.id == self.id]
        if STOP in own.holder:
            raise ToldToStop(f"told to stop by {own.holder.partition(STOP)[2]}")
        if own.held:  # it may have been taken by a try whose answer was lost
            self.token = own.token
            return own
        reason = decide(
            [lease for lease in everyone if lease.held],
            [lease for lease in everyone if not lease.held and lease.id < self.id],
        )
        if reason:
            return reason
        self.token = next_number(connection)
        connection.execute(update(leases).where(leases.c.id == self.id).values(token=self.token))
        [own] = [lease for lease in all_leases(connection) if lease.id == self.id]
        return own

    def _join(self, connection: Connection) -> bool:
        """Take part in the lease that another process of the same holder has or waits for."""
        same = (leases.c.name == self.who["name"]) & (leases.c.holder == self.who["holder"])
        waiting = connection.execute(select(leases.c.id, leases.c.token).where(same).order_by(leases.c.id)).first()
        if waiting is None:
            return False
        self.id, self.token = waiting
        return self._renew(connection)

    def beat(self) -> bool:
        with self.line.database.writing() as connection:
            return self._renew(connection)

    def release(self) -> None:
        with self.line.database.writing() as connection:
            connection.execute(delete(leases).where(leases.c.id == self.id))
        self.token = None

    def _renew(self, connection: Connection) -> bool:
        own = update(leases).where(leases.c.id == self.id).values(self.line.alive(connection))
        return connection.execute(own).rowcount == 1


def all_leases(connection: Connection) -> list[Lease]:
    """Return the leases that are asked for in line, without those on jobs."""
    columns: Any = [leases.c[name] for name in Lease.__slots__]
    in_line = leases.c.kind.not_in((RUN, JOB))
    return [Lease(*row) for row in connection.execute(select(*columns).where(in_line).order_by(leases.c.id))]


def next_number(connection: Connection, count: int = 1) -> int:
    """Return a number that, like the ``count - 1`` before it, was never given, also after everything was deleted.

    Called only by who decides alone.
    """
    own = counters.c.name == COUNTER
    last = connection.execute(select(counters.c.last).where(own)).scalar()
    if last is None:
        connection.execute(insert(counters).values(name=COUNTER, last=count))
        return count
    connection.execute(update(counters).where(own).values(last=last + count))
    return int(last) + count
