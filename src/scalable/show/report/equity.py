"""Curves over time of a sweep whose workload declares them, computed anew from kept artefacts by its stages.

Only what is kept is read: a costly stage whose result is gone is not repeated for a picture. A curve counts if it ends
at the metric that its row has; a value of the first axis is shown if every variant has all values of the second. Those
follow one another in time, so a curve is one walk forward through all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import expm1, isclose
from typing import TYPE_CHECKING, Any, NamedTuple

from scalable.errors import ScalableError
from scalable.plugins import Curves as Declared
from scalable.plugins import installed
from scalable.store.artefacts import MISSING, ArtefactError, open_artefacts
from scalable.sweeps.results import Outcome, Same, Variant, number, same
from scalable.sweeps.units import Evaluation
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.sweeps.compiling import Compiled
    from scalable.sweeps.stages import Stage
    from scalable.sweeps.units import RowWork

MOST_DRAWN = 12  # drawn; more are no picture any more
MOST_VARIANTS = 8
MOST_POINTS = 240  # of one curve
CLOSE = 1e-6  # relative; what the same code computes of the same numbers on another machine

Line = tuple[tuple[int, float], ...]
"""Seconds since 1970 and what 1 put in at the beginning is worth then."""


@dataclass(frozen=True, slots=True)
class Curves:
    noun: str
    """What a value of the first axis is called."""
    caption: str
    variants: tuple[Variant, ...]
    lines: Mapping[str, Mapping[Same, Line]]
    """By value of the first axis and variant."""
    together: Mapping[Same, Line]
    """Equal shares of all of them, put in at the beginning and left alone."""
    remarks: tuple[str, ...] = ()
    """What is not shown, and why."""


class Walk(NamedTuple):
    """A row of which a part of a curve is drawn."""

    work: RowWork
    variant: Same
    name: str
    """Its value of the first axis, which has a picture of its own."""
    order: int
    """Its value of the second."""


class NotKeptError(ScalableError):
    """A stage's result that would have to be computed."""


class OnlyKept(Evaluation):
    """Finds what is kept; what would be costly enough to be kept is not computed."""

    def kept(self, stage: Stage[..., Any], key: str, cell: RowWork) -> Any:
        assert self.artefacts is not None
        value = self.artefacts.load(stage.name, key)
        if value is MISSING:
            raise NotKeptError(f"the result of stage {stage.name} is not kept any more")
        return value


def curves_of(compiled: Compiled, outcome: Outcome, artefacts: str) -> Curves | None:
    """Return the curves of a sweep; nothing if its workload declares none, or no row has finished."""
    found = declared_in(compiled)
    if found is None or not outcome.finished:
        return None
    stage, declared = found
    grid = compiled.grid
    if tuple(axis.name for axis in grid.over) != declared.over or [*grid.average] != [declared.average]:
        return None
    at = middle([float(each) for each in grid.average[declared.average]])
    labels, names = [grid.label(variant) for variant in grid.variants], grid.groups
    variants = tuple(labels[:MOST_VARIANTS])
    shown = {same(variant) for variant in variants}
    wanted = [
        Walk(work, same(grid.label(cell.variant)), str(cell.block[0]), int(cell.block[1]))
        for work, cell in compiled.cells
        if cell.averaged == (at,) and same(grid.label(cell.variant)) in shown
    ]
    remarks = []
    if len(variants) < len(labels):
        remarks.append(f"the first {len(variants)} of {len(labels)} variants are drawn")
    evaluation = OnlyKept(compiled.workload, open_artefacts(artefacts))
    drawn: dict[str, dict[Same, Line]] = {}
    why: dict[str, str] = {}
    for name in names:
        if len(drawn) == MOST_DRAWN:
            remarks.append(f"{MOST_DRAWN} of {plural(len(names), declared.noun)} are drawn")
            break
        try:
            walks = [each for each in wanted if each.name == name]
            drawn[name] = lines_of(evaluation, stage, declared, walks, at, outcome)
        except (NotKeptError, ArtefactError) as error:
            why[name] = str(error)
    if why:
        missing, reasons = ", ".join(why), "; ".join(dict.fromkeys(why.values()))
        remarks.append(f"not drawn: {missing} ({reasons})")
    caption = declared.caption.format(average=at)
    return Curves(declared.noun, caption, variants, drawn, averaged(drawn.values()), tuple(remarks))


def declared_in(compiled: Compiled) -> tuple[Stage[..., Any], Declared] | None:
    """Return the stage of a workload that curves are drawn of, and how; a workload may be made of others' stages."""
    for plugin in installed().values():
        if plugin.curves is None:
            continue
        stage = compiled.workload.by_name.get(plugin.curves.stage)
        if stage is not None and stage.function.__module__.partition(".")[0] == plugin.package:
            return stage, plugin.curves
    return None


def middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def lines_of(
    evaluation: Evaluation, stage: Stage[..., Any], declared: Declared, walks: list[Walk], at: float, outcome: Outcome
) -> dict[Same, Line]:
    """Return the curves of one value of the first axis by variant; all of them or none."""
    module, _, name = declared.by_day.partition(":")
    by_day = getattr(import_module(module), name)
    parts: dict[Same, list[tuple[int, float]]] = {}
    for each in sorted(walks, key=lambda each: each.order):
        row = outcome.rows.get(each.work.run_key)
        if row is None or not row.finished:
            raise NotKeptError("a row is missing or failed")
        walk = parts.setdefault(each.variant, [])
        before = walk[-1][1] if walk else 0.0
        days = by_day(evaluation.value(stage, each.work), at)
        stored = number(row.metrics.get(declared.end))
        if stored is None or not isclose(expm1(days[-1][1]), stored, rel_tol=CLOSE, abs_tol=CLOSE):
            raise NotKeptError(f"what is kept does not give the {declared.end.replace('_', ' ')} that the row has")
        if walk and walk[-1][0] == days[0][0]:
            walk.pop()  # the day in which one part ends and the next begins
        walk += [(day, before + reached) for day, reached in days]
    return {variant: thinned([(day, 1 + expm1(reached)) for day, reached in walk]) for variant, walk in parts.items()}


def thinned(line: list[tuple[int, float]]) -> Line:
    step = -(-len(line) // MOST_POINTS)
    return (*line[:-1:step], line[-1])


def averaged(drawn: Iterable[Mapping[Same, Line]]) -> dict[Same, Line]:
    """Return the mean of several curves at the times of any; before its first and after its last point one stays."""
    import numpy as np

    by_variant: dict[Same, list[Line]] = {}
    for lines in drawn:
        for variant, line in lines.items():
            by_variant.setdefault(variant, []).append(line)
    curves: dict[Same, Line] = {}
    for variant, every in by_variant.items():
        times = np.unique([time for line in every for time, _ in line])
        values = np.mean(
            [np.interp(times, [at for at, _ in line], [worth for _, worth in line]) for line in every], axis=0
        )
        curves[variant] = thinned([(int(time), float(value)) for time, value in zip(times, values, strict=True)])
    return curves
