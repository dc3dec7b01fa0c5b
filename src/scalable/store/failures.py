"""Words for what a database reports: what is wrong, what a person can do about it, and whether asking again can help.

A database's own text may hold the statement and a row's values, so of what it says about data only the kind is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from scalable.store.errors import RefusedError, StoreError

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
def explained(place: str) -> Iterator[None]:
    """Tell what the database reports as one sentence."""
    try:
        yield
    except SQLAlchemyError as error:
        kind, words = reason(error)
        raise kind(f"store {place} {words}") from None


def reason(error: SQLAlchemyError) -> tuple[type[StoreError], str]:
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
