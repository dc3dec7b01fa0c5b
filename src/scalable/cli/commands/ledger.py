"""``scalable ledger``: every decision that was made, on which rows, with its verdicts, its looks and its locks."""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from rich.console import Console
from rich.text import Text

from scalable.cli.commands.results import opened
from scalable.cli.output import Cell, console, note, print_json, show_table
from scalable.errors import UsageError
from scalable.manifest.models import Manifest
from scalable.observe.redact import redact
from scalable.observe.words import UNKNOWN, stamp
from scalable.store import DecisionRow
from scalable.sweeps.ledger import control_of, ledger_tally
from scalable.verdicts.ledger import Tally
from scalable.verdicts.rule import Verdict
from scalable.wording import command, plural, undefined

SHORT = 8  # characters of a fingerprint where a person compares them
WORDS = {Verdict.LOCK: "LOCK", Verdict.KEEP_AVAILABLE: "inconclusive", Verdict.ABANDON: "ABANDON"}
COLUMNS = [each.name for each in fields(DecisionRow)]


def run(options: argparse.Namespace) -> int:
    with opened(options) as (manifest, store, _):
        entries = store.ledger()
    total = ledger_tally(entries, control_of(manifest))
    wanted = of_sweep(entries, options.sweep, manifest)
    lines = [redact(as_dict(entry)) for entry in wanted]
    if options.format == "json":
        print_json({**counts(total), "entries": lines})
    elif options.format == "csv":
        write_csv(lines)
    else:
        show(console(), wanted, total, options.sweep)
    return 0


def of_sweep(entries: Sequence[DecisionRow], sweep: str | None, manifest: Manifest) -> list[DecisionRow]:
    """Return the entries of a sweep, which the manifest need not have any longer; of all if none is named."""
    if sweep is None:
        return list(entries)
    known = {*manifest.sweeps, *(entry.sweep for entry in entries)}
    if sweep not in known:
        raise UsageError(undefined("sweep", sweep, known))
    return [entry for entry in entries if entry.sweep == sweep]


def counts(total: Tally) -> dict[str, Any]:
    """Return the sums; ``next_level`` is the p that a further decision would be judged at."""
    sums = ("sweeps", "variants", "expected_false_locks")
    return {**{name: getattr(total, name) for name in sums}, "control": total.control.value, "next_level": total.level}


def as_dict(entry: DecisionRow) -> dict[str, Any]:
    values = {name: getattr(entry, name) for name in COLUMNS}
    return {**values, "verdicts": list(entry.verdicts), "locks": list(entry.locks)}


def write_csv(lines: Sequence[dict[str, Any]]) -> None:
    """Write a line per entry; verdicts and locks are texts such as ``isotonic LOCK; sigmoid KEEP_AVAILABLE``."""
    writer = csv.DictWriter(console().file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for line in lines:
        verdicts = "; ".join(f"{each['variant']} {each['verdict']}" for each in line["verdicts"])
        writer.writerow({**line, "verdicts": verdicts, "locks": "; ".join(map(lock_text, line["locks"]))})


def show(screen: Console, entries: Sequence[DecisionRow], total: Tally, sweep: str | None) -> None:
    if not entries:
        about, decide = (f" about {sweep}", command("decide", sweep)) if sweep else ("", command("decide"))
        screen.print(f"nothing was decided{about} yet; {decide}  judges the variants of a sweep", soft_wrap=True)
        return
    columns = (">", "when (UTC)", "sweep", "rows", "metric", ">variants", "verdicts", ">looks", "locked")
    show_table(screen, columns, [cells(entry) for entry in entries], indent=2)
    if str(total):
        screen.print()
        screen.print(note("·", str(total), ""))
    if uncounted := sum(not entry.decided for entry in entries):
        text = f"{plural(uncounted, 'entry')} without a verdict: a lock was forced; not counted as a decision"
        screen.print(note("·", text, "dim"))


def cells(entry: DecisionRow) -> list[Cell]:
    """Return an entry as a line of the table."""
    return [
        str(entry.number),
        stamp(entry.first_at, "%Y-%m-%d %H:%M"),
        Text(entry.sweep, "bold"),
        (entry.data or UNKNOWN)[:SHORT],
        entry.primary_metric or UNKNOWN,
        str(entry.variants) if entry.decided else UNKNOWN,
        verdicts_text(entry),
        str(entry.looks),
        ", ".join(map(lock_text, entry.locks)),
    ]


def verdicts_text(entry: DecisionRow) -> str:
    """Return how many variants have each verdict."""
    counts = Counter(each.get("verdict") for each in entry.verdicts)
    return ", ".join(f"{counts[verdict.value]} {word}" for verdict, word in WORDS.items() if counts[verdict.value])


def lock_text(lock: Mapping[str, Any]) -> str:
    return f"{lock.get('variant')}{' (forced)' if lock.get('forced') else ''}"
