"""A unit of work: rows that share their costliest stage, computed in one runner process, each stage once.

A result is looked for in this process, which served the same asset before, then among the artefacts; else it is
computed, by one process at a time. A row that fails is told as such beside those that finished.
"""

from __future__ import annotations

import os
import sys
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from scalable.errors import ScalableError
from scalable.plugins import TRAINING_SET
from scalable.sweeps.files import WATCH, InputFiles, unnamed
from scalable.sweeps.project import in_project
from scalable.sweeps.stages import Stage, StageError
from scalable.sweeps.workload import Keys, Workload, find_workload, inputs_of, unpacked
from scalable.worker.runner import ends
from scalable.worker.runner.notes import note
from scalable.worker.runner.scratch import scratch_from
from scalable.worker.runner.stamp import LONGEST_STEP_S, long_step

if TYPE_CHECKING:
    from scalable.store.artefacts import Artefacts

REMEMBERED = 8  # results of each stage that a process keeps: two assets under a few settings
MOST_BYTES = 256 << 20  # of all of them; heavier ones are read again, which is fast beside what they are needed for
CALLED: set[str] = set()  # stages that this process has computed
UNREPEATABLE = (ends.TRANSIENT, ends.OUT_OF_MEMORY)  # a row that ended so may end well another time, or elsewhere


class WorkloadResultError(ScalableError):
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


class StageTime(NamedTuple):
    """How long one stage took, without those that it needs."""

    stage: str
    seconds: float
    first: bool
    """It was the first of its name in this process: imports and compilers may have taken part of it."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What became of one row."""

    run_key: str
    metrics: dict[str, Any] = field(default_factory=dict)
    elapsed_s: float = 0.0
    error: str = ""
    """Why there is no result; empty if there is one."""
    stages: tuple[StageTime, ...] = ()
    """Stages that were computed for it, not found."""
    unnamed: tuple[str, ...] = ()
    """Files of the project that its job opened and nobody named; with the last row of a job, for all of them."""
    unkept: str = ""
    """Why results of its stages could not be kept, which is nothing that other rows escape."""

    @property
    def executed(self) -> tuple[str, ...]:
        """Names of the stages that were computed for it."""
        return tuple(computed.stage for computed in self.stages)


@dataclass(frozen=True, slots=True)
class Unit:
    """Called by a runner; what it needs travels with it, the code is found by name."""

    path: str
    artefacts: str
    cells: tuple[RowWork, ...]
    fresh: bool = False
    """A person did not believe what was there: nothing that is kept counts, and what is kept is replaced."""
    folder: str = ""
    """The project's, which relative paths of data start from."""
    inputs: tuple[str, ...] = ()
    """Files that the sweep names, as in the manifest."""
    code: bytes = b""
    """The workload itself, where it is not found by name."""

    def __scalable_prepare__(self) -> None:
        """Called before the call itself: code that is not there is another error than one it raises."""
        self.workload()

    def workload(self) -> Workload:
        return unpacked(self.code) if self.code else workload(self.path)

    def __call__(self) -> list[Computed]:
        with in_project(self.folder), here(self.folder) as folder:
            files = InputFiles.of(self.inputs)
            work = Evaluation(self.workload(), opened(self.artefacts), fresh=self.fresh, files=files)
            if folder is None or any(stage.inputs is not None for stage in work.workload.stages):
                return [work.row(cell) for cell in self.cells]  # a stage that says itself what it reads is believed
            with WATCH.over(folder) as opened_files:
                rows = [work.row(cell) for cell in self.cells]
            others = unnamed(opened_files, folder, (*files.named, *files.marked))
            return [*rows[:-1], replace(rows[-1], unnamed=others)]


@contextmanager
def here(folder: str) -> Iterator[Path | None]:
    """Let relative paths in the user's code start from the project's folder, if this machine has it."""
    project = Path(folder).resolve() if folder else None
    if project is None or not project.is_dir():
        yield None
        return
    before = Path.cwd()
    os.chdir(project)
    try:
        yield project
    finally:
        os.chdir(before)


