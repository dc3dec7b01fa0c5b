"""``scalable results``: what a sweep has given so far, by variant or row by row."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from scalable.axes import number_text
from scalable.cli import context
from scalable.cli.operating import save, save_shown
from scalable.cli.output import Cell, console, errors, note, print_json, show_table, working
from scalable.errors import UsageError
from scalable.manifest.load import read
from scalable.manifest.models import Manifest
from scalable.observe.redact import redact, redact_text
from scalable.observe.words import UNKNOWN, metric_text
from scalable.store import Store
from scalable.sweeps.loading import open_results, outcome
from scalable.sweeps.metrics import best_of, directed
from scalable.sweeps.results import LISTED, Outcome, number, same
from scalable.wording import command, install_hint, plural, undefined

FORMS = {".csv": "csv", ".parquet": "parquet", ".json": "json"}  # by how an output file is called
FEW = 4  # metrics of a row that are shown to people beside where it stands; machines get all


def run(options: argparse.Namespace) -> int:
    with opened(options) as (manifest, store, folder):
        name = which(manifest, options.sweep)
        with working("looking at what is there"):
            results = outcome(manifest, name, store, folder, context.chosen(options))
    status = 1 if options.check and not results.complete else 0
    form = options.format or FORMS.get(Path(options.output or "").suffix, "text")
    if form in ("csv", "parquet"):
        export(results, form, options.output)
    elif options.output is not None:
        shown = partial(show, results=results, every=options.all)
        save_shown(Path(options.output), form, redact(results.to_dict()), shown)
    elif form == "json":
        print_json(redact(results.to_dict()))
    else:
        show(console(), results, every=options.all)
    return status


def export(results: Outcome, form: str, output: str | None) -> None:
    """Write every row as a table, to a file or, as CSV, to standard output."""
    columns, lines = results.table()
    lines = [{name: redact(line.get(name)) for name in columns} for line in lines]
    if form == "parquet":
        if output is None:
            raise UsageError("Parquet is no text for a terminal; name a file: --output rows.parquet")
        save(Path(output), parquet(columns, lines))
    else:
        page = io.StringIO(newline="")
        writer = csv.DictWriter(page, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        if output is None:
            console().file.write(page.getvalue())
            return
        save(Path(output), page.getvalue().encode())
    errors().print(f"wrote {plural(len(lines), 'row')} to {output}", soft_wrap=True)


def parquet(columns: list[str], lines: list[dict[str, Any]]) -> bytes:
    """Return rows as a Parquet file."""
    try:
        import polars
    except ImportError:
        raise UsageError(f"Parquet needs polars; {install_hint('parquet')}") from None
    file = io.BytesIO()
    polars.DataFrame(lines, schema=columns, infer_schema_length=None, strict=False).write_parquet(file)
    return file.getvalue()


def show(screen: Console, results: Outcome, *, every: bool = False) -> None:
    """Print means by variant, or every row, and what is not there."""
    screen.print(title(results))
    screen.print()
    if every:
        show_rows(screen, results)
    elif results.finished:
        show_variants(screen, results)
    show_shortfall(screen, results)
    name = results.sweep
    if not every and results.finished:
        screen.print(note("·", f"{command('decide', name)}  judges the variants; --all  shows every row", "dim"))


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
        raise UsageError("the manifest has no sweeps; write e.g.  sweeps: {models: {run: bench:score, compare: …}}")
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
                    Text(metric_text(value), "bold green" if value is not None and value == best else "")
                    for value in values
                ),
            ]
        )
    show_table(screen, ("", *(f">{name}" for name in names)), rows, indent=2)
    screen.print()
    screen.print(note("·", f"{results.grid.means_text()}; failed rows do not count", "dim"))
    for name, rows_without in results.unmeasured.items():
        text = f"{name} was not measured in {rows_without} of {plural(results.finished, 'finished row')}"
        screen.print(note("·", text, "dim"))


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
        there = row is not None and row.finished
        values = [metric_text(number(row.metrics.get(name))) if row and there else UNKNOWN for name in metrics]
        where = [str(results.label(cell)), *map(number_text, (*cell.block, *cell.averaged))]
        rows.append([*where, state, took, *values])
    grid = results.grid
    axes = [(axis.name, axis.values) for axis in grid.over] + list(grid.average.items())
    names = (name if isinstance(axis[0], str) else f">{name}" for name, axis in axes)
    columns = ("variant", *names, "status", ">took", *(f">{name}" for name in metrics))
    show_table(screen, columns, rows, indent=2)
    screen.print()


def show_shortfall(screen: Console, results: Outcome) -> None:
    if shortfall := results.shortfall():
        screen.print(note("!", shortfall, "bold red"))
    for reason, cells in list(reasons(results).items())[:LISTED]:
        others = f" and {plural(len(cells) - 1, 'other row')}" if len(cells) > 1 else ""
        screen.print(note("·", f"{cells[0]}{others}: {reason}", "dim"))
    if results.missing or results.failed:
        screen.print(note("·", f"{command('run', results.sweep)}  computes {what_is_left(results)}", "dim"))
    if failed := next((cell for cell, row in results.there() if not row.finished and not row.marked), None):
        axes = results.grid.axes_of(failed)
        where = [part for name, value in axes.items() for part in ("--where", f"{name}={number_text(value)}")]
        shows = command("debug", "--sweep", results.sweep, *where)
        screen.print(note("·", f"{shows}  shows where it fails", "dim"))


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
            why.setdefault(first, []).append(results.grid.cell_text(cell))
    return dict(sorted(why.items(), key=lambda each: -len(each[1])))
