"""``scalable doctor``: checks what a run will need and starts nothing; exit status 1 if something would fail.

With ``--worker`` it asks a worker of a live session what protects its runs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.table import Table
from rich.text import Text

from scalable.cli import context
from scalable.cli.commands.validate import code_of_sweep
from scalable.cli.output import WHOLE, console, errors, print_json, status
from scalable.doctor import examine
from scalable.errors import UsageError
from scalable.findings import Finding, Severity
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
        findings = examine(
            path, lambda: context.load_whole(text, str(path), options.target, options.overlay), on_step=on_step
        )
    if options.sweep is not None:
        loaded = context.load_whole(text, str(path), options.target, options.overlay)
        findings = [*findings, *code_of_sweep(loaded, options.sweep)]
    good = all(finding.severity is not Severity.ERROR for finding in findings)
    if options.format == "json":
        print_json({"ok": good, "checks": [shape(finding) for finding in findings]})
    else:
        show(findings)
    return 0 if good else 1


def examine_worker(options: argparse.Namespace) -> int:
    from scalable.cli import operating
    from scalable.doctor import worker

    folder = operating.chosen(options)
    within_s = operating.LOOK_WITHIN_S
    answer = operating.asked(folder, "protections", within_s=within_s, worker=options.worker)
    findings = list(worker.checks(options.worker, answer["protections"]))
    good = all(finding.severity is not Severity.ERROR for finding in findings)
    if options.format == "json":
        whose = {"run_id": folder.run_id, "worker": options.worker}
        print_json({"ok": good, **whose, "checks": [shape(finding) for finding in findings]})
    else:
        show(findings, bad="runs on it are not protected", good="protected")
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


STATUS = {
    Severity.OK: "ok",
    Severity.NOTE: "ok",
    Severity.WARNING: "warn",
    Severity.ERROR: "fail",
    Severity.PAGE: "fail",
}
"""The words for a check's result, in the table and in JSON."""


def name_of(finding: Finding) -> str:
    return finding.code.replace("-", " ")


def shape(finding: Finding) -> dict[str, Any]:
    """Return a check for scripts: the finding, and the keys that checks have always had."""
    named = {"name": name_of(finding), "status": STATUS[finding.severity], "text": finding.statement}
    return {**named, **finding.to_dict()}


def show(findings: Sequence[Finding], bad: str = "a run would not get far", good: str = "ready") -> None:
    screen = console()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow=WHOLE)
    for finding in findings:
        text = Text(finding.statement)
        if finding.remedy:
            text.append(f"\n→ {finding.remedy}", style="bold" if finding.severity is Severity.ERROR else "")
        table.add_row(status(STATUS[finding.severity]), Text(name_of(finding)), text)
    screen.print(table)
    counts = Counter(finding.severity for finding in findings)
    screen.print()
    if counts[Severity.ERROR]:
        screen.print(f"{plural(counts[Severity.ERROR], 'check')} failed: {bad}", style="bold red")
    elif counts[Severity.WARNING]:
        screen.print(f"{good}, with {plural(counts[Severity.WARNING], 'warning')}", style="yellow")
    else:
        screen.print(good, style="green")
