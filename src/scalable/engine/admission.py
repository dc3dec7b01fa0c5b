"""Which sweeps may run at all, and which side by side. Pure functions, asked wherever it matters.

A few normal sweeps at once; a heavy one alone: it waits for those running to end and, while it waits, lets no later
sweep past. Workloads that may overlap anything are always admitted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from scalable.engine.events import Sweep, SweepKind
from scalable.engine.rules import Rules


def obstacle(
    kind: SweepKind, holders: Iterable[tuple[str, SweepKind]], before: Sequence[tuple[str, SweepKind]], normal: int
) -> str:
    """Why a sweep may not start now; empty if it may.

    ``holders`` have a place, ``before`` wait for one and came earlier, ``normal`` is how many may run at once.
    """
    if kind is SweepKind.FREE:
        return ""
    sweeps = [(name, other) for name, other in holders if other is not SweepKind.FREE]
    queue = [name for name, other in before if other is not SweepKind.FREE]
    heavy = [name for name, other in sweeps if other is SweepKind.HEAVY]
    if heavy:
        return f"the heavy sweep {heavy[0]} runs alone"
    if kind is SweepKind.HEAVY and sweeps:
        return f"a heavy sweep runs alone; {', '.join(name for name, _ in sweeps)} must end first"
    if queue:
        return f"{queue[0]} is first in line"
    if len(sweeps) >= normal:
        return f"at most {normal} sweeps run at once: {', '.join(name for name, _ in sweeps)}"
    return ""


def submitted_before(sweep: Sweep, sweeps: Container[str], runs: Container[str]) -> str:
    """What of a sweep is known already, by itself or by one of its runs; empty if all of it is new."""
    if sweep.id in sweeps:
        return "it was submitted before"
    seen: set[str] = set()
    for run in sweep.runs:
        if run.id in runs:
            return f"its run {run.id} was submitted before"
        if run.id in seen:
            return f"its run {run.id} stands in it twice"
        seen.add(run.id)
    return ""


def impossible(sweep: Sweep, rules: Rules) -> str:
    """Why no worker can ever serve a sweep; empty if one can."""
    for tag in {run.tag: None for run in sweep.runs}:
        if tag not in rules.kinds:
            return f"no workers are tagged {tag!r}; known tags: {', '.join(sorted(rules.kinds))}"
        kind = rules.kinds[tag]
        if kind.maximum == 0 or not rules.pools[kind.pool].most(tag, {}):
            return f"the pool {kind.pool} can never hold a worker tagged {tag!r}"
    for run in sweep.runs:
        allowed = rules.kinds[run.tag].memory
        if run.memory is not None and run.memory > allowed:
            return f"memory check: {run.id} is expected to use {run.memory}, a {run.tag} worker may use {allowed}"
    return ""
