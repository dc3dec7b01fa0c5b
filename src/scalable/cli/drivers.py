"""Detached drivers on a terminal: where each is, how it is doing, and how it is ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import Any

from scalable.cli.output import console, note, print_json
from scalable.cluster.slurm.commands import ENDED, complaint, waits
from scalable.errors import ScalableError
from scalable.observe.drivers import SLURM, SYSTEMD, DriverFolder
from scalable.observe.fields import number, text

ANSWER_WITHIN_S = 20.0
BEGUN_WITHIN_S = 30.0  # a process that cannot begin ends sooner, and one that can has its run
LOOK_S = 0.1


def show_driver(folder: DriverFolder, form: str) -> None:
    """Say that a driver was started, where, and how to find it again."""
    if form == "json":
        print_json(described(folder))
        return
    screen = console()
    screen.print(f"{folder.id}: {place(folder)}", soft_wrap=True)
    if folder.facts().get("kind") != SLURM:
        complain_if_ended(folder)
    for line in ("scalable status  shows it from any shell that sees this folder", f"its output: {folder.log}"):
        screen.print(note("·", line, "dim"))


def complain_if_ended(folder: DriverFolder) -> None:
    """Raise what a driver said that ended at once."""
    give_up = time.monotonic() + BEGUN_WITHIN_S
    while time.monotonic() < give_up and not folder.run_id:
        if folder.over and not folder.facts().get("failed"):
            return  # there was nothing to do
        if folder.over or folder.alive is False:
            words = folder.log.read_text(errors="replace").strip()
            raise ScalableError(f"{folder.id} ended at once: {words or 'it printed nothing'}")
        time.sleep(LOOK_S)


def described(folder: DriverFolder) -> dict[str, Any]:
    """Return what is known of a driver, for machines."""
    facts = folder.facts()
    names = ("kind", "job", "unit", "pid", "host", "run_id", "before", "successor")
    return {"driver": folder.id, **{name: facts.get(name) for name in names}, "log": str(folder.log)}


def place(folder: DriverFolder) -> str:
    """Return where a driver is, in words: ``job 123 waits for free nodes (Resources)``."""
    facts = folder.facts()
    if facts.get("kind") == SLURM:
        state, reason, node = job_state(folder.job)
        if state == "PENDING":
            return f"job {folder.job} {waits(reason)}"
        where = f" on {node}" if node else ""
        return f"job {folder.job} {f'{state.lower()}{where}' if state else 'is gone'}"
    if facts.get("kind") == SYSTEMD:
        return f"unit {text(facts.get('unit'))} of your systemd"
    return f"process {int(number(facts.get('pid')) or 0)} on {text(facts.get('host')) or 'this machine'}"


def job_state(job: str) -> tuple[str, str, str]:
    """Return state, reason and node of a batch job; nothing where Slurm does not know it or cannot be asked."""
    if shutil.which("squeue") is None:
        return "", "", ""
    done = run(["squeue", "--noheader", f"--jobs={job}", "--format=%T|%r|%N"])
    state, _, rest = done.stdout.strip().partition("|")
    reason, _, node = rest.partition("|")
    return ("", "", "") if done.returncode != 0 or state in ENDED else (state, reason, node)


def is_there(folder: DriverFolder) -> bool:
    """Tell whether a driver that has not said its end is still there, as far as can be known from here."""
    if folder.over:
        return False
    if folder.facts().get("kind") == SLURM:
        return bool(job_state(folder.job)[0])
    return folder.alive is not False


def stop_driver(folder: DriverFolder, *, gently: bool) -> None:
    """End a driver: with the signal that ends a run in an orderly way, or, if it has not begun, by taking it back."""
    facts = folder.facts()
    if facts.get("kind") == SLURM:
        command = ["scancel", "--batch", "--signal=TERM", folder.job] if gently else ["scancel", folder.job]
        done = run(command)
        if done.returncode != 0:
            raise ScalableError(f"scancel: {complaint(done.stderr)}")
    elif facts.get("kind") == SYSTEMD:
        run(["systemctl", "--user", "kill" if gently else "stop", text(facts.get("unit"))])
    elif folder.alive:
        os.kill(int(number(facts.get("pid")) or 0), signal.SIGTERM)
    else:
        raise ScalableError(f"{folder.id} is {place(folder)}; stop it there")
    if not gently:
        folder.ended()


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, text=True, capture_output=True, timeout=ANSWER_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ScalableError(f"{command[0]} could not be asked: {error}") from None
