"""From a sweep's name to its rows: the manifest says what is expected, the store what is there.

``results`` and ``decide`` are what notebooks and scripts call; everything they rest on is pure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable.manifest.load import load_file
from scalable.manifest.targets import installed_providers
from scalable.observe.folders import find_manifest
from scalable.store import Filter, Store, open_store
from scalable.store.urls import rooted
from scalable.sweeps.project import in_project
from scalable.sweeps.questions import question_of
from scalable.sweeps.results import Outcome

if TYPE_CHECKING:
    from scalable.manifest.models import Manifest
    from scalable.sweeps.compiling import Compiled
    from scalable.sweeps.decisions import Decision


def results(
    sweep: str, *, manifest: str | Path | None = None, target: str | None = None, overlay: str | None = None
) -> Any:
    """A sweep's rows as a pandas DataFrame: one line per row, axes and metrics as columns, what is missing said so.

    ``attrs`` has ``complete``, ``expected``, ``baseline`` and a ``summary`` by variant. Rows whose ``run_status`` is
    not ``finished`` have no metrics and count nowhere.
    """
    with project_store(manifest, target, overlay) as (loaded, store, folder):
        return outcome(loaded, sweep, store, folder).frame()


def decide(
    sweep: str, *, manifest: str | Path | None = None, target: str | None = None, overlay: str | None = None
) -> Decision:
    """The verdict on each variant of a sweep; shows itself as a table in a notebook.

    The decision is entered into the store's ledger; ``Decision.ledger`` tells how many there are.
    """
    from scalable.sweeps.ledger import control_of, decide_and_record

    with project_store(manifest, target, overlay) as (loaded, store, folder):
        return decide_and_record(outcome(loaded, sweep, store, folder), store, control_of(loaded))


@contextmanager
def project_store(
    manifest: str | Path | None, target: str | None, overlay: str | None
) -> Iterator[tuple[Manifest, Store, Path]]:
    """The manifest and target by argument, then environment, as every command finds them; its store and its folder."""
    path = find_manifest(manifest)
    chosen = target or os.environ.get("SCALABLE_TARGET") or None
    loaded = load_file(path, env=os.environ, target=chosen, overlay=overlay, providers=installed_providers())
    with open_results(loaded.manifest, create=False) as store:
        yield loaded.manifest, store, path.resolve().parent


def store_url(manifest: Manifest) -> str:
    """Return the store that is meant: ``SCALABLE_STORE_URL`` seen from here, else the manifest's from its folder."""
    return os.environ.get("SCALABLE_STORE_URL") or rooted(manifest.store, manifest.folder)


def open_results(manifest: Manifest, *, create: bool = True) -> Store:
    """Open the store of a manifest; without ``create``, as for who only reads, one that is there."""
    return open_store(store_url(manifest), folder=manifest.folder, create=create)


def artefacts_url(manifest: Manifest) -> str:
    """Return where results of stages are kept, the same for every worker."""
    url = manifest.artefacts
    return url if "://" in url else str(manifest.folder.absolute() / Path(url).expanduser())


def outcome(
    manifest: Manifest, name: str, store: Store, folder: Path | None = None, where: Mapping[str, str] | None = None
) -> Outcome:
    """Return the rows of a sweep, or those with the values of axes in ``where``, on top of what is locked now.

    A workload of one's own is imported from ``folder``.
    """
    from scalable.sweeps.compiling import compiled

    with importable(folder):
        made = compiled(manifest, name, store.config().base_env)
    return outcome_of(made, store, where)


def outcome_of(made: Compiled, store: Store, where: Mapping[str, str] | None = None) -> Outcome:
    """Return the rows of a compiled sweep, or those with the values of axes in ``where``, that the store has."""
    from scalable.sweeps.rows import place, place_of

    name, chosen = made.name, made.of(where) if where else made
    rows = {row.run_key: row for row in store.rows(Filter(sweep=name))}
    others = [row for key, row in rows.items() if key not in made.where]
    if where:
        there = {place(made.grid, cell) for _, cell in chosen.cells}
        others = [row for row in others if place_of(row) in there]
    question = question_of(made.sweep)
    return Outcome(name, made.grid, chosen.expected, rows, made.baseline, len(others), made.sweep.metrics, question)


@contextmanager
def importable(folder: Path | None) -> Iterator[None]:
    """The user's modules and data are found beside the manifest, as on workers."""
    before = list(sys.path)
    if folder is not None:
        sys.path.insert(0, str(folder))
    try:
        with in_project(folder):
            yield
    finally:
        sys.path[:] = before
