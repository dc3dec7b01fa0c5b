"""The built-in factors of a trading sweep and the asset groups people name.

``is_heavy`` is the only place that decides whether a factor needs the heavy profile; planner, forecast and executor
all ask it. Routing is per factor, never per variant.
"""

from __future__ import annotations

from dataclasses import dataclass

Variant = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Factor:
    """One thing a sweep varies. The first variant is the baseline the others are compared with."""

    name: str
    variants: tuple[Variant, ...]
    heavy: bool = False
    """Its training sets are 5,000–20,000 events or carry a second asset: peaks of 10–15 GiB."""
    in_search: bool = True
    """A variant changes what the hyper-parameter search sees; if not, one search serves all variants."""


FACTORS = {
    factor.name: factor
    for factor in (
        Factor("calibration", ("none", "sigmoid", "isotonic"), in_search=False),
        Factor("timeframe", ("1h", "15m", "30m", "4h")),
        Factor("fold_size", ("90d", "60d", "120d", "180d")),
        Factor("n_features", (80, 50, 120, "full"), heavy=True),
        Factor("classification_mode", ("binary", "ternary", "meta")),
        Factor("cusum_training_mode", ("events", "relaxed", "disabled"), heavy=True),
        Factor("btc_features", ("off", "on"), heavy=True),
        Factor("cleanlab", ("off", "prune", "weight")),
        Factor("focal_loss", ("off", 1.0, 2.0)),
        Factor("label_smoothing", (0.0, 0.05, 0.1)),
    )
}

FULL_FEATURES = 272  # what n_features: full stands for

GROUPS = {
    "defi_top5": ("AAVEUSDC", "UNIUSDC", "LDOUSDC", "ARBUSDC", "OPUSDC"),
    "defi_full": (
        *("AAVEUSDC", "UNIUSDC", "LDOUSDC", "ARBUSDC", "OPUSDC", "MKRUSDC", "CRVUSDC", "COMPUSDC", "SNXUSDC"),
        *("SUSHIUSDC", "1INCHUSDC", "YFIUSDC", "BALUSDC", "GMXUSDC", "DYDXUSDC", "PENDLEUSDC", "INJUSDC"),
    ),
}

TRIALS = {"standard": 15, "deep": 30}  # hyper-parameter trials by power mode


def is_heavy(factor: str) -> bool:
    return factor in FACTORS and FACTORS[factor].heavy


def profile_for(factor: str) -> str:
    """The profile a factor is routed to when the sweep does not name one."""
    return "heavy" if is_heavy(factor) else "standard"


def baseline(factor: str) -> Variant | None:
    return FACTORS[factor].variants[0] if factor in FACTORS else None
