"""What the store has of a sweep, in figures and in words: rows that finished, failed or lack, and why some are anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.observe.sweep_progress import code_by_stage
from scalable.store import Filter, Row, Store
from scalable.sweeps.compiling import Compiled
from scalable.sweeps.grid import Cell
from scalable.wording import plural

MOST_NAMED = 3  # failures that are told in full; the results have all of them


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
        names = ("expected", "finished", "computed", "failed", "missing", "stopped", "aside", "executed", "seconds")
        return {"complete": self.complete, **{name: getattr(self, name) for name in names}}

    def why(self) -> str:
        """Why it is not complete, in words; empty if it is."""
        parts = []
        if self.failed:
            told = [f"{where}: {reason}" for where, reason in list(self.failed.items())[:MOST_NAMED]]
            parts.append(f"{plural(len(self.failed), 'row')} failed ({'; '.join(told)})")
        if self.missing:
            named = ", ".join(self.missing[:MOST_NAMED])
            more = " …" if len(self.missing) > MOST_NAMED else ""
            parts.append(f"{plural(len(self.missing), 'row')} not computed ({named}{more})")
        if self.missing and self.stopped:
            parts.append(f"stopped: {self.stopped}")
        if self.missing and self.aside:
            parts.append(f"some were computed and became dead letters: {self.aside}; see  scalable dlq list")
        return "; ".join(parts)


def lacking(compiled: Compiled, there: Mapping[str, Row], since: float | None = None) -> list[str]:
    """Keys of rows that must be computed: those that are not there, or failed.

    What failed after ``since`` had its attempts: who is started again by an outer scheduler adds none to them.
    """

    def had_its_attempts(row: Row) -> bool:
        return since is not None and not row.marked and (row.written_at or 0.0) >= since

    return [
        key
        for key, _ in compiled.expected
        if (row := there.get(key)) is None or not (row.finished or had_its_attempts(row))
    ]


def outcome_of(compiled: Compiled, there: Mapping[str, Row], **facts: Any) -> SweepOutcome:
    """What these rows of the store make of a sweep."""
    named_rows = [(key, named(cell)) for key, cell in compiled.expected]
    failed = {name: there[key].error or "" for key, name in named_rows if key in there and not there[key].finished}
    missing = tuple(name for key, name in named_rows if key not in there)
    finished = len(named_rows) - len(failed) - len(missing)
    return SweepOutcome(compiled.name, len(named_rows), finished, failed, missing, **facts)


def changed(compiled: Compiled, missing: Iterable[str], store: Store) -> str:
    """Why rows that were there are computed anew, in words; empty if there were none."""
    cells = {identity(compiled.where[key]) for key in missing}
    old = {}
    for row in store.rows(Filter(sweep=compiled.name)):
        cell = (row.factor, row.variant, row.asset, row.fold, row.cost_bps)
        if row.finished and row.run_key not in compiled.where and cell in cells:
            old[cell] = row
    if not old:
        return ""
    latest = max(old.values(), key=lambda row: row.written_at or 0.0)
    reasons = []
    if stages := changed_stages(latest.code_fingerprint or "", compiled.workload.code_fingerprint()):
        reasons.append(f"the code of {', '.join(stages)} changed")
    if latest.data_fingerprint != compiled.data.get(latest.asset or ""):
        reasons.append("the data changed")
    if not reasons:
        reasons.append("the settings changed")
    told = f"{plural(len(old), 'row')} that {'was' if len(old) == 1 else 'were'} there"
    verb = "is of another version and is" if len(old) == 1 else "are of another version and are"
    return f"{told} {verb} computed anew: {', '.join(reasons)}"


def changed_stages(before: str, after: str) -> list[str]:
    """Names of stages whose code is another one."""
    was = code_by_stage(before)
    return [name for name, code in code_by_stage(after).items() if was.get(name) != code]


def identity(cell: Cell) -> tuple[Any, ...]:
    return (cell.factor, cell.variant, cell.asset, cell.fold, cell.cost_bps)


def named(cell: Cell) -> str:
    """A cell as people say it."""
    return f"{cell.asset} {cell.factor} {cell.variant} fold {cell.fold} at {cell.cost_bps:g} bps"
