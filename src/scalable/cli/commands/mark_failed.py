"""``scalable mark-failed``: results that are in the store count no longer and are computed again.

Needs no session; a live one sees it, since both use the store.
"""

from __future__ import annotations

import argparse

from scalable.cli import context
from scalable.cli.output import console, print_json
from scalable.errors import UsageError
from scalable.store.marking import mark


def run(options: argparse.Namespace) -> int:
    if not options.reason.strip():
        raise UsageError('--reason is empty; say what is wrong with the result, e.g. --reason "wrong prices in March"')
    with context.opened_store(options) as store:
        done = mark(store, options.name, options.reason)
    if options.format == "json":
        before = {"marked_before": done.before, "waiting": done.waiting}
        print_json({"name": options.name, "marked": done.marked, **before})
        return 0
    screen = console()
    screen.print(f"{done}", soft_wrap=True)
    if done.marked:
        screen.print("  they count in no statistics, and the next run computes them again", style="dim")
    if done.waiting:
        screen.print("  the database is busy: the marks are safe in its outbox and follow", style="yellow")
    return 0
