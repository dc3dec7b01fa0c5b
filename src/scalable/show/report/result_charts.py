"""Pictures of what sweeps gave: effects with their intervals, equity curves, and a heat map of the main metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

from scalable.axes import Value, number_text
from scalable.observe.words import decimals, measured
from scalable.show.report.drawing import (
    Scale,
    bottom_axis,
    date_ticks,
    drawing,
    label,
    left_axis,
    line,
    rule,
    ticks,
)
from scalable.show.report.elements import Child, Markup, tag
from scalable.show.report.equity import Line
from scalable.sweeps.results import Pair, Same, Variant, same
from scalable.verdicts.judging import MetricResult, Standing

COLOURS = {Standing.BETTER: "good", Standing.WORSE: "bad", Standing.OPEN: "muted"}
SHADES = 0.92  # the strongest colour of a cell; figures on it are still read
ROOM_FOR_FIGURES = 34.0  # units of width; narrower cells have their figure in the table only
SEEN = 12.0  # the narrowest cell
MOST_ACROSS = 5  # blocks
MOST_TALL = 20  # assets; more have lower cells, without figures
WIDTH = 960.0


def effects(compared: Sequence[tuple[Variant, MetricResult]]) -> Markup:
    """Return the mean difference of each variant from the baseline with its interval, in the metric's own units."""
    left, right, row = 150.0, 452.0, 28.0
    ends = [bound for _, each in compared for bound in (*each.interval, each.delta)]
    reach = max((abs(bound) for bound in ends if bound == bound), default=0.0) * 1.15 or 1.0
    x = Scale(-reach, reach, left, right)
    bottom = 12 + row * len(compared)
    metric = compared[0][1]
    better = {True: right, False: left, None: x(0)}[metric.higher]
    drawn: list[Child] = [
        tag("rect", x=min(x(0), better), y=4, width=abs(better - x(0)), height=bottom - 4, class_="better"),
        bottom_axis(x, bottom, [(tick, f"{tick:+g}" if tick else "0") for tick in ticks(-reach, reach, 5)], 4.0),
        rule(x(0), 4, x(0), bottom, "zero"),
    ]
    for at, (variant, each) in enumerate(compared):
        y = 12 + row * (at + 0.5)
        low, high = each.interval
        kind = COLOURS[each.standing]
        name = str(variant)
        drawn.append(label(left - 10, y + 4, name if len(name) <= 20 else f"{name[:19]}…", anchor="end"))
        if low == low and high == high:
            drawn += [rule(x(low), y, x(high), y, f"line {kind}")]
            drawn += [rule(x(end), y - 5, x(end), y + 5, f"line {kind}") for end in (low, high)]
        drawn.append(tag("circle", cx=x(each.delta), cy=y, r=5, class_=f"dot {kind}"))
    spoken_text = "; ".join(spoken(variant, each) for variant, each in compared)
    return drawing(right + 8, bottom + 26, f"Difference in {metric.name}", f"{spoken_text}.", drawn)


def spoken(variant: Variant, each: MetricResult) -> str:
    low, high = each.interval
    places = decimals(max(abs(low), abs(high)))
    return f"{variant} {each.delta:+.{places}f}, 95 % within {low:+.{places}f} and {high:+.{places}f}"


def equity(title: str, lines: Mapping[Same, Line], kinds: Mapping[Same, str], width: float, height: float) -> Markup:
    """Return what 1 put in at the beginning is worth over time, a line per variant."""
    left, right, top, bottom = 48.0, width - 10, 10.0, height - 26
    points = [point for each in lines.values() for point in each]
    low, high = (pick(reached for _, reached in points) for pick in (min, max))
    low, high = min(low, 1.0), max(high, 1.0)
    pad = (high - low) * 0.05 or 0.05
    x = Scale(points[0][0], max(at for at, _ in points), left, right)
    y = Scale(low - pad, high + pad, bottom, top)
    dates = date_ticks(int(x.low), int(x.high), 8 if width > 500 else 3)
    drawn: list[Child] = [
        left_axis(y, right, [(tick, f"{tick:.3g}") for tick in ticks(y.low, y.high, 5)], left),
        bottom_axis(x, bottom, [(float(at), words) for at, words in dates]),
        rule(left, y(1.0), right, y(1.0), "zero"),
        [line(each, x, y, f"line {kinds[variant]}") for variant, each in lines.items()],
    ]
    begin, end = (datetime.fromtimestamp(at, UTC).date().isoformat() for at in (x.low, x.high))
    spoken_text = "; ".join(f"{variant[1]} ends at {each[-1][1]:.3f}" for variant, each in lines.items())
    return drawing(width, height, title, f"From {begin} to {end}: {spoken_text}.", drawn)


