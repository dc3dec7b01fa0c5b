"""How often the rule locks a variant that is no better, and finds one that is; on made-up sweeps of known truth.

A sweep has 25 pairs (five assets, five folds), the eight metrics of trading and two variants beside the baseline. The
differences between a variant and the baseline are drawn anew for each sweep. ``docs/explanation/gates.md`` has the
figures; ``python -m benchmarks.verdicts`` prints them, in two minutes.
"""

from __future__ import annotations

import json
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable.store import Row
from scalable.sweeps.decisions import Verdict
from scalable.sweeps.gates import decide
from scalable.sweeps.grid import Cell
from scalable.sweeps.metrics import TRADING
from scalable.sweeps.results import Outcome

ASSETS, FOLDS = 5, 5
VARIANTS = ("none", "one", "other")
NOTHING_BETTER = 1500  # sweeps for each share that is locked although nothing is better
SOMETHING_BETTER = 400  # sweeps for each share that is found
TOGETHER = 0.8  # how much the metrics of one backtest move together
GAINERS = 4  # metrics that are better where something is
SEED = 1


def measure() -> dict[str, Any]:
    nothing = {
        "pairs independent, metrics too": locked(NOTHING_BETTER),
        "metrics move together": locked(NOTHING_BETTER, together=TOGETHER),
        "20 % of the variance is the asset's": locked(NOTHING_BETTER, together=TOGETHER, of_assets=0.2),
        "50 % of the variance is the asset's": locked(NOTHING_BETTER, together=TOGETHER, of_assets=0.5),
    }
    better = {f"effect {one}": locked(SOMETHING_BETTER, together=TOGETHER, effect=one) for one in (0.5, 0.7, 0.9)}
    return {"locked though nothing is better": nothing, "found where four metrics are better": better}


def locked(sweeps: int, together: float = 0.0, of_assets: float = 0.0, effect: float = 0.0) -> float:
    """The share of sweeps that lock something: the variant ``one`` alone is better, if any is."""
    chance = np.random.default_rng(SEED)
    found = 0
    for _ in range(sweeps):
        gains = {variant: differences(chance, together, of_assets) for variant in VARIANTS[1:]}
        gains["one"][:GAINERS] += effect
        verdicts = {each.verdict for each in decide(outcome(gains), resamples=1).variants}
        found += Verdict.LOCK in verdicts
    return found / sweeps


def differences(chance: np.random.Generator, together: float, of_assets: float) -> NDArray[np.float64]:
    """By metric, asset and fold, with a variance of 1."""

    def drawn(folds: int) -> NDArray[np.float64]:
        own, common = chance.normal(size=(len(TRADING), ASSETS, folds)), chance.normal(size=(1, ASSETS, folds))
        return sqrt(1 - together) * own + sqrt(together) * common

    return sqrt(1 - of_assets) * drawn(FOLDS) + sqrt(of_assets) * drawn(1)


def outcome(gains: dict[str, NDArray[np.float64]]) -> Outcome:
    expected: list[tuple[str, Cell]] = []
    rows: dict[str, Row] = {}
    for variant in VARIANTS:
        for asset in range(ASSETS):
            for fold in range(FOLDS):
                cell = Cell("calibration", variant, f"A{asset}", fold, 10.0)
                gained = gains[variant][:, asset, fold] if variant in gains else np.zeros(len(TRADING))
                ways = zip(TRADING, gained, strict=True)
                metrics = {metric.name: 10.0 + metric.better.value * float(gain) for metric, gain in ways}
                key = f"{len(rows):032x}"
                expected.append((key, cell))
                rows[key] = Row(run_key=key, sweep="calibration", metrics=metrics, **cell._asdict())
    return Outcome("calibration", expected, rows, "none")


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
