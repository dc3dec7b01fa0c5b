"""Sections about the run itself: how it went, memory, scaling, work, the plan beside it, cost and trouble.

Each takes the material and gives its content, or nothing if it has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scalable.observe.fan_out import by_value, in_words
from scalable.observe.fields import mapping
from scalable.observe.fleet import by_tag
from scalable.observe.incidents import Incident, evidence_lines
from scalable.observe.words import BESIDE, UNKNOWN, clock, fine, hours, length, one_line, paid, size
from scalable.quantities import percent
from scalable.show.report.drawing import legend
from scalable.show.report.elements import (
    MOST_LISTED,
    Child,
    Markup,
    chip,
    facts,
    figure,
    folded_table,
    join,
    more,
    paragraph,
    table,
    tag,
)
from scalable.show.report.material import Material
from scalable.show.report.run_charts import COLOURS, bill_bar, memory_bars, timeline
from scalable.wording import plural

MOST_BARS = 24  # workers drawn, the fullest
NOTHING = ("0", UNKNOWN)
WARN_AT = 1.25  # a figure that is this much above its plan is worth a colour


def going(material: Material) -> Markup | None:
    began = material.report["run"]["started"]
    view = material.view
    waiting = view.series.line("waiting")
    if began is None or not (view.fleet.timeline or view.series.rows or waiting):
        return None
    sweeps = material.report["sweeps"].values()
    expected = sum(entry["expected"] - entry["there"] for entry in sweeps)
    decisions = material.report["scaling"]["decisions"]
    picture = timeline(view, began, material.until, decisions, expected)
    keys = [(f"workers {tag_}", f"c{at % COLOURS + 1}") for at, tag_ in enumerate(by_tag(view.fleet.timeline))]
    if any(value for _, value in waiting):
        keys += [("waiting", "muted"), ("running", "c2")]
    if view.series.rows:
        keys += [("rows", "good"), ("rows asked for", "goal")]
    rows = [
        (tag_, entry["started"], entry["removed"], entry["final"], entry["most"], busy(material, tag_))
        for tag_, entry in material.report["workers"].items()
    ]
    columns = ("kind", ">started", ">removed", ">final", ">most at once", ">busy")
    return join(
        [
            figure(picture, "Time since the start. Triangles are scaling decisions.", legend(keys)),
            table("Workers by kind", columns, rows) if rows else None,
        ]
    )


def busy(material: Material, kind: str) -> str:
    share = mapping(material.report["tasks"].get(kind)).get("busy_share")
    return percent(share) if share is not None else UNKNOWN


def memory_used(material: Material) -> Markup | None:
    peaks = material.report["peaks"]
    if not peaks:
        return None
    both = material.report["plan_vs_actual"] or {}
    planned = {kind: each["planned"] for kind, each in mapping(both.get("peaks")).items()}
    kinds = [(kind, peak["bytes"], peak["limit"], planned.get(kind)) for kind, peak in peaks.items()]
    view = material.view
    workers = [(name, peak.bytes, view.memory_limit(peak.tag), None) for name, peak in view.fleet.peaks.items()]
    workers.sort(key=lambda each: (-(each[1] / each[2] if each[2] else 0), -each[1], each[0]))
    rows = []
    for kind, peak in peaks.items():
        limit, expected = size(peak["limit"]) or UNKNOWN, size(planned.get(kind)) or UNKNOWN
        used = percent(peak["share"]) if peak["share"] is not None else UNKNOWN
        rows.append((kind, size(peak["bytes"]), limit, used, expected, peak["task"]))
    caption = "By component: the highest peak, the limit behind it, and as a line what was expected."
    parts = [
        figure(memory_bars(kinds), caption),
        table("Memory peaks beside limits", ("kind", ">peak", ">limit", ">used", ">expected", "in"), rows),
    ]
    if len(workers) > 1:
        those = f"the fullest {MOST_BARS} of {len(workers)} workers" if len(workers) > MOST_BARS else "each worker"
        parts.append(figure(memory_bars(workers[:MOST_BARS]), f"The most {those} used."))
    return join(parts)


def scaling(material: Material) -> Markup | None:
    ups, downs, decisions = (material.report["scaling"][name] for name in ("up", "down", "decisions"))

    def row(each: Mapping[str, Any]) -> Sequence[Child]:
        up = each["direction"] == "up"
        return clock(each["t"]), f"{'+' if up else '−'}{each['count']} {each['tag']}", one_line(each)

    return folded_table(decisions, row, ("at", "what", "why"), f"Scaling decisions: {ups} up, {downs} down")


def tasks(material: Material) -> Markup | None:
    worked = {kind: each for kind, each in material.report["tasks"].items() if each["count"] or each["stopped"]}
    if not worked:
        return None
    recalled = any(each["recalled"] for each in worked.values())
    rows = []
    for kind, each in worked.items():
        seconds = each["seconds"]
        times = [length(seconds[name]) if seconds["mean"] is not None else UNKNOWN for name in ("p50", "p95", "total")]
        trouble = (counted(each["failed"], "bad"), counted(each["retries"], "warn"))
        counts = (f"{each['count']:,}", *((f"{each['recalled']:,}",) if recalled else ()))
        rows.append((kind, *counts, *trouble, *times, busy(material, kind)))
    cached = (">from the cache",) if recalled else ()
    columns = ("kind", ">ended", *cached, ">failed", ">retries", ">median", ">95 % within", ">together", ">busy")
    failed = material.report["failures"]

    def failure(each: Mapping[str, Any]) -> Sequence[Child]:
        return clock(each["t"]), one_line(each["task"]), one_line(each["error"])

    count = max(len(failed), sum(each["failed"] for each in worked.values()))
    title = plural(count, "failure") if count == len(failed) else f"{count:,} failures, of which {len(failed)} are told"
    failures = folded_table(failed, failure, ("at", "task", "error"), title)
    return join([table("Pieces of work by kind", columns, rows), by_axis(material), failures])


def by_axis(material: Material) -> Markup | None:
    """Return how far each task over axes came, and at which values something is missing."""
    rows = []
    for task, each in material.report["fan_outs"].items():
        rows.append((task, in_words(each, over=material.report["run"]["ended"] is not None)))
        rows += [(f"– {axis}", counts) for axis, counts in by_value(each)]
    return table("Tasks by axis", ("task", "jobs"), rows) if rows else None


def counted(count: int, kind: str) -> Child:
    return tag("b", f"{count:,}", class_=kind) if count else "0"


def plan(material: Material) -> Markup | None:
    both = material.report["plan_vs_actual"]
    if not both:
        return None
    pairs: list[tuple[str, Mapping[str, Any], Callable[[Any], str]]] = [
        ("time", both["wall_s"], length),
        ("start-up", both["startup_s"], length),
        ("machine-hours", both["node_hours"], hours),
        ("cost", both["cost"], paid),
        ("retries", both["retries"], str),
    ]
    pairs += [(f"workers {kind}", each, str) for kind, each in both["workers"].items()]
    pairs += [(f"tasks {kind}", each, lambda count: f"{count:,}") for kind, each in both["tasks"].items()]
    pairs += [(f"memory peak {kind}", each, size) for kind, each in both["peaks"].items()]
    rows = [
        (name, value_or_dash(each["planned"], shown), value_or_dash(each["actual"], shown), deviation(each))
        for name, each, shown in pairs
    ]
    rows = [each for each in rows if each[2] not in NOTHING or (each[1] not in NOTHING and each[1] != "0.00 h")]
    note = f"Planned for all rows; {both['there']:,} were there already." if both["there"] else None
    return join(
        [
            table("What was planned beside what came", ("", ">planned", ">actual", ">actual ÷ planned"), rows),
            paragraph(note, class_="quiet") if note else None,
        ]
    )


def value_or_dash(value: Any, shown: Callable[[Any], str]) -> str:
    return (shown(value) if value is not None else "") or UNKNOWN


def deviation(each: Mapping[str, Any]) -> Child:
    amounts = [amount["amount"] if isinstance(amount, dict) else amount for amount in (each["planned"], each["actual"])]
    planned, actual = amounts
    if not planned or actual is None:
        return UNKNOWN
    share = actual / planned
    return tag("b", f"× {share:.2f}", class_="warn") if share >= WARN_AT else f"× {share:.2f}"


UNATTRIBUTED_COLOURS = {"tail": "muted", "unused": "c8", "without_rows": "c7"}
"""Of what is charged to no row."""
FAR = 5.0  # times the bill; a budget beyond that would make the picture one of the budget


def cost(material: Material) -> Markup | None:
    bill = material.report["cost"]
    if not bill or "pools" not in bill:
        return paragraph(f"Spent: {paid(bill)}.") if bill else None
    currency, dearest = bill["currency"], bill["rows"]["dearest"]
    parts: list[Child] = (
        [picture(bill, material, currency), facts(bill_facts(bill, material, currency))] if currency else []
    )
    parts.append(pools(bill))
    if currency and dearest:
        lines = [
            (
                share["run"],
                share["sweep"],
                share["rows"],
                fine(share["per_row"], currency),
                fine(share["lost"], currency),
            )
            for share in dearest
        ]
        columns = ("work", "sweep", ">rows", ">a row", ">in vain")
        parts.append(more("The dearest rows", table("The dearest rows", columns, lines)))
    parts += [paragraph(words, class_="quiet") for words in bill["assumed"]]
    return join(parts)


def picture(bill: Mapping[str, Any], material: Material, currency: str) -> Markup | None:
    rows, beside, both = bill["rows"], bill["unattributed"], material.report["plan_vs_actual"]
    parts = [
        ("rows", rows["amount"] - rows["idle"] - rows["lost"], "c1"),
        ("machines that waited between rows", rows["idle"], "c6"),
        ("in vain", rows["lost"], "bad"),
        *((words, beside[name], UNATTRIBUTED_COLOURS[name]) for name, words in BESIDE.items()),
    ]
    shown = [(f"{name} {fine(amount, currency)}", amount, kind) for name, amount, kind in parts if amount > 0]
    if not shown:
        return None
    marks = []
    for word, amount in (("planned", both["cost"]["planned"] if both else None), ("budget", material.budget)):
        if amount and amount["currency"] == currency and amount["amount"] <= FAR * bill["amount"]:
            marks.append((f"{word} {paid(amount)}", amount["amount"]))
    caption = f"The bill: {fine(bill['amount'], currency)}."
    return figure(bill_bar(shown, marks), caption, legend([(name, kind) for name, _, kind in shown]))


def pools(bill: Mapping[str, Any]) -> Markup:
    by_node, currency = bill["basis"] != "workers", bill["currency"]
    lines = []
    for name, pool in bill["pools"].items():
        used = percent(pool["busy_share"]) if pool["busy_share"] is not None else UNKNOWN
        amount = fine(pool["amount"], currency) if currency else UNKNOWN
        standing = hours(pool["standing_hours"]) if by_node else UNKNOWN
        lines.append((name, f"{pool['machines']:,}", hours(pool["hours"]), standing, used, amount))
    columns = ("pool", ">nodes" if by_node else ">workers", ">hours", ">always there", ">busy", ">cost")
    return table("The bill by pool", columns, lines)


def bill_facts(bill: Mapping[str, Any], material: Material, currency: str) -> list[tuple[str, Child]]:
    rows, beside, both = bill["rows"], bill["unattributed"], material.report["plan_vs_actual"]
    pairs: list[tuple[str, Child]] = [("bill", fine(bill["amount"], currency))]
    if rows["count"]:
        pairs.append(
            ("a row", f"{fine(rows['mean'], currency)} on average, half of them up to {fine(rows['median'], currency)}")
        )
    if beside["amount"]:
        why = "; ".join(f"{fine(beside[name], currency)} {words}" for name, words in BESIDE.items() if beside[name])
        pairs.append(("charged to no row", f"{fine(beside['amount'], currency)}: {why}"))
    if bill["foreseen"]:
        pairs.append(("still to come", f"{fine(bill['foreseen'], currency)} of it until the last machine is gone"))
    if both and both["cost"]["planned"]:
        pairs.append(("planned", paid(both["cost"]["planned"])))
    if material.budget:
        pairs.append(("may be spent", paid(material.budget)))
    return pairs


MOST_INCIDENTS = 20  # told with their evidence
LATEST = 50  # retries and alerts that are listed
EXCERPT = 30  # lines of evidence


def retries(material: Material) -> Markup | None:
    report = material.report
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
    latest = [(clock(each["t"]), each["run"], each["tag"], each["cause"]) for each in material.view.retried[-LATEST:]]
    parts = [table("What was lost or run again", ("what", "cause", ">times"), rows)]
    if latest:
        parts.append(more("The latest retries", table("Retries", ("at", "work", "kind", "after"), latest)))
    return join(parts)


def incidents(material: Material) -> Markup | None:
    others = unrecorded(material)
    if not material.incidents and not others:
        return None
    latest = material.incidents[-MOST_INCIDENTS:]
    earlier = len(material.incidents) - len(latest)

    def row(each: Mapping[str, Any]) -> Sequence[Child]:
        where = (one_line(each["run"] or ""), each["worker"] or "")
        return clock(each["started"]), each["kind"], *where, one_line(each["evidence"])

    note = f"The latest {len(latest)} are told; scalable incidents  shows {earlier} earlier ones." if earlier else None
    columns = ("at", "kind", "work", "worker", "detail")
    title = "Losses that have no record of their own"
    rest = folded_table(
        others, row, columns, f"{title}, of those that are remembered" if material.view.incidents_forgotten else title
    )
    return join([paragraph(note) if note else None, map(incident, latest), rest])


def unrecorded(material: Material) -> list[dict[str, Any]]:
    """Losses that no incident's file tells of."""
    recorded = {(each.kind, each.run or each.worker) for each in material.incidents}
    return [
        each for each in material.report["incidents"] if (each["kind"], each["run"] or each["worker"]) not in recorded
    ]


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
        ("to prevent it", tag("ul", (tag("li", advice) for advice in each.prevent)) if each.prevent else ""),
    ]
    kind = "bad" if each.severity in ("critical", "page", "high") else "warn"
    return tag(
        "article",
        tag("h3", f"Incident {each.id}: {each.kind} ", chip(each.severity, kind) if each.severity else None),
        facts(pairs),
        tag("pre", "\n".join(cut), tabindex=0) if cut else None,
        class_="card incident",
    )


def alerts(material: Material) -> Markup | None:
    """Findings with what to do about them, then alerts; an alert that only repeats a failure is told there."""
    findings = material.report["findings"]
    failed = {f"{entry['task']}: {entry['error']}" for entry in material.report["failures"]}
    latest, count = material.view.alerts[-LATEST:], material.view.alert_count
    rung = [entry for entry in latest if entry.get("text") not in failed]
    if not findings and not rung:
        return None
    items = [
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
    return join([tag("ul", items, class_="findings") if items else None, folded_table(rung, row, columns, title)])
