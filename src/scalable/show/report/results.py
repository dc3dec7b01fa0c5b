"""What a run's sweeps gave: rows from the store, verdicts, equity curves. What cannot be had is told, not raised.

The manifest and the folder the run was started in are those that its folder names, and they count only in the folder of
that manifest: a run folder may have been sent by somebody else. Rows are those the store has now; a sweep that was run
again since has its later rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable.errors import ScalableError
from scalable.manifest.load import load_file
from scalable.manifest.targets import installed_providers
from scalable.observe.fields import text
from scalable.show.report.equity import Curves, curves_of
from scalable.store import Store, open_store
from scalable.store.urls import SQLITE, file_of, scheme_of
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.gates import decide
from scalable.sweeps.loading import importable, outcome, store_url
from scalable.sweeps.workload import find_workload

if TYPE_CHECKING:
    from scalable.manifest.models import Manifest
    from scalable.observe import RunFolder
    from scalable.sweeps.decisions import Decision
    from scalable.sweeps.results import Outcome


class ResultsError(ScalableError):
    """Results that a report cannot have, and why."""


@dataclass(frozen=True)
class SweepResults:
    sweep: str
    outcome: Outcome | None = None
    decision: Decision | None = None
    compiled: Compiled | None = None
    curves: Curves | None = None
    problems: tuple[str, ...] = ()
    """Why something is missing here, in words."""


def results_of(
    where: RunFolder, run: Mapping[str, Any], sweeps: Iterable[str], named: Path | None = None
) -> tuple[SweepResults, ...]:
    """``run`` has the facts of its ``run.json``; ``named`` is the manifest that the user named."""
    names = tuple(sweeps)
    if not names:
        return ()
    folder = Path(text(run.get("cwd")) or ".")
    try:
        manifest, beside = manifest_of(where, run, named)
        with open_store(url_of(manifest, run)) as store:
            return tuple(sweep_results(manifest, name, store, beside, folder) for name in names)
    except (ScalableError, OSError) as error:
        return tuple(SweepResults(name, problems=(f"the results cannot be read: {error}",)) for name in names)


def manifest_of(where: RunFolder, run: Mapping[str, Any], named: Path | None = None) -> tuple[Manifest, Path]:
    """Return the manifest as it is now, and the folder that workloads are imported from; of one's own project only."""
    where.must_be_own()
    written = text(run.get("manifest"))
    if not written:
        raise ResultsError("the run names no manifest, which would say where they are")
    path = Path(written)
    if not is_own(path, named):
        raise ResultsError(
            f"that takes code of {path.resolve().parent}, and only code of the folder you are in is run; "
            "if it is yours, go there"
        )
    loaded = load_file(path, env=os.environ, target=text(run.get("target")) or None, providers=installed_providers())
    return loaded.manifest, path.resolve().parent


def is_own(manifest: Path, named: Path | None = None) -> bool:
    """Return whether a manifest that a run names is the user's: of the current folder, or named by the user.

    A run folder may come from anybody, and may name any file. What it names says what code to import and where to
    connect to.
    """
    path, chosen = manifest.resolve(), named or os.environ.get("SCALABLE_MANIFEST")
    if path.parent != Path.cwd() and not (chosen and path == Path(chosen).resolve()):
        return False
    return not path.exists() or path.stat().st_uid in (os.geteuid(), 0)


def url_of(manifest: Manifest, run: Mapping[str, Any]) -> str:
    """Where the run's rows are, seen from its folder; what is set in the environment now is meant from here."""
    here = os.environ.get("SCALABLE_STORE_URL")
    return existing(store_url(manifest), Path() if here else Path(text(run.get("cwd")) or "."))


def existing(url: str, folder: Path) -> str:
    """A store's URL seen from the folder of the run; a file that is not there is not made."""
    if scheme_of(url) not in SQLITE:
        return url
    scheme, _, rest = url.partition(":///")
    path = file_of(url if rest.startswith(("/", "~")) else f"{scheme}:///{folder.absolute() / rest}")
    if not path.exists():
        raise ResultsError(f"the store {path} is not there; make the report where it is, or set SCALABLE_STORE_URL")
    return f"{scheme}:///{path}"


def sweep_results(manifest: Manifest, name: str, store: Store, beside: Path, folder: Path) -> SweepResults:
    try:
        if name in manifest.sweeps:
            check_import(manifest.sweeps[name].run, beside)
        found = outcome(manifest, name, store, beside)
        with importable(beside):
            made = compiled(manifest, name, store.config().base_env)
    except ScalableError as error:
        return SweepResults(name, problems=(f"the results cannot be read: {error}",))
    problems: list[str] = []
    decision = curves = None
    try:
        decision = decide(found) if found.finished else None
    except ScalableError as error:
        problems.append(f"there is no verdict: {error}")
    try:
        curves = curves_of(made, found, artefacts_of(manifest, folder))
    except ScalableError as error:
        problems.append(f"there are no equity curves: {error}")
    return SweepResults(name, found, decision, made, curves, tuple(problems))


def check_import(path: str | None, folder: Path) -> None:
    """Import a workload; code of users may raise anything at all, of which the report shall not die."""
    try:
        with importable(folder):
            find_workload(path)
    except ScalableError:
        raise
    except Exception as error:  # noqa: BLE001, whatever the user's code raises
        raise ResultsError(f"its code cannot be imported: {type(error).__name__}: {error}") from None


def artefacts_of(manifest: Manifest, folder: Path) -> str:
    return manifest.artefacts if "://" in manifest.artefacts else str(folder.absolute() / manifest.artefacts)
