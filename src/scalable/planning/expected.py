"""The time and cores of a unit of a sweep: measured where that was done, else written, else assumed.

The rule. Units are alike that have the same factor, workload, settings and locked base; of those, the ones measured
closest to here count: with the same provider, the same CPUs of a worker, and trials as near as can be. A search of the
shipped workload takes as long as its trials together, so its durations are scaled to the trials asked for; what trials
mean to other workloads nobody knows, so only the same number counts. A unit that used one core takes as long on a
worker with four. How units differ is as in the latest sweep; how long they take on the whole is the median of the
latest few, because a machine is slower on some days than on others.

The memory a unit will use, and whether that may start at all, stand at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import linear_regression
from typing import Any

from scalable.findings import Finding
from scalable.manifest.work import Sweep
from scalable.observe.sweep_progress import LEAST_CORES, listing
from scalable.planning.history import Circumstances, History
from scalable.planning.history import MeasuredUnits as Units
from scalable.planning.simulation.durations import Fixed, JobLength, MeasuredDurations, from_minutes
from scalable.plugins import JobCost, installed
from scalable.quantities import Cpu, Memory, Share
from scalable.sweeps.grid import Grid
from scalable.wording import command, plural

ENOUGH_HISTORY = 5  # measured durations before they replace the manifest's
OWN_MINUTES = 1.0  # of a workload nothing is known about; the plan says that it is a guess


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected time and use of one unit."""

    length: JobLength
    """With all the cores it can use."""
    cores: float
    """What it can use at most."""
    source: str
    """Where that comes from, in words."""
    rows: int | None = None
    """That a unit gives, where this was measured."""
    warning: Finding | None = None
    measured: bool = False
    load_s: float = 0.0
    """What the first unit on a worker takes longer: its code is loaded then."""


def expect(
    name: str, sweep: Sweep, grid: Grid, history: History, provider: str, limit: Cpu, worker: Cpu,
    base: Mapping[str, Any],
) -> Expected:  # fmt: skip
    """Return what to expect; ``limit`` is the profile's, ``worker`` what a worker has here, ``base`` what is locked."""
    alike = circumstances(sweep, base, history)
    if (units := closest(sweep, alike, grid, history, provider, worker)) is not None:
        return from_units(units, sweep, grid, provider, worker)
    plain = history.seconds.get(sweep.factor, ()) if not alike.base else ()
    if len(plain) >= ENOUGH_HISTORY:
        mean = sum(plain) / len(plain)
        source = f"{minutes_or_seconds(mean)} a job (mean of {len(plain)} measured)"
        return Expected(MeasuredDurations(plain), limit.cores, source, measured=True)
    if sweep.run_minutes is not None:
        length = from_minutes(sweep.run_minutes)
        spread = "" if isinstance(length, Fixed) else f", 95 % within {sweep.run_minutes.p95:g} min"
        return Expected(length, limit.cores, f"{sweep.run_minutes.p50:g} min a job{spread} (manifest; no history yet)")
    if (cost := declared_cost(sweep)) is not None:
        minutes = (cost.heavy_minutes if is_heavy(sweep, base) else cost.minutes) * grid.trials / cost.usual
        usual = f"usual for {plural(grid.trials, cost.noun)}; no history yet"
        source = f"{minutes:.3g} min a job on {cost.cores:g} CPU ({usual})"
        return Expected(Fixed(minutes * 60), cost.cores, source)
    source = f"{OWN_MINUTES:g} min a job (a guess: nothing is known yet)"
    guess = f"how long a job of {name} takes is not known: {OWN_MINUTES:g} min is a guess"
    warning = Finding.warning(
        "guessed-time", f"sweeps.{name}", guess, f"{command('plan', name, '--pilot')}  measures it"
    )
    return Expected(Fixed(OWN_MINUTES * 60), worker.cores, source, warning=warning)


def closest(
    sweep: Sweep, wanted: Circumstances, grid: Grid, history: History, provider: str, worker: Cpu
) -> Units | None:
    """Return what was measured under the circumstances that are most like these."""
    alike = [
        units
        for units in history.units.get(sweep.factor, ())
        if (units.run, units.settings, units.base) == (wanted.run, wanted.settings, wanted.base)
        and (units.pilot or len(units.seconds) >= ENOUGH_HISTORY)
        and (units.trials == grid.trials or (declared_cost(sweep) is not None and units.trials))
    ]

    def distance(units: Units) -> tuple[bool, bool, float]:
        trials = abs(log(units.trials / grid.trials)) if units.trials else 0.0
        return units.provider != provider, units.cpus != worker.cores, trials

    return min(alike, key=distance, default=None)


def from_units(units: Units, sweep: Sweep, grid: Grid, provider: str, worker: Cpu) -> Expected:
    times = grid.trials / units.trials if units.trials else 1.0
    seconds = tuple(times * units.usual / units.mean * length for length in units.seconds)
    cores = max(LEAST_CORES, min(units.cores or units.cpus, units.cpus))
    how = f"pilot: {plural(len(seconds), 'job')} measured" if units.pilot else f"mean of {len(seconds)} measured"
    if len(units.means) > 1:
        latest = how if units.pilot else f"{len(seconds)} measured in the latest"
        how = f"median of {len(units.means)} sweeps, {latest}"
    if (units.provider, units.cpus) != (provider, worker.cores):
        how += f" on workers of {units.cpus:g} CPU, provider {units.provider}"
    if units.trials != grid.trials and (cost := declared_cost(sweep)) is not None:
        how += f" with {plural(units.trials, cost.noun)}, scaled to {grid.trials}"
    source = f"{minutes_or_seconds(units.usual * times)} a job on {cores:.2g} CPU ({how})"
    return Expected(MeasuredDurations(seconds), cores, source, units.rows, measured=True, load_s=units.load_s)


