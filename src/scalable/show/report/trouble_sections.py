"""Sections about what went wrong: losses and retries, incidents with excerpts of their evidence, findings, alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalable.observe.evidence import evidence_lines
from scalable.observe.incidents import Incident
from scalable.observe.words import clock, one_line
from scalable.show.report.elements import Child, Markup, chip, facts, join, more, paragraph, table, tag
from scalable.show.report.material import Material
from scalable.show.report.sections import MOST_LISTED, folded_table

MOST_INCIDENTS = 20  # told with their evidence
LATEST = 50  # retries and alerts that are listed
EXCERPT = 30  # lines of evidence


def retries(found: Material) -> Markup | None:
    report = found.report
    never = {kind: each for kind, each in report["workers"].items() if each["requested"] or each["refused"]}
    if not (report["losses"] or report["retries"]["count"] or never):
        return None
    rows: list[tuple[str, str, str]] = [
        ("retry", cause, f"{count:,}") for cause, count in report["retries"]["by_cause"].items()
    ]
    rows += [("lost", cause, f"{count:,}") for cause, count in report["losses"].items()]
    for kind, each in never.items():
        rows += [("worker never joined", kind, f"{each['requested']:,}")] if each["requested"] else []
        rows += [("worker refused", kind, f"{each['refused']:,}")] if each["refused"] else []
    latest = [(clock(each["t"]), each["run"], each["tag"], each["cause"]) for each in found.view.retried[-LATEST:]]
    parts = [table("What was lost or run again", ("what", "cause", ">times"), rows)]
    if latest:
        parts.append(more("The latest retries", table("Retries", ("at", "work", "kind", "after"), latest)))
    return join(parts)


def incidents(found: Material) -> Markup | None:
    others = unrecorded(found)
    if not found.incidents and not others:
        return None
    latest = found.incidents[-MOST_INCIDENTS:]
    earlier = len(found.incidents) - len(latest)

    def row(each: Mapping[str, Any]) -> Sequence[Child]:
        where = (one_line(each["run"] or ""), each["worker"] or "")
        return clock(each["started"]), each["kind"], *where, one_line(each["evidence"])

    note = f"The latest {len(latest)} are told; scalable incidents  shows {earlier} earlier ones." if earlier else None
    columns = ("at", "kind", "work", "worker", "detail")
    title = "Losses that have no record of their own"
    rest = folded_table(
        others, row, columns, f"{title}, of those that are remembered" if found.view.incidents_forgotten else title
    )
    return join([paragraph(note) if note else None, map(incident, latest), rest])


def unrecorded(found: Material) -> list[dict[str, Any]]:
    """Losses that no incident's file tells of."""
    told = {(each.kind, each.run or each.worker) for each in found.incidents}
    return [each for each in found.report["incidents"] if (each["kind"], each["run"] or each["worker"]) not in told]


def incident(each: Incident) -> Markup:
    lines = evidence_lines(each.evidence)
    cut = (
        [*lines[:EXCERPT], f"… {len(lines) - EXCERPT} more lines: scalable incidents show {each.id}"]
        if len(lines) > EXCERPT
        else lines
    )
    where = " on ".join(filter(None, (each.run, each.worker, each.host)))
    pairs: list[tuple[str, Child]] = [
        ("when", clock(each.started)),
        ("where", where),
        ("what", each.guilty),
        ("done", "; ".join(each.done)),
        ("outcome", each.outcome),
        ("escalation", each.escalation),
        ("to prevent it", tag("ul", (tag("li", one) for one in each.prevent)) if each.prevent else ""),
    ]
    kind = "bad" if each.severity in ("critical", "page", "high") else "warn"
    return tag(
        "article",
        tag("h3", f"Incident {each.id}: {each.kind} ", chip(each.severity, kind) if each.severity else None),
        facts(pairs),
        tag("pre", "\n".join(cut), tabindex=0) if cut else None,
        class_="card incident",
    )


def alerts(found: Material) -> Markup | None:
    """Findings with what to do about them, then alerts; an alert that only repeats a failure is told there."""
    findings = found.report["findings"]
    failed = {f"{one['task']}: {one['error']}" for one in found.report["failures"]}
    latest, count = found.view.alerts[-LATEST:], found.view.alert_count
    rung = [one for one in latest if one.get("text") not in failed]
    if not findings and not rung:
        return None
    told = [
        tag(
            "li",
            tag("strong", one_line(each["text"])),
            " ",
            chip("over") if each["over"] else None,
            tag("div", one_line(each["remedy"]), class_="quiet"),
        )
        for each in findings[:MOST_LISTED]
    ]

    def row(each: Mapping[str, Any]) -> Sequence[Child]:
        return (
            clock(each["t"]),
            each.get("alert") or "",
            each.get("state") or "",
            each.get("severity") or "",
            one_line(each.get("text") or ""),
        )

    columns = ("at", "alert", "state", "severity", "what")
    title = f"Alerts: the latest {len(latest)} of {count:,}" if len(latest) < count else "Alerts"
    return join([tag("ul", told, class_="findings") if told else None, folded_table(rung, row, columns, title)])
