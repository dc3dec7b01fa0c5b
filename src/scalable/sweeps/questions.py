"""What a sweep asks of its rows: which metric decides, what guards it, and how the blocks belong together.

A workload brings its own answers, which count where the manifest says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scalable.manifest.work import Sweep
from scalable.plugins import Evidence
from scalable.sweeps.metrics import directed
from scalable.sweeps.stages import StageError
from scalable.verdicts.guards import Bar, Margin


@dataclass(frozen=True)
class Question:
    """What decides about a sweep's variants."""

    primary: str | None = None
    """The metric that decides; nothing for the first that is known."""
    smallest: float | None = None
    guards: Mapping[str, Margin] = field(default_factory=dict)
    bars: tuple[Bar, ...] = ()
    incomparable: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose meaning the variants change, with the reason."""
    evidence: Evidence | None = None
    """What the ratios in a row rest on, where its workload counts that."""


def question_of(sweep: Sweep) -> Question:
    """Return what a sweep asks: what its manifest says, else what its workload brings."""
    primary, guards = sweep.primary, {name: Margin(share) for name, share in sweep.guard.items()}
    incomparable: dict[str, str] = {}
    plugin = sweep.plugin
    if plugin is not None:
        for name in sweep.compare:
            incomparable |= plugin.incomparable.get(name, {})
        if not sweep.metrics:  # else the first of them decides, and nothing is guarded that was not named
            primary = primary or plugin.decides
            own = {name: Margin(share) for name, share in plugin.guards.items() if name not in incomparable}
            guards = guards or own
            guards.pop(primary or "", None)
    evidence = plugin.evidence if plugin is not None else None
    bars = tuple(Bar.parse(name, text) for name, text in sweep.require.items())
    return Question(primary, sweep.smallest, guards, bars, incomparable, evidence)


def check_directions(sweep: Sweep, where: str) -> None:
    """Refuse a primary or guard metric of which nothing says which way it is better."""
    known = directed(sweep.metrics)
    asked = [("primary", name) for name in (sweep.primary,) if name] + [("guard", name) for name in sweep.guard]
    for key, name in asked:
        if name not in known:
            raise StageError(
                f"{where}.{key}: nothing says which way {name} is better; write  metrics: {{{name}: higher}}  or lower"
            )