@dataclass(frozen=True, slots=True)
class Heat:
    """A metric over variants and blocks; nothing where a row is missing or failed.

    A block stands in the row of its values on all repeated axes but the last, and in the column of its last.
    """

    metric: str
    higher_is_better: bool | None
    variants: tuple[Variant, ...]
    rows: tuple[Pair, ...]
    names: tuple[str, ...]
    """Of the rows."""
    columns: tuple[Value, ...]
    values: Mapping[Same, Mapping[Pair, float]]

    def at(self, variant: Variant, row: Pair, column: Value) -> float | None:
        return self.values.get(same(variant), {}).get((*row, column))


def heat_map(heat: Heat) -> Markup:
    """Return a map per variant, the last axis across; the same colour is the same value in all of them."""
    numbers = [each for values in heat.values.values() for each in values.values()]
    low, high = min(numbers), max(numbers)
    names, gap = 92.0, 22.0
    across = blocks_across(heat, WIDTH - names + gap, gap)
    block = (WIDTH - names + gap) / across - gap
    cell, row = block / len(heat.columns), 26.0 if len(heat.rows) <= MOST_TALL else 14.0
    tall = 44 + row * len(heat.rows)
    drawn: list[Child] = []
    for at, variant in enumerate(heat.variants):
        left, top = names + (at % across) * (block + gap), (at // across) * (tall + 14)
        drawn.append(label(left, top + 14, f"{variant}", class_="title"))
        if cell > 14:
            drawn += [
                label(left + cell * (column + 0.5), top + 32, number_text(value), anchor="middle")
                for column, value in enumerate(heat.columns)
            ]
        for down, (values, name) in enumerate(zip(heat.rows, heat.names, strict=True)):
            y = top + 40 + row * down
            if not at % across and row > 12:
                drawn.append(
                    label(names - 8, y + row / 2 + 4, name if len(name) <= 12 else f"{name[:11]}…", anchor="end")
                )
            drawn += [
                heat_cell(left + cell * column, y, cell, row, heat.at(variant, values, value), (low, high), heat)
                for column, value in enumerate(heat.columns)
            ]
    spoken_text = f"{heat.metric} from {measured(low)} to {measured(high)} over {len(numbers)} blocks of all variants"
    height = ceil(len(heat.variants) / across) * (tall + 14)
    return drawing(WIDTH, height, f"{heat.metric} by variant and block", f"{spoken_text}.", drawn)


def blocks_across(heat: Heat, width: float, gap: float) -> int:
    """As many blocks side by side as leave room for figures in the cells; if none does, for cells that can be seen."""
    for least in (ROOM_FOR_FIGURES, SEEN) if len(heat.rows) <= MOST_TALL else (SEEN,):
        fitting = [count for count in range(1, MOST_ACROSS + 1) if (width / count - gap) / len(heat.columns) >= least]
        if fitting:
            return min(fitting[-1], len(heat.variants))
    return 1


def heat_cell(
    x: float, y: float, width: float, height: float, number: float | None, ends: tuple[float, float], heat: Heat
) -> list[Markup]:
    place = {"x": x + 0.75, "y": y + 0.75, "width": max(1.0, width - 1.5), "height": height - 1.5, "rx": 2}
    if number is None:
        return [tag("rect", **place, class_="hole")]
    kind, strength = shade(number, ends, heat.higher_is_better)
    drawn = [tag("rect", **place, class_=f"fill {kind}", fill_opacity=f"{strength:.2f}")]
    if width >= ROOM_FOR_FIGURES and height > 20:
        class_ = "figure strong" if strength > 0.75 else "figure"
        drawn.append(label(x + width / 2, y + height / 2 + 4, short(number), anchor="middle", class_=class_))
    return drawn


def shade(number: float, ends: tuple[float, float], higher_is_better: bool | None) -> tuple[str, float]:
    """Good and bad around 0 where a metric has both signs and a direction; else one colour, stronger for more."""
    low, high = ends
    if higher_is_better is not None and low < 0 < high:
        good = (number > 0) == higher_is_better
        return ("good" if good else "bad"), 0.06 + SHADES * abs(number) / max(-low, high)
    share = (number - low) / (high - low) if high > low else 0.5
    return "c1", 0.08 + SHADES * share * 0.98


def short(number: float) -> str:
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"
