"""``scalable mark-failed``: results that are in the store count no longer and are computed again.

Needs no session; a live one sees it, since both use the store.
"""

from __future__ import annotations

import argparse
import os
import re

from scalable.cli import context
from scalable.cli.output import console, print_json
from scalable.errors import UsageError
from scalable.manifest.load import read
from scalable.store import Filter, Row, Store, open_store
from scalable.wording import plural, undefined

KEY = re.compile(r"[0-9a-f]{8,128}")  # so many digits of a key that they mean one row as a rule
AGAIN = re.compile(r"#\d+$")  # what a session adds to a task's name that it runs again
KNOWN = 100  # names looked at for a message


def run(options: argparse.Namespace) -> int:
    path = context.manifest_path(options.manifest)
    url = os.environ.get("SCALABLE_STORE_URL")
    if not url:
        url = context.load_named(read(path), str(path), None, None).manifest.store
    if not options.reason.strip():
        raise UsageError('--reason is empty; say what is wrong with the result, e.g. --reason "wrong prices in March"')
    with open_store(url) as store:
        rows = meant(store, options.name)
        marked = store.mark_failed([row.run_key for row in rows], options.reason)
        waiting = store.waiting
    before = len(rows) - marked
    if options.format == "json":
        print_json({"name": options.name, "marked": marked, "marked_before": before, "waiting": waiting})
        return 0
    screen = console()
    again = f", {before} were marked before" if before else ""
    screen.print(f"marked {plural(marked, 'row')} of {options.name} failed{again}", soft_wrap=True)
    if marked:
        screen.print("  they count in no statistics, and the next run computes them again", style="dim")
    if waiting:
        screen.print("  the database is busy: the marks are safe in its outbox and follow", style="yellow")
    return 0


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
