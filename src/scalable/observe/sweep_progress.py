"""What a run's journal says of its sweeps: rows expected, there and computed, units done, how it ended, and its grid.

Positions in a grid stand in the journal as short texts: ``0-99,120`` is a hundred rows and one more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from scalable.observe.fields import count, listed, mapping, memory, number, text
from scalable.observe.series import Distribution

LEAST_CORES = 0.01  # a unit that only waits uses nearly nothing, but not nothing
MOST_SIZES = 200  # enough for a line through them
RECENT = 500  # units whose rows a sweep's rate is computed from


@dataclass(slots=True)
class UnitEnd:
    """What the attempts of one unit took, until its rows say what that is worth."""

    seconds: float | None = None
    """Of a first attempt that finished; a later one may have found what an earlier one left."""
    cpu_s: float | None = None
    load_s: float = 0.0
    """What of ``seconds`` went into loading its code."""
    worker: str = ""
    peak: int | None = None
    short: set[str] = field(default_factory=set)
    """Kinds of workers on which it ran out of memory."""
    size: tuple[int, int] | None = None
    """Samples and features of the largest set it trained on."""

    def take_size(self, samples: int, features: int) -> None:
        if samples * features > prod(self.size or (0,)):
            self.size = samples, features

    def take(self, record: Mapping[str, Any], *, finished: bool, short: bool = False) -> None:
        if short:
            self.short.add(text(record.get("tag")))
        if finished and count(record.get("attempt")) == 1:
            self.seconds, self.cpu_s = number(record.get("seconds")), number(record.get("cpu_s"))
            self.load_s, self.worker = max(0.0, number(record.get("load_s")) or 0.0), text(record.get("worker"))
        if peak := memory(record.get("peak")):
            self.peak = max(peak, self.peak or 0)


@dataclass
class SweepProgress:
    """One sweep of a run."""

    sweep: str
    factor: str = ""
    tag: str = ""
    expected: int = 0
    there: int = 0
    """Rows that were there before it began."""
    rows: int = 0
    """Rows computed and stored since."""
    elsewhere: int = 0
    """Those among them that another run of the same sweep computed."""
    failed: int = 0
    units: int = 0
    """Units of work it began with, each of which serves several rows."""
    units_done: int = 0
    stages: dict[str, Any] = field(default_factory=dict)
    """By stage: for how many rows it is asked for, and how many distinct ones there are."""
    executed: dict[str, Any] = field(default_factory=dict)
    """By stage: how often it was computed; known at the end."""
    status: str = "running"
    reason: str = ""
    began: float | None = None
    run: str = ""
    """The workload, as the manifest names it; empty for the shipped one."""
    settings: str = ""
    base: str = ""
    """What was locked of that which the workload reads, without the factor."""
    reads: list[str] = field(default_factory=list)
    """Names that the workload reads of a configuration."""
    code: str = ""
    """Fingerprint of the workload."""
    data: str = ""
    """Fingerprint of the data that its rows read."""
    recorded: frozenset[str] = frozenset()
    """Names of what its start tells; that of an earlier version tells less."""
    trials: int = 0
    pilot: bool = False
    job_s: float | None = None
    """What a job of the whole sweep takes on average, as a pilot found it; known at the end."""
    took: Distribution = field(default_factory=Distribution)
    """Seconds of units that computed what is costly in them and finished at the first attempt.

    What the first unit on a worker took to load its code is not in them.
    """
    loads: dict[str, float] = field(default_factory=dict)
    """What the first unit on a worker took to load its code, by worker."""
    timed_s: float = 0.0
    """Those among them whose CPU time is known, together, and that CPU time."""
    cpu_s: float = 0.0
    rows_per_unit: int = 0
    peak: int | None = None
    """The most a unit used, whatever became of it."""
    short: set[str] = field(default_factory=set)
    """Kinds of workers on which a unit ran out of memory."""
    sizes: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=MOST_SIZES))
    """Samples, features and peak of units that computed what is costly in them."""
    recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RECENT))
    """When rows came lately, and how many."""

    @property
    def cores(self) -> float | None:
        """What a unit used on average."""
        return self.cpu_s / self.timed_s if self.timed_s > 0 else None

    def start(self, record: Mapping[str, Any]) -> None:
        """Also again: a session may run a sweep several times, each for what is missing or for a part of it."""
        self.began = record["t"] if self.began is None else min(self.began, record["t"])
        self.rows = self.failed = self.elsewhere = self.units_done = 0
        self.status, self.reason, self.executed = "running", "", {}
        self.run, self.trials = text(record.get("run")), count(record.get("trials"))
        self.pilot, self.job_s = record.get("pilot") is True, None
        before = self.settings, self.base, self.code
        self.settings, self.base = (listing(mapping(record.get(name))) for name in ("settings", "base"))
        self.reads, self.code = [text(name) for name in listed(record.get("reads"))], text(record.get("code"))
        self.data, self.recorded = text(record.get("data")), frozenset(record)
        if before != (self.settings, self.base, self.code):  # what was measured is of other work
            self.took, self.timed_s, self.cpu_s, self.peak, self.short = Distribution(), 0.0, 0.0, None, set()
            self.loads = {}
        self.factor, self.tag = text(record.get("factor")), text(record.get("tag"))
        self.expected, self.there, self.units = (count(record.get(name)) for name in ("expected", "there", "units"))
        self.stages = dict(mapping(record.get("stages")))

    def take_rows(self, record: Mapping[str, Any], end: UnitEnd | None = None) -> None:
        rows, failed = count(record.get("count")), count(record.get("failed"))
        self.recent.append((record["t"], rows))
        self.rows += rows
        self.failed += failed
        self.elsewhere += rows if record.get("elsewhere") else 0
        self.units_done += 1
        self.rows_per_unit = max(rows, self.rows_per_unit)
        if end is None:
            return
        if end.peak is not None:
            self.peak = max(end.peak, self.peak or 0)
        self.short |= end.short
        if end.size is not None and end.peak and record.get("fresh") is True and not failed:
            self.sizes.append((*end.size, end.peak))
        if end.seconds is not None and end.seconds > 0 and record.get("fresh") is True and not failed:
            load_s = min(end.load_s, end.seconds) if end.worker not in self.loads else 0.0
            self.loads.setdefault(end.worker, load_s)
            self.took.add(end.seconds - load_s)
            if end.cpu_s is not None and end.cpu_s >= 0:
                self.timed_s += end.seconds
                self.cpu_s += end.cpu_s

    def end(self, record: Mapping[str, Any]) -> None:
        self.status, self.reason = text(record.get("status")), text(record.get("reason"))
        self.executed = dict(mapping(record.get("executed")))
        self.job_s = number(record.get("job_s"))

    def to_dict(self) -> dict[str, Any]:
        names = (
            "factor", "tag", "expected", "there", "rows", "elsewhere", "failed", "units", "units_done", "stages",
            "executed",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names} | {"status": self.status, "reason": self.reason}


def finished_rows(sweep: Mapping[str, Any]) -> int:
    """Return how many rows of a sweep are finished, from its shape in reports."""
    there, rows, failed = (count(sweep.get(name)) for name in ("there", "rows", "failed"))
    return max(0, there + rows - failed)


def code_by_stage(fingerprint: str) -> dict[str, str]:
    """Return the parts of a workload's fingerprint, such as ``clean:1a2b3c4d row:5e6f7a8b``, by stage."""
    return dict(part.split(":", 1) for part in fingerprint.split() if ":" in part)


