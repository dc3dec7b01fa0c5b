"""What went wrong in a run and what is wrong now: retries, alerts, findings, incidents, failures."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from scalable.observe.fields import mapping, tag_of, text
from scalable.observe.report import incidents
from scalable.observe.view import RunView

LATEST = 50
MOST_INCIDENTS = 100  # that are listed, the latest
FIRING, RESOLVED = "firing", "resolved"
ALERT = ("alert", "severity", "state", "text", "remedy", "labels", "run")


class Troubles:
    """Keeps the latest of what the view only counts."""

    def __init__(self) -> None:
        self.retries: deque[dict[str, Any]] = deque(maxlen=LATEST)
        self.past: deque[dict[str, Any]] = deque(maxlen=LATEST)
        self.firing: dict[tuple[str, str], dict[str, Any]] = {}
        """Alerts of rules that hold, by name and labels; those without a state happen once and do not stay."""

    def add(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "retry":
            run = text(record.get("run")) or text(record.get("key"))
            told = {"t": record["t"], "run": run, "tag": tag_of(record)}
            self.retries.append({**told, "cause": text(record.get("cause")) or "unknown"})
        elif record["kind"] == "alert":
            alert = {"t": record["t"], **{name: record[name] for name in ALERT if name in record}}
            self.past.append(alert)
            key = (text(record.get("alert")), str(sorted(mapping(record.get("labels")).items())))
            if record.get("state") == FIRING and len(self.firing) < LATEST:
                self.firing[key] = {**alert, "since": record["t"]}
            elif record.get("state") == RESOLVED:
                self.firing.pop(key, None)

    def to_dict(self, view: RunView, live: Mapping[str, Any], *, over: bool) -> dict[str, Any]:
        told = live.get("alerts")
        active = [mapping(one) for one in told] if isinstance(told, list) else list(self.firing.values())
        found = [one for one in view.findings.values() if not one["over"]]
        all_incidents = incidents(view)
        cut = view.losses.total() > len(view.incidents) or max(view.recorded, default=0) > len(view.recorded)
        retries = {"count": view.retries.total(), "by_cause": dict(view.retries.most_common())}
        return {
            "retries": {**retries, "latest": list(self.retries)},
            "alerts": [] if over else active[:LATEST],
            "alerts_past": list(self.past),
            "findings": sorted(found, key=lambda one: one["last"], reverse=True)[:LATEST],
            "incidents": [incident(one, view) for one in all_incidents[-MOST_INCIDENTS:]],
            "incident_count": len(all_incidents),
            "incidents_forgotten": cut,
            "failures": view.failures[-LATEST:],
        }


def incident(one: Mapping[str, Any], view: RunView) -> dict[str, Any]:
    """With the number of its file; 0 for a loss that has none."""
    recorded = view.recorded.get(one["id"]) is one
    facts = {name: one.get(name) for name in ("kind", "run", "worker", "started", "severity", "outcome")}
    return {"id": one["id"] if recorded else 0, **facts, "text": text(mapping(one.get("evidence")).get("detail"))}
