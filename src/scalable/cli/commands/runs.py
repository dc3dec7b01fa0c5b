"""``scalable runs``: the runs of the project, the latest first; with ``diff A B`` what differs between two of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from scalable.cli.output import Cell, console, note, print_json, show_table, working
from scalable.errors import UsageError
from scalable.observe import RunFolder, State, runs_dir
from scalable.observe.comparison import (
    CODE,
    COST,
    DATA,
    DIGEST,
    OUTCOMES,
    SETUP,
    STATE,
    TIME,
    Comparison,
    compare,
)
from scalable.observe.fields import count, mapping, number, text
from scalable.observe.folders import RunFolderError, read_json
from scalable.observe.redact import redact, redact_text
from scalable.observe.report import recorded_report
from scalable.observe.sweep_progress import finished_rows
from scalable.observe.words import UNKNOWN, length, moment, one_line, paid
from scalable.quantities import percent
from scalable.wording import plural

LATEST = 20  # runs that are listed unless all are asked for
UNREADABLE = "cannot be read"
NOT_RECORDED = "not recorded"
SHORT = 8  # characters of a fingerprint where a person compares them


def run(options: argparse.Namespace) -> int:
    return diff(options) if options.action == "diff" else show_list(options)


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
    styles = {State.OK.value: "green", State.RUNNING.value: "bold", State.FAILED.value: "bold red"}
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


def show_diff(screen: Console, a: RunFolder, b: RunFolder, compared: Sequence[Comparison]) -> None:
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


def title(compared: Comparison) -> str:
    about = "" if compared.about in (SETUP, STATE) else compared.about
    name = "" if compared.about in (DATA, TIME, COST) else compared.name
    return one_line(" ".join(filter(None, (compared.sweep, about, name))))


def value_text(compared: Comparison, value: Any) -> str:
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


def change(compared: Comparison) -> str:
    """Return by how much time or cost grew; nothing where that cannot be said."""
    a, b = compared.a, compared.b
    if compared.about not in (TIME, COST) or compared.same is not False:
        return ""
    if compared.about == COST:
        if a["currency"] != b["currency"]:
            return ""
        a, b = a["amount"], b["amount"]
    return f"{'+' if b > a else '−'}{percent(abs(b - a) / a)}" if a else ""