def listing(values: Mapping[str, Any]) -> str:
    """Return values by name as one text that is the same whatever their order."""
    return ", ".join(f"{name}={values[name]}" for name in sorted(values))


WAITS, RUNS, COMPUTED, THERE, FAILED, NO_PART = (ord(letter) for letter in ".rdtf-")
OVER = bytes.maketrans(b".r", b"mm")  # what was not computed will not be any more
MOST_CELLS = 100_000  # a journal that tells of more is not one of ours
UNTOLD = "its journal does not tell the grid: the sweep is too large to be drawn, or was run by an earlier version"


@dataclass(frozen=True, slots=True)
class JobOrigin:
    """The sweep of a job, its ``sweep-started`` record, and the positions of the job's rows where they are known."""

    sweep: str
    begun: Mapping[str, Any]
    axes: Mapping[str, Sequence[str]] | None
    cells: str = ""

    @property
    def rows(self) -> list[dict[str, str]]:
        return labelled(self.axes, self.cells)


class GridProgress:
    """The rows of one sweep."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.begun = record
        self.sweep, self.factor = text(record.get("sweep")), text(record.get("factor"))
        given = mapping(record.get("axes"))
        axes = {name: [text(label) for label in listed(labels)] for name, labels in given.items()}
        size = prod(len(axis) for axis in axes.values())
        self.axes = axes if axes and 0 < size <= MOST_CELLS else None
        names = [*axes][1:]
        self.average = [name for name in map(text, listed(record.get("average", names[-1:]))) if name in names]
        """Axes that are averaged, the last ones; an older journal does not say which."""
        meant = text(record.get("cells"))
        self.cells = bytearray([NO_PART if meant else WAITS]) * (size if self.axes else 0)
        self.ended = False
        self.put(meant, WAITS)
        self.put(text(record.get("cells_there")), THERE)
        self.put(text(record.get("failed_cells")), FAILED)

    def put(self, spans: str, letter: int, only: Iterable[int] | None = None) -> None:
        for position in positions(spans, len(self.cells)):
            if only is None or self.cells[position] in only:
                self.cells[position] = letter

    def letters(self, *, over: bool = False) -> bytes:
        """Return the rows as they stand; ``over`` says that the run has ended, with or without having said so."""
        return bytes(self.cells.translate(OVER) if over or self.ended else self.cells)

    def to_dict(self, *, over: bool = False) -> dict[str, Any]:
        letters = self.letters(over=over).decode("ascii")
        facts = {
            "sweep": self.sweep,
            "factor": self.factor,
            "axes": self.axes,
            "average": self.average,
            "cells": letters,
        }
        return facts if self.axes else {**facts, "why": UNTOLD}


class Grids:
    """The grids of a run's sweeps. A sweep that is run twice in a session has the latest one's."""

    def __init__(self) -> None:
        self.by_sweep: dict[str, GridProgress] = {}
        self.units: dict[str, tuple[str, str]] = {}
        """Sweep and rows of units that have not ended, by name."""

    def start_sweep(self, record: Mapping[str, Any]) -> None:
        self.by_sweep[text(record.get("sweep"))] = GridProgress(record)

    def take_units(self, record: Mapping[str, Any]) -> None:
        sweep, units = text(record.get("sweep")), mapping(record.get("unit_cells"))
        self.units |= {name: (sweep, text(spans)) for name, spans in units.items()}

    def start_unit(self, name: str) -> None:
        self.change_unit(name, RUNS)

    def lose_unit(self, name: str) -> None:
        """Its rows wait again."""
        self.change_unit(name, WAITS, only=(RUNS,))

    def change_unit(self, name: str, letter: int, only: Iterable[int] | None = None) -> None:
        sweep, spans = self.units.get(name, ("", ""))
        if sweep in self.by_sweep:
            self.by_sweep[sweep].put(spans, letter, only)

    def take_rows(self, record: Mapping[str, Any]) -> None:
        self.units.pop(text(record.get("run")), None)
        if (grid := self.by_sweep.get(text(record.get("sweep")))) is not None:
            grid.put(text(record.get("cells")), COMPUTED)
            grid.put(text(record.get("failed_cells")), FAILED)

    def axes_of(self, sweep: str) -> dict[str, list[str]] | None:
        return self.by_sweep[sweep].axes if sweep in self.by_sweep else None

    def origin(self, record: Mapping[str, Any], cells: str = "") -> JobOrigin:
        """Return where the job of a record comes from, which has these rows of the grid as it is now."""
        sweep = text(record.get("sweep"))
        grid = self.by_sweep.get(sweep)
        return JobOrigin(sweep, grid.begun if grid else {}, grid.axes if grid else None, cells)

    def end_sweep(self, record: Mapping[str, Any]) -> None:
        if (grid := self.by_sweep.get(text(record.get("sweep")))) is not None:
            grid.ended = True

    def to_list(self, *, over: bool = False) -> list[dict[str, Any]]:
        return [grid.to_dict(over=over) for grid in self.by_sweep.values()]


def spans(positions: Iterable[int]) -> str:
    """Positions as ranges."""
    parts: list[list[int]] = []
    for position in sorted(set(positions)):
        if parts and position == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], position]
        else:
            parts.append([position])
    return ",".join("-".join(map(str, part)) for part in parts)


def positions(spans: str, end: int) -> Iterator[int]:
    """Yield the positions below ``end`` that a text stands for; what makes no sense in it is passed over."""
    for part in spans.split(","):
        first, _, last = part.partition("-")
        if is_position(first) and (not last or is_position(last)):
            yield from range(int(first), min(int(last or first) + 1, end))


def labelled(axes: Mapping[str, Sequence[str]] | None, spans: str) -> list[dict[str, str]]:
    """Return the rows at some positions by their labels on each axis; nothing where the axes are not known."""
    return [row_at(axes, position) for position in positions(spans, prod(map(len, axes.values())))] if axes else []


def row_at(axes: Mapping[str, Sequence[str]], position: int) -> dict[str, str]:
    labels = {}
    for name in reversed(tuple(axes)):
        position, at = divmod(position, len(axes[name]))
        labels[name] = axes[name][at]
    return {name: labels[name] for name in axes}


def is_position(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
