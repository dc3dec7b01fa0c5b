"""From a declared sweep to what must be computed: cells with keys, and units of them.

The row's key covers the sweep, the cell and the key of the row's stage, so the same sweep has the same keys wherever
and whenever it is compiled, until code, data, settings or libraries change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from scalable.axes import Value, axis_text, value_text
from scalable.errors import ScalableError, UnknownNameError
from scalable.garbage import uncollected
from scalable.manifest.models import Manifest
from scalable.manifest.work import Sweep
from scalable.store.caching import key_of
from scalable.sweeps.files import InputFiles
from scalable.sweeps.grid import Cell, Grid
from scalable.sweeps.project import in_project
from scalable.sweeps.questions import check_directions
from scalable.sweeps.results import Same, same
from scalable.sweeps.rows import identity, matches, reads_as
from scalable.sweeps.stages import StageError
from scalable.sweeps.units import RowWork, Unit
from scalable.sweeps.workload import Keys, Workload, find_workload
from scalable.wording import undefined


@dataclass(frozen=True, slots=True)
class CompiledJob:
    """A unit in the grid: what its rows share, for people and for the engine."""

    name: str
    group: str
    """Units of one group share data and are kept on one worker while that costs nothing."""
    cells: tuple[RowWork, ...]


@dataclass(frozen=True)
class Compiled:
    """A sweep with every row's key."""

    name: str
    sweep: Sweep
    grid: Grid
    workload: Workload
    cells: tuple[tuple[RowWork, Cell], ...]
    """In the order of the grid."""
    base_env: Mapping[str, Any]
    data: Mapping[str, str]
    """By group of rows that share data: a fingerprint of all that they read outside."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Values of axes that the rows have which are meant, where a sweep is run part by part."""
    folder: Path | None = None
    """The project's, which relative paths of data start from."""

    def of(self, where: Mapping[str, str]) -> Compiled:
        """Return the rows with these values, as text by axis, with the keys they have in the whole sweep."""
        kept = tuple(each for each in self.cells if matches(self.address(each[1]), where))
        if kept:
            return replace(self, cells=kept, chosen=where)
        for name, text in where.items():
            if name not in (known := dict.fromkeys((*self.grid.names, "variant"))):
                raise UnknownNameError(f"sweeps.{self.name}: {undefined('axis', name, known)}")
            values = dict.fromkeys(value_text(self.address(cell)[name]) for _, cell in self.cells)
            if not any(reads_as(value, text) for value in values):
                raise UnknownNameError(f"sweeps.{self.name}: {undefined(name, text, values)}")
        wanted = ", ".join(f"{name}={text}" for name, text in where.items())
        raise UnknownNameError(f"sweeps.{self.name} has no row with {wanted}")

    def address(self, cell: Cell) -> dict[str, Value]:
        """Return what a row can be asked for by: its values on all axes, and its variant."""
        return {**self.grid.axes_of(cell), "variant": self.grid.label(cell.variant)}

    def only(self, jobs: Iterable[CompiledJob]) -> Compiled:
        """Return the rows of these jobs, with the keys they have in the whole sweep."""
        wanted = {cell.run_key for job in jobs for cell in job.cells}
        return replace(self, cells=tuple(each for each in self.cells if each[0].run_key in wanted))

    @property
    def expected(self) -> list[tuple[str, Cell]]:
        return [(cell.run_key, where) for cell, where in self.cells]

    @property
    def baseline(self) -> Value:
        """The variant that others are compared with: the one with what is locked now, else the sweep's own."""
        own = zip(self.grid.compare, self.grid.baseline, strict=True)
        now = tuple(same(self.base_env.get(name, value)) for name, value in own)
        variants = self.grid.variants
        return self.grid.label(next((each for each in variants if tuple(map(same, each)) == now), self.grid.baseline))

    @cached_property
    def where(self) -> dict[str, Cell]:
        return {cell.run_key: where for cell, where in self.cells}

    @cached_property
    def units(self) -> list[CompiledJob]:
        """Rows that share the workload's costliest stage, in an order that gives every group a turn."""
        return self.units_of(self.where)

    def units_of(self, wanted: Iterable[str]) -> list[CompiledJob]:
        """The units of these rows only."""
        rows, stage = set(wanted), self.workload.shared_by
        groups: dict[str, list[tuple[RowWork, Cell]]] = {}
        for cell, where in self.cells:
            if cell.run_key in rows:
                groups.setdefault(cell.keys[stage], []).append((cell, where))
        order = sorted(groups.values(), key=lambda group: self.turn(group[0][1]))
        names: dict[str, int] = {}
        units = []
        for group in order:
            name = self.label([where for _, where in group])
            names[name] = names.get(name, 0) + 1
            shown = name if names[name] == 1 else f"{name} ({names[name]})"
            units.append(CompiledJob(shown, self.grid.group_of(group[0][1]), tuple(cell for cell, _ in group)))
        return units

    def turn(self, cell: Cell) -> tuple[int, ...]:
        """Return the position of a cell's block, such that each value of the first axis comes before a second turn."""
        places = zip(self.positions, cell.block, strict=True)
        return tuple(reversed([position[same(value)] for position, value in places]))

    @cached_property
    def positions(self) -> list[dict[Same, int]]:
        return [{same(value): at for at, value in enumerate(axis.values)} for axis in self.grid.over]

    def label(self, cells: list[Cell]) -> str:
        """Return what the rows of a job have in common, in words."""
        grid, first = self.grid, cells[0]
        blocks = [
            axis_text(axis.name, first.block[at])
            for at, axis in enumerate(grid.over)
            if at == 0 or len({cell.block[at] for cell in cells}) == 1
        ]
        averaged = [
            axis_text(name, first.averaged[at])
            for at, (name, values) in enumerate(grid.average.items())
            if len(values) > 1 and len({cell.averaged[at] for cell in cells}) == 1
        ]
        alone = len(grid.variants) > 1 and len({tuple(map(same, cell.variant)) for cell in cells}) == 1
        variant = [str(grid.label(first.variant))] if alone else []
        return " ".join((*blocks[:1], *variant, *blocks[1:], *averaged)) or self.name

    def unit(self, place: CompiledJob, artefacts: str, *, fresh: bool = False) -> Unit:
        inputs = tuple(self.sweep.inputs or ())
        folder, code = str(self.folder or ""), self.workload.pickled
        return Unit(self.workload.path, artefacts, place.cells, fresh, folder, inputs, code)

    def sharing(self) -> dict[str, tuple[int, int]]:
        """By stage: for how many rows it is asked for, and how many distinct ones there are."""
        asked: dict[str, list[str]] = {}
        for work, _ in self.cells:
            for stage in self.workload.stages:
                if stage.name in work.keys and not stage.left_out(work.configuration):
                    asked.setdefault(stage.name, []).append(work.keys[stage.name])
        return {name: (len(keys), len(set(keys))) for name, keys in asked.items()}

    def artefact_keys(self) -> set[str]:
        kept = [stage.name for stage in self.workload.stages if stage.keep]
        key_sets = (keys for work, _ in self.cells for keys in (work.keys, *work.parts.values()))
        return {keys[name] for keys in key_sets for name in kept if name in keys}


