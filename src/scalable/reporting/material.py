"""All that a page is made of, gathered once: the run's own records, its incidents, and what its sweeps gave."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalable.reporting.course import Course
from scalable.reporting.results import SweepResults, results_of
from scalable.telemetry import RunFolder, Summary, read, report_of, state_of
from scalable.telemetry.fields import text
from scalable.telemetry.incidents import Incident, IncidentFolder
from scalable.telemetry.redact import redact

LONGEST_MANIFEST = 40_000  # characters shown of one


@dataclass(frozen=True)
class Material:
    report: dict[str, Any]
    """As ``scalable report --format json`` prints it."""
    course: Course
    incidents: tuple[Incident, ...]
    results: tuple[SweepResults, ...]
    facts: dict[str, Any]
    """What ``run.json`` says."""
    resources: dict[str, Any]
    """What a worker of each tag may use, as planned."""
    budget: dict[str, Any] | None
    manifest: str
    """Its text as it is now; empty if it cannot be read."""
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


def material_of(folder: RunFolder, now: float | None = None) -> Material:
    made = time.time() if now is None else now
    records, summary, course = read(folder.journal), Summary(), Course()
    for record in records:
        summary.add(record)
        course.add(record)
    facts = folder.facts() or dict(summary.started)
    report = report_of(summary, state_of(summary, facts), made)
    report["run"] |= {"run_id": folder.run_id, "records": summary.records}
    report["run"] |= {"damaged_lines": records.damaged, "torn": records.torn}
    manifest, changed = manifest_text(text(facts.get("manifest")), report["run"]["started"])
    budget = summary.costs.budget
    return Material(
        report=redact(report),
        course=course,
        incidents=tuple(IncidentFolder(folder.path).all()),
        results=results_of(facts, report["sweeps"]),
        facts=facts,
        resources=dict(summary.plan.get("resources_by_tag") or {}),
        budget=budget.to_dict() if budget is not None else None,
        manifest=manifest,
        changed=changed,
        made=made,
    )


def manifest_text(path: str, began: float | None) -> tuple[str, bool]:
    try:
        said = Path(path).read_text(encoding="utf-8", errors="replace") if path else ""
        changed = bool(said) and began is not None and Path(path).stat().st_mtime > began
    except (OSError, ValueError):
        return "", False
    return (said if len(said) <= LONGEST_MANIFEST else f"{said[:LONGEST_MANIFEST]}\n…"), changed
