"""What is told of a sweep: what the store has of it, in figures and in words, and its grid as it fills in.

In the journal's grid a row is told by its position in the product of variants and the values of all other axes. A
grid that nobody could look at is not told, and many jobs are told in several records, so that no line of the journal
gets long.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.axes import number_text
from scalable.observe.sweep_progress import code_by_stage, spans
from scalable.store import Filter, Row, Store
from scalable.sweeps.compiling import Compiled, CompiledJob
from scalable.sweeps.files import changed_files
from scalable.sweeps.grid import Cell
from scalable.sweeps.results import LISTED
from scalable.sweeps.rows import place, place_of
from scalable.wording import plural, some_of

MOST_NAMED = 3  # failures that are told in full; the results have all of them
MOST_CELLS = 20_000  # of a grid that is told; more are finer than the points of a screen
LONGEST_AXES = 40_000  # characters of all labels together
LONGEST_PORTION = 40_000  # characters of jobs in one record; longer lines of a journal are cut


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """What the store has of a sweep when it ended."""

    sweep: str
    expected: int
    finished: int
    failed: Mapping[str, str] = field(default_factory=dict)
    """Rows that failed, by where they are in the grid, with the reason."""
    missing: tuple[str, ...] = ()
    """Rows nobody knows anything about: not computed yet."""
    computed: int = 0
    """Rows that this start computed; the others were there."""
    elsewhere: int = 0
    """Rows that another run of the same sweep computed meanwhile."""
    executed: Mapping[str, int] = field(default_factory=dict)
    """How often each stage was computed, not found."""
    seconds: float = 0.0
    stopped: str = ""
    """Why what is missing was not run, if it was stopped: the budget is used up, or somebody wished it."""
    aside: str = ""
    """Why the store refuses some of the missing rows for good, if it does: they are dead letters."""

    @property
    def complete(self) -> bool:
        return self.finished == self.expected

    def to_dict(self) -> dict[str, Any]:
        names = (
            "expected", "finished", "computed", "elsewhere", "failed", "missing", "stopped", "aside", "executed",
            "seconds",
        )  # fmt: skip
        return {"complete": self.complete, **{name: getattr(self, name) for name in names}}

    def why(self) -> str:
        """Why it is not complete, in words; empty if it is."""
        parts = []
        if self.failed:
            failures = [f"{where}: {reason}" for where, reason in list(self.failed.items())[:MOST_NAMED]]
            parts.append(f"{plural(len(self.failed), 'row')} failed ({'; '.join(failures)})")
        if self.missing:
            named = ", ".join(self.missing[:MOST_NAMED])
            more = " …" if len(self.missing) > MOST_NAMED else ""
            parts.append(f"{plural(len(self.missing), 'row')} not computed ({named}{more})")
        if self.missing and self.stopped:
            parts.append(f"stopped: {self.stopped}")
        if self.missing and self.aside:
            parts.append(f"some were computed and became dead letters: {self.aside}; see  scalable admin dlq list")
        return "; ".join(parts)


def lacking(
    compiled: Compiled, there: Mapping[str, Row], since: float | None = None, living: Container[str] = ()
) -> list[str]:
    """Keys of rows that must be computed: those that are not there, or failed.

    What failed after ``since`` had its attempts: who is started again by an outer scheduler adds none to them. So had
    what failed in a run that lives, since this one shares its work.
    """

    def had_its_attempts(row: Row) -> bool:
        late = since is not None and (row.written_at or 0.0) >= since
        return not row.marked and (late or (row.run_id or "") in living)

    return [
        key
        for key, _ in compiled.expected
        if (row := there.get(key)) is None or not (row.finished or had_its_attempts(row))
    ]


def outcome_of(compiled: Compiled, there: Mapping[str, Row], **facts: Any) -> SweepOutcome:
    """What these rows of the store make of a sweep."""
    named_rows = [(key, compiled.grid.cell_text(cell)) for key, cell in compiled.expected]
    failed = {name: there[key].error or "" for key, name in named_rows if key in there and not there[key].finished}
    missing = tuple(name for key, name in named_rows if key not in there)
    finished = len(named_rows) - len(failed) - len(missing)
    return SweepOutcome(compiled.name, len(named_rows), finished, failed, missing, **facts)


def changed(compiled: Compiled, missing: Iterable[str], store: Store) -> str:
    """Why rows that were there are computed anew, in words; empty if there were none."""
    cells = {place(compiled.grid, compiled.where[key]): compiled.where[key] for key in missing}
    old = {}
    for row in store.rows(Filter(sweep=compiled.name)):
        if row.finished and row.run_key not in compiled.where and place_of(row) in cells:
            old[place_of(row)] = row
    if not old:
        return ""
    where, latest = max(old.items(), key=lambda each: each[1].written_at or 0.0)
    reasons = []
    if stages := changed_stages(latest.code_fingerprint or "", compiled.workload.code_fingerprint()):
        reasons.append(f"the code of {', '.join(stages)} changed")
    data = compiled.data.get(compiled.grid.group_of(cells[where]), "")
    if latest.data_fingerprint != data:
        files = changed_files(latest.data_fingerprint or "", data)
        reasons.append(f"{some_of(files, LISTED)} changed" if files else "the data changed")
    if not reasons:
        reasons.append("the settings changed")
    subject = f"{plural(len(old), 'row')} that {'was' if len(old) == 1 else 'were'} there"
    verb = "is of another version and is" if len(old) == 1 else "are of another version and are"
    return f"{subject} {verb} computed anew: {', '.join(reasons)}"


def changed_stages(before: str, after: str) -> list[str]:
    """Names of stages whose code is another one."""
    was = code_by_stage(before)
    return [name for name, code in code_by_stage(after).items() if was.get(name) != code]


class Cells:
    """Where the rows of a compiled sweep are in its whole grid, also if only some of its rows are meant."""

    def __init__(self, compiled: Compiled) -> None:
        grid = compiled.grid
        self.grid = grid
        places = enumerate(grid)  # in the order of the compiled rows, so that one pass finds all of them
        self.at = {
            work.run_key: next(place for place, cell in places if alike(cell, where)) for work, where in compiled.cells
        }
        over = {axis.name: axis.values for axis in grid.over}
        self.axes = {
            "variant": [str(grid.label(variant)) for variant in grid.variants],
            **{name: [*map(number_text, values)] for name, values in {**over, **grid.average}.items()},
        }
        self.sides = {"over": [*over], "average": [*grid.average]}
        length = sum(len(label) for axis in self.axes.values() for label in axis)
        self.shown = len(grid) <= MOST_CELLS and length <= LONGEST_AXES

    def of(self, keys: Iterable[str]) -> str:
        return spans(self.at[key] for key in keys)

    def start(self, there: Iterable[str], failed: Iterable[str]) -> dict[str, Any]:
        """The grid as it is when the sweep begins: which rows are there, and which failed and are not tried again."""
        if not self.shown:
            return {}
        part = {"cells": self.of(self.at)} if len(self.at) < len(self.grid) else {}
        return {"axes": self.axes, **self.sides, **part, "cells_there": self.of(there), "failed_cells": self.of(failed)}

    def rows(self, keys: Iterable[str], failed: Iterable[str]) -> dict[str, Any]:
        return {"cells": self.of(keys), "failed_cells": self.of(failed)} if self.shown else {}

    def of_jobs(self, jobs: Mapping[str, CompiledJob]) -> Iterator[dict[str, str]]:
        """Yield the rows of each job by its name, in portions."""
        portion: dict[str, str] = {}
        length = 0
        for job, compiled_job in jobs.items() if self.shown else ():
            portion[job] = self.of(cell.run_key for cell in compiled_job.cells)
            length += len(job) + len(portion[job])
            if length > LONGEST_PORTION:
                yield portion
                portion, length = {}, 0
        if portion:
            yield portion


def alike(cell: Cell, where: Cell) -> bool:
    """Return whether two cells are the same one; 1 and true are variants of their own."""
    return cell == where and [*map(type, cell.variant)] == [*map(type, where.variant)]
