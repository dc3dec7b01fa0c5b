"""Axes: named dimensions with their values, as a manifest writes them, and the combinations that they make.

An axis is a list of values, a range ``2025..2060`` (both ends are included), or a number n, which means 0 … n-1. A list
may contain ranges. A combination of one value of each axis is called coordinates. An axis over which a sweep repeats
its measurements has a kind: a sample unless ``{folds: 5}`` or ``{periods: 5}`` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from keyword import iskeyword
from math import isfinite, prod
from string import Formatter

from scalable.errors import QuantityError
from scalable.wording import shown

Value = str | int | float | bool
Axes = Mapping[str, Sequence[Value]]
Coordinates = Mapping[str, Value]


class AxisKind(Enum):
    """The relation between the values of an axis that a sweep repeats its measurements over; it decides the test."""

    SAMPLE = "sample"  # values drawn from all those one wants to know about: assets, data sets
    PERIODS = "periods"  # time windows, shared by all values of the other axes
    FOLDS = "folds"  # cross-validation folds, whose training data overlap


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis over which a sweep repeats its measurements."""

    name: str
    values: tuple[Value, ...]
    kind: AxisKind = AxisKind.SAMPLE


def folds(count: int) -> dict[str, int]:
    """Return an axis of cross-validation folds 0 … count-1, whose training data overlap.

    >>> folds(5)
    {'folds': 5}
    """
    return {AxisKind.FOLDS.value: count}


def periods(count: int) -> dict[str, int]:
    """Return an axis of time windows 0 … count-1, which the values of all other axes share.

    >>> periods(5)
    {'periods': 5}
    """
    return {AxisKind.PERIODS.value: count}


EXACT = 2**53  # whole numbers below it have no digits that a float loses
MOST_COMBINATIONS = 100_000  # each is a job of its own; a driver keeps all of them in memory
RANGE = re.compile(r"\s*([-+]?\d{1,18})\s*\.\.\s*([-+]?\d{1,18})\s*")
REMEDY = "write a list, e.g. [low, high], a range, e.g. 2025..2060, or a number n for 0 … n-1"


def parse_axes(written: object) -> dict[str, tuple[Value, ...]]:
    """Return the values of each axis; raises a ``QuantityError`` that names every axis that is wrong.

    >>> parse_axes({"scenario": ["low", "high"], "year": "2025..2027", "member": 2})
    {'scenario': ('low', 'high'), 'year': (2025, 2026, 2027), 'member': (0, 1)}
    """
    if not isinstance(written, Mapping):
        raise QuantityError(f"{shown(written)} is not a mapping of axes", "write e.g. {year: 2025..2060}")
    if not written:
        raise QuantityError("there are no axes", "write e.g. {year: 2025..2060}, or remove it")
    axes: dict[str, tuple[Value, ...]] = {}
    wrong = []
    for name, values in written.items():
        try:
            check_name(name)
            axes[name] = axis_values(values)
        except QuantityError as error:
            error.at = (name, *error.at)
            wrong.append(error)
    QuantityError.raise_all(wrong)
    return axes


OF_A_KIND = ("fold", "folds", "cv", "split", "splits")
"""Names of axes of which a plain number could be folds or periods as well as a sample, and the test depends on it."""
OVER_REMEDY = "write a list, e.g. [digits, wine], {folds: 5}, {periods: 5}, or the name of a group"


def parse_over(name: str, written: object) -> tuple[AxisKind, tuple[Value, ...] | str]:
    """Return the kind of an axis that measurements are repeated over, and its values or the name of a group of them.

    >>> parse_over("fold", {"folds": 3})
    (<AxisKind.FOLDS: 'folds'>, (0, 1, 2))
    """
    if isinstance(written, Mapping):
        kinds = [kind for kind in AxisKind if kind.value in written]
        if len(kinds) != 1 or len(written) != 1:
            raise QuantityError(f"{shown(dict(written))} is no kind of axis", OVER_REMEDY)
        try:
            return kinds[0], axis_values(written[kinds[0].value])
        except QuantityError as error:
            error.at = (kinds[0].value, *error.at)
            raise
    if isinstance(written, str) and not RANGE.fullmatch(written):
        if not written.strip():
            raise QuantityError("the name of a group is empty", OVER_REMEDY)
        return AxisKind.SAMPLE, written
    if name.lower() in OF_A_KIND and isinstance(written, int) and not isinstance(written, bool):
        raise QuantityError(
            f"{name}: {written} does not say of which kind its values are, and the test of a verdict depends on it",
            f"write {{folds: {written}}} for cross-validation, {{periods: {written}}} for time windows, or a list",
            code="axis-kind",
        )
    return AxisKind.SAMPLE, axis_values(written)


