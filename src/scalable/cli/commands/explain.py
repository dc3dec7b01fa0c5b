"""``scalable explain``: why a run waits, where it ran, why it was tried again, and what ended it.

A live session says it in the engine's own words; of one that is over its journal tells.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from shlex import quote
from typing import Any

from scalable.cli import operating
from scalable.cli.commands.workers import how_far
from scalable.cli.output import console, note, print_json, show_table
from scalable.errors import UsageError
from scalable.observe import RunFolder, RunView, read
from scalable.observe.jobs import Event, JobHistory, unfinished
from scalable.observe.liveness import RunState, is_running, state_in
from scalable.observe.mailbox import NoAnswerError, WrongQuestionError
from scalable.observe.redact import redact
from scalable.observe.words import clock, one_line
from scalable.quantities import Memory
from scalable.wording import plural, some_of, undefined


def run(options: argparse.Namespace) -> int:
    folder = operating.chosen(options)
    explained = redact(live(folder, options.name) if is_running(folder) else ended(folder, options.name))
    if options.format == "json":
        print_json({"run_id": folder.run_id, **explained})
        return 0
    screen = console()
    screen.print(f"{explained['run']}  {explained['state']}", style="bold", soft_wrap=True)
    for line in explained["lines"]:
        screen.print(note("·", one_line(line)))
    if explained["happened"]:
        shown_already = dict.fromkeys(explained["lines"], explained["state"])  # what was said above is not said again
        rows = [
            (clock(event["t"]), one_line(shown_already.get(event["text"], event["text"])))
            for event in explained["happened"]
        ]
        show_table(screen, ("", ""), rows, indent=2)
    if explained["incident"]:
        of = "" if folder == RunFolder.latest(folder.path.parent) else f" --run-id {quote(folder.run_id)}"
        screen.print(f"  scalable incidents show {explained['incident']}{of}  has the evidence", style="dim")
    return 0


def live(folder: RunFolder, name: str | None) -> dict[str, Any]:
    """Return what the session says, and from its journal what it does not: incidents, alerts, what operators did."""
    try:
        answer = operating.asked(folder, "explain", run=name)
    except WrongQuestionError:
        history = JobHistory.of(viewed(folder, name or ""))
        if name is None or not history.known:
            raise
        return history_record(history, operating.state(folder))  # a plain Dask task, which the engine does not know
    except NoAnswerError as error:
        history = JobHistory.of(viewed(folder, name or ""))
        if not history.known:
            raise
        note = f"the session does not answer, so this is what its journal says: {error}"
        return {**history_record(history, operating.state(folder)), "lines": [note]}
    lines = [*answer["lines"], *map(doing, answer["doing"])]
    history = JobHistory.of(viewed(folder, answer["run"]))
    happened = [event for event in history.events if event.kind in ("incident", "alert", "operator")]
    content = {"run": answer["run"], "state": answer["state"], "lines": lines, "happened": as_dicts(happened)}
    return {**content, "incident": history.incident}


def ended(folder: RunFolder, name: str | None) -> dict[str, Any]:
    if name is None:
        view = viewed(folder)
        names = unfinished(view) or list(view.jobs)
        if len(names) != 1:
            few = some_of(sorted(names)) or "none is recorded"
            word = "not finished" if unfinished(view) else "recorded"
            raise UsageError(f"name one of the {plural(len(names), 'run')} {word} in {folder.run_id}: {few}")
        [name] = names
    view = viewed(folder, name)
    history = JobHistory.of(view)
    if not history.known:
        raise UsageError(undefined("run", name, view.jobs))
    return history_record(history, state_in(folder, view))


def viewed(folder: RunFolder, job: str = "") -> RunView:
    return RunView.of(read(folder.journal), job)


def history_record(history: JobHistory, session: RunState) -> dict[str, Any]:
    content = {"run": history.job, "state": history.state_in(session), "lines": [history.close(session)]}
    return {**content, "happened": as_dicts(history.events), "incident": history.incident}


def as_dicts(happened: list[Event]) -> list[dict[str, Any]]:
    return [{"t": event.t, "kind": event.kind, "text": event.text} for event in happened]


def doing(activity: Mapping[str, Any]) -> str:
    """Return what it does right now."""
    parts = [how_far(activity)] if how_far(activity) else []
    parts += [str(Memory(activity["memory"]))] if activity.get("memory") else []
    parts += [f"{activity['cpu_s']:.1f} s of CPU"] if activity.get("cpu_s") is not None else []
    parts += [f"process {activity['pid']}"] if activity.get("pid") else []
    return f"now: {', '.join(parts)}" if parts else f"began {time.time() - activity['started']:.0f} s ago"
