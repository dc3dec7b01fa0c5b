"""Measurements of earlier runs. They replace the assumptions of the manifest wherever there are some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from scalable.errors import PlanningError
from scalable.machine_hours import UNITS, HeldResources
from scalable.planning.simulation.durations import SessionTimes
from scalable.quantities import LARGEST, Memory, Money
from scalable.wording import shown

PARTS = ("ask_s", "join_s", "warm_s", "hand_s", "close_s")
"""Of a session's start and end, but for the wait for nodes, which is each pool's."""
LONGEST_S = 10 * 365 * 86400  # no run took longer than ten years


@dataclass(frozen=True, slots=True)
class PastSession:
    """One past session, for the acceptance criteria."""

    oom_kills: int = 0
    failures: int = 0
    scale_up_s: float | None = None
    scale_down_s: float | None = None
    target: str = ""
    """Where it ran; empty if an earlier version did not say."""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """The times of the parts of one past session's start and end; None where that was not seen."""

    ask_s: float | None = None
    """From its start until it asked for workers."""
    node_s: Mapping[str, float] = field(default_factory=dict)
    """From then until a node was there that had to come first, by pool."""
    join_s: float | None = None
    """From when a node that had to come was there until the first job of a worker on it began."""
    warm_s: float | None = None
    """From when a worker was asked for that found its node there until its first job began."""
    hand_s: float | None = None
    """What a later job took beside its own work: on its way to the worker and back."""
    close_s: float | None = None
    """From the end of its work until its workers were gone."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The circumstances of a sweep's measurements: those under others say nothing about it."""

    factor: str
    run: str = ""
    """The workload, as the manifest names it; empty for the shipped one."""
    settings: str = ""
    base: str = ""
    """What is locked of that which the workload reads, without the factor."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The most that units of a sweep were seen to use."""

    peak: Memory | None = None
    code: str = ""
    """Fingerprint of the code that used it; empty if an earlier version measured it."""
    short: frozenset[str] = frozenset()
    """Kinds of workers on which a unit ran out of memory."""
    target: str = ""
    """Where it was measured."""
    run: str = ""
    settings: str = ""
    base: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredUnits:
    """Units of a sweep that were computed under the same circumstances, on which their duration depends."""

    seconds: tuple[float, ...]
    """Of the latest sweep."""
    run: str = ""
    """The workload, as the manifest names it; empty for the shipped one."""
    settings: str = ""
    trials: int = 0
    provider: str = ""
    cpus: float = 1.0
    """What a worker had."""
    cores: float | None = None
    """What a unit used of it on average."""
    rows: int = 1
    """That one unit gave."""
    means: tuple[float, ...] = ()
    """What a unit took on average in each of the latest sweeps, this one among them."""
    base: str = ""
    pilot: bool = False
    """Chosen so that a few say enough."""
    load_s: float = 0.0
    """What the first unit on a worker takes longer: its code is loaded then."""

    @property
    def mean(self) -> float:
        return sum(self.seconds) / len(self.seconds)

    @property
    def usual(self) -> float:
        """The average time of a unit on a day like most: a machine is slower on some."""
        return median(self.means) if self.means else self.mean