def compiled(manifest: Manifest, name: str, base_env: Mapping[str, Any], workload: Workload | None = None) -> Compiled:
    """Return a sweep of the manifest on top of what is locked. The factor itself is the sweep's to vary.

    ``workload`` is given by who has its code already: a script or a notebook.
    """
    if name not in manifest.sweeps:
        raise UnknownNameError(undefined("sweep", name, manifest.sweeps))
    sweep = manifest.sweeps[name]
    rows = Grid.of(sweep, manifest.groups)
    try:
        workload = workload or find_workload(sweep.stages)
    except StageError as error:
        raise StageError(f"sweeps.{name}: {error}") from None
    unread(sweep, workload, f"sweeps.{name}")
    check_directions(sweep, f"sweeps.{name}")
    with in_project(manifest.folder):
        files = InputFiles.of(sweep.inputs or ())
    keys = Keys(workload, files)
    locked = {key: value for key, value in base_env.items() if key in workload.reads}  # others are other workloads'
    settings = {**locked, **rows.settings}
    cells = []
    data: dict[str, set[str]] = {group: set() for group in rows.groups}
    with uncollected():
        for where in rows:
            axes = rows.axes_of(where)
            given = {**axes, **also(workload, rows, where, axes, manifest.groups)}
            try:
                whole = workload.configured({**settings, **given})
            except ScalableError as error:
                text = f"{rows.factor} {rows.label(where.variant)}"
                error.args = (f"sweeps.{name}: {text}: {error}",)  # whatever its class takes
                raise
            stage_keys = keys.of(whole)
            row_key = key_of((identity(name, rows, where), stage_keys[workload.row.name]))
            read = {key: whole[key] for key in workload.reads}
            work = RowWork(row_key, read, stage_keys, keys.parts(whole))
            cells.append((work, where))
            data[rows.group_of(where)].update(keys.outside(work.keys, *work.parts.values()))
    prints = {group: files.fingerprint(key_of(texts)) for group, texts in data.items()}
    return Compiled(name, sweep, rows, workload, tuple(cells), dict(base_env), prints, folder=manifest.folder)


def also(
    workload: Workload, grid: Grid, cell: Cell, axes: Mapping[str, Value], groups: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return what a workload gets beside the axes if it asks: what varies, and all values that a group stands for."""
    asked: dict[str, Any] = {"factor": grid.factor, "variant": grid.label(cell.variant)}
    for name, among in {stage.over for stage in workload.stages if stage.over is not None} | {("asset", "universe")}:
        if name in axes:
            asked[among] = tuple(groups.get(str(axes[name]), (axes[name],)))
    return {name: value for name, value in asked.items() if name in workload.reads and name not in axes}


def unread(sweep: Sweep, workload: Workload, where: str) -> None:
    """Refuse axes and settings that say nothing: a slip of the pen would go unnoticed."""
    for name in sweep.settings:
        if name not in workload.reads:
            raise StageError(f"{where}.settings: {undefined('setting', name, workload.reads)}")
    for side in ("compare",) if sweep.is_short else ("compare", "over", "average"):
        for name in getattr(sweep, side):
            if name in workload.reads or (side == "compare" and "variant" in workload.reads):
                continue
            what, key = "variants" if side == "compare" else "values", "factor" if sweep.is_short else side
            raise StageError(
                f"{where}.{key}: no stage reads {name!r}, so its {what} would all give the same rows; name what is "
                f"read: {', '.join(sorted(workload.reads))}"
            )


def reachable(manifest: Manifest, base_env: Mapping[str, Any]) -> set[str]:
    """Keys of all artefacts that the manifest's sweeps would use now."""
    return set().union(*(compiled(manifest, name, base_env).artefact_keys() for name in manifest.sweeps))
