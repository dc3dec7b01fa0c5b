"""Results that count no longer: which rows a name means, and marking them failed so that they are computed again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from scalable.axes import Value, axis_text
from scalable.errors import UsageError
from scalable.store.errors import StoreError
from scalable.store.interface import Filter, Store
from scalable.store.rows import SEPARATOR, Row, RowStatus, variant_of
from scalable.wording import plural, undefined

KEY = re.compile(r"[0-9a-f]{8,128}")  # so many digits of a key that they mean one row as a rule
AGAIN = re.compile(r"#\d+$")  # what a session adds to a task's name that it runs again
KNOWN = 100  # names looked at for a message
MOST_AXES = 6  # after the first, each of which a job's name may have or not
EARLIER_COST = re.compile(r"\bcost_bps (\S+)")  # which earlier versions call  at 10 bps


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


@dataclass(frozen=True, slots=True)
class Unmarked:
    restored: int
    without_result: int
    """Rows that had no result when they were marked; they stay as they are."""
    waiting: int


def place_name(axes: Mapping[str, Value], compared: Sequence[str]) -> str:
    """Return a place on the axes as people say it: texts as they are, numbers with the name of their axis."""
    others = (each for each in axes.items() if each[0] not in compared and not no_cost(*each))
    variant = variant_of(axes, compared)
    return " ".join([*([] if variant is None else [str(variant)]), *(axis_text(*each) for each in others)])


def no_cost(name: str, value: Value) -> bool:
    """Return whether a value only says that there is no cost, as rows of earlier versions do."""
    return name == "cost_bps" and not isinstance(value, str) and not value


def row_name(row: Row) -> str:
    """Return what a row is called, with its sweep."""
    return f"{row.sweep} {place_name(row.axes, row.compared)}" if row.sweep else row.name or row.run_key


def mark(store: Store, name: str, reason: str) -> Marked:
    """Mark the rows that a name means."""
    return mark_rows(store, meant(store, name), name, reason)


def mark_rows(store: Store, rows: Sequence[Row], name: str, reason: str) -> Marked:
    marked = store.mark_failed([row.run_key for row in rows], reason)
    return Marked(name, marked, len(rows) - marked, store.waiting)


def unmark(store: Store, rows: Sequence[Row]) -> Unmarked:
    """Let the results of marked rows count again.

    A row is put back as a later attempt than the mark, so that it wins over it; a result that was computed meanwhile
    is no longer marked and stays.
    """
    marked = [row for row in rows if row.marked]
    had_result = [row for row in marked if row.metrics or row.value is not None]
    receipt = store.put(
        replace(row, run_status=RowStatus.FINISHED, marked=False, error=None, attempt=row.attempt + 1, written_at=None)
        for row in had_result
    )
    if not receipt.safe:
        raise StoreError(f"no mark was taken back: {receipt.reason}")
    return Unmarked(len(had_result), len(marked) - len(had_result), store.waiting)


def meant(store: Store, name: str) -> list[Row]:
    """Return the rows of a sweep, a task, a run, a key or the name of a row or job, in this order; a key may be cut."""
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
    matching: list[Row] = []
    for row in store.rows():
        if name in (row.run_id, *names_of(row)):
            matching.append(row)
        elif len(known) < KNOWN:
            known |= {text for text in (row.sweep, row.name) if text}
    if matching:
        if len(sweeps := {row.sweep for row in matching if row.run_id != name}) > 1:
            first = min(map(str, sweeps))
            raise UsageError(f"{name} is in {len(sweeps)} sweeps; write which is meant, e.g. '{first} {name}'")
        return matching
    noun = "sweep, run, job, row or key"
    if not known:
        raise UsageError(f"{noun} {name!r} has no row in the store; the store has no rows yet")
    raise UsageError(undefined(noun, name, known).replace("is not defined", "has no row in the store"))


def names_of(row: Row) -> set[str]:
    """Return all that a row is called where it is printed: by itself, as part of a job, with its sweep or without."""
    if row.sweep is None:
        return set()
    others = [(name, value) for name, value in row.axes.items() if name not in row.compared]
    first, rest = [axis_text(*each) for each in others[:1]], [axis_text(*each) for each in others[1:]]
    chosen = product((False, True), repeat=min(len(rest), MOST_AXES))
    parts = [[text for text, kept in zip(rest, choice, strict=False) if kept] for choice in chosen]
    variant = str(row.variant)
    names = {place_name(row.axes, row.compared)}
    names |= {" ".join((*first, *given, *part)) for given in ((), (variant,)) for part in parts}
    names |= {EARLIER_COST.sub(cost, name) for name in names for cost in (r"\1 bps", r"at \1 bps")}
    if len(others) > 1:  # as earlier versions print it
        texts = " ".join((*first, SEPARATOR.join(row.compared), variant, *rest))
        names.add(EARLIER_COST.sub(r"at \1 bps", texts))
    return {f"{sweep}{name}" for sweep in ("", f"{row.sweep} ") for name in names if name}
