"""The built-in factors of a trading sweep and the asset groups people name.

``is_heavy`` is the only place that decides whether a sweep needs the heavy profile; planner, forecast and executor
all ask it. Routing is per factor, never per variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Variant = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Factor:
    """One thing a sweep varies. The first variant is the baseline the others are compared with."""

    name: str
    variants: tuple[Variant, ...]
    heavy: bool = False
    """Its training sets are 5,000–20,000 events or carry a second asset: peaks of 10–15 GiB."""
    heavy_values: tuple[Variant, ...] = ()
    """Values that make the training sets of every sweep that large if they are locked or set; so do numbers over a
    heavy factor's baseline."""
    free: bool = False
    """Its values are lengths or numbers, of which more make sense than those listed; the workload says which."""
    in_search: bool = True
    """A variant changes what the hyper-parameter search sees; if not, one search serves all variants."""


FACTORS = {
    factor.name: factor
    for factor in (
        Factor("calibration", ("none", "sigmoid", "isotonic"), in_search=False),
        Factor("timeframe", ("1h", "15m", "30m", "4h"), free=True),
        Factor("fold_size", ("90d", "60d", "120d", "180d"), free=True),
        Factor("n_features", (80, 50, 120, "full"), free=True, heavy=True, heavy_values=("full",)),
        Factor("classification_mode", ("binary", "ternary", "meta")),
        Factor(
            "cusum_training_mode", ("events", "relaxed", "disabled"), heavy=True, heavy_values=("relaxed", "disabled")
        ),
        Factor("btc_features", ("off", "on"), heavy=True, heavy_values=("on",)),
        Factor("cleanlab", ("off", "prune", "weight")),
        Factor("focal_loss", ("off", 1.0, 2.0), free=True),
        Factor("label_smoothing", (0.0, 0.05, 0.1), free=True),
    )
}

TRAINING_SET = "training-set"  # the note in which a job tells how large the set is that it trains on
FULL_FEATURES = 272  # what n_features: full stands for

GROUPS = {
    "defi_top5": ("AAVEUSDC", "UNIUSDC", "LDOUSDC", "ARBUSDC", "OPUSDC"),
    "defi_full": (
        *("AAVEUSDC", "UNIUSDC", "LDOUSDC", "ARBUSDC", "OPUSDC", "MKRUSDC", "CRVUSDC", "COMPUSDC", "SNXUSDC"),
        *("SUSHIUSDC", "1INCHUSDC", "YFIUSDC", "BALUSDC", "GMXUSDC", "DYDXUSDC", "PENDLEUSDC", "INJUSDC"),
    ),
}

TRIALS = {"standard": 15, "deep": 30}  # hyper-parameter trials by power mode


NOTHING: Mapping[str, Variant] = {}


def is_heavy(factor: str, values: Mapping[str, Variant] = NOTHING) -> bool:
    """Tell whether a sweep of a factor needs much memory: for what it varies, or for the values that all rows have."""
    varies = factor in FACTORS and FACTORS[factor].heavy
    return varies or any(is_heavy_value(name, value) for name, value in values.items() if name != factor)


def is_heavy_value(name: str, value: Variant) -> bool:
    factor = FACTORS.get(name)
    if factor is None or not factor.heavy:
        return False
    first = factor.variants[0]
    if isinstance(first, int) and isinstance(value, int | float):
        return value > first
    return value in factor.heavy_values


WORKLOAD_PROFILES = {"scalable.finetune.portfolio:WORKLOAD": "wfrb"}
"""Shipped workloads with a profile of their own."""


def profile_for(factor: str, values: Mapping[str, Variant] = NOTHING, run: str | None = None) -> str:
    """Return the profile a factor of a workload is routed to when the sweep does not name one.

    ``values`` are those that all rows of the sweep have: locked ones and its settings.
    """
    return "heavy" if is_heavy(factor, values) else WORKLOAD_PROFILES.get(run or "", "standard")


def is_trading(run: str | None) -> bool:
    """Tell whether a workload is made of the shipped trading stages, which are what the catalogue knows."""
    return run is None or run.startswith("scalable.finetune.")


def baseline(factor: str) -> Variant | None:
    return FACTORS[factor].variants[0] if factor in FACTORS else None
