"""The runs there are, the latest first: each by the least that must be read to tell of it.

What is known of a run that is over is kept, for nothing about it changes; of one that runs, or has not written anything
yet, the beginning and the end of its journal are read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from scalable.observe import RunFolder, RunView, State, UnknownRunError, read, state_of
from scalable.observe.fields import mapping, text
from scalable.observe.files import open_regular
from scalable.observe.folders import NAME, RunFolderError, read_json, runs_dir
from scalable.observe.reading import ending

MOST_RUNS = 100
FIRST = 300  # records at the beginning of a journal in which its sweeps are looked for
SILENT_S = 300.0  # a session writes every ten seconds; clocks of machines differ
UNREADABLE = "cannot be read"
OPEN = (State.RUNNING.value, State.EMPTY.value)  # a folder is empty in the first moment of its run


class Board:
    def __init__(self, base: Path | None = None) -> None:
        self.base = base
        self.known: dict[str, dict[str, Any]] = {}
        """Runs that are over."""

    def runs(self) -> list[dict[str, Any]]:
        folders, known = list(reversed(RunFolder.list(self.base)[-MOST_RUNS:])), self.known
        self.known = {run.run_id: known[run.run_id] for run in folders if run.run_id in known}
        return [self.told(run) for run in folders]

    def told(self, run: RunFolder) -> dict[str, Any]:
        if (known := self.known.get(run.run_id)) is not None:
            return known
        try:
            found = reported(run) or looked_at(run)
            if found["state"] == State.GONE.value:  # it may have said its end since its journal was read
                found = reported(run) or looked_at(run)
        except OSError:  # another user's, in a folder that is shared
            return entry(run, {}, UNREADABLE, None, [])
        if found["state"] not in OPEN:
            self.known[run.run_id] = found
        return found

    def latest(self) -> str:
        """The latest that runs and shows it, else the latest; empty if there is none that can be read."""
        runs = [one for one in self.runs() if one["state"] != UNREADABLE]
        running = (one for one in runs if one["state"] == State.RUNNING.value and self.stirs(one["run_id"]))
        found: Mapping[str, Any] = next(running, runs[0] if runs else {})
        return text(found.get("run_id"))

    def stirs(self, run_id: str) -> bool:
        """Whether it wrote lately: of one that was killed on another machine nobody here knows that it is over."""
        run = RunFolder(runs_dir(self.base) / run_id)
        return any(time.time() - written(path) < SILENT_S for path in (run.live_file, run.journal, run.run_file))

    def open(self, run_id: str) -> RunFolder:
        """A run by its id only: a path is no id, whatever it leads to."""
        if not NAME.fullmatch(run_id) or os.sep in run_id or "\0" in run_id:
            raise UnknownRunError(f"{run_id!r} is no id of a run; {RunFolder.known(self.base)}")
        run = RunFolder.open(run_id, self.base)
        try:
            open_regular(run.journal).close()
        except FileNotFoundError:
            pass  # it begins just now
        except OSError as error:
            raise RunFolderError(f"{run.journal} cannot be read: {error.strerror}") from None
        return run


def written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def reported(run: RunFolder) -> dict[str, Any] | None:
    """From the report that a session writes when it ends."""
    report = read_json(run.report_file)
    facts = mapping(report.get("run"))
    if not text(facts.get("state")):
        return None
    return entry(run, facts, text(facts.get("state")), facts.get("started"), list(mapping(report.get("sweeps"))))


def looked_at(run: RunFolder) -> dict[str, Any]:
    view = RunView.of(islice(read(run.journal), FIRST))
    if not view.ended and (record := ending(run.journal)) is not None:
        view.take(record)
    facts = run.facts()
    state = state_of(view, facts)
    return entry(run, view.started or facts, state.value, view.began or facts.get("t"), list(view.sweeps))


def entry(run: RunFolder, facts: Mapping[str, Any], state: str, began: object, sweeps: list[str]) -> dict[str, Any]:
    names = {name: facts.get(name) for name in ("project", "target")}
    return {"run_id": run.run_id, **names, "state": state, "started": began, "sweeps": sweeps}