class Evaluation:
    """The stages of some cells, each found or computed once."""

    def __init__(
        self,
        workload: Workload,
        artefacts: Artefacts | None,
        *,
        fresh: bool = False,
        files: InputFiles | None = None,
    ) -> None:
        self.workload = workload
        self.artefacts = artefacts
        self.keys = Keys(workload, files)
        """What the keys of stages are in this process now."""
        self.fresh = fresh
        self.made: set[str] = set()
        """Keys of what was computed here, which counts however fresh all must be."""
        self.failed: dict[str, Exception | SystemExit] = {}
        """By key: what failed for one row is not tried again for the next."""
        self.stages: list[StageTime] = []

    def row(self, cell: RowWork) -> Computed:
        began = time.monotonic()
        self.stages = []
        try:
            metrics = self.metrics(cell)
        except (Exception, SystemExit) as error:  # whatever the user's code raises is the end of this row only
            from scalable.store.artefacts import ArtefactError

            if ends.cause_of(error) in UNREPEATABLE:
                raise
            unkept = str(error) if isinstance(error, ArtefactError) else ""
            return Computed(cell.run_key, error=ends.error_text(error), stages=tuple(self.stages), unkept=unkept)
        taken = time.monotonic() - began
        return Computed(cell.run_key, metrics, taken, stages=tuple(self.stages))

    def metrics(self, cell: RowWork) -> dict[str, Any]:
        """Return the metrics that the workload gives for a cell; raise if they are no row."""
        return checked_metrics(self.workload.row.name, self.value(self.workload.row, cell))

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
        except (Exception, SystemExit) as error:
            self.failed[key] = error
            raise
        RECENT.put(stage.name, key, value)
        self.made.add(key)
        return value

    def kept(self, stage: Stage[..., Any], key: str, cell: RowWork) -> Any:
        """From the artefacts; whoever else computes it already is waited for."""
        from scalable.store.artefacts import MISSING as NOT_KEPT

        artefacts = self.artefacts
        assert artefacts is not None
        known = not self.fresh or key in self.made
        if known and (value := artefacts.load(stage.name, key)) is not NOT_KEPT:
            return value
        inputs = self.inputs(stage, cell)  # before the claim: they may be claimed by others themselves
        with ExitStack() as claim:
            with long_step(LONGEST_STEP_S):  # who waits for another is not stuck; that one is watched, and its claim
                claim.enter_context(artefacts.claimed(stage.name, key))  # ends with it
            if known and (value := artefacts.load(stage.name, key)) is not NOT_KEPT:
                return value
            with scratch_from(lambda: artefacts.scratch(stage.name, key)):
                value = self.call(stage, inputs, cell)
            artefacts.save(stage.name, key, value)
        return value

    def compute(self, stage: Stage[..., Any], cell: RowWork) -> Any:
        return self.call(stage, self.inputs(stage, cell), cell)

    def inputs(self, stage: Stage[..., Any], cell: RowWork) -> list[Any]:
        before = RECENT.changed
        inputs = self.gathered(stage, cell)
        return inputs if RECENT.changed == before else self.gathered(stage, cell)  # making one has changed another

    def gathered(self, stage: Stage[..., Any], cell: RowWork) -> list[Any]:
        if stage.over is not None:
            name, among = stage.over
            parts = {value: cell.part(name, value) for value in cell.configuration[among]}
            stages = [self.workload.by_name[need] for need in stage.needs]
            return [{value: self.value(source, part) for value, part in parts.items()} for source in stages]
        needed = stage.needed(cell.configuration).items()
        return [self.value(self.workload.by_name[need], cell) if given else None for need, given in needed]

    def call(self, stage: Stage[..., Any], inputs: list[Any], cell: RowWork) -> Any:
        self.check(stage, cell)
        values = deepcopy({name: cell.configuration[name] for name in stage.reads})  # cells share them
        process, began = os.getpid(), time.monotonic()
        try:
            value = stage.function(**dict(zip(stage.needs, inputs, strict=True)), **values)
        finally:
            if os.getpid() != process:  # a fork would compute the other rows, too, and keep what is being kept
                from scalable.worker.runner.child import leave_fork

                leave_fork(sys.exception())
            self.stages.append(StageTime(stage.name, time.monotonic() - began, stage.name not in CALLED))
            CALLED.add(stage.name)
            RECENT.forget_changed(inputs if stage.over is None else [part for each in inputs for part in each.values()])
        if self.workload.matrix is not None and stage.name == self.workload.matrix[0]:
            samples, features = self.workload.matrix[1](value)
            note(TRAINING_SET, samples=samples, features=features)
        return value

    def check(self, stage: Stage[..., Any], cell: RowWork) -> None:
        """Raise unless all that decides a result is here what it was where the key was made, which may be hours ago.

        Else the result would be kept, and found by everyone, under the key of another one.
        """
        inputs = inputs_of(stage, cell.configuration, cell.keys, cell.parts)
        if self.keys.key(stage, cell.configuration, inputs) != cell.keys[stage.name]:
            raise StageError(
                f"stage {stage.name} is not the one this sweep was started with: its code, a library it uses, the data "
                "it reads or a module's value it names changed meanwhile, or is another one on this worker; start the "
                "sweep again, with the same versions everywhere"
            )


