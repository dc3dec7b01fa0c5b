"""An incident as one document for somebody who cannot see its run: evidence, the jobs' arguments, versions and code.

Everything comes from the incident, ``run.json`` and the journal. Nothing is unpickled: that would run the job's code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalable.observe.fields import mapping, texts
from scalable.observe.folders import RunFolder, RunFolderError
from scalable.observe.incidents import Incident
from scalable.observe.journal import read
from scalable.observe.redact import redact
from scalable.observe.sweep_progress import JobOrigin
from scalable.observe.view import RunView

RUN = ("project", "manifest", "target", "provider", "host", "command", "cwd")  # of ``run.json``
ARGUMENTS = ("settings", "base", "trials")  # of ``sweep-started``; the job's rows have the rest


def handover(incident: Incident, folder: RunFolder | None, versions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the document, without secrets; of an incident that only the store has, what is in the store.

    ``arguments`` of a job is null where the journal does not have them. ``versions`` are those that the store has.
    """
    jobs = texts(incident.evidence.get("jobs")) or tuple(filter(None, (incident.run,)))
    view = view_of(folder.journal, jobs) if folder is not None else RunView()
    run = (folder.facts() if folder is not None else {}) or view.started
    content = {
        "incident": incident.to_dict(),
        "jobs": [{"job": job, "arguments": None, **described(view.origins.get(job))} for job in jobs],
        "versions": {**versions_of(run), **(versions or {})},
        "code": {name: grid.begun.get("code") for name, grid in view.grids.by_sweep.items()},
        "run": {name: run.get(name) for name in RUN},
    }
    return dict(redact(content))


def view_of(journal: Path, jobs: Sequence[str]) -> RunView:
    try:
        return RunView.of(read(journal), traced=jobs)
    except OSError as error:
        raise RunFolderError.unreadable(journal, error) from None


def described(origin: JobOrigin | None) -> dict[str, Any]:
    """Return what the journal says of a job of a sweep; of other jobs it has no arguments."""
    if origin is None:
        return {}
    begun = origin.begun
    arguments = {name: begun.get(name) for name in ARGUMENTS}
    return {
        "sweep": origin.sweep,
        "workload": begun.get("run"),
        "code": begun.get("code"),
        "arguments": {**arguments, "rows": origin.rows},
    }


def versions_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the versions that ``run.json`` or the journal's first record has, by package."""
    return {"scalable": run.get("version"), "python": run.get("python"), **mapping(run.get("libraries"))}
