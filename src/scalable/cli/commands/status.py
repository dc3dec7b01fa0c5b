"""``scalable status``: what is running now, seen from another terminal."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from scalable.cli.drivers import described, is_there, place
from scalable.cli.output import console, facts, nobody_reads, note, print_json
from scalable.findings import Finding, Severity
from scalable.observe import RunFolder, runs_dir
from scalable.observe.alerts import TOLD_OTHERWISE
from scalable.observe.drivers import DriverFolder, waiting
from scalable.observe.fan_out import in_words
from scalable.observe.fields import money
from scalable.observe.liveness import SILENT_S, Follower, RunState, running
from scalable.observe.redact import redact
from scalable.observe.report import current
from scalable.observe.sweep_progress import finished_rows
from scalable.observe.words import hours_line, length, named, one_line, step
from scalable.quantities import Memory
from scalable.wording import plural

EVERY_S = 1.0  # how often --watch looks again


def run(options: argparse.Namespace) -> int:
    folder, others = chosen(options)
    if folder is None:
        return nothing(options)
    looks = looks_at(Follower(folder))
    if options.watch:
        return watch(options, looks)
    status = next(looks)
    if options.format == "json":
        latest = RunFolder.latest(manifest=options.manifest)
        names = {"running": [folder.run_id for folder in others], "last": latest.run_id if latest else None}
        print_json({**names, "run": status, "drivers": [described(driver) for driver in drivers(options)]})
        return 0
    screen = console()
    screen.print(status_panel(status))
    for other in others:
        if other.run_id != status["run_id"]:
            screen.print(note("·", f"running too: {other.run_id}", "dim"))
    show_drivers(screen, drivers(options))
    return 0


def chosen(options: argparse.Namespace) -> tuple[RunFolder | None, list[RunFolder]]:
    """Return the run that is meant, and all that run: the one named, else the latest that runs."""
    runs = [
        folder
        for folder in running(runs_dir(manifest=options.manifest))
        if options.manifest is None or folder.is_of(options.manifest)
    ]
    if options.run_id is not None:
        return RunFolder.find(options.run_id, manifest=options.manifest), runs
    return (runs[0] if runs else None), runs


def nothing(options: argparse.Namespace) -> int:
    last = RunFolder.latest(manifest=options.manifest)
    if options.format == "json":
        awaited = [described(driver) for driver in drivers(options)]
        print_json({"running": [], "last": last.run_id if last else None, "run": None, "drivers": awaited})
        return 0
    screen = console()
    show_drivers(screen, drivers(options))
    if last is None:
        screen.print(f"nothing is running; no run is recorded in {runs_dir(manifest=options.manifest)}", soft_wrap=True)
        return 0
    status = next(looks_at(Follower(last)))
    had = f", {plural(status['incidents'], 'incident')}" if status["incidents"] else ""
    screen.print(f"nothing is running; the last run was {last.run_id}: {status['state']}{had}", soft_wrap=True)
    which = ", scalable incidents  what went wrong" if had else ""
    screen.print(f"  scalable report  shows what it did{which}", style="dim")
    return 0


def drivers(options: argparse.Namespace) -> list[DriverFolder]:
    """Return detached drivers that have no run yet and are there: most wait in a queue."""
    return [driver for driver in waiting(runs_dir(manifest=options.manifest)) if is_there(driver)]


def show_drivers(screen: Console, drivers: list[DriverFolder]) -> None:
    for driver in drivers:
        screen.print(f"{driver.id}: {place(driver)}; scalable stop {driver.id}  takes it back", soft_wrap=True)


def looks_at(run: Follower) -> Iterator[dict[str, Any]]:
    """Yield what is going on, again at each step; reads only what was written since the last one."""
    while True:
        run.look()
        yield redact({**current(run.view, run.state, time.time(), run.sign), "run_id": run.run.run_id})


def watch(options: argparse.Namespace, looks: Iterator[dict[str, Any]]) -> int:
    """Look again until the run is over."""
    with shower(options.format) as show:
        for status in looks:
            show(status)
            if over(status) or nobody_reads():
                break
            time.sleep(EVERY_S)
    return 0


@contextmanager
def shower(form: str) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """In place on a terminal; in a pipe anew when something changed; a line of JSON each time for machines."""
    if form == "json":
        yield lambda status: print(json.dumps(status), flush=True)
    elif sys.stdout.isatty():
        with Live(console=console(), auto_refresh=False) as live:
            yield lambda status: live.update(status_panel(status), refresh=True)
    else:
        yield Changes().show


class Changes:
    """Prints what is new in more than its clock."""

    def __init__(self) -> None:
        self.before: Mapping[str, Any] = {}

    def show(self, status: Mapping[str, Any]) -> None:
        timeless = {**status, **dict.fromkeys(("elapsed_s", "silent_s", "rate_per_min", "left_s"))}
        if timeless != self.before:
            self.before = timeless
            console().print(status_panel(status))
            sys.stdout.flush()


def over(status: Mapping[str, Any]) -> bool:
    return bool(status["state"] != RunState.RUNNING.value)


def status_panel(status: Mapping[str, Any]) -> RenderableType:
    where = ", ".join(filter(None, (named(status["project"]), named(status["target"]))))
    title = Text.assemble((status["run_id"], "bold"), f"  {status['state']}", style="")
    if status["elapsed_s"] is not None:
        title.append(f", {length(status['elapsed_s'])}{f'  ({where})' if where else ''}")
    parts: list[RenderableType] = [title, Padding(facts(status_facts(status)), (0, 0, 0, 2))]
    if pid := status["stopped"]:
        text = f"its process {pid} is stopped (Ctrl-Z or SIGSTOP); kill -CONT {pid}  lets it go on"
        parts.append(note("!", text, "bold red"))
    if status["paused"]:
        parts.append(note("!", f"{one_line(status['paused'])}; scalable ops resume  goes on", "bold yellow"))
    for each in status["findings"]:
        parts.append(note("!", one_line(Finding.from_record(each)), "bold yellow"))
    for each in status["alerts"]:
        if each["alert"] not in TOLD_OTHERWISE:
            finding = Finding.from_record(each)
            style = "bold red" if finding.severity is Severity.PAGE else "bold yellow"
            parts.append(note("!", one_line(f"{finding.code}: {finding}"), style))
    return Group(*parts)


def status_facts(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    if driver := status["driver"]:
        job = f"job {driver['job']}" if driver.get("job") else named(driver.get("unit")) or "detached"
        pairs.append(("driver", f"{job} on {named(status['host'])}, {one_line(driver.get('id'))}"))
    for tag, each in status["workers"].items():
        waits = ", ".join(
            f"{count} × {one_line(reason)}" if len(each["reasons"]) > 1 else one_line(reason)
            for reason, count in each["reasons"].items()
        )
        pending = f", {each['pending']} pending ({waits})" if each["pending"] else ""
        pairs.append((f"workers {tag}", f"{each['live']} live, {each['busy']} busy{pending}"))
    if not pairs:
        pairs.append(("workers", "none" if over(status) else "none yet"))
    for name, each in status["sweeps"].items():
        failed = f", {each['failed']:,} failed" if each["failed"] else ""
        rows = f"{finished_rows(each):,} of {each['expected']:,} rows{failed}"
        pairs.append((one_line(name), f"{rows}, {each['units_done']:,} of {each['units']:,} jobs"))
    for name, each in status["fan_outs"].items():
        pairs.append((one_line(name), in_words(each, over=over(status))))
    for tag, each in status["tasks"].items():
        counts = [f"{each[name]:,} {name}" for name in ("waiting", "running", "done", "failed") if each[name]]
        if recalled := status["recalled"].get(tag):
            counts.append(f"{recalled:,} from the cache")
        if counts or tag in status["workers"] or not status["sweeps"]:  # a sweep leaves other profiles alone
            pairs.append((f"tasks {tag}", ", ".join(counts) or "none"))
    pairs += [(one_line(each["run"]), f"{how_far(each)} on {each['worker']}") for each in status["runs"]]
    if status["incidents"] or status["retries"]:
        retries = plural(status["retries"], "retry")
        shows = "; scalable incidents  shows them" if status["incidents"] else ""
        pairs.append(("trouble", f"{plural(status['incidents'], 'incident')}, {retries}{shows}"))
    if status["rate_per_min"] is not None:
        left = f", {length(status['left_s'])} left" if status["left_s"] is not None else ""
        pairs.append(("rate", f"{rate(status['rate_per_min'])}{left}"))
    if (status["silent_s"] or 0) > SILENT_S and not over(status):
        pairs.append(("last sign", f"{length(status['silent_s'])} ago, from {named(status['host']) or 'its machine'}"))
    cost, per_hour = money(status["cost"]), money(status["per_hour"])
    if cost is not None and over(status):
        pairs.append(("cost", str(cost)))
    elif cost is not None:
        rest = money(status["budget_left"])
        parts = [f"{cost} so far", f"{per_hour} an hour" if per_hour is not None else ""]
        parts.append(f"{rest} left of the budget" if rest is not None else "")
        pairs.append(("cost", ", ".join(filter(None, parts))))
    if (hours := status["hours"]) is not None:
        pairs.append(("hours", hours_line(hours, over=over(status))))
    return pairs


def how_far(run: Mapping[str, Any]) -> str:
    """``trial 22/30, 312 MiB``."""
    used = f", {Memory(run['memory'])}" if isinstance(run["memory"], int) and run["memory"] else ""
    return step(run) + used


def rate(per_minute: float) -> str:
    if per_minute >= 600:
        return f"{per_minute / 60:,.0f} tasks a second"
    if per_minute >= 1:
        return f"{per_minute:,.1f} tasks a minute"
    return f"{plural(round(per_minute * 60), 'task')} an hour"
