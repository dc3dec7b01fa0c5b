"""Runs the checks one after the other, those that everything else needs first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from pathlib import Path

from scalable.cluster.base import DeploymentSpec
from scalable.doctor import code, machine
from scalable.doctor.checks import Case, fail, ok
from scalable.errors import PlanningError, ScalableError
from scalable.findings import Finding
from scalable.machine_hours import HeldResources
from scalable.manifest import Loaded, ManifestError
from scalable.session.machine import history, site_of
from scalable.wording import plural

TOLD_ELSEWHERE = frozenset({"no-slurm", "no-interface", "no-runtime", "over-machine"})
"""What a provider says and a check says better."""


def examine(
    path: Path, load: Callable[[], Loaded], on_step: Callable[[str], None] = lambda what: None
) -> list[Finding]:
    """Make all checks for the manifest that ``load`` reads; ``on_step`` hears what is looked at next."""
    findings: list[Finding] = []
    for step in examination(path, load):
        if isinstance(step, str):
            on_step(step)
        else:
            findings.append(step)
    return findings


def examination(path: Path, load: Callable[[], Loaded]) -> Iterator[str | Finding]:
    """Yield each check, and before some of them what they look at."""
    yield from machine.versions()
    yield "the manifest"
    loaded, findings = manifest(path, load)
    yield from findings
    if loaded is None:
        return
    folder = str(path.resolve().parent)
    spec = DeploymentSpec.from_manifest(loaded.manifest, target_name=loaded.target, folder=folder)
    yield "the provider"
    usable, findings = machine.provider(spec)
    yield from findings
    if usable is not None:
        yield from (finding for finding in usable.validate(spec) if finding.code not in TOLD_ELSEWHERE)
    yield "the plan"
    demands, hours, findings = plan(loaded, path.resolve().parent)
    yield from findings
    case = Case(loaded.manifest, spec, demands, hours)
    yield "folders and store"
    yield from machine.folders(case)
    yield from machine.store(case)
    yield "this machine"
    yield from machine.checks(case)
    yield "the code"
    yield from machine.workload(loaded.manifest, spec)
    yield from code.checks(case)
    if spec.target.provider == "slurm" and usable is not None:
        from scalable.doctor import slurm

        yield "Slurm"
        yield from slurm.checks(case)


def manifest(path: Path, load: Callable[[], Loaded]) -> tuple[Loaded | None, list[Finding]]:
    try:
        loaded = load()
    except ManifestError as error:
        return None, list(error.report.errors)
    read = loaded.manifest
    parts: dict[str, Sized] = {"target": read.targets, "component": read.components, "task": read.tasks}
    parts["sweep"] = read.sweeps
    counted = ", ".join(plural(len(part), name) for name, part in parts.items() if part) or "nothing to run"
    findings = [ok("manifest", f"{path}: {counted}; target {loaded.target or 'this machine'}")]
    return loaded, [*findings, *loaded.report.warnings]


def plan(loaded: Loaded, folder: Path) -> tuple[Sequence[Mapping[str, int]], HeldResources, list[Finding]]:
    """Return how many workers of each kind would be asked for, by the components and by each sweep, and their hours."""
    from scalable.planning.components import plan_components
    from scalable.planning.plan import plan_sweep

    try:
        past = history(loaded.manifest.folder)
    except PlanningError as error:
        remedy = "move that file away; plans then start without history"
        return [], HeldResources(), [fail("history", f"earlier runs cannot be read: {error}", remedy)]
    demands: list[Mapping[str, int]] = []
    findings, hours = list[Finding](), HeldResources()
    for sweep in [*([""] if loaded.manifest.components else []), *loaded.manifest.sweeps]:
        try:
            site = site_of(loaded.manifest, loaded.target, folder)
            planned = (
                plan_sweep(site, sweep, None, past) if sweep else plan_components(site, loaded.target, history=past)
            )
        except ScalableError as error:
            findings.append(fail("plan", str(error), "scalable plan  shows more"))
            continue
        demands.append(planned.scale_plan.workers_by_tag)
        hours += planned.hours or HeldResources()
        asked = ", ".join(f"{count} × {tag}" for tag, count in demands[-1].items())
        findings.append(ok("plan", f"{sweep}: {asked}" if sweep else asked))
    return demands, hours, findings
