"""WFRB as a workload: the models of a fold over a universe of assets, then the portfolio made of them.

A sweep of it has ``run: scalable_finetune.portfolio:WORKLOAD``, the name of a group as its asset, and varies e.g.
``rebalance``. Models that another sweep has left among the artefacts are used as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable.workloads import Workload, stage
from scalable_finetune.calibration import Calibrated
from scalable_finetune.market import Bars
from scalable_finetune.settings import DEFAULTS, check
from scalable_finetune.wfrb import Holding, rebalanced
from scalable_finetune.workload import WORKLOAD as SEARCHED


@stage(over=("asset", "universe"), keep=False)
def portfolio(calibrated: Mapping[str, Calibrated], bars: Mapping[str, Bars]) -> dict[str, Holding]:
    return {asset: Holding(bars[asset], (calibrated[asset],)) for asset in calibrated}


def check_universe(configuration: Mapping[str, Any]) -> None:
    check({name: value for name, value in configuration.items() if name != "universe"})


WORKLOAD = Workload(
    stages=(*(each for each in SEARCHED.stages if each.name not in ("trades", "row")), portfolio, rebalanced),
    unit="portfolio",
    defaults=DEFAULTS,
    check=check_universe,
)
