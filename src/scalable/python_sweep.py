"""``scalable.Sweep``: a sweep written in Python, of a function in a script, a module or a notebook.

It is the sweep of a manifest that is made in memory, so plans, rows, verdicts and keys are those of the same sweep in
YAML. The function travels by value to the processes that run it: they never import the script that starts the sweep,
which therefore needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from scalable.axes import Value
from scalable.errors import UsageError
from scalable.manifest.load import load_text, read
from scalable.manifest.targets import installed_providers
from scalable.observe.folders import FILE, find_manifest
from scalable.observe.words import metric_text
from scalable.quantities import Duration
from scalable.session.session import ScalableSession
from scalable.store import NoStoreError, StoreError
from scalable.sweeps.grid import Grid
from scalable.sweeps.loading import open_results, outcome_of
from scalable.sweeps.power import sweep_power
from scalable.sweeps.stages import NOT_IMPORTED
from scalable.sweeps.workload import IMPORTING, Workload, as_workload, by_value
from scalable.wording import plural, undefined

if TYPE_CHECKING:
    from scalable.planning.plan import Plan
    from scalable.session.sweep.outcomes import SweepOutcome
    from scalable.sweeps.decisions import Decision
    from scalable.sweeps.results import Outcome

MOST_SHOWN = 10  # variants in the text of a result
LOCAL = {"provider": "local", "processes": True}
PROFILE = {"request": {"cpu": 1, "memory": "512MiB"}, "limit": {"cpu": 1, "memory": "4GiB"}}
"""A worker on this machine, where nobody says another size: one per core, and none may eat all memory."""


class Sweep:
    """A named experiment: every variant of what is compared, measured on every block.

    Parameters
    ----------
    function
        Returns the metrics of one row as a mapping. It gets the axes and settings that its parameters name, and the
        results of ``@scalable.stage`` functions beside it by their names.
    compare
        What is judged: values by axis. Several axes make a grid.
    over
        What every variant is measured on: values by axis, ``scalable.folds(5)`` or ``scalable.periods(5)``.
    average, settings, metrics, more
        As in a manifest, under the same names: ``baseline``, ``exclude``, ``inputs``, ``primary`` and all others.
    name
        Of the sweep; the function's by default.

    Examples
    --------
    >>> def score(depth, table):
    ...     return {"accuracy": depth / 10}
    >>> sweep = Sweep(score, compare={"depth": [1, 2]}, over={"table": ["a", "b", "c"]})
    >>> sweep
    <Sweep score: 6 rows = 2 variants × 3 blocks>
    """

    def __init__(
        self,
        function: Callable[..., Any] | str,
        *,
        compare: Mapping[str, Any],
        over: Mapping[str, Any] | None = None,
        average: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        metrics: Mapping[str, str] | None = None,
        name: str | None = None,
        folder: str | Path | None = None,
        **more: Any,
    ) -> None:
        self.function: Callable[..., Any] | str | None = function
        self.name = name or name_of(function)
        self.file = (Path(folder).resolve() if folder else folder_of(function)) / FILE
        """The manifest that it would be in: its data, its store and its runs are in that folder."""
        written = {
            "compare": compare,
            "over": over,
            "average": average,
            "settings": settings,
            "metrics": metrics,
            **more,
        }
        self.written = {key: plain_values(value) for key, value in written.items() if value is not None}
        """What a manifest would say of it, without the function."""
        self.session()  # what is wrong is raised here, not when it is run

    @classmethod
    def from_manifest(cls, name: str, manifest: str | Path | None = None) -> Sweep:
        """Return a sweep of a manifest, with its function."""
        path = find_manifest(manifest)
        document = yaml.safe_load(read(path)) or {}
        sweeps = document.get("sweeps") or {}
        if name not in sweeps:
            raise UsageError(undefined("sweep", name, sweeps))
        written = dict(sweeps[name])
        function = written.pop("run", None)
        made = cls.__new__(cls)
        made.function, made.name, made.file, made.written = function, name, path.resolve(), written
        made.document = document
        made.session()
        return made

    document: Mapping[str, Any] = {}
    """The manifest that it is of, if it is of one."""

    def workload(self) -> Workload | None:
        """Return the stages that are run, with their code as it is now; nothing where a manifest names them."""
        if self.function is None or isinstance(self.function, str):
            return None
        return by_value(as_workload(self.function, self.path))

    @property
    def path(self) -> str:
        """What names the function in a manifest."""
        if isinstance(self.function, str):
            return self.function
        source = getattr(self.function, "function", self.function)
        module = getattr(source, "__module__", None)
        if module in NOT_IMPORTED:
            stem = Path(getattr(sys.modules[module], "__file__", None) or "").stem
            module = stem if stem.isidentifier() else "notebook"
        return f"{module}:{name_of(source)}"

    def manifest(
        self, manifest: str | Path | None = None, workers: int | None = None, target: str | None = None
    ) -> tuple[dict[str, Any], str]:
        """Return the whole manifest that the sweep is run with, and the file that it is, or would be, in."""
        document, file = dict(self.document), self.file
        if manifest is not None:
            file = find_manifest(manifest)
            document = yaml.safe_load(read(file)) or {}
        document = {"version": 1, "project": {"name": self.name}, **(document or {"profiles": {"standard": PROFILE}})}
        targets = document.get("targets") or {"local": {**LOCAL, "max_workers": os.cpu_count() or 1}}
        chosen = target or next(iter(targets))
        if workers is not None and chosen in targets:
            targets = {**targets, chosen: {**targets[chosen], "max_workers": workers}}
        run = {"run": self.path} if self.function is not None else {}
        sweeps = {**(document.get("sweeps") or {}), self.name: {**run, **self.written}}
        return {**document, "targets": targets, "sweeps": sweeps}, str(file)

    def to_yaml(self) -> str:
        """Return the sweep as a manifest writes it: the same rows for ``scalable run``."""
        return yaml.safe_dump(self.manifest()[0], sort_keys=False, allow_unicode=True)

    def session(
        self, *, target: str | None = None, manifest: str | Path | None = None, workers: int | None = None
    ) -> ScalableSession:
        """Return a session that runs this sweep; it starts nothing by itself."""
        chosen = target or os.environ.get("SCALABLE_TARGET") or None
        document, file = self.manifest(manifest, workers, chosen)
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        loaded = load_text(text, file, env=os.environ, target=chosen, providers=installed_providers())
        session = ScalableSession(loaded, Path(file))
        workload = self.workload()
        if workload is not None:
            session.workloads[self.name] = workload
        return session

    def plan(self, **place: Any) -> Plan:
        """Return what the sweep will need, take and cost, and what it can find; starts nothing. ``place``: as of
        ``run``."""
        session = self.session(**place)
        manifest, earlier = session.manifest, None
        with suppress(NoStoreError), open_results(manifest, create=False) as store:
            earlier = outcome_of(session.compile(self.name, store), store)
        power = sweep_power(manifest.sweeps[self.name], manifest.groups, earlier)
        return replace(session.plan_sweep(self.name), power=power)

    def run(
        self,
        *,
        workers: int | None = None,
        target: str | None = None,
        manifest: str | Path | None = None,
        progress: bool = True,
    ) -> SweepResult:
        """Compute the rows that the store lacks and return what it has then; Ctrl-C keeps what is computed.

        On this machine with a worker per core, unless ``workers`` says how many, or ``target`` names another place of
        ``manifest``.
        """
        from scalable.cli.progress import progress_shown

        if IMPORTING.get():
            guard = 'if __name__ == "__main__":'
            raise UsageError(f"{self.name} is run by its script; write  {guard}  above .run(), or start the script")
        session = self.session(target=target, manifest=manifest, workers=workers)
        outcome = session.run_sweep(self.name, watched=progress_shown if progress else nullcontext)
        return SweepResult(self, session, outcome)

    def results(self, **place: Any) -> SweepResult:
        """Return what the store has of it; computes nothing."""
        return SweepResult(self, self.session(**place), None)

    def decide(self, **place: Any) -> Decision:
        """Return the verdict on each variant."""
        return self.results(**place).decide()

    def leaderboard(self, **place: Any) -> Leaderboard:
        """Return the variants, the best first."""
        return self.results(**place).leaderboard()

    @property
    def grid(self) -> Grid:
        """Its axes, and the rows that they make."""
        loaded = self.session().manifest
        return Grid.of(loaded.sweeps[self.name], loaded.groups)

    def __repr__(self) -> str:
        grid = self.grid
        rows, variants, blocks = len(grid), len(grid.variants), prod(len(axis.values) for axis in grid.over)
        return f"<Sweep {self.name}: {plural(rows, 'row')} = {plural(variants, 'variant')} × {plural(blocks, 'block')}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}\n\n{escape(self.to_yaml())}</pre>"


@dataclass(frozen=True, eq=False, repr=False)
class SweepResult:
    """The rows of a sweep that are there."""

    sweep: Sweep
    session: ScalableSession
    outcome: SweepOutcome | None
    """What became of the run that gave it, if one did."""

    @cached_property
    def rows(self) -> Outcome:
        with self.session.open_store() as store:
            return outcome_of(self.session.compile(self.sweep.name, store), store)

    @property
    def frame(self) -> Any:
        """A pandas DataFrame: a line per row, a column per axis and metric, with status and seconds."""
        return self.rows.frame()

    @property
    def complete(self) -> bool:
        return self.rows.complete

    @cached_property
    def decision(self) -> Decision:
        """The verdict on each variant; it is entered into the store's ledger, once for this result."""
        from scalable.sweeps.ledger import control_of, decide_and_record, decide_without_ledger

        rows, control = self.rows, control_of(self.session.manifest)
        try:
            store = self.session.open_store()
        except StoreError as error:
            return decide_without_ledger(rows, control, str(error))
        with store:
            return decide_and_record(rows, store, control)

    def decide(self) -> Decision:
        """Return the verdict on each variant."""
        return self.decision

    def leaderboard(self) -> Leaderboard:
        """Return the variants, the best first by the primary metric."""
        return Leaderboard.of(self)

    def __repr__(self) -> str:
        rows = self.rows
        state = f"{rows.finished:,} of {len(rows.expected):,} rows"
        if self.outcome is not None and self.outcome.computed:
            stages = ", ".join(f"{name} {times:,}" for name, times in self.outcome.executed.items())
            state += f" in {Duration(self.outcome.seconds)} ({stages})"
        lines = [f"{self.sweep.name}   {state}"]
        if shortfall := rows.shortfall():
            lines.append(f"  {shortfall}")
        return "\n".join([*lines, f"{self.leaderboard()}" if rows.finished else ""]).rstrip()

    def _repr_html_(self) -> str:
        head = f"<p>{escape(repr(self).splitlines()[0])}</p>"
        return head + (self.leaderboard()._repr_html_() if self.rows.finished else "")


