"""``scalable results``: what a sweep has given so far, by variant or row by row."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.text import Text

from scalable.cli import context
from scalable.cli.output import Cell, console, note, print_json, show_table, working
from scalable.errors import UsageError
from scalable.manifest.load import read
from scalable.manifest.models import Manifest
from scalable.observe.redact import redact, redact_text
from scalable.observe.words import UNKNOWN, measured
from scalable.store import Store
from scalable.store.marking import cell_name
from scalable.sweeps.loading import open_results, outcome
from scalable.sweeps.metrics import best_of, directed
from scalable.sweeps.results import LISTED, Outcome, number, same
from scalable.wording import plural, undefined

FEW = 4  # metrics of a row that are shown to people beside where it stands; machines get all


def run(options: argparse.Namespace) -> int:
    with opened(options) as (manifest, store, folder):
        name = which(manifest, options.sweep)
        with working("looking at what is there"):
            results = outcome(manifest, name, store, folder)
    status = 1 if options.check and not results.complete else 0
    if options.format == "json":
        print_json(redact(results.to_dict()))
        return status
    screen = console()
    screen.print(title(results))
    screen.print()
    if options.all:
        show_rows(screen, results)
    elif results.finished:
        show_variants(screen, results)
    show_shortfall(screen, results)
    if not options.all and results.finished:
        screen.print(note("·", f"scalable decide {quote(name)}  judges the variants; --all  shows every row", "dim"))
    return status


@contextmanager
def opened(options: argparse.Namespace, *, create: bool = False) -> Iterator[tuple[Manifest, Store, Path]]:
    """The manifest that is meant, its store, and the folder its workloads are imported from."""
    path = context.manifest_path(options.manifest)
    manifest = context.load_named(read(path), str(path), options.target, options.overlay).manifest
    with open_results(manifest, create=create) as store:
        yield manifest, store, path.resolve().parent


def which(manifest: Manifest, named: str | None) -> str:
    if named is not None:
        if named not in manifest.sweeps:
            raise UsageError(undefined("sweep", named, manifest.sweeps))
        return named
    if len(manifest.sweeps) == 1:
        return next(iter(manifest.sweeps))
    if not manifest.sweeps:
        raise UsageError("the manifest has no sweeps; write e.g.  sweeps: {calibration: {factor: calibration, …}}")
    raise UsageError(f"which sweep? write its name: {', '.join(manifest.sweeps)}")


def title(results: Outcome) -> Text:
    state = Text("complete", "green") if results.complete else Text("incomplete", "bold red")
    there = f"    {results.finished} of {len(results.expected)} rows, "
    return Text.assemble((results.sweep, "bold"), there, state)


def show_variants(screen: Console, results: Outcome) -> None:
    """A column per variant, a line per metric: variants are few and metrics many."""
    summary = results.summary()
    names = [f"{each['variant']}{' (baseline)' if is_baseline(results, each) else ''}" for each in summary]
    rows: list[list[Cell]] = [
        ["rows", *(f"{each['finished']}/{each['expected']}" for each in summary)],
    ]
    if any(each["failed"] for each in summary):
        rows.append(["failed", *(Text(str(each["failed"]), "red" if each["failed"] else "") for each in summary)])
    known = directed(results.metrics)
    for name in ordered(results):
        values = [each["metrics"][name] for each in summary]
        best = best_of(values, known[name].better) if name in known else None
        rows.append(
            [
                name,
                *(
                    Text(measured(value), "bold green" if value is not None and value == best else "")
                    for value in values
                ),
            ]
        )
    show_table(screen, ("", *(f">{name}" for name in names)), rows, indent=2)
    screen.print()
    screen.print(note("·", "means over asset × fold, costs averaged within a fold; failed rows do not count", "dim"))


def is_baseline(results: Outcome, each: dict[str, object]) -> bool:
    return same(each["variant"]) == same(results.baseline)  # type: ignore[arg-type]


def ordered(results: Outcome) -> list[str]:
    """Metrics that verdicts rest on first, then those that only describe."""
    there, known = results.metric_names, directed(results.metrics)
    return [*(name for name in known if name in there), *(name for name in there if name not in known)]


def show_rows(screen: Console, results: Outcome) -> None:
    metrics = ordered(results)[:FEW]
    rows: list[list[Cell]] = []
    for key, cell in results.expected:
        row = results.rows.get(key)
        state = Text("missing", "dim") if row is None else Text(row.run_status.value, "" if row.finished else "red")
        took = UNKNOWN if row is None or row.elapsed_s is None else f"{row.elapsed_s:.1f} s"
        values = [number(row.metrics.get(name)) if row is not None and row.finished else None for name in metrics]
        where = [str(cell.variant), cell.asset, str(cell.fold), f"{cell.cost_bps:g}"]
        rows.append([*where, state, took, *map(measured, values)])
    columns = ("variant", "asset", ">fold", ">bps", "status", ">took", *(f">{name}" for name in metrics))
    show_table(screen, columns, rows, indent=2)
    screen.print()


def show_shortfall(screen: Console, results: Outcome) -> None:
    if shortfall := results.shortfall():
        screen.print(note("!", shortfall, "bold red"))
    for reason, cells in list(reasons(results).items())[:LISTED]:
        others = f" and {plural(len(cells) - 1, 'other row')}" if len(cells) > 1 else ""
        screen.print(note("·", f"{cells[0]}{others}: {reason}", "dim"))
    if results.missing or results.failed:
        screen.print(note("·", f"scalable run --sweep {quote(results.sweep)}  computes {what_is_left(results)}", "dim"))
    if failed := next((cell for cell, row in results.there() if not row.finished and not row.marked), None):
        where = f"--asset {quote(failed.asset)} --variant {quote(str(failed.variant))} --fold {failed.fold}"
        screen.print(note("·", f"scalable debug --sweep {quote(results.sweep)} {where}  shows where it fails", "dim"))


def what_is_left(results: Outcome) -> str:
    if not results.failed:
        return "what is missing"
    return "what is missing, and again what failed" if results.missing else "again what failed"


def reasons(results: Outcome) -> dict[str, list[str]]:
    """Why rows failed, each reason once with the rows it is of; most often the commonest is all there is to know."""
    why: dict[str, list[str]] = {}
    for cell, row in results.there():
        if not row.finished:
            first = redact_text((row.error or "no reason was given").strip().partition("\n")[0])
            why.setdefault(first, []).append(cell_name(cell))
    return dict(sorted(why.items(), key=lambda each: -len(each[1])))
