"""What earlier runs measured. It replaces the assumptions of the manifest wherever it has something to say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from scalable.errors import PlanningError
from scalable.quantities import LARGEST, Memory, Money
from scalable.wording import shown

LONGEST_S = 10 * 365 * 86400  # no run took longer than ten years


@dataclass(frozen=True, slots=True)
class Session:
    """One past session, for the acceptance criteria."""

    oom_kills: int = 0
    failures: int = 0
    scale_up_s: float | None = None
    scale_down_s: float | None = None
    target: str = ""
    """Where it ran; empty if an earlier version did not say."""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What measurements of a sweep belong to: what was measured under others says nothing about it."""

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
class Measured:
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

    @property
    def mean(self) -> float:
        return sum(self.seconds) / len(self.seconds)

    @property
    def usual(self) -> float:
        """What a unit takes on average on a day like most: a machine is slower on some."""
        return median(self.means) if self.means else self.mean


@dataclass(frozen=True, slots=True)
class History:
    """What earlier runs took, used and cost; empty before the first."""

    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Durations of finished tasks by ``tag:<component>``; by factor, of runs on all CPUs of the profile's limit."""
    units: Mapping[str, tuple[Measured, ...]] = field(default_factory=dict)
    """What finished sweeps measured, by factor."""
    startups: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Seconds from a session's start to its first unit, by provider."""
    peaks: Mapping[str, Memory] = field(default_factory=dict)
    """Highest memory peak seen, by ``tag:<component>``; latest by ``run:<name>``. Earlier versions wrote those of
    sweeps here, by factor, workload and settings."""
    memory: Mapping[str, tuple[MemoryUse, ...]] = field(default_factory=dict)
    """What sweeps used, by factor."""
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names that a workload reads of a configuration, by workload."""
    sizes: Mapping[str, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)
    """Samples, features and bytes at the peak of jobs, by workload."""
    sessions: tuple[Session, ...] = ()
    spent_this_month: Money | None = None
    tasks: Mapping[str, int] = field(default_factory=dict)
    """How many tasks the last run had, by ``tag:<component>``."""

    def used(self, by: Circumstances) -> MemoryUse | None:
        """Return the memory that a sweep was seen to use, of the latest code that was measured."""
        for use in self.memory.get(by.factor, ()):
            if (use.run, use.settings, use.base) == (by.run, by.settings, by.base):
                return use
        before = self.peaks.get(" ".join(filter(None, (by.factor, by.run, by.settings)))) if not by.base else None
        return MemoryUse(before) if before is not None else None

    def startup_s(self, provider: str) -> float | None:
        """Return what sessions on such a target usually take until the first job starts; nothing if none was seen."""
        known = self.startups.get(provider)
        return median(known) if known else None

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
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise PlanningError(f"the history cannot be read: {error}; move it away to plan without it") from None


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
    pilot: bool = False, **_: object,
) -> Measured:  # fmt: skip
    if not seconds:
        raise ValueError("units without durations")
    used = None if cores is None else amount(cores)
    taken, levels = tuple(map(duration, seconds)), tuple(map(duration, means or ()))
    return Measured(
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
    )


def amount(value: object) -> float:
    """Return a number of CPUs."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST:
        raise ValueError(f"{shown(value)} is not a number of CPUs above 0")
    return float(value)


def session(
    oom_kills: int = 0, failures: int = 0, scale_up_s: float | None = None, scale_down_s: float | None = None,
    target: str = "", provider: str = "",
) -> Session:  # fmt: skip
    up, down = (None if value is None else duration(value) for value in (scale_up_s, scale_down_s))
    return Session(count(oom_kills), count(failures), up, down, target, provider)
