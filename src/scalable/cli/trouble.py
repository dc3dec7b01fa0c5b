"""Trouble of a run in single lines, as it comes: what was found and recorded, and what is run again because of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scalable.cli.commands.incidents import limit
from scalable.errors import ScalableError
from scalable.observe import RunFolder, read
from scalable.observe.escalation import more_memory
from scalable.observe.fields import count, text
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.observe.redact import redact_text

PLACES = [re.compile(before + r"(\S+?:\d+)") for before in ("called from ", r"\bin ", r"\(")]  # the user's own first


class Trouble:
    """``new`` has the lines since it was asked last; ``retries`` how often something was run again."""

    def __init__(self, run: RunFolder) -> None:
        self.records = read(run.journal)
        self.folder = IncidentFolder(run.path)
        self.latest: dict[str, Incident] = {}
        """By run, the last incident it had."""
        self.told: set[int] = set()
        self.retries = 0

    def new(self) -> list[str]:
        lines = [self.line(record) for record in self.records.new() if record["kind"] in ("incident", "retry")]
        return [redact_text(" ".join(line.split())) for line in lines if line]

    def line(self, record: Mapping[str, Any]) -> str:
        run = text(record.get("run"))
        if record["kind"] == "retry":
            self.retries += 1
            times = "1 retry" if self.retries == 1 else f"{self.retries} retries"
            known = self.latest.get(run)
            if known is None:
                return f"{times}: {run} is run again after: {text(record.get('cause')) or 'unknown'}"
            return f"{times}: {what(known)}, run again (incident {known.id})"
        number = count(record.get("id"))
        if number in self.told:  # told again with its outcome
            return ""
        self.told.add(number)
        try:
            known = self.folder.get(number)
        except ScalableError:  # on a disk that is slow or full; the journal has the main thing
            known = Incident(text(record.get("incident")) or "unknown", number, run, guilty=text(record.get("text")))
        self.latest[run] = known
        return f"incident {number}: {what(known)}; scalable incidents show {number}"


def what(incident: Incident) -> str:
    """``uni was stuck 5 s in jobs.py:20, killed``."""
    found = next((place for one in PLACES if (place := one.search(incident.guilty))), None)
    within = f" in {found[1]}" if found else ""
    if incident.kind == "stuck":
        silent = (incident.threshold_s or 0) + (incident.found_after_s or 0)
        return f"{incident.run} was stuck{f' {limit(round(silent))}' if silent else ''}{within}, killed"
    if incident.kind == "out of memory":
        return f"{incident.run} ran out of memory, killed; {more_memory(incident)}"
    if incident.kind == "fork refused":
        return f"{incident.run} was refused a fork{within}"
    return f"{incident.run} {incident.kind}{within}"
