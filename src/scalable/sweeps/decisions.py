"""What a decision consists of: a verdict per variant, the metrics it rests on, and the rule with its figures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from scalable.catalogue import Variant
from scalable.sweeps.metrics import Metric
from scalable.sweeps.results import Pair, same
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.sweeps.statistics import Comparison

SIGNIFICANT = 0.05  # corrected p below this
GAIN = 0.3  # the least effect that counts as better, or as harm in a primary metric
NEGLIGIBLE = 0.2  # effects below this are no difference worth keeping an option for
BETTER_METRICS = 2  # one better metric may be luck or the other side of a worse one
TRADES_WANTED = 50  # in each fold; ratios of fewer trades are mostly noise
FEWEST_PAIRS = 6  # of five pairs even the clearest signed-rank test ends at p = 0.06


class Verdict(Enum):
    """What becomes of a variant."""

    LOCK = "LOCK"  # proven better: it may become part of the base configuration
    KEEP_AVAILABLE = "KEEP_AVAILABLE"  # neither is proven: more data or another base may decide it
    ABANDON = "ABANDON"  # proven harmful, or proven to make no difference: not worth trying again


class Standing(Enum):
    """Where one metric of a variant stands beside the baseline."""

    BETTER = "better"  # significant, and large enough to count towards LOCK
    WORSE = "worse"  # significant, however small: it stands in the way of LOCK
    OPEN = "open"  # not significant, or a gain too small to count


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric of a variant beside the baseline."""

    metric: Metric
    comparison: Comparison
    p_corrected: float

    @property
    def gain(self) -> float:
        """The effect, above 0 if it is an improvement."""
        return self.comparison.effect * self.metric.better.value

    @property
    def standing(self) -> Standing:
        if self.p_corrected >= SIGNIFICANT:
            return Standing.OPEN
        if self.comparison.leaning == -self.metric.better.value:
            return Standing.WORSE
        return Standing.BETTER if self.gain >= GAIN else Standing.OPEN

    @property
    def harmful(self) -> bool:
        """Worse in a metric that matters most, and by much."""
        return self.metric.primary and self.standing is Standing.WORSE and -self.gain >= GAIN

    @property
    def rests_on_few(self) -> bool:
        """The interval, which takes assets as drawn at random, does not exclude that there is no difference."""
        low, high = self.comparison.interval
        return low <= 0 <= high

    def __str__(self) -> str:
        found = self.comparison
        return f"{self.metric.name} {found.delta:+.3g} (p {self.p_corrected:.2g}, d {found.effect:+.2f})"

    def to_dict(self) -> dict[str, Any]:
        found = self.comparison
        numbers = {"delta": found.delta, "ci": list(found.interval), "p": found.p, "p_corrected": self.p_corrected}
        sides = {"d": found.effect, "mean": found.mean, "baseline": found.baseline, "pairs": found.pairs}
        kind = {"better": self.metric.better.name.lower(), "primary": self.metric.primary}
        return {"name": self.metric.name, **numbers, **sides, **kind, "standing": self.standing.value}


@dataclass(frozen=True, slots=True)
class Power:
    """Whether the pairs of a variant and the baseline could show a difference if there was one."""

    pairs: int
    wanted: int
    """Pairs of the whole sweep; one is there when every cost of both sides has finished."""
    least_trades: float | None = None
    """Of all folds of both sides; nothing if the workload does not count trades."""
    least_at: Pair | None = None
    thin: int = 0
    """Folds with fewer trades than wanted on either side."""

    @property
    def given(self) -> bool:
        return self.pairs == self.wanted and self.pairs >= FEWEST_PAIRS and not self.thin

    @property
    def asked(self) -> str:
        if self.least_trades is None and self.pairs:
            return f"power ({FEWEST_PAIRS} pairs or more; no trades are counted)"
        return f"power ({TRADES_WANTED} trades in every fold, {FEWEST_PAIRS} pairs or more)"

    def __str__(self) -> str:
        missing = self.pairs < self.wanted
        said = f"{self.pairs} of {plural(self.wanted, 'pair')}" if missing else plural(self.pairs, "pair")
        if self.least_at is None or self.least_trades is None:
            return said
        trades = f"{self.least_trades:g} trades or more in every fold"
        if self.thin:
            where = f"least {self.least_trades:g} in {self.least_at[0]} fold {self.least_at[1]}"
            trades = f"{self.thin} of {plural(self.pairs, 'fold')} with under {TRADES_WANTED} trades, {where}"
        few = missing or self.pairs < FEWEST_PAIRS
        return f"{said}; {trades}" if few else trades


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the rule: what it asks for, whether that holds, and the figures."""

    asks: str
    holds: bool
    figures: str

    def to_dict(self) -> dict[str, Any]:
        return {"asks": self.asks, "holds": self.holds, "figures": self.figures}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one variant."""

    variant: Variant
    verdict: Verdict
    reason: str
    metrics: tuple[MetricResult, ...]
    power: Power
    lock_needs: tuple[Check, ...]
    """All must hold for LOCK."""
    abandon_if: tuple[Check, ...]
    """One is enough for ABANDON."""
    remarks: tuple[str, ...] = ()
    """What to know about the figures although the rule does not ask for it."""

    def to_dict(self) -> dict[str, Any]:
        power = {"pairs": self.power.pairs, "least_trades": self.power.least_trades}
        rule = {"lock_needs": self.lock_needs, "abandon_if": self.abandon_if}
        return {
            "variant": self.variant,
            "verdict": self.verdict.value,
            "metrics": [result.to_dict() for result in self.metrics],
            "reason": self.reason,
            "underpowered": not self.power.given,
            **power,
            "rule": {name: [check.to_dict() for check in checks] for name, checks in rule.items()},
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Decision:
    """The verdicts on a factor's variants."""

    sweep: str
    factor: str
    baseline: Variant
    complete: bool
    expected: int
    finished: int
    shortfall: str
    """Which rows are missing or failed; empty if none is."""
    variants: tuple[Judgement, ...]
    not_judged: tuple[str, ...] = ()
    """Metrics the rows have that verdicts do not rest on."""

    def __repr__(self) -> str:
        state = "" if self.complete else ", incomplete"
        return f"<{self.sweep}: {', '.join(f'{each.variant} {each.verdict.value}' for each in self.variants)}{state}>"

    def of(self, variant: Variant) -> Judgement | None:
        return next((each for each in self.variants if same(each.variant) == same(variant)), None)

    @property
    def recommended(self) -> Judgement | None:
        """Of the variants that may be locked the one that gains most in the first metric of the list."""
        lockable = [each for each in self.variants if each.verdict is Verdict.LOCK]
        return max(lockable, key=lambda each: each.metrics[0].gain, default=None)

    def to_dict(self) -> dict[str, Any]:
        counts = {"expected": self.expected, "finished": self.finished, "shortfall": self.shortfall}
        told = {"sweep": self.sweep, "factor": self.factor, "complete": self.complete, **counts}
        return {**told, "baseline": self.baseline, "variants": [each.to_dict() for each in self.variants]}

    def _repr_html_(self) -> str:
        from scalable.sweeps.notebook import decision_html

        return decision_html(self)
