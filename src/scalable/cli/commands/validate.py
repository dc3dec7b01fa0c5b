"""``scalable validate``: every error of a manifest at once, also of targets and overlays that are not in use.

What keeps the target in use from being planned or started is an error, too. Of other targets that is a warning, and so
is what only this machine lacks: another may have it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sized
from dataclasses import replace

from scalable.cli import context
from scalable.cli.output import console, errors, print_json
from scalable.errors import PlanningError, ScalableError, UsageError
from scalable.findings import Finding, Severity
from scalable.manifest import Loaded, ManifestError, ValidationReport
from scalable.manifest.load import read
from scalable.manifest.tree import compose, to_python
from scalable.wording import install_hint, plural, undefined

OF_THIS_MACHINE = frozenset(
    {"no-slurm", "no-interface", "no-runtime", "no-kr8s", "no-kubeconfig", "no-cluster", "no-provider", "over-machine"}
)
"""Findings of providers that say what this machine lacks, not what is wrong with a target."""


def run(options: argparse.Namespace) -> int:
    path = context.manifest_path(options.manifest)
    text = read(path)
    try:
        loaded = context.load_whole(text, str(path), options.target, options.overlay)
        report = loaded.report + ValidationReport.of(loaded.placed(for_target_in_use(refusals(loaded, options))))
        if options.sweep is not None:
            report += ValidationReport.of(loaded.placed(code_of_sweep(loaded, options.sweep)))
    except ManifestError as error:
        report = error.report
    if not options.target and not options.overlay:
        known = {(finding.path, finding.code, finding.place) for finding in report}
        others = in_other_ways(text, str(path), options)
        report += ValidationReport.of(f for f in others if (f.path, f.code, f.place) not in known)
    if options.format == "json":
        print_json(
            {
                "ok": report.ok,
                "errors": [finding.to_dict() for finding in report.errors],
                "warnings": [finding.to_dict() for finding in report.warnings],
            }
        )
        return 0 if report.ok else 1
    shown = report.render({str(path): text})
    if not report.ok:
        screen = errors()
        screen.print(shown, markup=False, soft_wrap=True)
        screen.print(f"{path}: {plural(len(report.errors), 'error')}", style="bold red", markup=False)
        return 1
    screen = console()
    if shown:
        screen.print(shown, markup=False, soft_wrap=True, style="yellow")
    manifest = loaded.manifest
    parts: dict[str, Sized] = {
        "target": manifest.targets,
        "component": manifest.components,
        "pool": manifest.pools,
        "sweep": manifest.sweeps,
    }
    counted = ", ".join(plural(len(part), name) for name, part in parts.items() if part)
    screen.print(f"{path} is good{f': {counted}' if counted else ''}", style="green", markup=False)
    return 0


def code_of_sweep(loaded: Loaded, name: str) -> list[Finding]:
    """Return what is wrong with the code of a sweep: it is imported, and compared with what the sweep says."""
    from scalable.sweeps.compiling import compiled
    from scalable.sweeps.loading import importable

    if name not in loaded.manifest.sweeps:
        raise UsageError(undefined("sweep", name, loaded.manifest.sweeps))
    try:
        with importable(loaded.manifest.folder):
            compiled(loaded.manifest, name, {})
    except ScalableError as error:
        return [Finding.error("sweep-code", f"sweeps.{name}", str(error).removeprefix(f"sweeps.{name}: "))]
    return []


def in_other_ways(text: str, file: str, options: argparse.Namespace) -> ValidationReport:
    """Return what the other targets and every overlay by itself would lead to."""
    report = ValidationReport()
    try:
        root = to_python(compose(text, file, []))
    except ManifestError:
        return report  # was reported already, and nothing more can be read

    def names(section: str) -> list[str]:
        return list(root[section]) if isinstance(root.get(section), dict) else []

    used = os.environ.get("SCALABLE_TARGET") or next(iter(names("targets")), None)
    ways: list[tuple[str | None, str | None]] = [(target, None) for target in names("targets") if target != used]
    for target, overlay in [*ways, *((None, overlay) for overlay in names("overlays"))]:
        try:
            loaded = context.load_whole(text, file, target, overlay)
        except ManifestError as error:
            report += error.report
            continue
        report += loaded.report
        if target is not None:
            report += ValidationReport.of(loaded.placed(elsewhere(refusals(loaded, options))))
    return report


def for_target_in_use(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings about the target in use; what this machine lacks is a warning."""
    for finding in findings:
        yield warning(finding) if finding.code in OF_THIS_MACHINE else finding


def elsewhere(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what keeps a target that is not in use from working, as warnings."""
    for finding in findings:
        if finding.severity is Severity.ERROR and finding.code not in OF_THIS_MACHINE:
            yield warning(finding)


def warning(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.WARNING)


def refusals(loaded: Loaded, options: argparse.Namespace) -> Iterator[Finding]:
    """Yield what the provider of the target says of it, and for what ``scalable plan`` would refuse the manifest."""
    from scalable.cluster.base import DeploymentSpec, ask_provider
    from scalable.planning.components import plan_components
    from scalable.planning.plan import possible_load
    from scalable.planning.site import needed_tags

    manifest, target = loaded.manifest, loaded.target
    if target:
        path, folder = f"targets.{target}", str(context.manifest_path(options.manifest).resolve().parent)
        try:
            spec = DeploymentSpec.from_manifest(manifest, target_name=target, folder=folder)
            yield from ask_provider(manifest, spec.only(needed_tags(manifest, {})), loaded.report)
        except ImportError as error:
            kind = manifest.targets[target].provider
            text = f"{kind} cannot be used here: {error}"
            yield Finding.error("no-provider", path, text, install_hint(kind))
        except ScalableError as error:
            yield refusal(error, path)
    try:
        site, past = (
            context.site(options, loaded, context.pin(options, loaded)),
            context.history(loaded.manifest.folder),
        )
    except PlanningError as error:
        yield refusal(error, "")
        return
    if manifest.components:
        try:
            plan_components(site, target, history=past)
        except ScalableError as error:
            finding = refusal(error, "components")
            yield warning(finding) if manifest.sweeps else finding  # with sweeps, those are what is planned
    for name in manifest.sweeps:
        try:
            possible_load(site, name, past)
        except ScalableError as error:
            yield refusal(error, f"sweeps.{name}")


def refusal(error: ScalableError, path: str) -> Finding:
    """Return an error of the planner as a finding, at the path it names or else at this one."""
    path = getattr(error, "path", "") or path
    message, _, remedy = str(error).removeprefix(f"{path}: ").rpartition("; ")
    return Finding.error("refused", path, message or remedy, remedy if message else "")
