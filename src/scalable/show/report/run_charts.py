"""Pictures of how a run went: workers, waiting work and rows over time, memory beside limits, what the bill is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalable.observe.fleet import by_tag
from scalable.observe.series import Points
from scalable.observe.view import RunView
from scalable.observe.words import TIGHT
from scalable.quantities import Memory, percent
from scalable.show.report.drawing import (
    Scale,
    area,
    bottom_axis,
    drawing,
    elapsed,
    label,
    left_axis,
    line,
    roof,
    rule,
    stairs,
    time_ticks,
    whole_ticks,
)
from scalable.show.report.elements import Child, Markup, tag

WIDTH, LEFT, RIGHT = 960.0, 56.0, 944.0
PANEL, GAP = 108.0, 42.0
COLOURS = 8  # series that have one of their own
ROW = 30.0


def timeline(
    view: RunView, began: float, until: float, decisions: Sequence[Mapping[str, Any]], expected: int
) -> Markup:
    """Workers by kind, work that waits and runs, and rows, one above the other over the same time."""
    span = max(1.0, until - began)
    x = Scale(0.0, span, LEFT, RIGHT)
    panels: list[tuple[str, list[tuple[Points, str]], float, Sequence[tuple[float, str]]]] = []
    if view.fleet.timeline:
        live = [
            (shifted(line_until(points, until), began), f"c{at % COLOURS + 1}")
            for at, points in enumerate(by_tag(view.fleet.timeline).values())
        ]
        panels.append(("workers", live, highest(live), marks_of(decisions, began)))
    tasks = [
        (shifted(line_until(view.series.line(name), until), began), kind)
        for name, kind in (("waiting", "muted"), ("running", "c2"))
    ]
    if highest(tasks) > 0:
        panels.append(("tasks that wait and run", tasks, highest(tasks), ()))
    if view.series.rows:
        rows = [(shifted(line_until([(began, 0.0), *view.series.rows], until), began), "good")]
        panels.append(("rows stored", rows, max(highest(rows), expected), ()))
    drawn: list[Child] = []
    top = 22.0
    for title, lines, high, marks in panels:
        y = Scale(0.0, roof(high, 3), top + PANEL, top)
        drawn += left_axis(y, RIGHT, [(tick, f"{tick:,.0f}") for tick in whole_ticks(y.high, 3)], LEFT)
        drawn.append(label(LEFT, top - 8, title, class_="title"))
        for points, kind in lines:
            steps = stairs(points)
            drawn.append(area(steps, x, y, f"area {kind}"))
            drawn.append(line(steps, x, y, f"line {kind}") if steps else None)
        if title == "rows stored" and expected:
            drawn.append(rule(LEFT, y(expected), RIGHT, y(expected), "goal"))
        drawn += [arrow(x(at), top + PANEL, direction) for at, direction in marks]
        top += PANEL + GAP
    drawn += bottom_axis(x, top - GAP, [(tick, elapsed(tick)) for tick in time_ticks(span)])
    spoken_text = ", ".join(f"{title} up to {high:,.0f}" for title, _, high, _ in panels)
    return drawing(WIDTH, top - GAP + 28, "How the run went", f"Over {elapsed(span)}: {spoken_text}.", drawn)


def highest(lines: Sequence[tuple[Points, str]]) -> float:
    return max((value for points, _ in lines for _, value in points), default=0.0)


def line_until(points: Points, end: float) -> Points:
    """Return the line on to a moment at which nothing was told."""
    return [*points, (end, points[-1][1])] if points and points[-1][0] < end else points


def shifted(points: Points, began: float) -> Points:
    return [(max(0.0, at - began), value) for at, value in points]


def marks_of(decisions: Sequence[Mapping[str, Any]], began: float) -> list[tuple[float, str]]:
    return [(each["t"] - began, str(each["direction"])) for each in decisions]


def arrow(x: float, y: float, direction: str) -> Markup:
    tip = -9.0 if direction == "up" else 9.0
    base = y + (9.0 if direction == "up" else 2.0)
    return tag(
        "polygon",
        points=f"{x - 5:.1f},{base:.1f} {x + 5:.1f},{base:.1f} {x:.1f},{base + tip:.1f}",
        class_=f"mark {direction}",
    )


def memory_bars(bars: Sequence[tuple[str, int, int | None, int | None]]) -> Markup:
    """Name, peak, limit and planned peak: how full each was, on one scale of bytes."""
    left, right = 190.0, WIDTH - 150
    high = max(max(peak, limit or 0, planned or 0) for _, peak, limit, planned in bars)
    x = Scale(0.0, float(high), left, right)
    drawn: list[Child] = []
    for at, (name, peak, limit, planned) in enumerate(bars):
        y = 8 + at * ROW
        share = peak / limit if limit else None
        kind = "bad" if share is not None and share > TIGHT else "c1"
        drawn.append(label(left - 10, y + 14, name if len(name) <= 26 else f"{name[:25]}…", anchor="end"))
        if limit:
            drawn.append(tag("rect", x=left, y=y, width=x(limit) - left, height=18, rx=3, class_="track"))
        drawn.append(tag("rect", x=left, y=y, width=max(2.0, x(peak) - left), height=18, rx=3, class_=f"fill {kind}"))
        if planned:
            drawn.append(rule(x(planned), y - 3, x(planned), y + 21, "plan"))
        words = f"{Memory(peak)}{f' · {percent(share)}' if share is not None else ''}"
        drawn.append(label(right + 12, y + 14, words))
    spoken_text = "; ".join(
        f"{name} {Memory(peak)}{f' of {Memory(limit)}' if limit else ''}" for name, peak, limit, _ in bars[:5]
    )
    return drawing(WIDTH, 12 + len(bars) * ROW, "Memory peaks beside limits", f"{spoken_text}.", drawn)


def bill_bar(parts: Sequence[tuple[str, float, str]], marks: Sequence[tuple[str, float]]) -> Markup:
    """Return what the bill is made of, with what was planned and what may be spent marked above it."""
    total = sum(amount for _, amount, _ in parts)
    high = max(total, *(amount for _, amount in marks)) if marks else total
    x = Scale(0.0, high or 1.0, 16.0, WIDTH - 16)
    drawn: list[Child] = []
    reached = 0.0
    for name, amount, kind in parts:
        begin, end = x(reached), x(reached + amount)
        drawn.append(
            tag(
                "rect",
                tag("title", name),
                x=begin,
                y=34,
                width=max(0.5, end - begin - 1),
                height=30,
                class_=f"fill {kind}",
            )
        )
        reached += amount
    for row, (name, amount) in enumerate(marks):
        at = x(amount)
        anchor = "end" if at > WIDTH * 0.6 else "start"
        drawn += [rule(at, 22, at, 74, "plan"), label(at, 88 if row else 16, name, anchor=anchor)]
    height = 94 if len(marks) > 1 else 76
    return drawing(WIDTH, height, "What the bill is made of", "; ".join(name for name, _, _ in parts), drawn)
