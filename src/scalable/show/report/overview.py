"""The top of a page: what this run was, what came of it, and the figures one looks for first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scalable.observe.words import fine, length, moment, named, one_line, paid
from scalable.quantities import percent
from scalable.show.report.elements import Child, Markup, chip, facts, paragraph, tag
from scalable.show.report.material import Material
from scalable.show.report.results import SweepResults
from scalable.show.report.sections import sentence
from scalable.show.report.trouble_sections import unrecorded
from scalable.sweeps.decisions import Decision, Verdict

STATES = {"ok": "good", "failed": "bad", "running": "live"}
VERDICTS = {Verdict.LOCK: "good", Verdict.KEEP_AVAILABLE: "warn", Verdict.ABANDON: "bad"}
WORDS = {
    Verdict.LOCK: "proven better; may become part of the base",
    Verdict.KEEP_AVAILABLE: "stays available; the rule decides neither way",
}
"""What a verdict means; one that gives a variant up has its reason instead."""


def header(found: Material) -> Markup:
    run = found.report["run"]
    state = run["state"]
    title = named(run.get("project")) or run["run_id"]
    return tag(
        "header",
        paragraph("Run report", class_="kicker"),
        tag("h1", title, " ", chip(state, STATES.get(state, "warn"))),
        paragraph(run["run_id"], class_="id"),
        live_note(found) if found.live else None,
    )


def live_note(found: Material) -> Markup:
    said = f"This run is under way. The report shows it as of {moment(found.made)}; figures will change."
    return tag("p", said, class_="banner", role="status")


def summary(found: Material) -> Markup:
    report = found.report
    run = report["run"]
    place = " on ".join(filter(None, (named(run.get("target")), named(run.get("host")))))
    provider = f" ({run['provider']})" if run.get("provider") else ""
    pairs: list[tuple[str, Child]] = [
        ("started", moment(run["started"])),
        ("where", f"{place}{provider}" if place else ""),
        ("command", tag("code", command) if (command := short_command(run.get("command"))) else ""),
    ]
    return tag(
        "div",
        [verdict_card(each) for each in found.results],
        reason(run) if run["reason"] else None,
        tag("ul", (tile(*each) for each in tiles(found)), class_="tiles"),
        facts(pairs),
    )


def short_command(command: object) -> str:
    """As a person would type it; where the program lies is told under provenance."""
    words = [str(word) for word in command] if isinstance(command, list) else []
    return one_line(" ".join([Path(words[0]).name, *words[1:]])) if words else ""


def reason(run: dict[str, Any]) -> Markup:
    return tag("div", tag("strong", f"{run['state']}: "), tag("span", one_line(run["reason"])), class_="note bad")


def verdict_card(each: SweepResults) -> Markup:
    """A sweep's verdict in a sentence, then each variant's."""
    if each.decision is None:
        why = each.problems[0] if each.problems else "no row has finished, so there is nothing to compare"
        return tag("div", tag("h3", each.sweep), paragraph(sentence(why)), class_="card")
    decision = each.decision
    lines = [
        tag(
            "li",
            chip(one.verdict.value, VERDICTS[one.verdict]),
            tag("strong", str(one.variant)),
            tag("span", WORDS.get(one.verdict, one.reason)),
        )
        for one in decision.variants
    ]
    return tag(
        "div",
        paragraph(f"Sweep {decision.sweep}", class_="kicker"),
        paragraph(headline(decision), class_="headline"),
        tag("ul", lines, class_="verdicts"),
        paragraph(f"compared with {decision.baseline} over asset × fold; {rows_there(decision)}", class_="quiet"),
        class_="card",
    )


def headline(decision: Decision) -> str:
    if not decision.variants:
        return f"Only {decision.baseline} was run: there is nothing to compare it with."
    if not decision.complete:
        return f"Not decided: {rows_there(decision)}."
    best = decision.recommended
    if best is not None:
        return f"Lock {decision.factor} = {best.variant}: it is proven better than {decision.baseline}."
    if all(one.verdict is Verdict.ABANDON for one in decision.variants):
        return f"Stay with {decision.factor} = {decision.baseline}: every other variant is given up."
    return f"Stay with {decision.factor} = {decision.baseline} for now: no variant is proven better."


def rows_there(decision: Decision) -> str:
    there = f"{decision.finished:,} of {decision.expected:,} rows"
    return f"all {decision.expected:,} rows are there" if decision.complete else f"{there} are there"


def tile(name: str, figure: str, beside: str = "", kind: str = "") -> Markup:
    return tag(
        "li",
        tag("span", name, class_="name"),
        tag("span", figure, class_="number"),
        tag("span", beside, class_="beside"),
        class_=kind or None,
    )


def tiles(found: Material) -> Iterator[tuple[str, str, str, str]]:
    report = found.report
    sweeps, tasks = report["sweeps"].values(), report["tasks"].values()
    if sweeps:
        expected, there = sum(one["expected"] for one in sweeps), sum(one["there"] for one in sweeps)
        rows, failed = sum(one["rows"] for one in sweeps), sum(one["failed"] for one in sweeps)
        before = f"{there:,} were there before" if there else ""
        beside = f"{failed:,} failed" if failed else before
        yield "rows", f"{there + rows - failed:,} / {expected:,}", beside, "bad" if failed else ""
    elif count := sum(one["count"] for one in tasks):
        failed = sum(one["failed"] for one in tasks)
        yield "tasks", f"{count:,}", f"{failed:,} failed" if failed else "none failed", "bad" if failed else ""
    both = report["plan_vs_actual"]
    planned = length(both["wall_s"]["planned"]) if both else ""
    so_far = "so far" if found.live else ""
    beside = ", ".join(filter(None, (so_far, f"planned {planned}" if planned else "")))
    yield "time", length(report["run"]["duration_s"]), beside, ""
    if (cost := report["cost"]) and cost.get("currency"):
        budget = f"budget {paid(found.budget)}" if found.budget else ""
        yield "cost", fine(cost["amount"], cost["currency"]), budget, ""
    if workers := report["workers"]:
        started = sum(one["started"] for one in workers.values())
        most = sum(one["most"] for one in workers.values())
        yield "workers", f"{most:,}", f"{started:,} started", ""
    if shares := [one["share"] for one in report["peaks"].values() if one["share"] is not None]:
        yield "memory", percent(max(shares)), "of its limit", "warn" if max(shares) > 0.8 else ""
    count = report["retries"]["count"]
    yield "retries", f"{count:,}", "", "warn" if count else ""
    troubles = len(found.incidents) + len(unrecorded(found))
    yield "incidents", f"{troubles:,}", "or more" if found.view.incidents_forgotten else "", "bad" if troubles else ""
