"""All that a page is made of, gathered once: the run's own records, its incidents, and what its sweeps gave."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalable.observe import RunFolder, RunView
from scalable.observe.fields import text
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.observe.redact import HIDDEN, NAME, looks_secret, redact
from scalable.observe.report import recorded_report
from scalable.show.report.results import SweepResults, is_own, results_of

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
    told, changed = manifest_text(text(facts.get("manifest")), report["run"]["started"], manifest)
    budget = view.costs.budget
    return Material(
        report=redact(report),
        view=view,
        incidents=tuple(IncidentFolder(folder.path).all()),
        results=results_of(folder, facts, report["sweeps"], manifest),
        facts=facts,
        budget=budget.to_dict() if budget is not None else None,
        manifest=told,
        changed=changed,
        made=made,
    )


def manifest_text(path: str, began: float | None, named: Path | None) -> tuple[str, bool]:
    try:
        readable = bool(path) and is_own(Path(path), named)
        said = Path(path).read_text(encoding="utf-8", errors="replace") if readable else ""
        changed = bool(said) and began is not None and Path(path).stat().st_mtime > began
    except (OSError, ValueError):
        return "", False
    told = without_secrets(said)
    return (told if len(told) <= LONGEST_MANIFEST else f"{told[:LONGEST_MANIFEST]}\n…"), changed


def without_secrets(yaml: str) -> str:
    """A manifest without the values of secret names, also where they have blanks and commas or several lines.

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