def check_name(name: object) -> None:
    """Raise a ``QuantityError`` unless a value can be passed to a function by this name."""
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
        remedy = "use letters, digits and _: functions get its values by this name"
        raise QuantityError(f"{shown(name)} cannot be the name of an axis", remedy)


def axis_values(written: object) -> tuple[Value, ...]:
    """Return the values of one axis, in the order in which they are written."""
    if isinstance(written, list | tuple):
        values: list[Value] = []
        for index, item in enumerate(written):
            values += members(item, index)
    elif isinstance(written, int) and not isinstance(written, bool):
        if written < 1:
            raise QuantityError(f"{written} gives no values", "write a number from 1, which means 0 … n-1")
        values = span(0, written - 1)
    elif isinstance(written, str) and RANGE.fullmatch(written):
        values = members(written)
    else:
        raise QuantityError(f"{shown(written)} is no axis", REMEDY)
    if not values:
        raise QuantityError("the axis has no values", REMEDY)
    check_distinct(values)
    return tuple(values)


def members(item: object, index: int | None = None) -> list[Value]:
    """Return the values that one item of a list stands for: those of a range, or itself."""
    at = () if index is None else (index,)
    if isinstance(item, str) and (match := RANGE.fullmatch(item)):
        first, last = int(match[1]), int(match[2])
        if last < first:
            message = f"the range {item.strip()} runs backwards"
            raise QuantityError(message, f"write {last}..{first}", at)
        return span(first, last)
    good = isinstance(item, str) and item.strip() and item.isprintable()
    if not good and not (isinstance(item, int | float) and isfinite(item)):
        raise QuantityError(f"{shown(item)} is no value of an axis", "write a text, a number, true or false", at)
    assert isinstance(item, str | int | float)
    return [item]


def span(first: int, last: int) -> list[Value]:
    if last - first >= MOST_COMBINATIONS:
        size = last - first + 1
        raise QuantityError(f"{size:,} values are more than the {MOST_COMBINATIONS:,} an axis may have", "write fewer")
    return list(range(first, last + 1))


def check_distinct(values: Sequence[Value]) -> None:
    """Raise a ``QuantityError`` for values that read alike: names of jobs and files are made of their text."""
    seen: set[str] = set()
    for index, value in enumerate(values):
        if (text := value_text(value)) in seen:
            raise QuantityError(f"{text} is listed twice", "remove one of them", (index,))
        seen.add(text)


def count(axes: Axes) -> int:
    """Return how many combinations there are; 1 without axes."""
    return prod(len(values) for values in axes.values())


def combinations(axes: Axes) -> Iterator[dict[str, Value]]:
    """Yield all coordinates, the last axis varying fastest.

    >>> list(combinations({"scenario": ("low", "high"), "year": (1, 2)}))[:2]
    [{'scenario': 'low', 'year': 1}, {'scenario': 'low', 'year': 2}]
    """
    return (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))


def value_text(value: Value) -> str:
    """Return a value as a manifest writes it."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def axis_text(axis: str, value: Value) -> str:
    """Return a value for people: a text by itself, a number or a truth value with the name of its axis."""
    return value if isinstance(value, str) else f"{axis} {number_text(value)}"


def number_text(value: Value) -> str:
    """Return a value as short as people write it: ``10`` for 10.0."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < EXACT
    return value_text(int(value) if whole else value)


def named(coordinates: Coordinates) -> str:
    """Return coordinates for people.

    >>> named({"scenario": "low", "year": 2025})
    'scenario=low,year=2025'
    """
    return ",".join(f"{axis}={value_text(value)}" for axis, value in coordinates.items())


def job_name(task: str, coordinates: Coordinates) -> str:
    """Return the name of a task's job at its coordinates, e.g. ``simulate[scenario=low,year=2025]``."""
    return f"{task}[{named(coordinates)}]" if coordinates else task


def task_of(job: str) -> str:
    """Return the task that a job belongs to, however often it was run and whatever its coordinates are."""
    name = job.rpartition("#")[0] if re.search(r"#\d+$", job) else job
    return name.partition("[")[0] if name.endswith("]") else name


def fields_in(template: str) -> list[str]:
    """Return the names in braces of a template such as ``out/{scenario}-{year}.nc``; raises ``ValueError``."""
    return [name for _, name, _, _ in Formatter().parse(template) if name is not None]


def filled_in(template: str, coordinates: Coordinates) -> str:
    """Return a template with the values of its axes; a format such as ``{member:03d}`` is kept.

    >>> filled_in("out/{scenario}-{member:03d}.nc", {"scenario": "low", "member": 7})
    'out/low-007.nc'
    """
    texts = {axis: value_text(value) if isinstance(value, bool) else value for axis, value in coordinates.items()}
    return template.format_map(texts)
