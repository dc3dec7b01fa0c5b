"""A small workload: three stages over numbers, cheap, with every option a stage has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalable.sweeps.stages import scratch, stage
from scalable.sweeps.workload import Workload

CALLS: list[str] = []
SCRATCH: list[Path | None] = []
"""The folders that ``lone`` was given."""


@stage(reads=("asset",))
def table(*, asset: str) -> list[int]:
    CALLS.append(f"table {asset}")
    return [len(asset), 1]


@stage(reads=("noise",), unless={"noise": "off"})
def noisy(table: list[int], *, noise: str) -> list[int]:
    CALLS.append(f"noisy {noise}")
    return [*table, len(noise)]


@stage(reads=("depth", "seed", "fold"))
def fitted(noisy: list[int], *, depth: int, seed: int, fold: int) -> float:
    CALLS.append(f"fitted {depth} {fold}")
    return float(sum(noisy) * depth + seed + fold)


@stage(reads=("cost_bps",), keep=False)
def row(fitted: float, *, cost_bps: float) -> dict[str, float]:
    return {"score": fitted - cost_bps}


SMALL = Workload((table, noisy, fitted, row), unit="fitted", defaults={"noise": "off", "depth": 1})


@stage(reads=("asset",))
def lone(*, asset: str) -> dict[str, Any]:
    """Leave half-done work in its scratch folder, and measure whether there is one."""
    where = scratch()
    SCRATCH.append(where)
    return {"there": float(where is not None and Path(where).is_dir())}


def plain(variant: str, asset: str, fold: int, weight: float = 2.0) -> dict[str, float]:
    return {"score": weight * len(variant) + len(asset) + fold}


@stage(over=("asset", "universe"), keep=False)
def together(fitted: dict[str, float]) -> dict[str, float]:
    return dict(fitted)


@stage(reads=("weight",), keep=False)
def summed(together: dict[str, float], *, weight: float) -> dict[str, float]:
    return {"score": weight * sum(together.values()), "of": float(len(together))}


PORTFOLIO = Workload(
    (table, noisy, fitted, together, summed), unit="together", defaults={"noise": "off", "depth": 1, "weight": 1.0}
)
