"""What commands about a live session share: which session is meant, asking it, and showing that it is busy with us."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scalable.cli.output import Screen, Trimmed, console, pipe_width, working
from scalable.errors import ScalableError, UsageError
from scalable.observe import RunFolder, RunView, read, runs_dir
from scalable.observe.files import write_beside
from scalable.observe.liveness import RunState, running, state_in
from scalable.observe.mailbox import ACT_WITHIN_S, LOOK_WITHIN_S, WITHIN_S, NoAnswerError, ask

__all__ = [
    "ACT_WITHIN_S", "LOOK_WITHIN_S", "agreed", "asked", "chosen", "confirmed", "over", "save", "save_json",
    "save_shown", "state", "trusted",
]  # fmt: skip


def chosen(options: argparse.Namespace, *, acts: bool = False) -> RunFolder:
    """Return the session that is meant: the one named, else the one that runs, else the latest that ran.

    Where the command changes something and several run, it must be named.
    """
    if options.run_id is not None:
        return RunFolder.find(options.run_id, manifest=options.manifest)
    runs = [
        run
        for run in running(runs_dir(manifest=options.manifest))
        if options.manifest is None or run.is_of(options.manifest)
    ]
    if acts and len(runs) > 1:
        names = ", ".join(run.run_id for run in runs)
        raise UsageError(f"{len(runs)} sessions are running; say which with --run-id: {names}")
    if runs:
        return runs[0]
    folder = RunFolder.latest(manifest=options.manifest)
    if folder is None:
        raise NoAnswerError(f"nothing is running; no run is recorded in {runs_dir(manifest=options.manifest)}")
    return folder


def asked(folder: RunFolder, question: str, /, *, within_s: float = WITHIN_S, **arguments: Any) -> dict[str, Any]:
    with working(f"asking {folder.run_id}"):
        return ask(folder, question, within_s=within_s, **arguments)


def state(folder: RunFolder) -> RunState:
    return state_in(folder, RunView.of(read(folder.journal)))


def over(folder: RunFolder, what: str) -> str:
    return f"{folder.run_id} is over, {state(folder).value}: {what}"


def confirmed(question: str, yes: bool) -> bool:
    """Return whether a person at a terminal agrees; scripts have decided when they were written."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def agreed(question: str, yes: bool, remedy: str) -> bool:
    """Return whether somebody agrees to what cannot simply be repeated: a script must have said so."""
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"nobody can be asked here; {remedy}")
    return confirmed(question, yes)


def save_shown(path: Path, form: str, content: dict[str, Any], show: Callable[[Screen], None]) -> None:
    """Write what a command would print to a file: ``content`` as JSON, else what ``show`` prints."""
    if form == "json":
        save_json(path, content)
        return
    page = io.StringIO()
    plain = Screen(
        file=Trimmed(page), width=pipe_width(), color_system=None, highlight=False, markup=False, emoji=False
    )
    show(plain)
    save_text(path, page.getvalue())


def save_json(path: Path, content: dict[str, Any]) -> None:
    save_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def save_text(path: Path, text: str) -> None:
    save(path, text.encode(errors="backslashreplace"))  # half a surrogate pair, as logs may have, is no UTF-8
    console().print(f"wrote {path}", soft_wrap=True)


def trusted(folder: RunFolder, named: str | None) -> bool:
    """Return whether code that a run names may run: this user made the run, named its manifest, or agrees to it."""
    if folder.is_sealed() or (named is not None and folder.is_of(named)):
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return confirmed(f"{folder.run_id} was not made by you in {folder.path.parent}: run the code that it names?", False)


def save(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it, e.g. --output {path / 'output.txt'}")
    try:
        write_beside(path, data, private=False)
    except OSError as error:
        raise ScalableError(f"{path} cannot be written: {error.strerror}") from None
