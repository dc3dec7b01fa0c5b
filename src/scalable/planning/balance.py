"""The point between: nearest to the best of every measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import hypot
from typing import TypeVar

T = TypeVar("T")


def balanced(options: Sequence[T], *measures: Callable[[T], float]) -> T:
    """The option nearest to the best of each measure, taken as a part of its range; the first among equals.

    A range smaller than the best value itself counts as that value, so that a few cents are not a world of difference.
    """
    values = [[measure(option) for option in options] for measure in measures]

    def distance(place: int) -> float:
        return hypot(*(part(column[place], min(column), max(column)) for column in values))

    return options[min(range(len(options)), key=distance)]


def part(value: float, low: float, high: float) -> float:
    return (value - low) / max(high - low, low) if high > low else 0.0
