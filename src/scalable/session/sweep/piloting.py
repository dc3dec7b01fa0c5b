"""A pilot: one job of each distinct cost, run before a plan, so that the plan rests on measured times and peaks.

It is the sweep itself, cut down to a few jobs and bounded in time and money: rows that a pilot computes are stored, and
the sweep does not compute them again. Where not one job ends in time and the workload takes as long as its trials, a
second pilot has fewer trials; its rows are thrown away, since they are not the sweep's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from scalable.errors import ScalableError
from scalable.planning.expected import declared_cost
from scalable.sweeps.compiling import Compiled, CompiledJob
from scalable.sweeps.grid import Grid
from scalable.sweeps.units import Computed, StageTime

if TYPE_CHECKING:
    from scalable.session.session import ScalableSession
    from scalable.session.sweep.outcomes import SweepOutcome

MOST_JOBS = 12  # more say little more about the mean, and the time of a pilot is short
FEWER_TRIALS = 10  # a second pilot has a tenth of the trials: minutes become seconds


@dataclass(frozen=True, slots=True)
class PilotTimes:
    """What the jobs of a pilot took, and the sweep that they are a part of."""

    sharing: Mapping[str, tuple[int, int]]
    """Of the whole sweep, by stage: for how many rows it is asked for, and how many distinct ones there are."""
    jobs: int
    """Of the whole sweep."""
    taken: list[list[Computed]] = field(default_factory=list)
    """By job of the pilot: its rows."""

    def job_seconds(self) -> float | None:
        """Return the mean seconds of a job in the whole sweep, or nothing if no job of the pilot finished.

        Jobs of a pilot pay for what few jobs of the sweep pay for: a stage that many jobs share, and the first call of
        a stage in a process. So each stage counts as often as the sweep has it, with its mean time when it is warm.
        """
        whole = [rows for rows in self.taken if rows and not any(row.error for row in rows)]
        if not whole:
            return None
        times: dict[str, list[StageTime]] = {}
        for stage in (stage for rows in whole for row in rows for stage in row.stages):
            times.setdefault(stage.stage, []).append(stage)
        outside = sum(row.elapsed_s for rows in whole for row in rows)
        outside -= sum(stage.seconds for stages in times.values() for stage in stages)
        total = max(0.0, outside) / len(whole) * self.jobs
        for name, stages in times.items():
            warm = [stage.seconds for stage in stages if not stage.first] or [stage.seconds for stage in stages]
            calls = min(self.sharing[name][1], len(stages) / len(whole) * self.jobs)
            total += fmean(warm) * calls
        return total / self.jobs


class PilotError(ScalableError):
    """A pilot in which every row failed: the sweep would fail, too."""


def sample(compiled: Compiled, most: int = MOST_JOBS) -> list[CompiledJob]:
    """Return one job of each variant and group, the middle one of them; every variant before a second group."""
    alike: dict[tuple[tuple[str, ...], str], list[CompiledJob]] = {}
    for job in compiled.units:
        variants = tuple(
            dict.fromkeys(str(compiled.grid.label(compiled.where[cell.run_key].variant)) for cell in job.cells)
        )
        alike.setdefault((variants, job.group), []).append(job)
    turns: dict[tuple[str, ...], list[CompiledJob]] = {}
    for (variants, _), jobs in alike.items():
        turns.setdefault(variants, []).append(jobs[len(jobs) // 2])
    longest = max(map(len, turns.values()), default=0)
    return [jobs[turn] for turn in range(longest) for jobs in turns.values() if turn < len(jobs)][:most]


def run_pilot(session: ScalableSession, name: str, run: Callable[[ScalableSession], SweepOutcome]) -> SweepOutcome:
    """Run a pilot with ``run``, which gets the session to run it in; raise ``PilotError`` if all of it failed."""
    outcome = run(session)
    if not outcome.finished and not outcome.failed and (fewer := with_fewer_trials(session, name)) is not None:
        with tempfile.TemporaryDirectory(prefix="scalable-pilot-") as folder:
            fewer.manifest = fewer.manifest.model_copy(update={"store": f"sqlite:///{folder}/rows.db"})
            outcome = run(fewer)
    if outcome.failed and not outcome.finished:
        raise PilotError(f"every row of the pilot of {name} failed: {outcome.why()}")
    return outcome


def with_fewer_trials(session: ScalableSession, name: str) -> ScalableSession | None:
    """Return a session whose sweep has fewer trials, or nothing where trials say nothing about time."""
    sweep = session.manifest.sweeps[name]
    trials = Grid.of(sweep, session.manifest.groups).trials
    cost = declared_cost(sweep)
    if cost is None or trials < 2:
        return None
    fewer = sweep.with_implied(**{cost.setting: max(1, trials // FEWER_TRIALS)})
    manifest = session.manifest.model_copy(update={"sweeps": {**session.manifest.sweeps, name: fewer}})
    smaller = copy(session)
    smaller.manifest = manifest
    return smaller
