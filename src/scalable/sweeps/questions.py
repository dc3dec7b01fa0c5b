"""What a sweep asks of its rows: which metric decides, what guards it, and how the blocks belong together.

The trading workload brings its own answers, which count where the manifest says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scalable.manifest.work import Sweep
from scalable.sweeps.metrics import directed
from scalable.sweeps.stages import StageError
from scalable.verdicts.guards import Bar, Margin

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
"""By factor of the trading workload, metrics whose meaning it changes, with the reason."""
TRADING_PRIMARY = "sharpe"
TRADING_GUARDS = {"max_drawdown": Margin(0.1)}


@dataclass(frozen=True)
class Question:
    """What decides about a sweep's variants."""

    primary: str | None = None
    """The metric that decides; nothing for the first that is known."""
    smallest: float | None = None
    guards: Mapping[str, Margin] = field(default_factory=dict)
    bars: tuple[Bar, ...] = ()
    incomparable: Mapping[str, str] = field(default_factory=dict)


def question_of(sweep: Sweep) -> Question:
    """Return what a sweep asks: what its manifest says, else what its workload brings."""
    primary, guards = sweep.primary, {name: Margin(share) for name, share in sweep.guard.items()}
    incomparable: dict[str, str] = {}
    if sweep.plugin is not None:
        for name in sweep.compare:
            incomparable |= INCOMPARABLE.get(name, {})
        if not sweep.metrics:  # else the first of them decides, and nothing is guarded that was not named
            primary = primary or TRADING_PRIMARY
            guards = guards or {name: share for name, share in TRADING_GUARDS.items() if name not in incomparable}
            guards.pop(primary, None)
    bars = tuple(Bar.parse(name, text) for name, text in sweep.require.items())
    return Question(primary, sweep.smallest, guards, bars, incomparable)


def check_directions(sweep: Sweep, where: str) -> None:
    """Refuse a primary or guard metric of which nothing says which way it is better."""
    known = directed(sweep.metrics)
    asked = [("primary", name) for name in (sweep.primary,) if name] + [("guard", name) for name in sweep.guard]
    for key, name in asked:
        if name not in known:
            raise StageError(
                f"{where}.{key}: nothing says which way {name} is better; write  metrics: {{{name}: higher}}  or lower"
            )
