"""``scalable incidents``: what went wrong in a run, where, what was done about it and what would prevent it.

Of a run whose folder is elsewhere, such as that of a driver in a pod that is gone, the store tells the main part.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scalable.cli import context
from scalable.cli.operating import save_json
from scalable.cli.output import Cell, console, errors, facts, note, print_json, show_table
from scalable.errors import ScalableError, UsageError
from scalable.observe import RunFolder, RunView, read, runs_dir
from scalable.observe.fields import listed, mapping, text
from scalable.observe.folders import RunFolderError, UnknownRunError
from scalable.observe.handover import handover
from scalable.observe.incidents import HIGH, Incident, IncidentFolder, UnknownIncidentError, evidence_lines, span
from scalable.observe.redact import redact, redact_text
from scalable.observe.words import length, moment, one_line
from scalable.wording import plural

SECONDS_UP_TO = 600  # 300 s is known by that name


@dataclass(frozen=True, slots=True)
class RunTrouble:
    """The incidents of one run, and what else went wrong in it."""

    run_id: str
    folder: str
    """Where its files are; on which machine, if they are elsewhere."""
    incidents: list[Incident]
    damaged: dict[str, str] = field(default_factory=dict)
    """Files that hold no incident, and why."""
    unreadable: list[str] = field(default_factory=list)
    """What may not be read, with the reason."""
    failures: int = 0
    """Tasks and jobs that failed, with an incident or without; of a run whose folder is elsewhere it is not known."""
    versions: Mapping[str, Any] = field(default_factory=dict)
    """Package versions from the store. If the run has a folder, they are read from there instead."""
    stored: bool = False
    """Whether this is what the store has, because the folder is elsewhere."""

    @classmethod
    def of(cls, run: RunFolder) -> RunTrouble:
        """Look at a run, as far as it may be read."""
        known, incidents, failures = IncidentFolder(run.path), list[Incident](), 0
        reasons: list[RunFolderError] = []
        try:
            incidents = known.all()
            reasons += known.unreadable
            failures = RunView.of(read(run.journal)).failed
        except RunFolderError as error:
            reasons.append(error)
        except OSError as error:
            reasons.append(RunFolderError.unreadable(run.journal, error))
        return cls(run.run_id, str(run.path), incidents, known.damaged, list(map(str, reasons)), failures)


def run(options: argparse.Namespace) -> int:
    if options.output is not None and options.action != "export":
        raise UsageError("--output is where an incident is exported to; write e.g.  scalable incidents export 1")
    if options.action is not None:
        return export(options) if options.action == "export" else show_one(options)
    runs = chosen(options)
    unreadable = [why for each in runs for why in each.unreadable]
    for why in unreadable:
        errors().print(why, style="bold red", markup=False, soft_wrap=True)
    if options.format == "json":
        print_json(as_json(runs))
        return 1 if unreadable else 0
    screen = console()
    troubled = [each for each in runs if each.incidents or each.damaged or each.failures]
    for at, each in enumerate(troubled):
        if at:
            screen.print()
        show_list(screen, each)
    if not troubled and not unreadable:
        runs_there = f"no run in {runs_dir(manifest=options.manifest)} has"
        where = runs_there if options.all else f"{runs[0].run_id} has no"
        screen.print(f"{where} incidents", soft_wrap=True)
    return 1 if unreadable else 0


def chosen(options: argparse.Namespace) -> list[RunTrouble]:
    """Return the run that is meant, or all of them; from the store if there is no folder of them."""
    if options.all:
        if options.run_id is not None:
            raise UsageError("--all and --run-id cannot both be given")
        recorded = RunFolder.list(runs_dir(manifest=options.manifest))
        runs = [folder for folder in recorded if options.manifest is None or folder.is_of(options.manifest)]
        return [RunTrouble.of(run) for run in runs] or from_store(options)
    try:
        return [RunTrouble.of(RunFolder.find(options.run_id, manifest=options.manifest))]
    except UnknownRunError:
        runs_there = from_store(options)
        named = [run for run in runs_there if options.run_id in (None, run.run_id)]
        if not named:
            raise
        return named[-1:]


def from_store(options: argparse.Namespace) -> list[RunTrouble]:
    """Return what the manifest's store has, by run, the latest last; nothing where there is no store."""
    if not os.environ.get("SCALABLE_STORE_URL") and not context.manifest_path(options.manifest).exists():
        return []
    try:
        with context.opened_store(options) as store:
            rows = store.incidents()
    except ScalableError as error:
        errors().print(note("!", f"the store cannot be asked: {error}", "bold yellow"))
        return []
    runs: dict[str, RunTrouble] = {}
    for row in rows:
        run_id, _, number = row.id.rpartition("/")
        columns = {"kind": row.kind, "started": row.started, "run": row.run, "worker": row.worker}
        incident = Incident.of({**row.summary, **columns, "id": int(number) if number.isdecimal() else 0})
        folder, versions = text(row.summary.get("folder")), mapping(row.summary.get("versions"))
        runs.setdefault(run_id, RunTrouble(run_id, folder, [], versions=versions, stored=True))
        runs[run_id].incidents.append(incident)
    return list(runs.values())