@dataclass(frozen=True, slots=True)
class History:
    """The times, memory and costs of earlier runs; empty before the first."""

    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Durations of finished tasks by ``tag:<component>``; by factor, of runs on all CPUs of the profile's limit."""
    units: Mapping[str, tuple[MeasuredUnits, ...]] = field(default_factory=dict)
    """What finished sweeps measured, by factor."""
    starts: Mapping[str, tuple[Start, ...]] = field(default_factory=dict)
    """How long sessions took to start and to end, by provider."""
    startups: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Seconds from a session's start to its first unit, by provider, as earlier versions measured it in one."""
    peaks: Mapping[str, Memory] = field(default_factory=dict)
    """Highest memory peak seen, by ``tag:<component>``; latest by ``run:<name>``. Earlier versions wrote those of
    sweeps here, by factor, workload and settings."""
    memory: Mapping[str, tuple[MemoryUse, ...]] = field(default_factory=dict)
    """What sweeps used, by factor."""
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names that a workload reads of a configuration, by workload."""
    sizes: Mapping[str, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)
    """Samples, features and bytes at the peak of jobs, by workload."""
    sessions: tuple[PastSession, ...] = ()
    spent_this_month: Money | None = None
    tasks: Mapping[str, int] = field(default_factory=dict)
    """How many tasks the last run had, by ``tag:<component>``."""
    hours: Mapping[str, HeldResources] = field(default_factory=dict)
    """Core-, node- and GPU-hours that runs used, by the day on which they ended, as ``2026-04-30``."""

    def used(self, by: Circumstances) -> MemoryUse | None:
        """Return the memory that a sweep was seen to use, of the latest code that was measured."""
        for use in self.memory.get(by.factor, ()):
            if (use.run, use.settings, use.base) == (by.run, by.settings, by.base):
                return use
        before = self.peaks.get(" ".join(filter(None, (by.factor, by.run, by.settings)))) if not by.base else None
        return MemoryUse(before) if before is not None else None

    def session_times(self, provider: str, provision_s: float) -> SessionTimes:
        """Return what the parts of a session on such a target usually take, besides the wait for nodes.

        Earlier versions measured the whole start; what is longer than ``provision_s`` is taken to come after the node.
        """
        if provider not in self.starts:
            known = self.startups.get(provider)
            whole = max(0.0, median(known) - provision_s) if known else 0.0
            return SessionTimes(join_s=whole, warm_s=whole)
        times = {name: usual(getattr(start, name) for start in self.starts[provider]) for name in PARTS}
        for name, alike in (("join_s", "warm_s"), ("warm_s", "join_s")):
            times[name] = times[alike] if times[name] is None else times[name]
        return SessionTimes(**{name: time or 0.0 for name, time in times.items()})

    def node_s(self, provider: str, pool: str) -> float | None:
        """Return how long a node of the pool usually takes to come; None if none was seen to come."""
        return usual(start.node_s.get(pool) for start in self.starts.get(provider, ()))

    def sessions_timed(self, provider: str) -> int:
        """Return how many sessions say how long such a target takes to start."""
        return len(self.starts.get(provider) or self.startups.get(provider, ()))

    def hours_used(self, since: str = "") -> HeldResources:
        """Return the hours used by all runs that ended on this day, as ``2026-04-30``, or later."""
        return sum((used for day, used in self.hours.items() if day >= since), HeldResources())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, month: str | None = None) -> History:
        """Return what a history file says. ``month`` is the one it is now, as ``2026-04``.

        The planner has no clock, so it must be told; money whose month is written down counts in that month only.
        """
        try:
            return cls(
                seconds={name: tuple(map(duration, values)) for name, values in data.get("seconds", {}).items()},
                units={
                    name: tuple(measured(**entry) for entry in entries)
                    for name, entries in data.get("units", {}).items()
                },
                starts={
                    name: tuple(start(**entry) for entry in entries) for name, entries in data.get("starts", {}).items()
                },
                startups={name: tuple(map(duration, values)) for name, values in data.get("startups", {}).items()},
                peaks={name: Memory.parse(peak) for name, peak in data.get("peaks", {}).items()},
                memory={
                    name: tuple(memory_use(**entry) for entry in entries)
                    for name, entries in data.get("memory", {}).items()
                },
                reads={run: frozenset(names) for run, names in data.get("reads", {}).items()},
                sizes={run: tuple(map(size, entries)) for run, entries in data.get("sizes", {}).items()},
                sessions=tuple(session(**entry) for entry in data.get("sessions", ())),
                spent_this_month=spent_in(month, data.get("spent_this_month")),
                tasks={name: count(number) for name, number in data.get("tasks", {}).items()},
                hours={day: hours(used) for day, used in data.get("hours", {}).items()},
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise PlanningError(f"the history cannot be read: {error}; move it away to plan without it") from None


def usual(values: Iterable[float | None]) -> float | None:
    """Return the median of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def spent_in(month: str | None, spent: object) -> Money | None:
    """Return what was spent this month. An amount without its month is taken to be this month's."""
    if not spent:
        return None
    if not isinstance(spent, Mapping):
        return Money.parse(spent)
    then, amount = spent.get("month"), Money.parse(spent.get("amount"))
    if not isinstance(then, str) or not re.fullmatch(r"\d{4}-\d{2}", then):
        raise ValueError(f"{then!r} is not a month such as 2026-04")
    return amount if then == month else None


def duration(value: object) -> float:
    """Return a duration that something can have taken."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LONGEST_S:
        raise ValueError(f"{value!r} is not a number of seconds above 0")
    return float(value)


def hours(used: Mapping[str, Any]) -> HeldResources:
    """Return the hours that runs of a day used."""
    for unit in UNITS:
        amount = used.get(unit, 0.0)
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < LARGEST:
            raise ValueError(f"{shown(amount)} is not a number of {unit}")
    return HeldResources.from_dict(used)


def count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise ValueError(f"{shown(value)} is not a count")
    return value


def size(entry: object) -> tuple[int, int, int]:
    if not isinstance(entry, list) or len(entry) != 3:
        raise ValueError(f"{shown(entry)} is not samples, features and a peak")
    samples, features, peak = map(count, entry)
    return samples, features, peak


def memory_use(
    peak: object = None, short: list[str] | None = None, code: str = "", target: str = "",
    run: str = "", settings: str = "", base: str = "", **_: object,
) -> MemoryUse:  # fmt: skip
    highest = None if peak is None else Memory.parse(peak)
    return MemoryUse(highest, code, frozenset(short or ()), target, run, settings, base)


def measured(
    seconds: list[float], trials: int, cpus: float, cores: float | None = None, rows: int = 1,
    run: str = "", settings: str = "", base: str = "", provider: str = "", means: list[float] | None = None,
    pilot: bool = False, load_s: object = None, **_: object,
) -> MeasuredUnits:  # fmt: skip
    if not seconds:
        raise ValueError("units without durations")
    used = None if cores is None else amount(cores)
    taken, levels = tuple(map(duration, seconds)), tuple(map(duration, means or ()))
    return MeasuredUnits(
        taken,
        run,
        settings,
        count(trials),
        provider,
        amount(cpus),
        used,
        max(1, count(rows)),
        levels,
        base,
        pilot is True,
        0.0 if load_s is None else duration(load_s),
    )


def amount(value: object) -> float:
    """Return a number of CPUs."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST:
        raise ValueError(f"{shown(value)} is not a number of CPUs above 0")
    return float(value)


def start(
    node_s: Mapping[str, object] | None = None, **parts: object
) -> Start:  # fmt: skip
    known = {name: duration(parts[name]) for name in PARTS if parts.get(name) is not None}
    return Start(node_s={pool: duration(value) for pool, value in (node_s or {}).items()}, **known)


def session(
    oom_kills: int = 0, failures: int = 0, scale_up_s: float | None = None, scale_down_s: float | None = None,
    target: str = "", provider: str = "",
) -> PastSession:  # fmt: skip
    up, down = (None if value is None else duration(value) for value in (scale_up_s, scale_down_s))
    return PastSession(count(oom_kills), count(failures), up, down, target, provider)
