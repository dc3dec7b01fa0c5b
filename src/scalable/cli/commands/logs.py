"""``scalable logs``: what workers printed, of one or all of them, also while they run."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

from rich.console import Console
from rich.text import Text

from scalable.cli import drivers
from scalable.cli.output import console, errors, nobody_reads, note
from scalable.errors import UsageError
from scalable.observe import RunFolder, runs_dir
from scalable.observe.drivers import DriverFolder
from scalable.observe.liveness import is_running, running
from scalable.observe.logs import LogReader, log_files, merged, shown
from scalable.observe.redact import Redactor
from scalable.wording import some_of

EVERY_S = 0.3  # how often followed logs are looked at
DRIVER_EVERY_S = 2.0  # a look may ask Slurm whether the driver is there
LISTED = 20  # workers named in a message
COLOURS = ("cyan", "green", "magenta", "blue", "yellow")


def run(options: argparse.Namespace) -> int:
    lines = number_of_lines(options.lines)
    if options.driver:
        return show_driver(options, lines)
    folder = chosen(options)
    only = worker(folder, options.worker) if options.worker is not None else None
    reader = LogReader(folder.logs, only)
    if not reader.files() and not options.follow:
        yet = " yet" if is_running(folder) else ""
        errors().print(f"{folder.run_id} has no logs{yet}", style="dim", soft_wrap=True)
        return 0
    several = only is None and (len(reader.files()) > 1 or options.follow)
    screen = console()
    redactors: defaultdict[str, Redactor] = defaultdict(Redactor)
    for name, line in merged(reader.begin(lines, last=not options.follow)):
        print_line(screen, name, shown(line, redactors[name]), several)
    if reader.cut_off:
        names = some_of(sorted(reader.cut_off), LISTED)
        text = f"too long to show so many lines, earlier ones are left out: {names}; the files are in {folder.logs}"
        errors().print(note("!", text, "bold yellow"))
    while options.follow:
        going_on = is_running(folder)
        for name, line in merged(reader.new(last=not going_on)):
            print_line(screen, name, shown(line, redactors[name]), several)
        if (not going_on and not reader.behind) or nobody_reads():
            break
        if not reader.behind:
            time.sleep(EVERY_S)
    for why in reader.unreadable.values():
        errors().print(f"{why}", style="bold red", markup=False, soft_wrap=True)
    return 1 if reader.unreadable else 0


def show_driver(options: argparse.Namespace, lines: int) -> int:
    """Print what a detached driver printed: that of the run, or the latest, which may still wait for its run."""
    base = runs_dir(manifest=options.manifest)
    wanted = [driver for driver in DriverFolder.all(base) if options.run_id in (None, driver.run_id, driver.id)]
    if not wanted:
        raise UsageError("no detached driver is recorded here; scalable run --detach  starts one")
    driver, screen, redactor = wanted[0], console(), Redactor()
    reader = LogReader(driver.path, "driver")
    for _, line in merged(reader.begin(lines, last=not options.follow)):
        screen.print(Text(shown(line, redactor)), soft_wrap=True)
    while options.follow and not nobody_reads():
        going_on = drivers.is_there(driver)
        for _, line in merged(reader.new(last=not going_on)):
            screen.print(Text(shown(line, redactor)), soft_wrap=True)
        if not going_on:
            break
        time.sleep(DRIVER_EVERY_S)
    return 0


def chosen(options: argparse.Namespace) -> RunFolder:
    """Return the run that is meant: the one named, else the one that runs, else the latest."""
    if options.run_id is None:
        for folder in running(runs_dir(manifest=options.manifest)):
            if options.manifest is None or folder.is_of(options.manifest):
                return folder
    return RunFolder.find(options.run_id, manifest=options.manifest)


def number_of_lines(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise UsageError(f"--lines is {text!r}; write a whole number from 0, e.g. --lines 100")
    return int(text)


def worker(folder: RunFolder, name: str) -> str:
    known = log_files(folder.logs)
    stem = folder.log(name).stem
    for candidate in (name, stem):
        if candidate in known:
            return candidate
    names = some_of(known, LISTED) or "none yet"
    raise UsageError(f"worker {name!r} has no log in {folder.run_id}; those that have: {names}")


def print_line(screen: Console, name: str, line: str, several: bool) -> None:
    text = Text(line)
    if several:
        text = Text.assemble((f"{name} | ", COLOURS[sum(name.encode()) % len(COLOURS)]), text)
    screen.print(text, soft_wrap=True)
