"""Sections about what went wrong: losses and retries, incidents with excerpts of their evidence, findings, alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalable.reporting.elements import Child, Markup, chip, facts, join, more, paragraph, table, tag
from scalable.reporting.material import Material
from scalable.reporting.sections import MOST_LISTED, listed
from scalable.reporting.words import clock, plain
from scalable.telemetry.evidence import evidence_lines
from scalable.telemetry.incidents import Incident
from scalable.wording import plural

MOST_INCIDENTS = 20  # told with their evidence
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
    latest = [(clock(each["t"]), each["run"], each["tag"], each["cause"]) for each in found.course.retries]
    return join(
        [
            table("What was lost or run again", ("what", "cause", ">times"), rows),
            more(
                f"The latest {plural(len(latest), 'retry')}".replace("retrys", "retries"),
                table("Retries", ("at", "work", "kind", "after"), latest),
            )
            if latest
            else None,
        ]
    )


def incidents(found: Material) -> Markup | None:
    written = {each.id for each in found.incidents}
    others = [each for each in found.report["incidents"] if each["id"] not in written]
    if not found.incidents and not others:
        return None
    cards = [incident(each) for each in found.incidents[-MOST_INCIDENTS:]]
    left_out = len(found.incidents) - len(cards)

    def row(each: Mapping[str, Any]) -> Sequence[Child]:
        return (
            clock(each["started"]),
            each["kind"],
            plain(each["run"] or ""),
            each["worker"] or "",
            plain(each["evidence"]),
        )

    return join(
        [
            paragraph(f"The latest {len(cards)} are told; {left_out} earlier ones are in the run's folder.")
            if left_out
            else None,
            cards,
            listed(
                others,
                row,
                ("at", "kind", "work", "worker", "detail"),
                f"{plural(len(others), 'loss')} without a record of their own",
            )
            if others
            else None,
        ]
    )


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
    rung = [one for one in found.course.alerts if one.get("text") not in failed]
    if not findings and not rung:
        return None
    told = [
        tag(
            "li",
            tag("strong", plain(each["text"])),
            " ",
            chip("over") if each["over"] else None,
            tag("div", plain(each["remedy"]), class_="quiet"),
        )
        for each in findings[:MOST_LISTED]
    ]

    def row(each: Mapping[str, Any]) -> Sequence[Child]:
        return (
            clock(each["t"]),
            each.get("alert") or "",
            each.get("state") or "",
            each.get("severity") or "",
            plain(each.get("text") or ""),
        )

    return join(
        [
            tag("ul", told, class_="findings") if told else None,
            listed(rung, row, ("at", "alert", "state", "severity", "what"), plural(len(rung), "alert"))
            if rung
            else None,
        ]
    )
