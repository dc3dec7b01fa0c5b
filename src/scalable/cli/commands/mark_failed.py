"""``scalable ops mark-failed``: results that are in the store count no longer and are computed again.

Needs no session; a live one sees it, since both use the store. ``--undo`` lets them count again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from scalable.cli import context
from scalable.cli.operating import agreed
from scalable.cli.output import console, errors, note, print_json
from scalable.errors import UsageError
from scalable.store import Row, Store
from scalable.store.marking import mark_rows, meant, row_name, unmark
from scalable.sweeps.rows import matches, row_axes
from scalable.wording import plural

LISTED = 10  # rows shown before somebody agrees; machines get all


def run(options: argparse.Namespace) -> int:
    if not options.undo and not (options.reason or "").strip():
        raise UsageError('--reason is empty; say what is wrong with the result, e.g. --reason "wrong prices in March"')
    with context.opened_store(options) as store:
        where = context.chosen(options)
        named = meant(store, options.name)
        rows = [row for row in named if (row.marked or not options.undo) and matches(row_axes(row), where)]
        if named and not rows and where:
            text = ", ".join(f"{axis}={value}" for axis, value in where.items())
            raise UsageError(f"{options.name} has no row with {text}; scalable results --all  lists them")
        to_do = rows if options.undo else [row for row in rows if not row.marked]
        content = {"name": options.name, "rows": [row_name(row) for row in to_do], "dry_run": options.dry_run}
        if options.format != "json":
            listed(to_do, options)
        if options.dry_run:
            if options.format == "json":
                print_json(content)
            return 0
        question = f"let {plural(len(to_do), 'row')} {'count again' if options.undo else 'count no longer'}?"
        if to_do and not agreed(question, options.yes, "say --yes to change them without being asked"):
            errors().print("nothing was changed")
            return 1
        return undone(store, rows, content, options) if options.undo else marked(store, rows, content, options)


def listed(rows: Sequence[Row], options: argparse.Namespace) -> None:
    screen = console()
    would = "would " if options.dry_run else "will "
    what = "count again" if options.undo else "count no longer, and be computed again"
    screen.print(f"{plural(len(rows), 'row')} of {options.name} {would}{what}", soft_wrap=True, markup=False)
    for row in rows[:LISTED]:
        screen.print(note("·", f"{row_name(row)}  {row.run_status.value}", "dim"))
    if len(rows) > LISTED:
        screen.print(note("·", f"and {len(rows) - LISTED} more", "dim"))


def marked(store: Store, rows: Sequence[Row], content: dict[str, object], options: argparse.Namespace) -> int:
    done = mark_rows(store, rows, options.name, options.reason)
    if options.format == "json":
        print_json({**content, "marked": done.marked, "marked_before": done.before, "waiting": done.waiting})
        return 0
    screen = console()
    screen.print(f"{done}", soft_wrap=True)
    if done.marked:
        screen.print("  they count in no statistics, and the next run computes them again", style="dim")
        screen.print("  --undo  takes that back as long as they were not computed again", style="dim")
    tell_waiting(done.waiting)
    return 0


def undone(store: Store, rows: Sequence[Row], content: dict[str, object], options: argparse.Namespace) -> int:
    done = unmark(store, rows)
    if options.format == "json":
        facts = {"restored": done.restored, "without_result": done.without_result, "waiting": done.waiting}
        print_json({**content, **facts})
        return 0
    screen = console()
    screen.print(f"{plural(done.restored, 'row')} of {options.name} count again", soft_wrap=True, markup=False)
    if done.without_result:
        screen.print(f"  {plural(done.without_result, 'row')} had no result before: the next run computes them")
    tell_waiting(done.waiting)
    return 0


def tell_waiting(waiting: int) -> None:
    if waiting:
        console().print("  the database is busy: the changes are safe in its outbox and follow", style="yellow")
