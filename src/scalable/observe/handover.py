"""An incident as one document for somebody who cannot see its run: evidence, the jobs' arguments, versions and code.

Everything comes from the incident, ``run.json`` and the journal. Nothing is unpickled: that would run the job's code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalable.observe.fields import mapping, text, texts
from scalable.observe.folders import RunFolder, RunFolderError
from scalable.observe.incidents import Incident
from scalable.observe.reading import read
from scalable.observe.redact import redact
from scalable.observe.sweep_progress import Grid, labelled

RUN = ("project", "manifest", "target", "provider", "host", "command", "cwd")  # of ``run.json``
ARGUMENTS = ("settings", "base", "trials")  # of ``sweep-started``; the job's rows have the rest


@dataclass(slots=True)
class JournalFacts:
    """What a journal says of some jobs and of the code of its sweeps."""

    started: Mapping[str, Any] = field(default_factory=dict)
    sweeps: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The latest ``sweep-started`` record of each sweep."""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Jobs of sweeps; of other jobs the journal has no arguments."""

    @classmethod
    def of(cls, journal: Path, jobs: Sequence[str]) -> JournalFacts:
        facts = cls()
        try:
            for record in read(journal):
                facts.take(record, jobs)
        except OSError as error:
            raise RunFolderError.unreadable(journal, error) from None
        return facts

    def take(self, record: Mapping[str, Any], jobs: Sequence[str]) -> None:
        sweep, job = text(record.get("sweep")), text(record.get("run"))
        match record["kind"]:
            case "run-started":
                self.started = record
            case "sweep-started":
                self.sweeps[sweep] = record
            case "sweep-units":
                cells = mapping(record.get("unit_cells"))
                self.jobs |= {name: self.job_of(sweep, text(cells[name])) for name in jobs if name in cells}
            case "rows" if job in jobs:  # has the sweep of a job whose grid is too large for the journal
                self.jobs.setdefault(job, self.job_of(sweep))

    def job_of(self, sweep: str, cells: str = "") -> dict[str, Any]:
        begun = self.sweeps.get(sweep, {})
        arguments = {name: begun.get(name) for name in ARGUMENTS}
        return {
            "sweep": sweep,
            "workload": begun.get("run"),
            "code": begun.get("code"),
            "arguments": {**arguments, "rows": labelled(Grid(begun).axes, cells)},
        }


def handover(incident: Incident, folder: RunFolder | None) -> dict[str, Any]:
    """Return the document, without secrets; of an incident that only the store has, what is in the store.

    ``arguments`` of a job is null where the journal does not have them.
    """
    jobs = texts(incident.evidence.get("jobs")) or tuple(filter(None, (incident.run,)))
    recorded = JournalFacts.of(folder.journal, jobs) if folder is not None else JournalFacts()
    run = (folder.facts() if folder is not None else {}) or recorded.started
    content = {
        "incident": incident.to_dict(),
        "jobs": [{"job": job, "arguments": None, **recorded.jobs.get(job, {})} for job in jobs],
        "versions": {"scalable": run.get("version"), "python": run.get("python")},
        "code": {name: begun.get("code") for name, begun in recorded.sweeps.items()},
        "run": {name: run.get(name) for name in RUN},
    }
    return dict(redact(content))
