"""Equity curves of a trading sweep, computed anew from kept artefacts by the stages that made the rows.

Only what is kept is read: a search that is gone is not repeated for a picture. A curve counts if it ends at the total
return its row has; an asset is shown if every variant has all its folds. Folds follow one another in time, so an
asset's curve is one walk forward through all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import expm1, isclose
from typing import TYPE_CHECKING, Any, NamedTuple

from scalable.errors import ScalableError
from scalable.store.artefacts import MISSING, ArtefactError, open_artefacts
from scalable.sweeps.results import Outcome, Same, Variant, number, same
from scalable.sweeps.units import Evaluation

if TYPE_CHECKING:
    from scalable.finetune.backtest import Trades
    from scalable.sweeps.compiling import Compiled
    from scalable.sweeps.stages import Stage
    from scalable.sweeps.units import RowWork

STAGE = "trades"  # of the shipped workload, whose result has what an account did
MOST_ASSETS = 12  # drawn; more are no picture any more
MOST_VARIANTS = 8
MOST_POINTS = 240  # of one curve
DAY_S = 86_400
CLOSE = 1e-6  # relative; what the same code computes of the same numbers on another machine

Line = tuple[tuple[int, float], ...]
"""Seconds since 1970 and what 1 put in at the beginning is worth then."""


@dataclass(frozen=True, slots=True)
class Curves:
    cost_bps: float
    variants: tuple[Variant, ...]
    assets: Mapping[str, Mapping[Same, Line]]
    """By asset and variant."""
    together: Mapping[Same, Line]
    """Equal shares of these assets, put in at the beginning and left alone."""
    remarks: tuple[str, ...] = ()
    """What is not shown, and why."""


class Walk(NamedTuple):
    """A row whose trades are drawn."""

    work: RowWork
    variant: Same
    asset: str
    fold: int


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
    """Nothing if the workload does not trade, or no row has finished."""
    stage = compiled.workload.by_name.get(STAGE)
    if stage is None or not stage.function.__module__.startswith("scalable.finetune.") or not outcome.finished:
        return None
    grid = compiled.grid
    if [axis.name for axis in grid.over] != ["asset", "fold"] or [*grid.average] != ["cost_bps"]:
        return None
    cost = middle([float(each) for each in grid.average["cost_bps"]])
    labels, assets = [grid.label(variant) for variant in grid.variants], grid.groups
    variants = tuple(labels[:MOST_VARIANTS])
    shown = {same(variant) for variant in variants}
    wanted = [
        Walk(work, same(grid.label(cell.variant)), str(cell.block[0]), int(cell.block[1]))
        for work, cell in compiled.cells
        if cell.averaged == (cost,) and same(grid.label(cell.variant)) in shown
    ]
    remarks = []
    if len(variants) < len(labels):
        remarks.append(f"the first {len(variants)} of {len(labels)} variants are drawn")
    evaluation = OnlyKept(compiled.workload, open_artefacts(artefacts))
    drawn: dict[str, dict[Same, Line]] = {}
    why: dict[str, str] = {}
    for asset in assets:
        if len(drawn) == MOST_ASSETS:
            remarks.append(f"{MOST_ASSETS} of {len(assets)} assets are drawn")
            break
        try:
            drawn[asset] = lines_of(evaluation, stage, [each for each in wanted if each.asset == asset], cost, outcome)
        except (NotKeptError, ArtefactError) as error:
            why[asset] = str(error)
    if why:
        names, reasons = ", ".join(why), "; ".join(dict.fromkeys(why.values()))
        remarks.append(f"not drawn: {names} ({reasons})")
    return Curves(cost, variants, drawn, averaged(drawn.values()), tuple(remarks))


def middle(costs: Sequence[float]) -> float:
    return sorted(costs)[len(costs) // 2]


def lines_of(
    evaluation: Evaluation, stage: Stage[..., Any], walks: list[Walk], cost_bps: float, outcome: Outcome
) -> dict[Same, Line]:
    """Return the curves of one asset by variant; all of them or none."""
    parts: dict[Same, list[tuple[int, float]]] = {}
    for each in sorted(walks, key=lambda each: each.fold):
        row = outcome.rows.get(each.work.run_key)
        if row is None or not row.finished:
            raise NotKeptError("a row is missing or failed")
        walk = parts.setdefault(each.variant, [])
        before = walk[-1][1] if walk else 0.0
        days = by_day(evaluation.value(stage, each.work), cost_bps)
        stored = number(row.metrics.get("total_return"))
        if stored is None or not isclose(expm1(days[-1][1]), stored, rel_tol=CLOSE, abs_tol=CLOSE):
            raise NotKeptError("what is kept does not give the total return that the row has")
        if walk and walk[-1][0] == days[0][0]:
            walk.pop()  # the day in which one fold ends and the next begins
        walk += [(day, before + reached) for day, reached in days]
    return {variant: thinned([(day, 1 + expm1(reached)) for day, reached in walk]) for variant, walk in parts.items()}


def by_day(trades: Trades, cost_bps: float) -> list[tuple[int, float]]:
    """The logarithm of what the account has gained at each day's end, the cost paid where trades begin and end."""
    import numpy as np

    from scalable.finetune.metrics import BASIS_POINT

    returns = trades.returns.copy()
    for at in (trades.entry, trades.exit):
        np.add.at(returns, at, np.log1p(-cost_bps * BASIS_POINT))
    reached = np.cumsum(returns)
    day = trades.time // DAY_S
    last = np.append(np.flatnonzero(np.diff(day)), len(day) - 1)
    return [(int(day[at]) * DAY_S, float(reached[at])) for at in last]


def thinned(line: list[tuple[int, float]]) -> Line:
    step = -(-len(line) // MOST_POINTS)
    return (*line[:-1:step], line[-1])


def averaged(assets: Iterable[Mapping[Same, Line]]) -> dict[Same, Line]:
    """The mean of several assets' curves at the times of any; before its first and after its last point one stays."""
    import numpy as np

    by_variant: dict[Same, list[Line]] = {}
    for asset in assets:
        for variant, line in asset.items():
            by_variant.setdefault(variant, []).append(line)
    curves: dict[Same, Line] = {}
    for variant, lines in by_variant.items():
        times = np.unique([time for line in lines for time, _ in line])
        values = np.mean(
            [np.interp(times, [at for at, _ in line], [worth for _, worth in line]) for line in lines], axis=0
        )
        curves[variant] = thinned([(int(time), float(value)) for time, value in zip(times, values, strict=True)])
    return curves
