"""Which metrics a verdict rests on, which way each is better, and why. Metrics that are not listed are shown only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scalable.plugins import Better as Better
from scalable.plugins import Metric as Metric
from scalable.plugins import installed

GENERAL = tuple(
    Metric(name, better, "what the workload was run to measure", True)
    for better, names in (
        (
            Better.HIGHER,
            ("precision", "f1", "accuracy", "balanced_accuracy", "roc_auc", "average_precision", "r2", "score"),
        ),
        (Better.LOWER, ("log_loss", "loss", "brier", "error", "mse", "rmse", "mae", "mape")),
    )
    for name in names
)
"""Names that mean the same everywhere."""


def known_metrics() -> dict[str, Metric]:
    """Return metrics with a known direction, by name: those that installed workloads declare, then common ones."""
    declared = {metric.name: metric for plugin in installed().values() for metric in plugin.metrics}
    return declared | {metric.name: metric for metric in GENERAL if metric.name not in declared}


def judged(names: Iterable[str]) -> tuple[Metric, ...]:
    """Return those of the reported metrics that verdicts can rest on, the most important first."""
    there = set(names)
    return tuple(metric for name, metric in known_metrics().items() if name in there)


def stated(metrics: Mapping[str, str]) -> tuple[Metric, ...]:
    """Metrics as a sweep states them: ``{recall: higher, latency_ms: lower}``."""
    return tuple(Metric(name, Better[way.upper()], "the sweep says so", True) for name, way in metrics.items())


def directed(metrics: Mapping[str, str]) -> dict[str, Metric]:
    """Return metrics that have a better and a worse, by name; what a sweep states of them counts first."""
    return known_metrics() | {metric.name: metric for metric in stated(metrics)}


def best_of(values: Iterable[float | None], better: Better) -> float | None:
    """The best of several different values."""
    numbers = {value for value in values if value is not None}
    if len(numbers) < 2:
        return None
    return max(numbers) if better is Better.HIGHER else min(numbers)
