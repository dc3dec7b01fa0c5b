"""``scalable runs``: the runs of the project, the latest first; ``diff A B`` compares two, ``delete`` removes some."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.text import Text

from scalable.cli.commands.cache import quantity
from scalable.cli.operating import agreed
from scalable.cli.output import Cell, console, errors, note, print_json, show_table, working
from scalable.errors import UsageError
from scalable.observe import RunFolder, RunState, runs_dir
from scalable.observe.comparison import (
    CODE,
    COST,
    DATA,
    DIGEST,
    OUTCOMES,
    SETUP,
    STATE,
    TIME,
    RunDifference,
    compare,
)
from scalable.observe.fields import count, mapping, number, text
from scalable.observe.folders import RunFolderError, read_json
from scalable.observe.liveness import running
from scalable.observe.redact import redact, redact_text
from scalable.observe.report import recorded_report
from scalable.observe.sweep_progress import finished_rows
from scalable.observe.words import UNKNOWN, length, moment, one_line, paid
from scalable.quantities import Duration, Memory, percent
from scalable.wording import command, plural

LATEST = 20  # runs that are listed unless all are asked for
UNREADABLE = "cannot be read"
NOT_RECORDED = "not recorded"
SHORT = 8  # characters of a fingerprint where a person compares them


def run(options: argparse.Namespace) -> int:
    if options.action != "delete" and (options.older_than or options.max_size or options.dry_run or options.yes):
        raise UsageError("--older-than, --max-size, --dry-run and --yes are for  scalable runs delete")
    return {"diff": diff, "delete": delete, "list": show_list}[options.action](options)


def show_list(options: argparse.Namespace) -> int:
    if options.ids:
        raise UsageError("a list takes no ids; write  scalable runs diff A B  to compare two runs")
    base = runs_dir(manifest=options.manifest)
    recorded = [run for run in RunFolder.list(base) if options.manifest is None or run.is_of(options.manifest)]
    folders = recorded[::-1] if options.all else recorded[: -LATEST - 1 : -1]
    with working("reading what runs left"):
        runs = [redact(entry(folder)) for folder in folders]
    earlier = len(recorded) - len(runs)
    if options.format == "json":
        print_json({"runs": runs, "earlier": earlier})
        return 0
    screen = console()
    if not runs:
        screen.print(f"no run is recorded in {base}", soft_wrap=True)
        return 0
    rows: list[list[Cell]] = [
        [
            Text(run["run_id"], style="bold"), state_text(run["state"]), moment(run["started"]) or UNKNOWN,
            length(run["duration_s"]) or UNKNOWN, work_text(run), paid(run["cost"]) or UNKNOWN,
        ]
        for run in runs
    ]  # fmt: skip
    show_table(screen, ("run", "state", "started", ">took", "work", ">cost"), rows)
    if earlier:
        screen.print(note("·", f"{plural(earlier, 'earlier run')}: scalable runs --all  lists them", "dim"))
    return 0


def delete(options: argparse.Namespace) -> int:
    """Delete the folders of runs that are over, after showing them; rows and what was learned from runs stay."""
    base = runs_dir(manifest=options.manifest)
    recorded = [run for run in RunFolder.list(base) if options.manifest is None or run.is_of(options.manifest)]
    if not (options.ids or options.older_than or options.max_size):
        raise UsageError("which runs? name their ids, or write --older-than 30d or --max-size 1GB")
    named = [RunFolder.open(name, base) for name in options.ids]
    with working("measuring what runs left"):
        sizes = {folder.run_id: size_of(folder) for folder in recorded}
        wanted = [*named, *prunable(options, recorded, sizes)]
        live = {folder.run_id for folder in running(base)}
    if busy := [folder.run_id for folder in named if folder.run_id in live]:
        raise UsageError(f"{busy[0]} is running; {command('stop', busy[0])}  ends it")
    going = {folder.run_id: folder for folder in wanted if folder.run_id not in live}
    sizes |= {name: size_of(folder) for name, folder in going.items() if name not in sizes}
    total = sum(sizes[name] for name in going)
    content = {"runs": list(going), "bytes": total, "dry_run": options.dry_run}
    if options.format != "json":
        rows: list[list[Cell]] = [[Text(name, style="bold"), str(Memory(sizes[name]))] for name in going]
        show_table(console(), ("run", ">size"), rows)
        console().print(f"{plural(len(going), 'run')}, {Memory(total)}; rows and what was learned from runs stay")
    if options.dry_run or not going:
        return show_deleted(content, options)
    if not agreed(f"delete {plural(len(going), 'run')}?", options.yes, "say --yes to delete them without being asked"):
        errors().print("nothing was deleted")
        return 1
    for folder in going.values():
        shutil.rmtree(folder.path)
    return show_deleted(content, options)


def show_deleted(content: dict[str, Any], options: argparse.Namespace) -> int:
    if options.format == "json":
        print_json(content)
    elif not options.dry_run and content["runs"]:
        console().print(f"deleted {plural(len(content['runs']), 'run')}", style="green")
    return 0


def prunable(
    options: argparse.Namespace, recorded: Sequence[RunFolder], sizes: Mapping[str, int]
) -> Iterator[RunFolder]:
    """Yield the runs, the oldest first, that are older or more than is asked for."""
    age, size = quantity(Duration, "--older-than", options.older_than), quantity(Memory, "--max-size", options.max_size)
    if age is not None:
        before = time.time() - age.seconds
        yield from (folder for folder in recorded if changed_at(folder) < before)
    if size is not None:
        over = sum(sizes.values()) - size.bytes
        for folder in recorded:
            if over <= 0:
                return
            over -= sizes[folder.run_id]
            yield folder


def changed_at(folder: RunFolder) -> float:
    """Return when a run last wrote its journal; now if it has none, so that it counts as new."""
    try:
        return folder.journal.stat().st_mtime
    except OSError:
        return time.time()


def size_of(folder: RunFolder) -> int:
    """Return the bytes of all files of a run."""
    total = 0
    for place, _, names in os.walk(folder.path):
        for name in names:
            with suppress(OSError):  # gone meanwhile
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118, thousands of files
    return total


def entry(folder: RunFolder) -> dict[str, Any]:
    """Return what a list tells of a run: from the report it wrote at its end, else from its journal."""
    report = read_json(folder.report_file)
    if not text(mapping(report.get("run")).get("state")):
        try:
            report = recorded_report(folder, time.time())[1]
        except (OSError, RunFolderError):  # another user's, in a folder that is shared
            report = {"run": {"state": UNREADABLE}}
    facts, cost, tags = mapping(report["run"]), mapping(report.get("cost")), mapping(report.get("tasks")).values()
    sweeps = {name: mapping(sweep) for name, sweep in mapping(report.get("sweeps")).items()}
    return {
        "run_id": folder.run_id,
        **{name: facts.get(name) for name in ("project", "target", "state")},
        **{name: number(facts.get(name)) for name in ("started", "duration_s")},
        "sweeps": {
            name: {
                "expected": count(sweep.get("expected")),
                "finished": finished_rows(sweep),
                "failed": count(sweep.get("failed")),
            }
            for name, sweep in sweeps.items()
        },
        "tasks": {name: sum(count(mapping(tag).get(name)) for tag in tags) for name in ("count", "failed")},
        "cost": {name: cost[name] for name in ("amount", "currency")} if paid(cost) else None,
    }


def state_text(state: str) -> Text:
    styles = {RunState.OK.value: "green", RunState.RUNNING.value: "bold", RunState.FAILED.value: "bold red"}
    return Text(one_line(state), style=styles.get(state, "yellow"))


def work_text(run: Mapping[str, Any]) -> str:
    """Return the sweeps of a run with their rows; the number of its tasks if it has none."""
    parts = [
        f"{one_line(name)} {rows['finished']:,} of {rows['expected']:,} rows{failures(rows['failed'])}"
        for name, rows in run["sweeps"].items()
    ]
    if tasks := run["tasks"]["count"]:
        parts = parts or [f"{plural(tasks, 'task')}{failures(run['tasks']['failed'])}"]
    return ", ".join(parts) or UNKNOWN


def failures(failed: int) -> str:
    return f" ({failed:,} failed)" if failed else ""


def diff(options: argparse.Namespace) -> int:
    base = runs_dir(manifest=options.manifest)
    if len(options.ids) != 2:
        raise UsageError(f"which two runs? write  scalable runs diff A B  ({RunFolder.known(base)})")
    a, b = (RunFolder.open(run_id, base) for run_id in options.ids)
    with working("reading what both runs left"):
        compared = compare(a, b, time.time())
    if options.format == "json":
        print_json(redact({"a": a.run_id, "b": b.run_id, "compared": [each.to_dict() for each in compared]}))
    else:
        show_diff(console(), a, b, compared)
    return 0


def show_diff(screen: Console, a: RunFolder, b: RunFolder, compared: Sequence[RunDifference]) -> None:
    """Print what differs and whatever the runs came to; name what is the same, and what neither records."""
    screen.print(f"A  {a.run_id}", soft_wrap=True)
    screen.print(f"B  {b.run_id}", soft_wrap=True)
    screen.print()
    alike = [each for each in compared if each.about not in OUTCOMES and each.a == each.b]
    shown = [each for each in compared if each not in alike]
    rows: list[list[Cell]] = [
        [title(each), value_text(each, each.a), value_text(each, each.b), change(each)] for each in shown
    ]
    show_table(screen, ("", "A", "B", ""), rows)
    if alike:
        screen.print()
    for words, same in (("the same", True), ("not recorded in either", None)):
        if titles := [title(each) for each in alike if each.same is same]:
            screen.print(note("·", f"{words}: {', '.join(titles)}", "dim"))


def title(compared: RunDifference) -> str:
    about = "" if compared.about in (SETUP, STATE) else compared.about
    name = "" if compared.about in (DATA, TIME, COST) else compared.name
    return one_line(" ".join(filter(None, (compared.sweep, about, name))))


def value_text(compared: RunDifference, value: Any) -> str:
    """Return what is known of one run, in words."""
    if value is None:
        return UNKNOWN if compared.about == COST else NOT_RECORDED
    if compared.about == COST:
        return paid(value)
    if compared.about == TIME:
        return length(value)
    if isinstance(value, int):
        return f"{value:,}"
    fingerprint = compared.about in (CODE, DATA) or compared.name == DIGEST
    return one_line(redact_text(str(value)))[: SHORT if fingerprint else None] or "none"


def change(compared: RunDifference) -> str:
    """Return by how much time or cost grew; nothing where that cannot be said."""
    a, b = compared.a, compared.b
    if compared.about not in (TIME, COST) or compared.same is not False:
        return ""
    if compared.about == COST:
        if a["currency"] != b["currency"]:
            return ""
        a, b = a["amount"], b["amount"]
    return f"{'+' if b > a else '−'}{percent(abs(b - a) / a)}" if a else ""
