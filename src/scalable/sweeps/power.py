"""What a sweep can find before anything is paid: by its grid, the test that will judge it, and earlier rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from scalable.sweeps.grid import Grid
from scalable.sweeps.questions import question_of
from scalable.verdicts.methods import choose
from scalable.verdicts.power import Power, measured_spread, power_of
from scalable.verdicts.tables import Axis

if TYPE_CHECKING:
    from scalable.manifest.work import Sweep
    from scalable.sweeps.results import Outcome


def sweep_power(sweep: Sweep, groups: Mapping[str, list[str]], earlier: Outcome | None = None) -> Power:
    """Return what a sweep can find; ``earlier`` has rows of it that tell how much differences vary."""
    from scalable.sweeps.decisions import gains_of

    grid, question = Grid.of(sweep, groups), question_of(sweep)
    axes = tuple(Axis(axis.name, axis.kind, axis.values) for axis in grid.over)
    seen = gains_of(earlier) if earlier is not None else None
    spread = measured_spread(choose(seen[0]), seen[1]) if seen is not None else None
    return power_of(axes, len(grid.variants) - 1, question.smallest, spread)


def power_text(power: Power) -> str:
    """Return the power for people.

    >>> power_text(Power(False, None, None, None, None, None, False, "no test: there is one block"))
    'no verdict is possible with this grid (no test: there is one block)'
    """
    if not power.possible:
        return f"no verdict is possible with this grid ({power.method})"
    if power.detectable is None:
        gain = f"{power.deviations:.2g} × the spread between blocks"
        return f"finds a gain of {gain} in 80 % of cases ({power.method}; the spread is not measured yet)"
    text = f"finds a gain of {power.detectable:.2g} in 80 % of cases (spread of earlier rows)"
    if power.smallest is None or power.detectable <= power.smallest:
        return text
    asked = f"{text}; you asked for {power.smallest:g}"
    if power.suggestion is None:
        return f"{asked}, which no grid of a sane size finds"
    return f"{asked}: that takes {power.suggestion}, {power.times:.2g} × the rows"
