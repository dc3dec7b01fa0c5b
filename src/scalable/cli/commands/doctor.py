"""``scalable doctor``: checks what a run will need and starts nothing; exit status 1 if something would fail."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.table import Table
from rich.text import Text

from scalable.cli import context
from scalable.cli.output import console, errors, print_json, status
from scalable.doctor import Check, Status, examine
from scalable.manifest.load import read
from scalable.wording import plural


def run(options: argparse.Namespace) -> int:
    path = context.manifest_path(options.manifest)
    text = read(path)
    with progress() as on_step:
        found = examine(
            path, lambda: context.load_named(text, str(path), options.target, options.overlay), on_step=on_step
        )
    good = all(check.status is not Status.FAIL for check in found)
    if options.format == "json":
        print_json({"ok": good, "checks": [check.to_dict() for check in found]})
    else:
        show(found)
    return 0 if good else 1


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """On a terminal, what is being looked at."""
    screen = errors()
    if not screen.is_terminal:
        yield lambda what: None
        return
    with screen.status("checking …") as line:
        yield lambda what: line.update(f"checking {what} …")


def show(found: Sequence[Check]) -> None:
    screen = console()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for check in found:
        text = Text(check.text)
        if check.remedy and check.status is not Status.OK:
            text.append(f"\n→ {check.remedy}", style="bold" if check.status is Status.FAIL else "")
        table.add_row(status(check.status.value), Text(check.name), text)
    screen.print(table)
    counts = Counter(check.status for check in found)
    screen.print()
    if counts[Status.FAIL]:
        screen.print(f"{plural(counts[Status.FAIL], 'check')} failed: a run would not get far", style="bold red")
    elif counts[Status.WARN]:
        screen.print(f"ready, with {plural(counts[Status.WARN], 'warning')}", style="yellow")
    else:
        screen.print("ready", style="green")
