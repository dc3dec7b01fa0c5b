"""What is judged: metrics of every variant on every block, the axes that make the blocks, and what is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scalable.axes import AxisKind, Value
from scalable.verdicts.guards import Bar, Margin

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NOISE = 1e-12  # relative; rows of one machine agree to this, so a smaller difference is rounding and not an effect


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that every variant is measured over."""

    name: str
    kind: AxisKind
    values: tuple[Value, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def noun(self) -> str:
        """The word for one of its values: the axis' own name for a sample, else that of its kind."""
        words = {AxisKind.PERIODS: "period", AxisKind.FOLDS: "fold"}
        return words.get(self.kind, self.name)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The measurements of a sweep and the question they shall answer.

    Every array of ``metrics`` has the baseline first, then the variants; further dimensions are those of ``axes``, and
    averaged axes are averaged already. A value is nan where there is none.
    """

    axes: tuple[Axis, ...]
    baseline: Value
    variants: tuple[Value, ...]
    metrics: Mapping[str, Floats]
    primary: str
    higher: Mapping[str, bool]
    """Whether more of a metric is better; metrics that are not named are shown without a judgement of their sign."""
    absent: Flags
    """Rows that are expected and not there or failed, in the shape of a metric. Blocks that cannot exist, such as a
    period before an asset was listed, are nan and not absent."""
    smallest: float | None = None
    """The smallest difference of interest of the primary metric."""
    guards: Mapping[str, Margin] = field(default_factory=dict)
    bars: tuple[Bar, ...] = ()
    incomparable: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose meaning differs between variants, with the reason: shown and not judged."""

    def differences(self, metric: str) -> Floats:
        """Return variant less baseline by variant and block; differences within rounding are 0."""
        values = self.metrics[metric]
        differences = values[1:] - values[:1]
        scale = np.maximum(np.abs(values[1:]), np.abs(values[:1]))
        return np.where(np.abs(differences) <= NOISE * scale, 0.0, differences)
