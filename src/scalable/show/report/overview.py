"""The top of a page: what this run was, what came of it, and the figures one looks for first.

``provenance``, at its end, says what it was made with.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from scalable.axes import value_text
from scalable.machine_hours import CORE_HOURS, hours_text
from scalable.observe.words import fine, length, moment, named, one_line, paid
from scalable.quantities import percent
from scalable.show.report.elements import Child, Markup, chip, facts, join, more, paragraph, sentence, table, tag
from scalable.show.report.material import Material, SweepResults
from scalable.sweeps.decisions import Decision, Verdict
from scalable.wording import plural, some_of

STATES = {"ok": "good", "failed": "bad", "running": "live"}
VERDICTS = {Verdict.LOCK: "good", Verdict.KEEP_AVAILABLE: "warn", Verdict.ABANDON: "bad"}


def header(material: Material) -> Markup:
    run = material.report["run"]
    state = run["state"]
    title = named(run.get("project")) or run["run_id"]
    return tag(
        "header",
        paragraph("Run report", class_="kicker"),
        tag("h1", title, " ", chip(state, STATES.get(state, "warn"))),
        paragraph(run["run_id"], class_="id"),
        live_note(material) if material.live else None,
    )


def live_note(material: Material) -> Markup:
    text = f"This run is under way. The report shows it as of {moment(material.made)}; figures will change."
    return tag("p", text, class_="banner", role="status")


def summary(material: Material) -> Markup:
    report = material.report
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
        [verdict_card(each) for each in material.results],
        reason(run) if run["reason"] else None,
        tag("ul", (tile(*each) for each in tiles(material)), class_="tiles"),
        facts(pairs),
    )


def short_command(command: object) -> str:
    """As a person would type it; where the program lies is told under provenance."""
    words = [str(word) for word in command] if isinstance(command, list) else []
    return one_line(" ".join([Path(words[0]).name, *words[1:]])) if words else ""


def reason(run: dict[str, Any]) -> Markup:
    return tag("div", tag("strong", f"{run['state']}: "), tag("span", one_line(run["reason"])), class_="note bad")


def verdict_card(each: SweepResults) -> Markup:
    """Return a sweep's verdict in a sentence, then each variant's."""
    if each.decision is None:
        why = each.problems[0] if each.problems else "no row has finished, so there is nothing to compare"
        return tag("div", tag("h3", each.sweep), paragraph(sentence(why)), class_="card")
    decision = each.decision
    lines = [
        tag(
            "li",
            chip(result.word, VERDICTS[result.verdict]),
            tag("strong", str(result.variant)),
            tag("span", result.reason),
        )
        for result in decision.ranked
    ]
    return tag(
        "div",
        paragraph(f"Sweep {decision.sweep}", class_="kicker"),
        paragraph(headline(decision), class_="headline"),
        tag("ul", lines, class_="verdicts"),
        paragraph(
            f"{decision.primary} compared with {decision.baseline}, {decision.method}; {rows_there(decision)}",
            class_="quiet",
        ),
        class_="card",
    )


def headline(decision: Decision) -> str:
    if not decision.variants:
        return f"Only {decision.baseline} was run: there is nothing to compare it with."
    if decision.recommended is not None:
        better = f"{decision.primary} is proven better than with {decision.baseline}"
        return f"Lock {decision.factor} = {decision.recommended}: {better}."
    if not decision.complete:
        return f"Not decided: {rows_there(decision)}."
    if all(result.verdict is Verdict.ABANDON for result in decision.variants):
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


def tiles(material: Material) -> Iterator[tuple[str, str, str, str]]:
    report = material.report
    sweeps, tasks = report["sweeps"].values(), report["tasks"].values()
    if sweeps:
        expected, there = sum(entry["expected"] for entry in sweeps), sum(entry["there"] for entry in sweeps)
        rows, failed = sum(entry["rows"] for entry in sweeps), sum(entry["failed"] for entry in sweeps)
        elsewhere = sum(entry.get("elsewhere", 0) for entry in sweeps)
        before = f"{there:,} were there before" if there else ""
        others = f"{elsewhere:,} computed by another run" if elsewhere else ""
        beside = f"{failed:,} failed" if failed else ", ".join(filter(None, (before, others)))
        yield "rows", f"{there + rows - failed:,} / {expected:,}", beside, "bad" if failed else ""
    elif count := sum(entry["count"] for entry in tasks):
        failed, recalled = (sum(entry[name] for entry in tasks) for name in ("failed", "recalled"))
        beside = f"{recalled:,} from the cache" if recalled else "none failed"
        yield "tasks", f"{count:,}", f"{failed:,} failed" if failed else beside, "bad" if failed else ""
    both = report["plan_vs_actual"]
    planned = length(both["wall_s"]["planned"]) if both else ""
    so_far = "so far" if material.live else ""
    beside = ", ".join(filter(None, (so_far, f"planned {planned}" if planned else "")))
    yield "time", length(report["run"]["duration_s"]), beside, ""
    if (cost := report["cost"]) and cost.get("currency"):
        budget = f"budget {paid(material.budget)}" if material.budget else ""
        yield "cost", fine(cost["amount"], cost["currency"]), budget, ""
    if hours := report["hours"]:
        limit = hours["budget"]
        unit = limit["unit"] if limit else CORE_HOURS
        beside = f"of {hours_text(limit['amount'])} allowed" if limit else ""
        yield unit, hours_text(hours["used"][unit]), beside, ""
    if workers := report["workers"]:
        started = sum(entry["started"] for entry in workers.values())
        most = sum(entry["most"] for entry in workers.values())
        yield "workers", f"{most:,}", f"{started:,} started", ""
    if shares := [entry["share"] for entry in report["peaks"].values() if entry["share"] is not None]:
        yield "memory", percent(max(shares)), "of its limit", "warn" if max(shares) > 0.8 else ""
    count = report["retries"]["count"]
    yield "retries", f"{count:,}", "", "warn" if count else ""
    troubles = material.view.incident_count
    yield "incidents", f"{troubles:,}", "", "bad" if troubles else ""


SHORT = 16  # characters of a fingerprint that are shown


def provenance(material: Material) -> Markup:
    run = material.report["run"]
    pairs: list[tuple[str, Child]] = [
        ("run", run["run_id"]),
        ("scalable", named(run.get("version"))),
        ("Python", named(run.get("python"))),
        ("host", named(run.get("host"))),
        (
            "target",
            " ".join(filter(None, (named(run.get("target")), f"({run['provider']})" if run.get("provider") else ""))),
        ),
        ("command", tag("code", one_line(named(run.get("command")))) if run.get("command") else ""),
        ("folder", one_line(named(material.facts.get("cwd")))),
        ("manifest", named(run.get("manifest"))),
        ("journal", f"{plural(run['records'], 'record')}{damage(material)}"),
        ("report made", moment(material.made)),
    ]
    parts: list[Child] = [facts(pairs), [sweep(each) for each in material.results if each.compiled is not None]]
    if material.manifest:
        when = (
            "as it is now; it was changed after the run began" if material.changed else "as it was when the run began"
        )
        parts.append(
            tag(
                "details",
                tag("summary", f"The manifest, {when}"),
                tag("pre", material.manifest, tabindex=0),
                class_="manifest",
            )
        )
    return join(parts)


def damage(material: Material) -> str:
    run = material.report["run"]
    lines = f", {plural(run['damaged_lines'], 'line')} could not be read" if run["damaged_lines"] else ""
    return f"{lines}, ends in the middle of a line" if run["torn"] else lines


def sweep(each: SweepResults) -> Markup | None:
    made, outcome = each.compiled, each.outcome
    if made is None or outcome is None:
        return None
    rows = [row for _, row in outcome.there()]
    codes = sorted({row.code_fingerprint for row in rows if row.code_fingerprint})
    grid = made.grid
    read = {name: value for name, value in grid.settings.items() if name in made.workload.reads}
    settings = {**made.base_env, **read}
    pairs: list[tuple[str, Child]] = [
        *((f"compare {name}", some_of(map(value_text, values))) for name, values in grid.compare.items()),
        *((f"over {axis.name} ({axis.kind.value})", some_of(map(value_text, axis.values))) for axis in grid.over),
        *((f"average {name}", some_of(map(value_text, values))) for name, values in grid.average.items()),
        ("workload", made.workload.path),
        ("locked and set", ", ".join(f"{name} = {settings[name]}" for name in sorted(settings))),
        ("configurations", plural(len({row.config_fingerprint for row in rows}), "distinct fingerprint")),
        ("libraries", ", ".join(libraries(each)) + " (where this report was made)"),
    ]
    stages = [code.split() for code in codes[:3]]
    lines = [part.partition(":")[::2] for part in (stages[0] if stages else [])]
    others = f"The rows were made with {len(codes)} versions of the code; the first is shown." if len(codes) > 1 else ""
    data = sorted((asset, print_[:SHORT]) for asset, print_ in made.data.items())
    return join(
        [
            tag("h3", f"Sweep {each.sweep}"),
            facts(pairs),
            paragraph(others, class_="note warn") if others else None,
            more(
                "Fingerprints of code and data",
                table(
                    "Code of each stage, as the rows have it",
                    ("stage", "fingerprint"),
                    [(name, tag("code", print_)) for name, print_ in lines],
                ),
                table(
                    "What rows read outside, by the first axis of over",
                    (grid.over[0].name if grid.over else "rows", "fingerprint"),
                    [(asset, tag("code", print_)) for asset, print_ in data],
                ),
            ),
        ]
    )


def libraries(each: SweepResults) -> Iterator[str]:
    used = (
        {name for stage in each.compiled.workload.stages for name in stage.uses} if each.compiled is not None else set()
    )
    for name in sorted(used | {"distributed"}):
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
