"""What a sweep has given so far: the rows that were expected beside those that are there.

Rows count by their key, so a row that was made with other code, data, settings or libraries is not taken for one of
this sweep. Failed rows are shown and never counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from math import isfinite, nan
from statistics import fmean
from typing import Any

from scalable.axes import Value, value_text
from scalable.errors import ScalableError
from scalable.store import Row
from scalable.sweeps.grid import Cell, Grid, Values
from scalable.sweeps.questions import Question
from scalable.wording import install_hint, plural, some_of

LISTED = 5  # rows named in a sentence about missing or failed ones; machines get all
MISSING = "missing"  # the word for a cell without a row, beside the store's own finished and failed
Variant = Value
"""What a variant is called: the value of the only compared axis, or the values of all of them as one text."""
Pair = Values
"""A block: what is the same on both sides of a comparison."""
Same = tuple[bool, Variant]
"""A variant as a key of a dict, in which True and 1 are two."""


def same(variant: Variant) -> Same:
    return isinstance(variant, bool), variant


@dataclass(frozen=True)
class Outcome:
    """The rows of one sweep. ``rows`` may hold any; those whose key is expected belong to it."""

    sweep: str
    grid: Grid
    expected: Sequence[tuple[str, Cell]]
    """Every cell with its key, as the sweep is compiled now."""
    rows: Mapping[str, Row]
    baseline: Variant
    others: int = 0
    """Rows of this sweep's name in the store that were made with other code, data, settings or libraries."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Which metrics count and whether ``higher`` or ``lower`` is better, where the sweep says so."""
    question: Question = field(default_factory=Question)
    """What decides about its variants."""

    @property
    def factor(self) -> str:
        return self.grid.factor

    def label(self, cell: Cell) -> Variant:
        """Return what a cell's variant is called."""
        return self.grid.label(cell.variant)

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """In the order of the sweep."""
        labels = map(self.label, (cell for _, cell in self.expected))
        return tuple({same(label): label for label in labels}.values())

    @cached_property
    def missing(self) -> tuple[Cell, ...]:
        return tuple(cell for key, cell in self.expected if key not in self.rows)

    @cached_property
    def failed(self) -> tuple[Cell, ...]:
        return tuple(cell for key, cell in self.expected if key in self.rows and not self.rows[key].finished)

    @property
    def complete(self) -> bool:
        """Every expected row is there and none has failed. Nothing expected is nothing complete."""
        return bool(self.expected) and not self.missing and not self.failed

    @property
    def finished(self) -> int:
        return len(self.expected) - len(self.missing) - len(self.failed)

    def there(self) -> Iterator[tuple[Cell, Row]]:
        """Expected cells that have a row, failed ones too."""
        return ((cell, self.rows[key]) for key, cell in self.expected if key in self.rows)

    @cached_property
    def metric_names(self) -> tuple[str, ...]:
        """Metrics of finished rows in the order they are met, those that no row has measured (None) included."""
        names: dict[str, None] = {}
        for _, row in self.there():
            if row.finished:
                names.update({name: None for name in row.metrics if name not in names and is_metric(row.metrics[name])})
        return tuple(names)

    @cached_property
    def unmeasured(self) -> dict[str, int]:
        """By metric: in how many finished rows it is None, which stands for not measured."""
        rows = [row for _, row in self.there() if row.finished]
        counts = {name: sum(row.metrics.get(name) is None for row in rows) for name in self.metric_names}
        return {name: count for name, count in counts.items() if count}

    @cached_property
    def pairs(self) -> dict[Same, dict[Pair, dict[str, float]]]:
        """By variant, each block of which every row has finished, with its metrics averaged over the averaged axes.

        Rows that differ on an averaged axis only are one observation, not several.
        """
        cells: dict[Same, dict[Pair, list[Row | None]]] = {}
        for key, cell in self.expected:
            row = self.rows.get(key)
            group = cells.setdefault(same(self.label(cell)), {}).setdefault(cell.block, [])
            group.append(row if row is not None and row.finished else None)
        return {
            variant: {
                pair: averaged(whole, self.metric_names)
                for pair, rows in groups.items()
                if len(whole := [row for row in rows if row is not None]) == len(rows)
            }
            for variant, groups in cells.items()
        }

    @cached_property
    def evidence(self) -> dict[Same, dict[Pair, float]]:
        """By variant, how much each block rests on; nothing where the workload does not count it."""
        counting = self.question.evidence.metrics if self.question.evidence is not None else ()
        counted = next((name for name in counting if name in self.metric_names), None)
        if counted is None:
            return {}
        return {
            variant: {pair: metrics[counted] for pair, metrics in pairs.items()}
            for variant, pairs in self.pairs.items()
        }

    def summary(self) -> list[dict[str, Any]]:
        """By variant: rows expected and there, and the mean of each metric over finished blocks."""
        counts = {same(variant): dict.fromkeys(("expected", "finished", "failed"), 0) for variant in self.variants}
        for key, cell in self.expected:
            count, row = counts[same(self.label(cell))], self.rows.get(key)
            count["expected"] += 1
            if row is not None:
                count["finished" if row.finished else "failed"] += 1
        lines = []
        for variant in self.variants:
            pairs = list(self.pairs[same(variant)].values())
            means = {name: mean(pair[name] for pair in pairs) for name in self.metric_names}
            counted: dict[str, float | None] = {}
            if self.question.evidence is not None and self.evidence:
                counted[self.question.evidence.metrics[0]] = mean(self.evidence.get(same(variant), {}).values())
            lines.append({"variant": variant, **counts[same(variant)], **counted, "metrics": means})
        return lines

    def to_dict(self) -> dict[str, Any]:
        """For machines: what is complete, and every row that is there."""
        return {
            "sweep": self.sweep,
            "complete": self.complete,
            "baseline": self.baseline,
            "expected": len(self.expected),
            "axes": self.grid.to_dict(),
            "rows": [{**self.address(cell), **row_dict(row)} for cell, row in self.there()],
            "missing": [self.address(cell) for cell in self.missing],
            "other_rows": self.others,
        }

    def table(self) -> tuple[list[str], list[dict[str, Any]]]:
        """Return columns and one line per cell, metrics among them; cells without a row say so in ``run_status``."""
        lines = []
        for key, cell in self.expected:
            row = self.rows.get(key)
            which = {**self.address(cell), "variant": self.label(cell), "run_key": key}
            which["run_status"] = row.run_status.value if row else MISSING
            line = which | {name: getattr(row, name, None) for name in ("attempt", "elapsed_s", "error")}
            if row is not None and row.finished:
                line |= {**row.metrics, **which}  # a metric called  fold  does not say which fold it is of
            lines.append(line)
        first = ["factor", "variant", "block", *self.grid.names, "run_key", "run_status", "attempt", "elapsed_s"]
        columns = [*dict.fromkeys([*first, *self.metric_names, *(name for line in lines for name in line)])]
        return columns, lines

    def frame(self) -> Any:
        """Return the table as a pandas DataFrame."""
        columns, lines = self.table()
        made = pandas_module().DataFrame(lines, columns=columns)
        facts = {"sweep": self.sweep, "baseline": self.baseline, "complete": self.complete}
        made.attrs = {**facts, "expected": len(self.expected), "summary": self.summary()}
        return made

    def shortfall(self) -> str:
        """What is not there, in words with the first rows named; empty if the sweep is complete."""
        lacking = (("missing", self.missing), ("failed", self.failed))
        reasons = [self.named(cells, word) for word, cells in lacking if cells]
        if self.missing and self.others:
            other = "other code, data, settings or libraries"
            reasons.append(f"{self.others} rows of this name were made with {other} and do not count")
        return "; ".join(reasons) if self.expected else "the sweep has no rows at all"

    def named(self, cells: Sequence[Cell], word: str) -> str:
        """Return e.g. ``3 rows missing: none AAVEUSDC fold 0 cost_bps 10, …``."""
        return f"{plural(len(cells), 'row')} {word}: {some_of(map(self.grid.cell_text, cells), LISTED)}"

    def address(self, cell: Cell) -> dict[str, Any]:
        """Return where a row stands: its variant and block as text, and its value on every axis."""
        texts = {"variant": value_text(self.label(cell)), "block": self.grid.block_text(cell.block)}
        return {"factor": self.factor, **texts, **self.grid.axes_of(cell)}


