"""What every chart is drawn with: scales, round ticks, axes and lines, as SVG that takes its colours from the page.

Coordinates are units of a view box, so a chart is as wide as its place and prints sharp. A chart has a title and a
description for those who hear it; its numbers stand in a table beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, pairwise
from math import ceil, floor, log10

from scalable.show.report.elements import Child, Markup, tag

STEPS = (1.0, 2.0, 5.0, 10.0)  # what a tick's distance is, times a power of ten
MOST_TIMES = 8  # ticks of an axis of time
TIME_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800)
WEEK_S = 7 * 86_400
DESCRIBED = count(1)  # ids must differ on one page


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places along an axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def drawing(width: float, height: float, title: str, description: str, *children: Child) -> Markup:
    id_ = f"chart-{next(DESCRIBED)}"
    return tag(
        "svg",
        tag("title", title, id=f"{id_}-t"),
        tag("desc", description, id=f"{id_}-d"),
        children,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_labelledby=f"{id_}-t {id_}-d",
    )


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers within a range, about as many as wanted."""
    if not high > low:
        return [low]
    rough = (high - low) / max(1, about)
    power = 10.0 ** floor(log10(rough))
    step = next(step * power for step in STEPS if step * power >= rough * 0.999)
    first = ceil(low / step - 1e-9)
    return [round(at * step, 12) for at in range(first, floor(high / step + 1e-9) + 1)]


def roof(high: float, about: int = 4) -> float:
    """Return the next round number over the highest value, so that the axis ends at a tick."""
    if high <= 0:
        return 1.0
    marks = ticks(0.0, high, about)
    step = marks[1] if len(marks) > 1 else high
    return ceil(high / step - 1e-9) * step


def whole_ticks(high: float, about: int = 4) -> list[float]:
    return [tick for tick in ticks(0.0, high, about) if tick == int(tick)]


def time_ticks(seconds: float) -> list[float]:
    weeks = ceil(seconds / MOST_TIMES / WEEK_S) * WEEK_S
    step = next((step for step in TIME_STEPS_S if seconds / step <= MOST_TIMES), weeks)
    return [float(at * step) for at in range(int(seconds // step) + 1)]


def elapsed(seconds: float) -> str:
    """Time since the beginning, short enough for an axis."""
    whole = round(seconds)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {minutes:02d}" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min {left} s" if left else f"{minutes} min"
    return f"{left} s" if left else "0"


def date_ticks(first: int, last: int, about: int = 7) -> list[tuple[int, str]]:
    """Return the beginnings of months, as many as fit; the first and the last day of a time that has hardly any."""
    begin, end = (datetime.fromtimestamp(moment, UTC) for moment in (first, last))
    months = [(year, month) for year in range(begin.year, end.year + 1) for month in range(1, 13)]
    moments = [(int(datetime(*month, 1, tzinfo=UTC).timestamp()), month) for month in months]
    within = [(at, f"{month[0]}-{month[1]:02d}") for at, month in moments if first <= at <= last]
    if len(within) < 2:
        return [(first, begin.date().isoformat()), (last, end.date().isoformat())]
    return within[:: max(1, ceil(len(within) / about))]


def label(x: float, y: float, words: Child, *, anchor: str = "start", class_: str = "label") -> Markup:
    return tag("text", words, x=x, y=y, text_anchor=anchor, class_=class_)


def rule(x1: float, y1: float, x2: float, y2: float, class_: str = "grid") -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def left_axis(scale: Scale, right: float, marks: Iterable[tuple[float, str]], left: float) -> list[Markup]:
    drawn = []
    for value, words in marks:
        y = scale(value)
        drawn += [rule(left, y, right, y), label(left - 8, y + 4, words, anchor="end")]
    return drawn


def bottom_axis(scale: Scale, y: float, marks: Iterable[tuple[float, str]], top: float | None = None) -> list[Markup]:
    drawn = []
    for value, words in marks:
        x = scale(value)
        drawn += [rule(x, top, x, y)] if top is not None else []
        drawn.append(label(x, y + 18, words, anchor="middle"))
    return drawn


def line(points: Sequence[tuple[float, float]], x: Scale, y: Scale, class_: str) -> Markup:
    return tag("path", d=path(points, x, y), class_=class_)


def path(points: Sequence[tuple[float, float]], x: Scale, y: Scale) -> str:
    return "M" + "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in points)


def stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return a value that holds until the next one."""
    if not points:
        return []
    drawn = [points[0]]
    for (_, before), (at, value) in pairwise(points):
        drawn += [(at, before), (at, value)]
    return drawn


def area(points: Sequence[tuple[float, float]], x: Scale, y: Scale, class_: str) -> Markup:
    if not points:
        return Markup("")
    ends = [(points[-1][0], 0.0), (points[0][0], 0.0)]
    return tag("path", d=f"{path([*points, *ends], x, y)}Z", class_=class_)


def legend(names: Iterable[tuple[str, str]]) -> Markup:
    """Return what each colour stands for, as text beside a chart."""
    return tag("ul", (tag("li", tag("i", class_=f"key {kind}"), name) for name, kind in names), class_="legend")
