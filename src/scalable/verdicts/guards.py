"""What stops a LOCK although the primary metric is better: guard metrics with their margins, and absolute bars."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from scalable.errors import QuantityError
from scalable.wording import shown

BAR = re.compile(r"\s*([<>])(=?)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class Margin:
    """How much worse a guard metric may get: a share of the baseline's mean in size, or an amount."""

    amount: float
    relative: bool = True

    def limit(self, baseline: float) -> float:
        return self.amount * abs(baseline) if self.relative else self.amount

    def __str__(self) -> str:
        return f"{100 * self.amount:g} %" if self.relative else f"{self.amount:g}"


@dataclass(frozen=True, slots=True)
class Bar:
    """An absolute bar that a variant's mean must clear to be locked, e.g. sharpe > 0."""

    metric: str
    above: bool
    value: float
    strict: bool = True
    """``>`` and ``<``; if not, ``>=`` and ``<=``."""

    @classmethod
    def parse(cls, metric: str, text: str) -> Bar:
        """Return the bar that a text states; raises a ``QuantityError``.

        >>> Bar.parse("accuracy", "> 0.9")
        Bar(metric='accuracy', above=True, value=0.9, strict=True)
        """
        match = BAR.fullmatch(text)
        if match is None:
            raise QuantityError(f"{shown(text)} is no bar for {metric}", 'write e.g. "> 0.9" or "<= 3"')
        return cls(metric, match[1] == ">", float(match[3]), strict=not match[2])

    def cleared(self, mean: Any) -> Any:
        """Return whether a mean, or each of an array of means, clears it."""
        distance = mean - self.value if self.above else self.value - mean
        return distance > 0 if self.strict else distance >= 0

    def __str__(self) -> str:
        return f"{self.metric} {'>' if self.above else '<'}{'' if self.strict else '='} {self.value:g}"
