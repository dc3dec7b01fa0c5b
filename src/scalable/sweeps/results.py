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

from scalable.catalogue import Variant
from scalable.errors import ScalableError
from scalable.store import Row
from scalable.store.marking import cell_name
from scalable.sweeps.grid import Cell
from scalable.wording import plural, some_of

LISTED = 5  # rows named in a sentence about missing or failed ones; machines get all
MISSING = "missing"  # the word for a cell without a row, beside the store's own finished and failed
Pair = tuple[str, int]
"""An asset's fold: what is the same on both sides of a comparison."""
Same = tuple[bool, Variant]
"""A variant as a key of a dict, in which True and 1 are two."""


def same(variant: Variant) -> Same:
    return isinstance(variant, bool), variant


@dataclass(frozen=True)
class Outcome:
    """The rows of one sweep. ``rows`` may hold any; those whose key is expected belong to it."""

    sweep: str
    expected: Sequence[tuple[str, Cell]]
    """Every cell with its key, as the sweep is compiled now."""
    rows: Mapping[str, Row]
    baseline: Variant
    others: int = 0
    """Rows of this sweep's name in the store that were made with other code, data, settings or libraries."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Which metrics count and whether ``higher`` or ``lower`` is better, where the sweep says so."""

    @property
    def factor(self) -> str:
        return self.expected[0][1].factor if self.expected else ""

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """In the order of the sweep."""
        return tuple({same(cell.variant): cell.variant for _, cell in self.expected}.values())

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
        """Metrics that are numbers in any finished row, in the order they are met."""
        names: dict[str, None] = {}
        for _, row in self.there():
            if row.finished:
                names.update(dict.fromkeys(name for name in row.metrics if number(row.metrics[name]) is not None))
        return tuple(names)

    @cached_property
    def pairs(self) -> dict[Same, dict[Pair, dict[str, float]]]:
        """By variant, each asset's fold of which every cost has finished, with its metrics averaged over the costs.

        Costs are the same trades with another fee, so they are one observation, not several.
        """
        cells: dict[Same, dict[Pair, list[Row | None]]] = {}
        for key, cell in self.expected:
            row = self.rows.get(key)
            group = cells.setdefault(same(cell.variant), {}).setdefault((cell.asset, cell.fold), [])
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
    def trades(self) -> dict[Same, dict[Pair, float]]:
        """By variant, how many trades each asset's fold rests on; nothing where the workload does not count any."""
        counted = next((name for name in ("trades", "buys") if name in self.metric_names), None)
        if counted is not None:
            return {
                variant: {pair: metrics[counted] for pair, metrics in pairs.items()}
                for variant, pairs in self.pairs.items()
            }
        found: dict[Same, dict[Pair, float]] = {}
        for cell, row in self.there():
            if row.finished and row.buys is not None and (cell.asset, cell.fold) in self.pairs[same(cell.variant)]:
                found.setdefault(same(cell.variant), {})[cell.asset, cell.fold] = row.buys
        return found

    def summary(self) -> list[dict[str, Any]]:
        """By variant: rows expected and there, mean trades of a fold, mean of each metric over finished folds."""
        counts = {same(variant): dict.fromkeys(("expected", "finished", "failed"), 0) for variant in self.variants}
        for key, cell in self.expected:
            count, row = counts[same(cell.variant)], self.rows.get(key)
            count["expected"] += 1
            if row is not None:
                count["finished" if row.finished else "failed"] += 1
        told = []
        for variant in self.variants:
            pairs = list(self.pairs[same(variant)].values())
            means = {name: mean(pair[name] for pair in pairs) for name in self.metric_names}
            trades = mean(self.trades.get(same(variant), {}).values())
            told.append({"variant": variant, **counts[same(variant)], "trades": trades, "metrics": means})
        return told

    def to_dict(self) -> dict[str, Any]:
        """For machines: what is complete, and every row that is there."""
        return {
            "sweep": self.sweep,
            "complete": self.complete,
            "baseline": self.baseline,
            "expected": len(self.expected),
            "rows": [row_dict(cell, row) for cell, row in self.there()],
            "missing": [cell._asdict() for cell in self.missing],
            "other_rows": self.others,
        }

    def frame(self) -> Any:
        """A pandas DataFrame: one line per cell, metrics as columns; cells without a row say so in ``run_status``."""
        pandas = pandas_module()
        lines = []
        for key, cell in self.expected:
            row = self.rows.get(key)
            which = {**cell._asdict(), "run_key": key, "run_status": row.run_status.value if row else MISSING}
            line = which | {name: getattr(row, name, None) for name in ("attempt", "elapsed_s", "buys", "error")}
            if row is not None and row.finished:
                line |= {**row.metrics, **which}  # a metric called  fold  does not say which fold it is of
            lines.append(line)
        first = [*Cell._fields, "run_key", "run_status", "attempt", "elapsed_s", "buys"]
        columns = [*dict.fromkeys([*first, *self.metric_names, *(name for line in lines for name in line)])]
        made = pandas.DataFrame(lines, columns=columns)
        facts = {"sweep": self.sweep, "baseline": self.baseline, "complete": self.complete}
        made.attrs = {**facts, "expected": len(self.expected), "summary": self.summary()}
        return made

    def shortfall(self) -> str:
        """What is not there, in words with the first rows named; empty if the sweep is complete."""
        said = [named(cells, word) for word, cells in (("missing", self.missing), ("failed", self.failed)) if cells]
        if self.missing and self.others:
            other = "other code, data, settings or libraries"
            said.append(f"{self.others} rows of this name were made with {other} and do not count")
        return "; ".join(said) if self.expected else "the sweep has no rows at all"


def row_dict(cell: Cell, row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {**cell._asdict(), "run_key": row.run_key, "run_status": row.run_status.value}
    told |= {"attempt": row.attempt, "elapsed_s": row.elapsed_s, "buys": row.buys, "metrics": finite(row.metrics)}
    return told if row.finished else {**told, "error": row.error}


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
    """nan where a row has no value: a mean over some of the costs is not comparable with one over all."""
    found = {}
    for name in names:
        values = [number(row.metrics.get(name)) for row in rows]
        found[name] = average([value if value is not None else nan for value in values])
    return found


def number(value: Any) -> float | None:
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


def named(cells: Sequence[Cell], word: str) -> str:
    """``3 rows missing: none AAVEUSDC fold 0 at 10 bps, …``."""
    return f"{plural(len(cells), 'row')} {word}: {some_of(map(cell_name, cells), LISTED)}"


def pandas_module() -> Any:
    try:
        return import_module("pandas")
    except ImportError:
        raise ScalableError("results as a DataFrame need pandas; pip install pandas") from None