def row_dict(row: Row) -> dict[str, Any]:
    """Return what became of a row; ``run_key``, ``run_status`` and ``elapsed_s`` are other names of key and so on."""
    values = {"key": row.run_key, "status": row.run_status.value, "attempt": row.attempt, "seconds": row.elapsed_s}
    values |= {"error": None if row.finished else row.error, "metrics": finite(row.metrics)}
    values |= {"run_key": row.run_key, "run_status": row.run_status.value, "elapsed_s": row.elapsed_s}
    buys = counted(row.metrics.get("buys"))
    return values if buys is None else {**values, "buys": buys}


def counted(buys: object) -> int | None:
    """How often a model said BUY, if the workload tells."""
    if isinstance(buys, bool) or not isinstance(buys, int | float) or not isfinite(buys):
        return None
    return int(buys) if buys >= 0 and buys == int(buys) else None


def finite(value: Any) -> Any:
    """JSON has no word for nan and infinity; nothing stands for them."""
    match value:
        case float():
            return value if isfinite(value) else None
        case dict():
            return {name: finite(each) for name, each in value.items()}
        case list():
            return [finite(each) for each in value]
    return value


def averaged(rows: Sequence[Row], names: Iterable[str]) -> dict[str, float]:
    """nan where a row has no value: a mean over some of the rows is not comparable with one over all."""
    if len(rows) == 1:  # nothing is averaged: the usual case, quickly
        metrics = rows[0].metrics
        return {name: nan if (value := number(metrics.get(name))) is None else value for name in names}
    averages = {}
    for name in names:
        values = [number(row.metrics.get(name)) for row in rows]
        averages[name] = average([value if value is not None else nan for value in values])
    return averages


def is_metric(value: Any) -> bool:
    """Return whether this is a metric's value: a number, or None for one that was not measured."""
    return value is None or number(value) is not None


def number(value: Any) -> float | None:
    if type(value) is float:  # the usual case, quickly
        return value if isfinite(value) else None
    usable = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return float(value) if usable else None


def mean(values: Iterable[float]) -> float | None:
    usable = [value for value in values if isfinite(value)]
    return average(usable) if usable else None


def average(values: Sequence[float]) -> float:
    try:
        return fmean(values)
    except OverflowError:  # the largest number there is, as a sign for the worst, more than once
        return sum(value / len(values) for value in values)


def pandas_module() -> Any:
    try:
        return import_module("pandas")
    except ImportError:
        raise ScalableError(f"results as a DataFrame need pandas; {install_hint('frames')}") from None