def as_json(runs: Sequence[RunTrouble]) -> dict[str, Any]:
    entries = [entry(each, incident) for each in runs for incident in each.incidents]
    broken = [str(Path(each.folder) / "incidents" / name) for each in runs for name in each.damaged]
    failures = {each.run_id: each.failures for each in runs if each.failures}
    unreadable = [why for each in runs for why in each.unreadable]
    return {"incidents": entries, "damaged": broken, "unreadable": unreadable, "failures": failures}


def entry(run: RunTrouble, incident: Incident) -> dict[str, Any]:
    return {"run_id": run.run_id, "folder": run.folder, "stored": run.stored, **incident.to_dict()}


def show_list(screen: Console, trouble: RunTrouble) -> None:
    incidents = trouble.incidents
    had = f" {plural(len(incidents), 'incident')}" if incidents else "has no incidents"
    screen.print(f"{trouble.run_id} {had}", style="bold", soft_wrap=True)
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
        line = f"  {plural(trouble.failures, 'failure')}: scalable report --run-id {quote(trouble.run_id)}  names them"
        screen.print(line, soft_wrap=True)
    tell_of(screen, trouble.damaged)
    tell_source(screen, trouble)
    if rows:
        latest = RunFolder.latest(None if trouble.stored else Path(trouble.folder).parent)
        of = "" if latest is not None and latest.run_id == trouble.run_id else f" --run-id {quote(trouble.run_id)}"
        screen.print(f"  scalable incidents show {incidents[-1].id}{of}  shows one with its stacks", style="dim")


def tell_of(screen: Console, damaged: dict[str, str]) -> None:
    for name, why in damaged.items():
        screen.print(note("·", f"{Path('incidents') / name} could not be read: {why}", "dim"))


def tell_source(screen: Console, trouble: RunTrouble) -> None:
    if trouble.stored:
        where = one_line(trouble.folder) or "the folder of its run"
        screen.print(note("·", f"from the store; all of the evidence was written to {where}", "dim"))


def show_one(options: argparse.Namespace) -> int:
    run, incident = chosen_incident(options)
    if options.format == "json":
        print_json({"incidents": [entry(run, incident)], "damaged": []})
    else:
        screen = console()
        show_page(screen, incident)
        tell_source(screen, run)
    return 0


def export(options: argparse.Namespace) -> int:
    """Write an incident with all that is known of its jobs to a file of its own."""
    run, incident = chosen_incident(options)
    source = {"run_id": run.run_id, "folder": redact_text(run.folder), "stored": run.stored}
    folder = None if run.stored else RunFolder(Path(run.folder))
    content = {**source, **handover(incident, folder, run.versions)}
    if options.output == "-":
        print_json(content)
    else:
        save_json(Path(options.output or f"incident-{incident.id}.json"), content)
    return 0


def chosen_incident(options: argparse.Namespace) -> tuple[RunTrouble, Incident]:
    if options.all:
        raise UsageError("numbers are those of one run; write --run-id ID instead of --all")
    [run] = chosen(options)
    number = incident_number(options, run)
    by_number = {incident.id: incident for incident in run.incidents}
    if run.stored and number not in by_number:
        raise UnknownIncidentError(
            f"incident {number} is not in the store; of {run.run_id} it has {span([*by_number])}"
        )
    return run, by_number[number] if number in by_number else IncidentFolder(run.folder).get(number)


def incident_number(options: argparse.Namespace, run: RunTrouble) -> int:
    written: str | None = options.number
    if written is None or not (written.isascii() and written.isdecimal() and len(written) < 10):
        there = ", ".join(str(incident.id) for incident in run.incidents[:20]) or "there are none"
        question = "which one?" if written is None else f"{written!r} is no number of an incident;"
        raise UsageError(f"{question} write e.g.  scalable incidents {options.action} 1  (known: {there})")
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
