"""Words for what a database reports: what is wrong, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from scalable.store.errors import StoreError

SQLITE_REASONS = {
    "BUSY": "is locked by another writer; end that process, or wait for it",
    "LOCKED": "is locked by another writer; end that process, or wait for it",
    "FULL": "cannot grow: database or disk is full; free some space",
    "READONLY": "is read-only; allow writing to the file and its folder, or name another file",
    "PERM": "may not be used; allow reading and writing, or name another file",
    "CANTOPEN": "cannot be opened; allow reading and writing of the file and its folder, or name another file",
    "CORRUPT": "is damaged; restore it from a copy, or name another file",
    "NOTADB": "is not a database; name another file",
    "IOERR": "cannot be read or written: the disk reports an error",
}


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Tell what the database reports as one sentence; its own text may hold the statement and a row's values."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreError(f"store {place} {reason(error)}") from None


def reason(error: SQLAlchemyError) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    name = getattr(original, "sqlite_errorname", "")
    kind = name.removeprefix("SQLITE_").split("_")[0]
    if kind in SQLITE_REASONS:
        return SQLITE_REASONS[kind]
    text = str(original).strip().splitlines() or [type(original).__name__]
    return f"cannot be used: {text[0]}"