def checked_metrics(stage: str, metrics: Any) -> dict[str, float | int | None]:
    """Return what a row's stage returned as plain numbers; None stands for a metric that was not measured.

    Raises if it is no mapping, has no number at all, or if a metric is neither a finite number nor None: a value that
    statistics leave out would make the row look better or worse than it is.

    >>> checked_metrics("score", {"accuracy": True, "latency_ms": None})
    {'accuracy': 1, 'latency_ms': None}
    """
    if not isinstance(metrics, Mapping) or all(value is None for value in metrics.values()):
        wanted = f"{stage} must return a mapping of metrics, as {{'score': 0.9}}"
        raise WorkloadResultError(f"{wanted}; it returned {metrics!r:.80}")
    return {str(name): checked_metric(stage, name, value) for name, value in metrics.items()}


def checked_metric(stage: str, name: object, value: Any) -> float | int | None:
    """Return a metric as a plain number, or None; raise if it is anything else."""
    if value is None:
        return None
    number = getattr(value, "item", lambda: value)() if getattr(value, "ndim", 0) == 0 else value  # of numpy
    if isinstance(number, Integral):
        return int(number)
    if isinstance(number, Real) and isfinite(number):
        return float(number)
    shown = f"{value!r:.80}" if isinstance(value, Real | str) else f"a {type(value).__name__}, {value!r:.80}"
    raise WorkloadResultError(
        f"{stage} returned the metric {name!r} as {shown}; a metric must be a finite number, or None if it was not "
        "measured"
    )


MISSING: Any = object()


class Recent:
    """Results this process had in hand last: a few of each stage, not too many bytes, and each as it was made."""

    def __init__(self, most: int, most_bytes: int = MOST_BYTES) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.values: OrderedDict[tuple[str, str], tuple[Any, Seal]] = OrderedDict()
        """By stage and key; the one used last at the end."""
        self.changed = 0
        """How often something had to be forgotten because a stage has changed it."""

    def get(self, stage: str, key: str) -> Any:
        if (stage, key) not in self.values:
            return MISSING
        self.values.move_to_end((stage, key))
        return self.values[stage, key][0]

    def put(self, stage: str, key: str, value: Any) -> None:
        self.values.pop((stage, key), None)
        self.values[stage, key] = (value, sealed(value))
        alike = [at for at in self.values if at[0] == stage]
        for at in alike[: -self.most]:
            del self.values[at]
        held = sum(seal.bytes for _, seal in self.values.values())
        while held > self.most_bytes:
            held -= self.values.popitem(last=False)[1][1].bytes

    def forget_changed(self, given: Iterable[Any]) -> None:
        """If a stage has changed what it was given, the next row must not get that, nor what it is a part of."""
        handed = {id(input_value) for input_value in given}
        if any(id(value) in handed and sealed(value) != seal for value, seal in self.values.values()):
            for at, (value, seal) in list(self.values.items()):
                if sealed(value) != seal:
                    del self.values[at]
            self.changed += 1

    def clear(self) -> None:
        self.values.clear()


class Seal(NamedTuple):
    """About how many bytes a result holds, and what tells whether it was changed since."""

    bytes: int
    sum: int = 0


def sealed(value: Any) -> Seal:
    """Of its pickle, for which arrays are not copied."""
    from scalable.store.artefacts.local import pickled

    try:
        parts = pickled(value)
    except Exception:  # noqa: BLE001, a result that is not kept need not be one that can be pickled
        return Seal(sys.getsizeof(value))
    return Seal(sum(part.nbytes for part in parts), reduce(lambda total, part: crc32(part, total), parts, 0))


RECENT = Recent(REMEMBERED)


@lru_cache(maxsize=8)
def workload(path: str) -> Workload:
    """With its code as it is when this process first hears of it: before its own calls change a module's values."""
    fresh = find_workload(path)
    assert fresh.code
    return fresh


@lru_cache(maxsize=4)
def opened(url: str) -> Artefacts | None:
    from scalable.store.artefacts import open_artefacts

    return open_artefacts(url) if url else None
