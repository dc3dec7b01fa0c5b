"""``scalable incidents``: what went wrong in a run, where, what was done about it and what would prevent it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scalable.cli.output import Cell, console, facts, note, print_json, show_table
from scalable.errors import UsageError
from scalable.observe import RunFolder, RunView, read, runs_dir
from scalable.observe.evidence import evidence_lines
from scalable.observe.fields import listed
from scalable.observe.incidents import HIGH, Incident, IncidentFolder
from scalable.observe.redact import redact, redact_text
from scalable.observe.words import length, moment, one_line
from scalable.wording import plural

SECONDS_UP_TO = 600  # 300 s is known by that name


@dataclass(frozen=True, slots=True)
class RunTrouble:
    """The incidents of one run, and what else went wrong in it."""

    folder: RunFolder
    incidents: list[Incident]
    damaged: dict[str, str]
    """Files that could not be read, and why."""
    failures: int
    """Tasks and jobs that failed, with an incident or without."""

    @classmethod
    def of(cls, folder: RunFolder) -> RunTrouble:
        known = IncidentFolder(folder.path)
        return cls(folder, known.all(), known.damaged, RunView.of(read(folder.journal)).failed)


def run(options: argparse.Namespace) -> int:
    if options.action is not None:
        return show_one(options)
    runs = [RunTrouble.of(folder) for folder in chosen(options)]
    if options.format == "json":
        print_json(as_json(runs))
        return 0
    screen = console()
    troubled = [each for each in runs if each.incidents or each.damaged or each.failures]
    for at, each in enumerate(troubled):
        if at:
            screen.print()
        show_list(screen, each)
    if not troubled:
        nothing = (
            f"no run in {runs_dir()} has incidents" if options.all else f"{runs[0].folder.run_id} has no incidents"
        )
        screen.print(nothing, soft_wrap=True)
    return 0


def chosen(options: argparse.Namespace) -> Sequence[RunFolder]:
    """Return the run that is meant, or all of them."""
    if not options.all:
        return [RunFolder.find(options.run_id, manifest=options.manifest)]
    if options.run_id is not None:
        raise UsageError("--all and --run-id cannot both be given")
    return [folder for folder in RunFolder.list() if options.manifest is None or folder.is_of(options.manifest)]


def as_json(runs: Sequence[RunTrouble]) -> dict[str, Any]:
    entries = [{"run_id": each.folder.run_id, **incident.to_dict()} for each in runs for incident in each.incidents]
    broken = [str(each.folder.path / "incidents" / name) for each in runs for name in each.damaged]
    failures = {each.folder.run_id: each.failures for each in runs if each.failures}
    return {"incidents": entries, "damaged": broken, "failures": failures}


def show_list(screen: Console, trouble: RunTrouble) -> None:
    folder, incidents = trouble.folder, trouble.incidents
    had = f" {plural(len(incidents), 'incident')}" if incidents else "has no incidents"
    screen.print(f"{folder.run_id} {had}", style="bold", soft_wrap=True)
    rows: list[list[Cell]] = [
        [
            f"{incident.id}",
            moment(incident.found or incident.started),
            kind(incident),
            one_line(incident.run),
            one_line(incident.worker),
            one_line(redact_text(incident.guilty)),
            one_line(redact_text(incident.outcome)),
        ]
        for incident in incidents
    ]
    if rows:
        show_table(screen, (">", "found", "kind", "run", "worker", "where", "outcome"), rows, indent=2)
    if trouble.failures:
        line = f"  {plural(trouble.failures, 'failure')}: scalable report --run-id {folder.run_id}  names them"
        screen.print(line, soft_wrap=True)
    tell_of(screen, trouble.damaged)
    if rows:
        of = "" if folder == RunFolder.latest() else f" --run-id {folder.run_id}"
        screen.print(f"  scalable incidents show {incidents[-1].id}{of}  shows one with its stacks", style="dim")


def tell_of(screen: Console, damaged: dict[str, str]) -> None:
    for name, why in damaged.items():
        screen.print(note("·", f"{Path('incidents') / name} could not be read: {why}", "dim"))


def show_one(options: argparse.Namespace) -> int:
    if options.all:
        raise UsageError("numbers are those of one run; write --run-id ID instead of --all")
    folder = RunFolder.find(options.run_id, manifest=options.manifest)
    known = IncidentFolder(folder.path)
    incident = known.get(incident_number(options.number, known))
    if options.format == "json":
        print_json({"incidents": [{"run_id": folder.run_id, **incident.to_dict()}], "damaged": []})
    else:
        show_page(console(), incident)
    return 0


def incident_number(written: str | None, known: IncidentFolder) -> int:
    if written is None or not (written.isascii() and written.isdecimal() and len(written) < 10):
        there = ", ".join(map(str, known.numbers()[:20])) or "there are none"
        question = "which one?" if written is None else f"{written!r} is no number of an incident;"
        raise UsageError(f"{question} write e.g.  scalable incidents show 1  (known: {there})")
    return int(written)


def show_page(screen: Console, incident: Incident) -> None:
    worker = f"worker {one_line(incident.worker)}" if incident.worker else ""
    rest = [Text(part) for part in (one_line(incident.run), worker, found_after(incident)) if part]
    screen.print(Text("   ").join([Text(f"incident {incident.id}"), kind(incident), *rest]), soft_wrap=True)
    screen.print(Padding(facts(page_facts(incident)), (0, 0, 0, 2)))
    lines = evidence_lines(redact(dict(incident.evidence)))
    if lines:
        screen.print()
    for line in lines:
        screen.print(Text(f"  {printable(line)}"), soft_wrap=True)


def kind(incident: Incident) -> Text:
    return Text(one_line(incident.kind), style="bold red" if incident.severity == HIGH else "yellow")


def found_after(incident: Incident) -> str:
    """Return how long it took to see it."""
    if incident.found_after_s is not None and incident.threshold_s is not None:
        return f"found {length(incident.found_after_s)} after its {limit(incident.threshold_s)}"
    if incident.found is not None and incident.started is not None:
        return f"found {length(incident.found - incident.started)} after its start"
    return ""


def limit(seconds: float) -> str:
    """As it is written in manifests, where that is in seconds as a rule."""
    return f"{seconds:g} s" if seconds <= SECONDS_UP_TO else length(seconds)


def page_facts(incident: Incident) -> list[tuple[str, str]]:
    notes = [one_line(line) for line in listed(incident.evidence.get("notes"))]
    message = one_line(incident.evidence.get("message") or incident.evidence.get("detail") or "")
    guilty = one_line(incident.guilty)
    done = [one_line(line) for line in (*incident.done, incident.outcome) if line]
    pairs = [
        ("guilty", "\n".join(filter(None, (guilty, *notes)))),
        ("said", message if message != guilty else ""),
        ("done", ", ".join(done)),
        ("prevent", "\n".join(one_line(line) for line in incident.prevent)),
        ("severity", f"{incident.severity}: {one_line(incident.escalation)}" if incident.escalation else ""),
        ("when", when(incident)),
        ("where", ", ".join(filter(None, (one_line(incident.host), one_line(incident.tag or ""))))),
    ]
    return [(name, redact_text(text)) for name, text in pairs if text]


def when(incident: Incident) -> str:
    attempt = f", attempt {incident.attempt}" if incident.attempt else ""
    return f"{moment(incident.found or incident.started)}{attempt}" if incident.found or incident.started else ""


def printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in line.expandtabs(4))
