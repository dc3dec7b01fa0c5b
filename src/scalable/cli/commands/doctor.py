"""``scalable doctor``: checks what a run will need and starts nothing; exit status 1 if something would fail.

With ``--worker`` it asks a worker of a live session what protects its runs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.table import Table
from rich.text import Text

from scalable.cli import context
from scalable.cli.output import WHOLE, console, errors, print_json, status
from scalable.doctor import Check, Status, examine
from scalable.errors import UsageError
from scalable.manifest.load import read
from scalable.wording import plural


def run(options: argparse.Namespace) -> int:
    if options.worker is not None:
        return examine_worker(options)
    if options.run_id is not None:
        raise UsageError("--run-id says whose --worker is meant; name one, e.g. --worker model-0")
    path = context.manifest_path(options.manifest)
    text = read(path)
    with progress() as on_step:
        found = examine(
            path, lambda: context.load_whole(text, str(path), options.target, options.overlay), on_step=on_step
        )
    good = all(check.status is not Status.FAIL for check in found)
    if options.format == "json":
        print_json({"ok": good, "checks": [check.to_dict() for check in found]})
    else:
        show(found)
    return 0 if good else 1


def examine_worker(options: argparse.Namespace) -> int:
    from scalable.cli import operating
    from scalable.doctor import worker

    folder = operating.chosen(options)
    within_s = operating.LOOK_WITHIN_S
    answer = operating.asked(folder, "protections", within_s=within_s, worker=options.worker)
    found = list(worker.checks(options.worker, answer["protections"]))
    good = all(check.status is not Status.FAIL for check in found)
    if options.format == "json":
        told = {"run_id": folder.run_id, "worker": options.worker}
        print_json({"ok": good, **told, "checks": [check.to_dict() for check in found]})
    else:
        show(found, bad="runs on it are not protected", good="protected")
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


def show(found: Sequence[Check], bad: str = "a run would not get far", good: str = "ready") -> None:
    screen = console()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow=WHOLE)
    for check in found:
        text = Text(check.text)
        if check.remedy and check.status is not Status.OK:
            text.append(f"\n→ {check.remedy}", style="bold" if check.status is Status.FAIL else "")
        table.add_row(status(check.status.value), Text(check.name), text)
    screen.print(table)
    counts = Counter(check.status for check in found)
    screen.print()
    if counts[Status.FAIL]:
        screen.print(f"{plural(counts[Status.FAIL], 'check')} failed: {bad}", style="bold red")
    elif counts[Status.WARN]:
        screen.print(f"{good}, with {plural(counts[Status.WARN], 'warning')}", style="yellow")
    else:
        screen.print(good, style="green")
