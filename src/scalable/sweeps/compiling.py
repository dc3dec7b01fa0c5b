"""From a declared sweep to what must be computed: cells with keys, and units of them.

The row's key covers the sweep, the cell and the key of the row's stage, so the same sweep has the same keys wherever
and whenever it is compiled, until code, data, settings or libraries change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from scalable.catalogue import Variant
from scalable.errors import ScalableError, UnknownNameError
from scalable.garbage import uncollected
from scalable.manifest.checks import OWN_KEYS
from scalable.manifest.models import Manifest
from scalable.manifest.work import Sweep
from scalable.store.caching import key_of
from scalable.sweeps.grid import Cell, Grid
from scalable.sweeps.results import same
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
    """By asset: a fingerprint of all that its rows read outside."""
    asset: str | None = None
    """The only one whose rows are meant, where a sweep is run asset by asset."""
    folder: Path | None = None
    """The project's, which relative paths of data start from."""

    def of(self, asset: str) -> Compiled:
        """The rows of one asset, with the keys they have in the whole sweep."""
        if asset not in self.grid.assets:
            raise UnknownNameError(f"sweeps.{self.name}: {undefined('asset', asset, self.grid.assets)}")
        return replace(self, cells=tuple(each for each in self.cells if each[1].asset == asset), asset=asset)

    def only(self, jobs: Iterable[CompiledJob]) -> Compiled:
        """Return the rows of these jobs, with the keys they have in the whole sweep."""
        wanted = {cell.run_key for job in jobs for cell in job.cells}
        return replace(self, cells=tuple(each for each in self.cells if each[0].run_key in wanted))

    @property
    def expected(self) -> list[tuple[str, Cell]]:
        return [(cell.run_key, where) for cell, where in self.cells]

    @property
    def baseline(self) -> Variant:
        """The variant that others are compared with: what is locked now, else the first."""
        locked = same(self.base_env.get(self.grid.factor, ""))
        return next((each for each in self.grid.variants if same(each) == locked), self.grid.variants[0])

    @cached_property
    def where(self) -> dict[str, Cell]:
        return {cell.run_key: where for cell, where in self.cells}

    @cached_property
    def units(self) -> list[CompiledJob]:
        """Rows that share the workload's costliest stage, in an order that gives every asset a turn."""
        return self.units_of(self.where)

    def units_of(self, wanted: Iterable[str]) -> list[CompiledJob]:
        """The units of these rows only."""
        rows, stage = set(wanted), self.workload.shared_by
        groups: dict[str, list[tuple[RowWork, Cell]]] = {}
        for cell, where in self.cells:
            if cell.run_key in rows:
                groups.setdefault(cell.keys[stage], []).append((cell, where))
        order = sorted(groups.values(), key=lambda found: (found[0][1].fold, self.grid.assets.index(found[0][1].asset)))
        names: dict[str, int] = {}
        units = []
        for found in order:
            name = self.label([where for _, where in found])
            names[name] = names.get(name, 0) + 1
            shown = name if names[name] == 1 else f"{name} ({names[name]})"
            units.append(CompiledJob(shown, found[0][1].asset, tuple(cell for cell, _ in found)))
        return units

    def label(self, cells: list[Cell]) -> str:
        """What the rows of a unit have in common, in words."""
        first = cells[0]
        parts = [first.asset]
        if len({cell.fold for cell in cells}) == 1:
            parts.append(f"fold {first.fold}")
        if len(self.grid.variants) > 1 and len({(type(cell.variant), cell.variant) for cell in cells}) == 1:
            parts.insert(1, str(first.variant))
        if len(self.grid.costs_bps) > 1 and len({cell.cost_bps for cell in cells}) == 1:
            parts.append(f"{first.cost_bps:g} bps")
        return " ".join(parts)

    def unit(self, place: CompiledJob, artefacts: str, *, fresh: bool = False) -> Unit:
        return Unit(self.workload.path, artefacts, place.cells, fresh, str(self.folder or ""))

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
        found = (keys for work, _ in self.cells for keys in (work.keys, *work.parts.values()))
        return {keys[name] for keys in found for name in kept if name in keys}


def compiled(manifest: Manifest, name: str, base_env: Mapping[str, Any]) -> Compiled:
    """A sweep of the manifest on top of what is locked. The factor itself is the sweep's to vary."""
    if name not in manifest.sweeps:
        raise UnknownNameError(undefined("sweep", name, manifest.sweeps))
    sweep = manifest.sweeps[name]
    rows = Grid.of(sweep, manifest.groups)
    try:
        workload = find_workload(sweep.run)
    except StageError as error:
        raise StageError(f"sweeps.{name}: {error}") from None
    unread(sweep, workload, f"sweeps.{name}")
    keys = Keys(workload)
    locked = {key: value for key, value in base_env.items() if key in workload.reads}  # others are other workloads'
    settings = {**locked, **sweep.settings, "trials": rows.trials, "seed": rows.seed, "folds": rows.folds}
    cells = []
    data: dict[str, set[str]] = {asset: set() for asset in rows.assets}
    with uncollected():
        for where in rows:
            given = {"asset": where.asset, "fold": where.fold, "cost_bps": where.cost_bps, where.factor: where.variant}
            universe = tuple(manifest.groups.get(where.asset, (where.asset,)))
            named = {"factor": where.factor, "variant": where.variant, "universe": universe}  # for those that ask
            given |= {name: value for name, value in named.items() if name in workload.reads}
            try:
                whole = workload.configured({**settings, **given})
            except ScalableError as error:
                error.args = (f"sweeps.{name}: {where.factor} {where.variant}: {error}",)  # whatever its class takes
                raise
            found = keys.of(whole)
            identity = (name, where.factor, where.variant, where.asset, where.fold, where.cost_bps)
            read = {key: whole[key] for key in workload.reads}
            work = RowWork(key_of((identity, found[workload.row.name])), read, found, keys.parts(whole))
            cells.append((work, where))
            data[where.asset].update(keys.outside(work.keys, *work.parts.values()))
    prints = {asset: key_of(texts) for asset, texts in data.items()}
    return Compiled(name, sweep, rows, workload, tuple(cells), dict(base_env), prints, folder=manifest.folder)


def unread(sweep: Sweep, workload: Workload, where: str) -> None:
    """Refuse a factor and settings that say nothing: a slip of the pen would go unnoticed."""
    for name in sweep.settings:
        if name not in workload.reads:
            raise StageError(f"{where}.settings: {undefined('setting', name, workload.reads)}")
    if sweep.factor in ("asset", "fold", "cost_bps"):
        own = OWN_KEYS[sweep.factor]
        raise StageError(f"{where}.factor: every row has its own {sweep.factor}; write {own}, and vary something else")
    if not workload.reads & {sweep.factor, "variant"}:
        raise StageError(
            f"{where}.factor: no stage reads {sweep.factor!r}, so its variants would all give the same rows; vary what "
            f"is read: {', '.join(sorted(workload.reads))}"
        )


def reachable(manifest: Manifest, base_env: Mapping[str, Any]) -> set[str]:
    """Keys of all artefacts that the manifest's sweeps would use now."""
    return set().union(*(compiled(manifest, name, base_env).artefact_keys() for name in manifest.sweeps))
