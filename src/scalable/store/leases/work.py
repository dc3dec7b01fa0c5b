"""Leases on the jobs that a run computes, so that no other run of the same store computes them, too.

A run has one lease for itself and one for each job that it computes now. All have the same holder, so one statement
keeps them alive and one gives them back. A job is known by a key that is the same in every run. Many are taken in one
transaction, since thousands of short jobs may start in a second.

A run that is not heard of loses all its leases when they expire by the database's clock. A run of this machine whose
process has ended loses them at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Mapping
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from scalable import proc
from scalable.store.leases import Taken
from scalable.store.leases.database import JOB, RUN, SqlLeases, next_number
from scalable.store.tables import leases

SEPARATOR = "|"  # in a holder's name: run, process, which process of all times that is, which leases of it
PART = 500  # keys in one statement; SQLite takes some thousands


class SqlWorkLeases:
    """The leases of one run; see ``WorkLeases``."""

    def __init__(self, line: SqlLeases, run_id: str) -> None:
        self.line = line
        self.run_id = run_id
        self.beat_every_s = line.beat_every_s
        self.holder = SEPARATOR.join((run_id, str(os.getpid()), proc.identity(os.getpid()), uuid4().hex[:8]))
        self.begun = False
        self.released = False
        """It takes nothing any more, also if it is asked to by a thread that nobody could stop in time."""
        self.lock = threading.Lock()

    def take(self, wanted: Collection[str] = (), done: Iterable[str] = ()) -> Taken:
        with self.lock, self.line.database.writing("leases") as connection:
            if self.released:
                return Taken(frozenset(), frozenset())
            self._remove(connection, done)
            known = self._has_its_own(connection)
            self._renew(connection, leases.c.expires <= self.line.database.now(connection))  # nobody else asked before
            self._remove_dead(connection)
            others = self._held_by_others(connection)
            own = frozenset(wanted) - others
            if not known:
                self._remove(connection)
                self._insert(connection, {self.run_id: RUN})
            self._insert(connection, dict.fromkeys(sorted(own), JOB))
        lost, self.begun = self.begun and not known, True
        return Taken(own, frozenset(others), lost)

    def held_by_others(self) -> frozenset[str]:
        with self.line.database.reading() as connection:
            return frozenset(self._held_by_others(connection))

    def living(self) -> frozenset[str]:
        with self.line.database.reading() as connection:
            runs = self._alive(connection, RUN)
        return frozenset(name for name, holder in runs if not is_gone(holder))

    def beat(self) -> bool:
        with self.line.database.writing() as connection:
            self._renew(connection)
            return self._has_its_own(connection)

    def release(self) -> None:
        with self.lock, self.line.database.writing() as connection:
            self.released = True
            self._remove(connection)

    def _renew(self, connection: Connection, which: ColumnElement[bool] | None = None) -> None:
        own = leases.c.holder == self.holder
        chosen = own if which is None else own & which
        connection.execute(update(leases).where(chosen).values(self.line.alive(connection)))

    def _has_its_own(self, connection: Connection) -> bool:
        own = (leases.c.holder == self.holder) & (leases.c.kind == RUN)
        return connection.execute(select(leases.c.id).where(own)).first() is not None

    def _alive(self, connection: Connection, kind: str) -> list[tuple[str, str]]:
        """Return name and holder of other runs' leases that have not expired."""
        mine = leases.c.holder == self.holder
        others = (leases.c.kind == kind) & ~mine & (leases.c.expires > self.line.database.now(connection))
        found = connection.execute(select(leases.c.name, leases.c.holder).where(others))
        return [(name, holder) for name, holder in found]

    def _held_by_others(self, connection: Connection) -> set[str]:
        held = self._alive(connection, JOB)
        gone = {holder for holder in {holder for _, holder in held} if is_gone(holder)}
        return {name for name, holder in held if holder not in gone}

    def _remove_dead(self, connection: Connection) -> None:
        self.line.remove_expired(connection)
        for _, holder in self._alive(connection, RUN):
            if is_gone(holder):
                connection.execute(delete(leases).where(leases.c.holder == holder))

    def _remove(self, connection: Connection, keys: Iterable[str] | None = None) -> None:
        """Remove the leases on some jobs, or all of this run."""
        own = leases.c.holder == self.holder
        if keys is None:
            connection.execute(delete(leases).where(own))
            return
        names = list(keys)
        for start in range(0, len(names), PART):
            connection.execute(delete(leases).where(own & leases.c.name.in_(names[start : start + PART])))

    def _insert(self, connection: Connection, kinds: Mapping[str, str]) -> None:
        if not kinds:
            return
        first = next_number(connection, len(kinds)) - len(kinds) + 1
        alive = self.line.alive(connection)
        shared = {"holder": self.holder, "requested_at": alive["heartbeat"], **alive}
        rows = [
            {"id": number, "token": number, "name": name, "kind": kind, **shared}
            for number, (name, kind) in enumerate(kinds.items(), start=first)
        ]
        connection.execute(insert(leases), rows)


def is_gone(holder: str) -> bool:
    """Return whether a run's process is known to have ended; one on another machine is not known of."""
    _, pid, identity, _ = holder.rsplit(SEPARATOR, 3)
    if not identity or not proc.machine() or not identity.startswith(f"{proc.machine()} "):
        return False
    return not proc.alive(int(pid)) or proc.identity(int(pid)) != identity
