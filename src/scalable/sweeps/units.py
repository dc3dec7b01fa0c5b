"""A unit of work: rows that share their costliest stage, computed in one runner process, each stage once.

A result is looked for in this process, which served the same asset before, then among the artefacts; else it is
computed, by one process at a time. A row that fails is told as such beside those that finished.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scalable.errors import ScalableError
from scalable.runner import ends
from scalable.sweeps.stages import Stage, scratch_from
from scalable.sweeps.workload import Workload, find_workload

if TYPE_CHECKING:
    from scalable.artefacts import Artefacts

REMEMBERED = 8  # results of each stage that a process keeps: two assets under a few settings
UNREPEATABLE = (ends.TRANSIENT, ends.OUT_OF_MEMORY)  # a row that ended so may end well another time, or elsewhere


class RowError(ScalableError):
    """What a workload gave that is no row."""


@dataclass(frozen=True, slots=True)
class RowWork:
    """A row to compute: what it is called in the store, its configuration and the keys of its stages."""

    run_key: str
    configuration: Mapping[str, Any]
    keys: Mapping[str, str]
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Where a stage goes over several assets: the keys of what it needs of each."""

    def part(self, name: str, value: str) -> RowWork:
        """The same cell for one of several assets."""
        return RowWork(self.run_key, {**self.configuration, name: value}, self.parts[value])


@dataclass(frozen=True, slots=True)
class Computed:
    """What became of one row."""

    run_key: str
    metrics: dict[str, Any] = field(default_factory=dict)
    elapsed_s: float = 0.0
    error: str = ""
    """Why there is no result; empty if there is one."""
    executed: tuple[str, ...] = ()
    """Stages that were computed for it, not found."""
    unkept: str = ""
    """Why results of its stages could not be kept, which is nothing that other rows escape."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Called by a runner; what it needs travels with it, the code is found by name."""

    path: str
    artefacts: str
    cells: tuple[RowWork, ...]
    fresh: bool = False
    """A person did not believe what was there: nothing that is kept counts, and what is kept is replaced."""

    def __scalable_prepare__(self) -> None:
        """Called before the call itself: code that is not there is another error than one it raises."""
        workload(self.path)

    def __call__(self) -> list[Computed]:
        work = Evaluation(workload(self.path), opened(self.artefacts), fresh=self.fresh)
        return [work.row(cell) for cell in self.cells]


class Evaluation:
    """The stages of some cells, each found or computed once."""

    def __init__(self, workload: Workload, artefacts: Artefacts | None, *, fresh: bool = False) -> None:
        self.workload = workload
        self.artefacts = artefacts
        self.fresh = fresh
        self.made: set[str] = set()
        """Keys of what was computed here, which counts however fresh all must be."""
        self.failed: dict[str, Exception] = {}
        """By key: what failed for one row is not tried again for the next."""
        self.executed: list[str] = []

    def row(self, cell: RowWork) -> Computed:
        began = time.perf_counter()
        self.executed = []
        try:
            metrics = self.value(self.workload.row, cell)
            if not isinstance(metrics, Mapping):
                raise RowError(
                    f"{self.workload.row.name} must return a mapping of metrics; it returned {metrics!r:.80}"
                )
        except Exception as error:  # whatever the user's code raises is the end of this row only
            from scalable.artefacts import ArtefactError

            if ends.cause_of(error) in UNREPEATABLE:
                raise
            unkept = str(error) if isinstance(error, ArtefactError) else ""
            return Computed(cell.run_key, error=ends.said(error), executed=tuple(self.executed), unkept=unkept)
        taken = time.perf_counter() - began
        return Computed(cell.run_key, dict(metrics), taken, executed=tuple(self.executed))

    def value(self, stage: Stage[..., Any], cell: RowWork) -> Any:
        """A stage's result for a cell."""
        if stage.left_out(cell.configuration):
            return self.value(self.workload.by_name[stage.needs[0]], cell)
        key = cell.keys[stage.name]
        if key in self.failed:
            raise self.failed[key]
        known = not self.fresh or key in self.made
        if known and (value := RECENT.get(stage.name, key)) is not MISSING:
            return value
        try:
            value = (
                self.kept(stage, key, cell) if stage.keep and self.artefacts is not None else self.compute(stage, cell)
            )
        except Exception as error:
            self.failed[key] = error
            raise
        RECENT.put(stage.name, key, value)
        self.made.add(key)
        return value

    def kept(self, stage: Stage[..., Any], key: str, cell: RowWork) -> Any:
        """From the artefacts; whoever else computes it already is waited for."""
        from scalable.artefacts import MISSING as NOT_KEPT

        artefacts = self.artefacts
        assert artefacts is not None
        known = not self.fresh or key in self.made
        if known and (value := artefacts.load(stage.name, key)) is not NOT_KEPT:
            return value
        inputs = self.inputs(stage, cell)  # before the claim: they may be claimed by others themselves
        with artefacts.claimed(stage.name, key):
            if known and (value := artefacts.load(stage.name, key)) is not NOT_KEPT:
                return value
            with scratch_from(lambda: artefacts.scratch(stage.name, key)):
                value = self.call(stage, inputs, cell)
            artefacts.save(stage.name, key, value)
        return value

    def compute(self, stage: Stage[..., Any], cell: RowWork) -> Any:
        return self.call(stage, self.inputs(stage, cell), cell)

    def inputs(self, stage: Stage[..., Any], cell: RowWork) -> list[Any]:
        if stage.over is not None:
            name, among = stage.over
            parts = {value: cell.part(name, value) for value in cell.configuration[among]}
            stages = [self.workload.by_name[need] for need in stage.needs]
            return [{value: self.value(one, part) for value, part in parts.items()} for one in stages]
        needed = stage.needed(cell.configuration).items()
        return [self.value(self.workload.by_name[need], cell) if given else None for need, given in needed]

    def call(self, stage: Stage[..., Any], inputs: list[Any], cell: RowWork) -> Any:
        self.executed.append(stage.name)
        values = {name: cell.configuration[name] for name in stage.reads}
        return stage.function(**dict(zip(stage.needs, inputs, strict=True)), **values)


MISSING: Any = object()


class Recent:
    """Results this process had in hand last, a few of each stage."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.stages: dict[str, OrderedDict[str, Any]] = {}

    def get(self, stage: str, key: str) -> Any:
        found = self.stages.get(stage)
        if found is None or key not in found:
            return MISSING
        found.move_to_end(key)
        return found[key]

    def put(self, stage: str, key: str, value: Any) -> None:
        found = self.stages.setdefault(stage, OrderedDict())
        found[key] = value
        while len(found) > self.most:
            found.popitem(last=False)


RECENT = Recent(REMEMBERED)


@lru_cache(maxsize=8)
def workload(path: str) -> Workload:
    return find_workload(path)


@lru_cache(maxsize=4)
def opened(url: str) -> Artefacts | None:
    from scalable.artefacts import open_artefacts

    return open_artefacts(url) if url else None
