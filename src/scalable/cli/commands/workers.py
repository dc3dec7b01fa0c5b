"""``scalable ops workers``: who is there in a live session, what each does, and since when it gave no sign."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from scalable.cli import operating
from scalable.cli.output import Cell, console, note, print_json, show_table
from scalable.observe.liveness import is_running
from scalable.observe.words import UNKNOWN, length, one_line, size, step
from scalable.quantities import Duration
from scalable.wording import shortened

SILENT_S = 60.0  # without a sign for so long, a run is worth a look
FULL = 0.8  # above this part of its limit memory is worth a colour
STYLES = {"busy": "green", "idle": "dim", "starting": "cyan", "leaving": "yellow", "lost": "bold red"}
LONGEST = 40  # characters of a run's name in the table


def run(options: argparse.Namespace) -> int:
    folder = operating.chosen(options)
    if not is_running(folder):
        text = operating.over(folder, "it has no workers; scalable report  shows what they did")
        if options.format == "json":
            print_json({"run_id": folder.run_id, "state": operating.state(folder).value, "workers": []})
        else:
            console().print(text, soft_wrap=True)
        return 0
    answer = operating.asked(folder, "workers")
    workers = answer["workers"]
    if options.format == "json":
        told_state = {"state": "running", "paused": answer["paused"]}
        print_json({"run_id": folder.run_id, **told_state, "workers": workers})
        return 0
    screen = console()
    rows: list[Sequence[Cell]] = [row for worker in workers for row in worker_rows(worker)]
    if rows:
        columns = ("worker", "tag", "state", "run", "step", ">idle", ">memory", ">CPU", "host")
        show_table(screen, columns, rows)
    else:
        screen.print(f"{folder.run_id} has no workers now", soft_wrap=True)
    if answer["paused"]:
        screen.print(note("!", f"{one_line(answer['paused'])}; scalable ops resume  goes on", "bold yellow"))
    return 0


def worker_rows(worker: Mapping[str, Any]) -> list[Sequence[Cell]]:
    """Return a line per worker, and one more for each further run on it."""
    name, state = Text(worker["worker"], style="bold"), worker["state"]
    why = f" ({one_line(worker['why'])})" if worker["why"] else ""
    first: Sequence[Cell] = (name, worker["tag"], Text(f"{state}{why}", style=STYLES.get(state, "")))
    last = (used(worker), cpu(worker), worker["host"] or UNKNOWN)
    runs = worker["runs"]
    if not runs:
        idle = length(worker["idle_s"]) if worker["idle_s"] is not None else UNKNOWN
        return [(*first, tasks(worker), "", idle, *last)]
    lines: list[Sequence[Cell]] = []
    for number, run_now in enumerate(runs):
        before: Sequence[Cell] = first if number == 0 else ("", "", "")
        after: Sequence[Cell] = last if number == 0 else ("", "", "")
        lines.append((*before, shortened(one_line(run_now["run"]), LONGEST), how_far(run_now), silent(run_now), *after))
    return lines


def tasks(worker: Mapping[str, Any]) -> str:
    """Plain Dask tasks, of which no steps are known."""
    if not worker["task_count"]:
        return ""
    more = f" and {worker['task_count'] - 1} more" if worker["task_count"] > 1 else ""
    return f"{shortened(one_line(worker['tasks'][0]), LONGEST)}{more}"


def how_far(activity: Mapping[str, Any]) -> str:
    """Return how far a run is, such as ``trial 22/30 (attempt 2)``."""
    attempt = f"(attempt {activity['attempt']})" if activity["attempt"] > 1 else ""
    return f"{step(activity)} {attempt}".strip()


def silent(activity: Mapping[str, Any]) -> Text:
    idle = activity.get("idle_s")
    if idle is None:
        return Text(UNKNOWN)
    return Text(str(Duration(max(0.0, idle))), style="bold yellow" if idle > SILENT_S else "")


def used(worker: Mapping[str, Any]) -> Text:
    memory, limit = worker["memory"], worker["memory_limit"]
    text = size(memory) or UNKNOWN
    tight = bool(memory and limit and memory > FULL * limit)
    return Text(f"{text} of {size(limit)}" if limit else text, style="bold yellow" if tight else "")


def cpu(worker: Mapping[str, Any]) -> str:
    return UNKNOWN if worker["cpu"] is None else f"{worker['cpu']:.1f} of {worker['cpus']}"
