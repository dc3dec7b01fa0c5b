"""The catalogue of the trading workload: its factors, asset groups and metrics, and what is known of its jobs.

It is read whenever a manifest is, so nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping

from scalable.workloads import Better, Curves, Evidence, Factor, JobCost, Metric, Variant

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

FULL_FEATURES = 272  # what n_features: full stands for

GROUPS = {
    "defi_top5": ("AAVEUSDC", "UNIUSDC", "LDOUSDC", "ARBUSDC", "OPUSDC"),
    "defi_full": (
        *("AAVEUSDC", "UNIUSDC", "LDOUSDC", "ARBUSDC", "OPUSDC", "MKRUSDC", "CRVUSDC", "COMPUSDC", "SNXUSDC"),
        *("SUSHIUSDC", "1INCHUSDC", "YFIUSDC", "BALUSDC", "GMXUSDC", "DYDXUSDC", "PENDLEUSDC", "INJUSDC"),
    ),
}

FOLDS = 5
COSTS_BPS = (10.0, 20.0, 30.0)
TRIALS = {"standard": 15, "deep": 30}  # hyper-parameter trials by power mode


PACKAGES = ("scalable_finetune", "scalable.finetune")
"""Where the workload's stages are, and where manifests may say that they are."""
PROFILES = {f"{package}.portfolio:WORKLOAD": "wfrb" for package in PACKAGES}
"""Its workloads with a profile of their own."""

METRICS = (
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
PRIMARY = "sharpe"
GUARDS = {"max_drawdown": 0.1}

OWN_LABELS = "scored against each variant's own labels"
OWN_LENGTH = "depends on the length of a fold, which differs between variants"
OWN_BARS = "depends on how many bars there are, which differs between variants"
INCOMPARABLE: Mapping[str, Mapping[str, str]] = {
    "classification_mode": dict.fromkeys(("precision", "recall", "f1"), OWN_LABELS),
    "fold_size": dict.fromkeys(("max_drawdown", "total_return", "profit_factor", "trades", "buys"), OWN_LENGTH),
    "rebalance": dict.fromkeys(("max_drawdown", "total_return", "profit_factor", "trades", "buys"), OWN_LENGTH),
    "timeframe": dict.fromkeys(("precision", "recall", "f1", "hit_rate", "trades", "buys", "exposure"), OWN_BARS),
    "cusum_training_mode": dict.fromkeys(("trades", "buys"), "depends on which events are traded"),
}
"""By factor: metrics whose meaning it changes, with the reason."""

EVIDENCE = Evidence(metrics=("trades", "buys"), least=50)
COST = JobCost(
    setting="trials",
    noun="trial",
    usual=30,
    minutes=3.5,  # a search of 30 trials on 4 saturated cores
    heavy_minutes=9.0,  # 8-10 h for the 300 searches of a heavy factor on 5 workers
    cores=4.0,
)
CURVES = Curves(
    stage="trades",
    by_day="scalable_finetune.equity:by_day",
    end="total_return",
    over=("asset", "fold"),
    average="cost_bps",
    caption="What 1 put in at the beginning is worth at the end of each day, at {average:g} bps of cost a side, "
    "through the test parts of all folds one after another.",
    noun="asset",
)


def baseline(factor: str) -> Variant | None:
    return FACTORS[factor].variants[0] if factor in FACTORS else None