@dataclass(frozen=True, slots=True)
class LeaderboardLine:
    """One variant: its rank, its means, and what the verdict on it is."""

    rank: int
    variant: Value
    mean: float | None
    difference: float | None
    """Of the primary metric, beside the baseline."""
    interval: tuple[float, float] | None
    verdict: str
    """Empty for the baseline."""
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, repr=False)
class Leaderboard:
    """The variants of a sweep, the best first by its primary metric."""

    primary: str
    baseline: Value
    lines: tuple[LeaderboardLine, ...]

    @classmethod
    def of(cls, result: SweepResult) -> Leaderboard:
        decision = result.decide()
        primary = decision.primary

        def place(line: Mapping[str, Any]) -> tuple[bool, float]:
            mean = line["metrics"].get(primary)
            return mean is None, 0.0 if mean is None else -mean if decision.higher else mean

        lines = []
        for rank, line in enumerate(sorted(result.rows.summary(), key=place), 1):
            judged = decision.of(line["variant"])
            figures = [each for each in judged.metrics if each.name == primary] if judged else []
            difference = next((each.delta for each in figures if isfinite(each.delta)), None)
            interval = next((each.interval for each in figures if all(map(isfinite, each.interval))), None)
            verdict = judged.verdict.value if judged else ""
            mean = line["metrics"].get(primary)
            lines.append(LeaderboardLine(rank, line["variant"], mean, difference, interval, verdict, line["metrics"]))
        return cls(primary, decision.baseline, tuple(lines))

    def __iter__(self) -> Iterator[LeaderboardLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """The table as texts, its heading first."""
        heading = ("rank", "variant", self.primary, "difference", "95 % interval", "verdict")
        return [heading, *(line_cells(line) for line in self.lines)]

    def __repr__(self) -> str:
        shown = self.cells[: MOST_SHOWN + 1]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown
        ]
        more = [f"… and {len(self) - MOST_SHOWN} more"] if len(self) > MOST_SHOWN else []
        return "\n".join([*lines, *more])

    def _repr_html_(self) -> str:
        head, *rows = self.cells
        lines = [html_row(head, "th"), *(html_row(row, "td") for row in rows)]
        return f"<table>{''.join(lines)}</table>"


