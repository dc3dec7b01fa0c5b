"""Which metrics a verdict rests on, which way each is better, and why. Metrics that are not listed are shown only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class Better(Enum):
    """Which way a metric improves."""

    HIGHER = 1
    LOWER = -1


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that verdicts are made of."""

    name: str
    better: Better
    why: str
    """What it tells that the others do not."""
    primary: bool = False
    """A variant that makes this one clearly worse is given up whatever else it gains."""


TRADING = (
    Metric("sharpe", Better.HIGHER, "return for the risk taken, after costs: what a variant is chosen for", True),
    Metric("max_drawdown", Better.LOWER, "the deepest loss on the way, which ends a strategy in practice", True),
    Metric("sortino", Better.HIGHER, "as Sharpe, but only losses count as risk"),
    Metric("total_return", Better.HIGHER, "what was earned after costs"),
    Metric("profit_factor", Better.HIGHER, "gains for each unit lost"),
    Metric("hit_rate", Better.HIGHER, "how often a trade paid"),
    Metric("precision", Better.HIGHER, "how often a BUY was right; the model alone, without exits and costs"),
    Metric("f1", Better.HIGHER, "precision that was not bought by hardly ever saying BUY"),
)
"""Not among them: trades, buys and exposure, of which more is neither better nor worse, and recall, which one gets for
nothing by always saying BUY."""

GENERAL = tuple(
    Metric(name, better, "what the workload was run to measure", True)
    for better, names in (
        (Better.HIGHER, ("accuracy", "balanced_accuracy", "roc_auc", "average_precision", "r2", "score")),
        (Better.LOWER, ("log_loss", "loss", "brier", "error", "mse", "rmse", "mae", "mape")),
    )
    for name in names
)
"""Names that mean the same everywhere, for workloads outside trading."""

KNOWN = {metric.name: metric for metric in (*TRADING, *GENERAL)}


def judged(names: Iterable[str]) -> tuple[Metric, ...]:
    """Those of the reported metrics that verdicts can rest on, in the order of the lists above."""
    there = set(names)
    return tuple(metric for name, metric in KNOWN.items() if name in there)


def stated(metrics: Mapping[str, str]) -> tuple[Metric, ...]:
    """Metrics as a sweep states them: ``{recall: higher, latency_ms: lower}``."""
    return tuple(Metric(name, Better[way.upper()], "the sweep says so", True) for name, way in metrics.items())


def directed(metrics: Mapping[str, str]) -> dict[str, Metric]:
    """Metrics that have a better and a worse, by name: what a sweep states of them counts before the lists above."""
    return KNOWN | {metric.name: metric for metric in stated(metrics)}


def best_of(values: Iterable[float | None], better: Better) -> float | None:
    """The best of several different values."""
    numbers = {value for value in values if value is not None}
    if len(numbers) < 2:
        return None
    return max(numbers) if better is Better.HIGHER else min(numbers)
