"""Sections about the run itself: how it went, memory, scaling, work, and the plan beside it.

Each takes the material and gives its content, or nothing if it has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scalable.observe.fields import mapping
from scalable.observe.fleet import by_tag
from scalable.observe.words import UNKNOWN, clock, hours, length, one_line, paid, size
from scalable.quantities import percent
from scalable.show.report.drawing import legend
from scalable.show.report.elements import Child, Markup, figure, join, paragraph, table, tag
from scalable.show.report.material import Material
from scalable.show.report.run_charts import COLOURS, memory_bars, timeline
from scalable.show.report.sections import folded_table
from scalable.wording import plural

MOST_BARS = 24  # workers drawn, the fullest
NOTHING = ("0", UNKNOWN)
WARN_AT = 1.25  # a figure that is this much above its plan is worth a colour


def going(found: Material) -> Markup | None:
    began = found.report["run"]["started"]
    view = found.view
    waiting = view.series.line("waiting")
    if began is None or not (view.fleet.timeline or view.series.rows or waiting):
        return None
    sweeps = found.report["sweeps"].values()
    expected = sum(one["expected"] - one["there"] for one in sweeps)
    decisions = found.report["scaling"]["decisions"]
    picture = timeline(view, began, found.until, decisions, expected)
    keys = [(f"workers {tag_}", f"c{at % COLOURS + 1}") for at, tag_ in enumerate(by_tag(view.fleet.timeline))]
    if any(value for _, value in waiting):
        keys += [("waiting", "muted"), ("running", "c2")]
    if view.series.rows:
        keys += [("rows", "good"), ("rows asked for", "goal")]
    rows = [
        (tag_, one["started"], one["removed"], one["final"], one["most"], busy(found, tag_))
        for tag_, one in found.report["workers"].items()
    ]
    columns = ("kind", ">started", ">removed", ">final", ">most at once", ">busy")
    return join(
        [
            figure(picture, "Time since the start. Triangles are scaling decisions.", legend(keys)),
            table("Workers by kind", columns, rows) if rows else None,
        ]
    )


def busy(found: Material, kind: str) -> str:
    share = mapping(found.report["tasks"].get(kind)).get("busy_share")
    return percent(share) if share is not None else UNKNOWN


def memory_used(found: Material) -> Markup | None:
    peaks = found.report["peaks"]
    if not peaks:
        return None
    both = found.report["plan_vs_actual"] or {}
    planned = {kind: each["planned"] for kind, each in mapping(both.get("peaks")).items()}
    kinds = [(kind, one["bytes"], one["limit"], planned.get(kind)) for kind, one in peaks.items()]
    view = found.view
    workers = [(name, one.bytes, view.memory_limit(one.tag), None) for name, one in view.fleet.peaks.items()]
    workers.sort(key=lambda each: (-(each[1] / each[2] if each[2] else 0), -each[1], each[0]))
    rows = []
    for kind, one in peaks.items():
        limit, expected = size(one["limit"]) or UNKNOWN, size(planned.get(kind)) or UNKNOWN
        used = percent(one["share"]) if one["share"] is not None else UNKNOWN
        rows.append((kind, size(one["bytes"]), limit, used, expected, one["task"]))
    said = "By component: the highest peak, the limit behind it, and as a line what was expected."
    parts = [
        figure(memory_bars(kinds), said),
        table("Memory peaks beside limits", ("kind", ">peak", ">limit", ">used", ">expected", "in"), rows),
    ]
    if len(workers) > 1:
        those = f"the fullest {MOST_BARS} of {len(workers)} workers" if len(workers) > MOST_BARS else "each worker"
        parts.append(figure(memory_bars(workers[:MOST_BARS]), f"The most {those} used."))
    return join(parts)


def scaling(found: Material) -> Markup | None:
    ups, downs, decisions = (found.report["scaling"][name] for name in ("up", "down", "decisions"))

    def row(each: Mapping[str, Any]) -> Sequence[Child]:
        up = each["direction"] == "up"
        return clock(each["t"]), f"{'+' if up else '−'}{each['count']} {each['tag']}", one_line(each)

    return folded_table(decisions, row, ("at", "what", "why"), f"Scaling decisions: {ups} up, {downs} down")


def tasks(found: Material) -> Markup | None:
    worked = {kind: each for kind, each in found.report["tasks"].items() if each["count"] or each["stopped"]}
    if not worked:
        return None
    rows = []
    for kind, each in worked.items():
        seconds = each["seconds"]
        times = [length(seconds[name]) if seconds["mean"] is not None else UNKNOWN for name in ("p50", "p95", "total")]
        trouble = (counted(each["failed"], "bad"), counted(each["retries"], "warn"))
        rows.append((kind, f"{each['count']:,}", *trouble, *times, busy(found, kind)))
    columns = ("kind", ">ended", ">failed", ">retries", ">median", ">95 % within", ">together", ">busy")
    failed = found.report["failures"]

    def failure(each: Mapping[str, Any]) -> Sequence[Child]:
        return clock(each["t"]), one_line(each["task"]), one_line(each["error"])

    count = max(len(failed), sum(each["failed"] for each in worked.values()))
    title = plural(count, "failure") if count == len(failed) else f"{count:,} failures, of which {len(failed)} are told"
    failures = folded_table(failed, failure, ("at", "task", "error"), title)
    return join([table("Pieces of work by kind", columns, rows), failures])


def counted(count: int, kind: str) -> Child:
    return tag("b", f"{count:,}", class_=kind) if count else "0"


def plan(found: Material) -> Markup | None:
    both = found.report["plan_vs_actual"]
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
    amounts = [one["amount"] if isinstance(one, dict) else one for one in (each["planned"], each["actual"])]
    planned, actual = amounts
    if not planned or actual is None:
        return UNKNOWN
    share = actual / planned
    return tag("b", f"× {share:.2f}", class_="warn") if share >= WARN_AT else f"× {share:.2f}"