def html_row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def line_cells(line: LeaderboardLine) -> tuple[str, ...]:
    interval = f"{line.interval[0]:+.3g} … {line.interval[1]:+.3g}" if line.interval else ""
    difference = f"{line.difference:+.3g}" if line.difference is not None else "" if line.verdict else "baseline"
    return (str(line.rank), str(line.variant), metric_text(line.mean), difference, interval, line.verdict)


def name_of(function: Any) -> str:
    if isinstance(function, str):
        return function.rpartition(":")[2]
    return str(getattr(function, "__name__", type(function).__name__))


def folder_of(function: Any) -> Path:
    """Return the folder of the file that a function is written in; the current one for a notebook."""
    code = getattr(getattr(function, "function", function), "__code__", None)
    file = Path(code.co_filename) if code is not None else None
    return file.resolve().parent if file is not None and file.is_file() else Path.cwd()


def plain_values(value: Any) -> Any:
    """Return what a manifest can write: tuples, ranges and numbers of numpy as lists and plain numbers."""
    if isinstance(value, Mapping):
        return {str(name): plain_values(each) for name, each in value.items()}
    if isinstance(value, str | bool | int | float) or value is None:
        return value
    if hasattr(value, "tolist"):
        return plain_values(value.tolist())
    if isinstance(value, Sequence | range | set | frozenset):
        return [plain_values(each) for each in value]
    raise UsageError(f"{value!r:.80} is no value of an axis; write texts, numbers, or true and false")
