"""Made-up rows of a calibration sweep: 3 variants × 5 assets × 5 folds × costs, with the gains a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from scalable.axes import Axis, AxisKind
from scalable.store import Row, RowStatus
from scalable.sweeps.grid import Cell, Grid
from scalable.sweeps.questions import Question
from scalable.sweeps.results import Outcome, Same, Variant, same
from scalable.sweeps.rows import row_of
from scalable.verdicts.guards import Margin
from scalable_finetune.catalogue import EVIDENCE, GUARDS, PRIMARY

ASSETS = ("AAVEUSDC", "UNIUSDC", "LDOUSDC", "ARBUSDC", "OPUSDC")
VARIANTS = ("none", "sigmoid", "isotonic")
USUAL = {
    "sharpe": 1.0, "max_drawdown": 0.2, "sortino": 1.4, "total_return": 0.1, "profit_factor": 1.3, "hit_rate": 0.5,
    "precision": 0.5, "f1": 0.4, "trades": 80.0, "exposure": 0.3,
}  # fmt: skip
SPREAD = 0.05  # of a metric between folds, as a part of it
NOISE = 0.01  # of the difference between two variants in a fold, as a part of the metric
TRADING = Question(PRIMARY, guards={name: Margin(share) for name, share in GUARDS.items()}, evidence=EVIDENCE)
Gains = Mapping[Any, Mapping[str, float]]
"""By variant and metric."""


GRID = Grid(
    compare={"calibration": VARIANTS},
    over=(Axis("asset", ASSETS), Axis("fold", (0, 1, 2, 3, 4), AxisKind.PERIODS)),
    average={"cost_bps": (10.0, 30.0)},
    baseline=("none",),
)


def a_cell(variant: Variant, asset: str, fold: int, cost: float) -> Cell:
    return Cell((variant,), (asset, fold), (cost,))


def key(cell: Cell) -> str:
    return blake2b(repr(cell).encode(), digest_size=16).hexdigest()


def cells(variants: Iterable[Variant] = VARIANTS, folds: int = 5, costs: Iterable[float] = (10.0, 30.0)) -> list[Cell]:
    return [
        a_cell(variant, asset, fold, cost)
        for variant in variants
        for asset in ASSETS
        for fold in range(folds)
        for cost in costs
    ]


def row(cell: Cell, metrics: Mapping[str, Any], **changed: Any) -> Row:
    return row_of("calibration", GRID, cell, run_key=key(cell), metrics=metrics, **changed)


def failed(cell: Cell) -> Row:
    return row(cell, {}, run_status=RowStatus.FAILED, error="killed: out of memory")


def an_outcome(
    gains: Gains | None = None,
    *,
    seed: int = 0,
    baseline: Variant = "none",
    without: Callable[[Cell], bool] = lambda cell: False,
    failing: Callable[[Cell], bool] = lambda cell: False,
    trades: Callable[[Cell], float] = lambda cell: 80.0,
    usual: Mapping[str, float] = USUAL,
    question: Question | None = None,
    of: Iterable[Cell] | None = None,
) -> Outcome:
    """``gains`` are in units of the noise: {"isotonic": {"sharpe": 1.5}} has an effect of about 1.5."""
    chance = np.random.default_rng(seed)
    every = list(cells() if of is None else of)
    shared: dict[tuple[Any, ...], dict[str, float]] = {}
    own: dict[tuple[Same, tuple[Any, ...]], dict[str, float]] = {}
    gained = {same(variant): gain for variant, gain in (gains or {}).items()}
    rows = {}
    for cell in every:
        level = shared.setdefault(cell.block, {name: SPREAD * chance.normal() for name in usual})
        variant = same(cell.variant[0])
        noise = own.setdefault((variant, cell.block), {name: chance.normal() for name in usual})
        wanted = gained.get(variant, {})
        metrics = {
            name: value * (1 + level[name] + NOISE * (noise[name] + 2**0.5 * wanted.get(name, 0.0)))
            - float(cell.averaged[0]) / 10_000
            for name, value in usual.items()
        }
        if "trades" in usual:
            metrics["trades"] = trades(cell)
        if not without(cell):
            rows[key(cell)] = failed(cell) if failing(cell) else row(cell, metrics)
    asked = TRADING if question is None else question
    return Outcome("calibration", GRID, [(key(cell), cell) for cell in every], rows, baseline, question=asked)
