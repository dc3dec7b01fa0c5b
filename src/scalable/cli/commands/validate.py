"""``scalable validate``: every error of a manifest at once, also of targets and overlays that are not in use."""

from __future__ import annotations

import argparse
from collections.abc import Sized

from scalable.cli import context
from scalable.cli.output import console, errors, print_json
from scalable.manifest import ManifestError, ValidationReport
from scalable.manifest.load import read
from scalable.manifest.tree import compose, to_python
from scalable.wording import plural


def run(options: argparse.Namespace) -> int:
    path = context.manifest_path(options.manifest)
    text = read(path)
    try:
        loaded = context.load_whole(text, str(path), options.target, options.overlay)
        report = loaded.report
    except ManifestError as error:
        report = error.report
    if not options.target and not options.overlay:
        report += in_other_ways(text, str(path))
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


def in_other_ways(text: str, file: str) -> ValidationReport:
    """Return what the other targets and every overlay by itself would lead to."""
    report = ValidationReport()
    try:
        root = to_python(compose(text, file, []))
    except ManifestError:
        return report  # was reported already, and nothing more can be read

    def names(section: str) -> list[str]:
        return list(root[section]) if isinstance(root.get(section), dict) else []

    ways: list[tuple[str | None, str | None]] = [(target, None) for target in names("targets")]
    for target, overlay in [*ways, *((None, overlay) for overlay in names("overlays"))]:
        try:
            report += context.load_whole(text, file, target, overlay).report
        except ManifestError as error:
            report += error.report
    return report
