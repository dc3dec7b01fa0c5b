"""Results that count no longer: which rows a name means, and marking them failed so that they are computed again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scalable.errors import UsageError
from scalable.store.interface import Filter, Store
from scalable.store.rows import Row
from scalable.wording import plural, undefined

KEY = re.compile(r"[0-9a-f]{8,128}")  # so many digits of a key that they mean one row as a rule
AGAIN = re.compile(r"#\d+$")  # what a session adds to a task's name that it runs again
KNOWN = 100  # names looked at for a message


@dataclass(frozen=True, slots=True)
class Marked:
    name: str
    marked: int
    before: int
    """Rows that were marked already."""
    waiting: int
    """What the store's outbox holds while the database is busy; marks are safe there and follow."""

    def __str__(self) -> str:
        again = f", {self.before} were marked before" if self.before else ""
        return f"marked {plural(self.marked, 'row')} of {self.name} failed{again}"


def mark(store: Store, name: str, reason: str) -> Marked:
    """Mark the rows of a sweep, a run or a key."""
    rows = meant(store, name)
    marked = store.mark_failed([row.run_key for row in rows], reason)
    return Marked(name, marked, len(rows) - marked, store.waiting)


def meant(store: Store, name: str) -> list[Row]:
    """Rows of a sweep, a task or a key, in this order; a key may be cut."""
    for wanted in (Filter(sweep=name), Filter(name=name), Filter(name=AGAIN.sub("", name))):
        if rows := list(store.rows(wanted)):
            return rows
    if KEY.fullmatch(name):
        keys = sorted(filter(lambda key: key.startswith(name), store.keys()))
        if len(keys) > 1:
            raise UsageError(f"{name} begins {len(keys)} keys; write more of its digits")
        if keys and (row := store.get(keys[0])) is not None:
            return [row]
    known: set[str] = set()
    for row in store.rows():
        known |= {text for text in (row.sweep, row.name) if text}
        if len(known) >= KNOWN:
            break
    noun = "sweep, run or key"
    if not known:
        raise UsageError(f"{noun} {name!r} has no row in the store; the store has no rows yet")
    raise UsageError(undefined(noun, name, known).replace("is not defined", "has no row in the store"))
