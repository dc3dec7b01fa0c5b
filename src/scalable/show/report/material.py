"""All that a page is made of, gathered once: the run's own records, its incidents, and what its sweeps gave.

Reading what sweeps gave needs their manifest, store and code, which count only if they are the user's own: a run
folder may have been sent by somebody else. Where one is missing, the page says so instead.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable.errors import ScalableError
from scalable.manifest.load import load_file
from scalable.manifest.targets import installed_providers
from scalable.observe import RunFolder, RunView
from scalable.observe.fields import text
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.observe.redact import HIDDEN, NAME, looks_secret, redact
from scalable.observe.report import recorded_report
from scalable.show.report.equity import Curves, curves_of
from scalable.store import Store
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.ledger import control_of, decide_without_recording
from scalable.sweeps.loading import artefacts_url, importable, open_results, outcome
from scalable.sweeps.workload import find_workload

if TYPE_CHECKING:
    from scalable.manifest.models import Manifest
    from scalable.sweeps.decisions import Decision
    from scalable.sweeps.results import Outcome

LONGEST_MANIFEST = 40_000  # characters shown of one
NAMED = re.compile(r"""(?P<key>[\s-]*["']?(?P<name>[\w.-]+)["']?\s*:)\s+[^\s{\[]""")
"""A line of a manifest that gives a name a value, not a mapping or list."""
FLOWING = re.compile(rf"""((?:{NAME})[\w.-]*["']?\s*:\s+)[^\s"'{{\[,}}][^,}}\n]*""", re.IGNORECASE)
"""The same within braces: up to the comma or brace that ends it."""


@dataclass(frozen=True)
class Material:
    report: dict[str, Any]
    """As ``scalable report --format json`` prints it."""
    view: RunView
    incidents: tuple[Incident, ...]
    results: tuple[SweepResults, ...]
    facts: dict[str, Any]
    """What ``run.json`` says."""
    budget: dict[str, Any] | None
    manifest: str
    """Its text as it is now; empty if it cannot be read or is not the user's own."""
    changed: bool
    """It was written after the run began."""
    made: float

    @property
    def live(self) -> bool:
        return bool(self.report["run"]["state"] == "running")

    @property
    def until(self) -> float:
        run = self.report["run"]
        return float(run["ended"] or self.made)


def material_of(folder: RunFolder, now: float | None = None, manifest: Path | None = None) -> Material:
    """Gather it. Code and settings are taken from the current folder's project, or that of ``manifest``, only."""
    made = time.time() if now is None else now
    view, report = recorded_report(folder, made)
    facts = folder.facts() or dict(view.started)
    written, changed = manifest_text(folder, text(facts.get("manifest")), report["run"]["started"], manifest)
    budget = view.costs.budget
    return Material(
        report=redact(report),
        view=view,
        incidents=tuple(IncidentFolder(folder.path).all()),
        results=results_of(folder, facts, report["sweeps"], manifest),
        facts=facts,
        budget=budget.to_dict() if budget is not None else None,
        manifest=written,
        changed=changed,
        made=made,
    )


def manifest_text(where: RunFolder, path: str, began: float | None, named: Path | None) -> tuple[str, bool]:
    try:
        readable = bool(path) and is_own(where, Path(path), named)
        written = Path(path).read_text(encoding="utf-8", errors="replace") if readable else ""
        changed = bool(written) and began is not None and Path(path).stat().st_mtime > began
    except (OSError, ValueError):
        return "", False
    content = without_secrets(written)
    return (content if len(content) <= LONGEST_MANIFEST else f"{content[:LONGEST_MANIFEST]}\n…"), changed


def without_secrets(yaml: str) -> str:
    """Return a manifest without the values of secret names, also where they have blanks and commas or several lines.

    What is hidden in any text is hidden when it is put onto the page.
    """
    lines: list[str] = []
    inside: int | None = None
    for line in yaml.splitlines():
        depth = len(line) - len(line.lstrip())
        if inside is not None and (depth > inside or not line.strip()):
            continue
        inside = None
        named = NAMED.match(line)
        if named is not None and looks_secret(named["name"]):
            lines.append(f"{named['key']} {HIDDEN}")
            inside = depth
        else:
            lines.append(FLOWING.sub(rf"\1{HIDDEN}", line))
    return "\n".join(lines)


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
    try:
        manifest, beside = manifest_of(where, run, named)
        with open_results(manifest, create=False) as store:
            return tuple(sweep_results(manifest, name, store, beside) for name in names)
    except (ScalableError, OSError) as error:
        return tuple(SweepResults(name, problems=(f"the results cannot be read: {error}",)) for name in names)


def manifest_of(where: RunFolder, run: Mapping[str, Any], named: Path | None = None) -> tuple[Manifest, Path]:
    """Return the manifest as it is now, and the folder that workloads are imported from; of one's own project only."""
    where.must_be_own()
    written = text(run.get("manifest"))
    if not written:
        raise ScalableError("the run names no manifest, which would say where they are")
    path = Path(written)
    if not is_own(where, path, named):
        raise ScalableError(
            f"that takes code of {path.resolve().parent}, and only code of the folder you are in is run, for runs that "
            "you made there; if you trust it, name its manifest: --manifest …"
        )
    check_home(where, run)
    loaded = load_file(path, env=os.environ, target=text(run.get("target")) or None, providers=installed_providers())
    return loaded.manifest, path.resolve().parent


def check_home(where: RunFolder, run: Mapping[str, Any]) -> None:
    """Refuse a run that this user did not make and that says it was started somewhere else than in its project."""
    folder, manifest = Path(text(run.get("cwd")) or "."), Path(text(run.get("manifest")))
    if not where.is_sealed() and folder.resolve() not in (Path.cwd(), manifest.resolve().parent):
        raise ScalableError(f"it was started in {folder}, which is neither this folder nor that of the manifest")


def is_own(run: RunFolder, manifest: Path, named: Path | None = None) -> bool:
    """Return whether a manifest that a run names is the user's: of the current folder and a run made here, or named.

    A run folder may come from anybody, and may name any file. What it names says what code to import and where to
    connect to. A relative path would mean another file in each folder.
    """
    path, chosen = manifest.resolve(), named or os.environ.get("SCALABLE_MANIFEST")
    made_here = path.parent == Path.cwd() and run.is_sealed()
    if not manifest.is_absolute() or not (made_here or (chosen and path == Path(chosen).resolve())):
        return False
    return not path.exists() or path.stat().st_uid in (os.geteuid(), 0)


def sweep_results(manifest: Manifest, name: str, store: Store, beside: Path) -> SweepResults:
    try:
        if name in manifest.sweeps:
            check_import(manifest.sweeps[name].stages, beside)
        made_outcome = outcome(manifest, name, store, beside)
        with importable(beside):
            made = compiled(manifest, name, store.config().base_env)
    except ScalableError as error:
        return SweepResults(name, problems=(f"the results cannot be read: {error}",))
    problems: list[str] = []
    decision = curves = None
    try:
        if made_outcome.finished:
            decision = decide_without_recording(made_outcome, store, control_of(manifest))
    except ScalableError as error:
        problems.append(f"there is no verdict: {error}")
    try:
        curves = curves_of(made, made_outcome, artefacts_url(manifest))
    except ScalableError as error:
        problems.append(f"there are no equity curves: {error}")
    return SweepResults(name, made_outcome, decision, made, curves, tuple(problems))


def check_import(path: str | None, folder: Path) -> None:
    """Import a workload; code of users may raise anything at all, of which the report shall not die."""
    try:
        with importable(folder):
            find_workload(path)
    except ScalableError:
        raise
    except Exception as error:  # noqa: BLE001, whatever the user's code raises
        raise ScalableError(f"its code cannot be imported: {type(error).__name__}: {error}") from None
