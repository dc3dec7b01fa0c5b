"""The memory check before anything is paid: how much a run will need at its peak, and whether that is allowed.

The estimate grows with samples × features and never shrinks when either grows. It is deliberately high; a measured
peak replaces it. A run is blocked when its peak is over the profile's limit or over a share of the node.
"""

from __future__ import annotations

from dataclasses import dataclass

from scalable.quantities import Memory, Share

BASE = Memory.of_gib(0.6)  # interpreter with numpy, scikit-learn, xgboost and optuna imported
BYTES_PER_VALUE = 8  # float64
COPIES = 8  # features, training and validation parts, quantised matrix, gradients, calibration, backtest


@dataclass(frozen=True, slots=True)
class Estimate:
    """A peak and where the figure comes from."""

    peak: Memory
    source: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run with this peak may start, with the numbers and what to change."""

    ok: bool
    estimate: Estimate
    allowed: Memory
    message: str


def estimate_peak(samples: int, features: int, safety: float) -> Estimate:
    values = Memory(round(samples * features * BYTES_PER_VALUE * COPIES * safety))
    source = (
        f"estimated: {samples:,} samples × {features} features × {BYTES_PER_VALUE} B × {COPIES} copies × {safety:g}"
    )
    return Estimate(BASE + values, source)


def preflight(estimate: Estimate, *, limit: Memory, node: Memory, share: Share, larger: str | None) -> Verdict:
    """``larger`` names the next bigger profile that would do, if there is one."""
    of_node = Memory(int(node.bytes * share))
    allowed = min(limit, of_node)
    if estimate.peak <= allowed:
        return Verdict(True, estimate, allowed, f"peak {estimate.peak} within {allowed}")
    bound = f"the profile's limit of {limit}" if limit <= of_node else f"{share} of the node's {node}"
    change = f"use the profile {larger}" if larger else "use fewer samples or features, or a larger node"
    message = f"memory check: a peak of {estimate.peak} ({estimate.source}) is over {bound}; {change}"
    return Verdict(False, estimate, allowed, message)
