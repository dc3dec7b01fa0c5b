"""Trouble of a run in single lines, as it comes: what was found and recorded, and what is run again because of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scalable.cli.commands.incidents import limit
from scalable.errors import ScalableError
from scalable.observe.escalation import more_memory
from scalable.observe.fields import text
from scalable.observe.following import Follower
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.observe.redact import redact_text
from scalable.wording import plural

PLACES = [re.compile(before + r"(\S+?:\d+)") for before in ("called from ", r"\bin ", r"\(")]  # the user's own first


class Trouble:
    """``new`` has the lines since it was asked last; ``retries`` how often something was run again."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.folder = IncidentFolder(follower.run.path)
        self.latest: dict[str, Incident] = {}
        """By run, the last incident it had."""
        self.told: set[int] = set()
        self.retries = 0

    def new(self) -> list[str]:
        self.follower.look()
        view = self.follower.view
        recorded = [facts for number, facts in view.recorded.items() if number not in self.told]
        retried = view.retried[max(0, len(view.retried) - (view.retries.total() - self.retries)) :]
        self.retries = view.retries.total() - len(retried)
        news = [(facts["started"], self.incident_line, facts) for facts in recorded]
        news += [(facts["t"], self.retry_line, facts) for facts in retried]
        lines = [line(facts) for _, line, facts in sorted(news, key=lambda one: one[0])]
        return [redact_text(" ".join(line.split())) for line in lines]

    def incident_line(self, facts: Mapping[str, Any]) -> str:
        number, run = facts["id"], text(facts["run"])
        self.told.add(number)
        try:
            incident = self.folder.get(number)
        except ScalableError:  # on a disk that is slow or full; the journal has the main thing
            incident = Incident(facts["kind"], number, run, guilty=facts["evidence"]["detail"])
        self.latest[run] = incident
        return f"incident {number}: {what(incident)}; scalable incidents show {number}"

    def retry_line(self, facts: Mapping[str, Any]) -> str:
        self.retries += 1
        times = plural(self.retries, "retry")
        known = self.latest.get(facts["run"])
        if known is None:
            return f"{times}: {facts['run']} is run again after: {facts['cause']}"
        return f"{times}: {what(known)}, run again (incident {known.id})"


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
