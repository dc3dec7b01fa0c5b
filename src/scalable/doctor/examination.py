"""Runs the checks one after the other, those that everything else needs first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from pathlib import Path

from scalable.doctor import code, machine, software, storage
from scalable.doctor.checks import Case, Check, fail, ok, warn
from scalable.errors import PlanningError, ScalableError
from scalable.manifest import Loaded, ManifestError
from scalable.manifest.findings import Issue
from scalable.providers.base import DeploymentSpec
from scalable.session.here import history, this_machine
from scalable.wording import plural

TOLD_ELSEWHERE = frozenset({"no-slurm", "no-interface", "no-runtime"})  # what a provider says and a check says better


def examine(path: Path, load: Callable[[], Loaded], on_step: Callable[[str], None] = lambda what: None) -> list[Check]:
    """All checks for the manifest that ``load`` reads; ``on_step`` hears what is looked at next."""
    found: list[Check] = []
    for one in examination(path, load):
        if isinstance(one, str):
            on_step(one)
        else:
            found.append(one)
    return found


def examination(path: Path, load: Callable[[], Loaded]) -> Iterator[str | Check]:
    """Each check, and before some of them what they look at."""
    yield from software.versions()
    yield "the manifest"
    loaded, told = manifest(path, load)
    yield from told
    if loaded is None:
        return
    folder = str(path.resolve().parent)
    spec = DeploymentSpec.from_manifest(loaded.manifest, target_name=loaded.target, folder=folder)
    yield "the provider"
    usable, told = software.provider(spec)
    yield from told
    if usable is not None:
        report = usable.validate(spec)
        issues = [issue for issue in (*report.errors, *report.warnings) if issue.code not in TOLD_ELSEWHERE]
        yield from (as_check(issue, issue in report.errors) for issue in issues)
    yield "the plan"
    workers, told = plan(loaded)
    yield from told
    case = Case(loaded.manifest, spec, workers)
    yield "folders and store"
    yield from storage.folders(case)
    yield from storage.store(case)
    yield "this machine"
    yield from machine.checks(case)
    yield "the code"
    yield from code.checks(case)
    if spec.target.provider == "slurm" and usable is not None:
        from scalable.doctor import slurm

        yield "Slurm"
        yield from slurm.checks(case)


def manifest(path: Path, load: Callable[[], Loaded]) -> tuple[Loaded | None, list[Check]]:
    try:
        loaded = load()
    except ManifestError as error:
        return None, [as_check(issue, True, "manifest") for issue in error.report.errors]
    read = loaded.manifest
    parts: dict[str, Sized] = {"target": read.targets, "component": read.components, "task": read.tasks}
    counted = ", ".join(plural(len(part), name) for name, part in parts.items())
    told = [ok("manifest", f"{path}: {counted}; target {loaded.target or 'this machine'}")]
    return loaded, [*told, *(as_check(issue, False, "manifest") for issue in loaded.report.warnings)]


def plan(loaded: Loaded) -> tuple[Mapping[str, int], list[Check]]:
    """How many workers of each kind would be asked for."""
    from scalable.planning import Site
    from scalable.planning.components import plan_components

    try:
        past = history()
    except PlanningError as error:
        remedy = "move that file away; plans then start without history"
        return {}, [fail("history", f"earlier runs cannot be read: {error}", remedy)]
    if not loaded.manifest.components:
        return {}, []
    try:
        site = Site(loaded.manifest, loaded.target, this_machine())
        workers = plan_components(site, loaded.target, history=past).scale_plan.workers_by_tag
    except ScalableError as error:
        return {}, [fail("plan", str(error), "scalable plan  shows more")]
    return workers, [ok("plan", ", ".join(f"{count} × {tag}" for tag, count in workers.items()))]


def as_check(issue: Issue, error: bool, name: str = "target") -> Check:
    spot = f"{issue.place.file}:{issue.place.line}  " if issue.place.line else ""
    text = f"{spot}{issue.message}"
    return fail(name, text, issue.remedy) if error else warn(name, text, issue.remedy)