def declared_cost(sweep: Sweep) -> JobCost | None:
    """Return what its plug-in says of a job's time, where all that the sweep varies is known to the plug-in."""
    plugin = sweep.plugin
    known = plugin is not None and sweep.run is None and all(name in plugin.factors for name in sweep.compare)
    return plugin.cost if plugin is not None and known else None


def is_heavy(sweep: Sweep, base: Mapping[str, Any]) -> bool:
    """Return whether a sweep needs the heavy profile, as the plug-in says of its factors.

    Factors of a plug-in's name say so of functions of one's own, too, as far as they vary them.
    """
    if sweep.plugin is not None:
        return sweep.plugin.is_heavy(sweep.compare, common(sweep, base))
    return sweep.is_short and any(each.is_heavy(sweep.compare, sweep.settings) for each in installed().values())


def common(sweep: Sweep, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that all rows of a sweep have: its settings, and what is locked if a plug-in's stages read it.

    What functions of one's own read is known only to who imports them.
    """
    return {**(base if sweep.plugin is not None else {}), **sweep.settings}


def circumstances(sweep: Sweep, base: Mapping[str, Any], history: History) -> Circumstances:
    """Return what measurements of a sweep belong to, as the history keeps it."""
    run = sweep.run or ""
    locked = base_of(sweep, base, history.reads.get(run, frozenset(base)))
    return Circumstances(sweep.factor, run, listing(sweep.settings), listing(locked))


def base_of(sweep: Sweep, base: Mapping[str, Any], reads: Collection[str]) -> dict[str, Any]:
    """Return the locked values that matter to a sweep: its workload reads them and the sweep does not overrule them.

    A locked baseline is what a plug-in's workload does anyway.
    """
    own = {*sweep.compare, *sweep.over, *sweep.average, *sweep.settings, *sweep.implied}
    factors = sweep.plugin.factors if sweep.plugin is not None else {}
    usual = {name for name, value in base.items() if name in factors and value == factors[name].variants[0]}
    return {name: value for name, value in base.items() if name in reads and name not in own | usual}


def minutes_or_seconds(seconds: float) -> str:
    return f"{seconds / 60:.3g} min" if seconds >= 60 else f"{seconds:.3g} s"


BASE = Memory.of_gib(0.6)  # interpreter with numpy, scikit-learn, xgboost and optuna imported
BYTES_PER_VALUE = 8  # float64
COPIES = 8  # features, training and validation parts, quantised matrix, gradients, calibration, backtest


@dataclass(frozen=True, slots=True)
class Estimate:
    """A peak and where the figure comes from."""

    peak: Memory
    source: str
    target: str = ""
    """Where it was measured, if it was."""


@dataclass(frozen=True, slots=True)
class MemoryCheck:
    """The answer to whether a run with this peak may start, with the numbers and what to change."""

    ok: bool
    estimate: Estimate
    allowed: Memory
    message: str


@dataclass(frozen=True, slots=True)
class Fit:
    """A line through measured peaks: bytes that any job takes, and bytes for each value of its training set."""

    fixed: float
    each: float
    points: int


def fit(sizes: Sequence[tuple[int, int, int]]) -> Fit | None:
    """Return the least-squares line through samples × features and peaks; nothing if they do not tell."""
    values, peaks = [samples * features for samples, features, _ in sizes], [peak for _, _, peak in sizes]
    if len(sizes) < ENOUGH_HISTORY or len(set(values)) < 2:
        return None
    line = linear_regression(values, peaks)
    return Fit(line.intercept, line.slope, len(sizes)) if line.slope >= 0 else None


def estimate_peak(samples: int, features: int, safety: float, sizes: Sequence[tuple[int, int, int]] = ()) -> Estimate:
    """Return the peak of a job that trains on so many samples and features, by what others used if that is known."""
    if (line := fit(sizes)) is not None:
        peak = Memory(max(0, round(line.fixed + line.each * samples * features * safety)))
        size = f"{line.fixed / 2**30:.2f} GiB + {line.each:.3g} B × samples × features"
        return Estimate(peak, f"fit of {line.points} measured: {size}; {samples:,} × {features} × {safety:g}")
    values = Memory(round(samples * features * BYTES_PER_VALUE * COPIES * safety))
    source = (
        f"estimated: {samples:,} samples × {features} features × {BYTES_PER_VALUE} B × {COPIES} copies × {safety:g}"
    )
    return Estimate(BASE + values, source)


def preflight(
    estimate: Estimate, *, limit: Memory, node: Memory, share: Share, larger: str | None, forget: str = ""
) -> MemoryCheck:
    """Check the memory; ``larger`` names the next bigger profile that would do, ``forget`` what forgets a peak."""
    of_node = Memory(int(node.bytes * share))
    allowed = min(limit, of_node)
    if estimate.peak <= allowed:
        return MemoryCheck(True, estimate, allowed, f"peak {estimate.peak} within {allowed}")
    bound = f"the profile's limit of {limit}" if limit <= of_node else f"{share} of the node's {node}"
    change = f"use the profile {larger}" if larger else "use fewer samples or features, or a larger node"
    message = f"memory check: a peak of {estimate.peak} ({estimate.source}) is over {bound}; {change}"
    if forget:
        message += f"; if that is no longer true: {forget}"
    return MemoryCheck(False, estimate, allowed, message)
