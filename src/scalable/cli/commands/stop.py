"""``scalable stop``: end a run in an orderly way, as Ctrl-C does at its terminal. Finished rows stay."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import time
from typing import Any

from scalable.cli import drivers, operating
from scalable.cli.output import console, errors, note, print_json, working
from scalable.errors import ScalableError, UsageError
from scalable.observe import RunFolder, runs_dir
from scalable.observe.drivers import NAME, DriverFolder, driver_of, waiting
from scalable.observe.fields import number, text
from scalable.observe.liveness import is_running, is_there, running
from scalable.observe.mailbox import NoAnswerError
from scalable.wording import command, plural, some_of

OVER_WITHIN_S = 120.0  # workers are closed, jobs cancelled and the report written by then
LOOK_S = 0.2


def run(options: argparse.Namespace) -> int:
    options.run_id = options.run or options.run_id
    if (driver := chosen_driver(options)) is not None:
        return take_back(driver, options)
    folder = operating.chosen(options, acts=True)
    if not is_running(folder):
        raise NoAnswerError(operating.over(folder, "there is nothing to stop"))
    preview = looked_at(folder)
    if options.format != "json":
        show(folder, preview)
    if not options.dry_run:
        question = f"stop {folder.run_id}?"
        if not operating.agreed(question, options.yes, "say --yes to stop it without being asked"):
            errors().print("nothing was stopped")
            return 1
        ask_to_end(folder)
        wait(folder)
    state = operating.state(folder).value
    if options.format == "json":
        print_json({"run_id": folder.run_id, "dry_run": options.dry_run, "state": state, **preview})
    elif not options.dry_run:
        console().print(f"{folder.run_id} is over, {state}; {command('run')}  computes what is missing", soft_wrap=True)
    return 0


def chosen_driver(options: argparse.Namespace) -> DriverFolder | None:
    """Return the driver that is meant: the one named, or the only one that waits while nothing runs."""
    base = runs_dir(manifest=options.manifest)
    if options.run_id is not None:
        return DriverFolder.find(options.run_id, base) if NAME.fullmatch(options.run_id) else None
    if running(base):
        return None
    awaited = [driver for driver in waiting(base) if drivers.is_there(driver)]
    if len(awaited) > 1:
        names = ", ".join(driver.id for driver in awaited)
        raise UsageError(f"{len(awaited)} drivers wait; say which: {names}")
    return awaited[0] if awaited else None


def take_back(driver: DriverFolder, options: argparse.Namespace) -> int:
    """End a driver by its own id: its run if it has one, else the driver before it has begun."""
    if driver.run_id and not driver.over:
        options.run = options.run_id = driver.run_id
        return run(options)
    if not drivers.is_there(driver):
        raise NoAnswerError(f"{driver.id} is over: there is nothing to stop")
    if not options.dry_run:
        if not operating.agreed(f"stop {driver.id}?", options.yes, "say --yes to stop it without being asked"):
            errors().print("nothing was stopped")
            return 1
        drivers.stop_driver(driver, gently=False)
    if options.format == "json":
        print_json({**drivers.described(driver), "dry_run": options.dry_run})
    else:
        done = "would be taken back" if options.dry_run else "was taken back before it began"
        console().print(f"{driver.id} {done}", soft_wrap=True)
    return 0


def looked_at(folder: RunFolder) -> dict[str, Any]:
    """Return what would be lost: what is in flight is computed again, what waits is computed by the next run."""
    names = ("running", "waiting", "outside")
    try:
        answer = operating.asked(folder, "stop", dry_run=True)
    except NoAnswerError:
        if not is_here(folder) and not driver_of(folder):
            raise
        return {"answers": False, **dict.fromkeys(names)}
    return {"answers": True, **{name: answer[name] for name in names}}


def show(folder: RunFolder, preview: dict[str, Any]) -> None:
    screen = console()
    screen.print(folder.run_id, style="bold", soft_wrap=True, markup=False)
    if not preview["answers"]:
        screen.print(note("!", "the session does not answer; its process is told to end", "bold yellow"))
    else:
        jobs, waiting = preview["running"], preview["waiting"]
        which = f": {some_of(jobs, 5)}" if jobs else ""
        screen.print(note("·", f"{plural(len(jobs), 'job')} in flight, to be computed again{which}", "dim"))
        screen.print(note("·", f"{plural(waiting, 'job')} not begun, left to the next run", "dim"))
        if preview["outside"]:
            screen.print(
                note("·", f"{plural(preview['outside'], 'task')} handed to Dask directly, which are lost", "dim")
            )
    screen.print(note("·", "rows that are finished are in the store and stay", "dim"))


def ask_to_end(folder: RunFolder) -> None:
    """Ask the session to end; one that does not answer is sent the signal that ends it, by its batch job elsewhere."""
    try:
        operating.asked(folder, "stop", dry_run=False)
    except NoAnswerError:
        if not is_running(folder):
            return
        if not is_here(folder):
            if not (driver := driver_of(folder)):
                raise
            base = folder.path.parent
            drivers.stop_driver(DriverFolder.find(text(driver.get("id")), base), gently=True)
            return
        os.kill(int(folder.facts()["pid"]), signal.SIGTERM)


def is_here(folder: RunFolder) -> bool:
    """Return whether the process of a run is on this machine and still the same."""
    facts = folder.facts()
    pid = number(facts.get("pid"))
    if pid is None or text(facts.get("host")) != socket.gethostname():
        return False
    return is_there(int(pid), number(facts.get("t")), text(facts.get("process")))


def wait(folder: RunFolder) -> None:
    give_up = time.monotonic() + OVER_WITHIN_S
    with working(f"{folder.run_id} ends"):
        while is_running(folder):
            if time.monotonic() > give_up:
                raise ScalableError(f"{folder.run_id} was told to end and still runs after {OVER_WITHIN_S:.0f} s")
            time.sleep(LOOK_S)
