"""The top of a page: what this run was, what came of it, and the figures one looks for first.

``provenance``, at its end, says what it was made with.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from scalable.observe.words import fine, length, moment, named, one_line, paid
from scalable.quantities import percent
from scalable.show.report.elements import Child, Markup, chip, facts, join, more, paragraph, sentence, table, tag
from scalable.show.report.material import Material, SweepResults
from scalable.show.report.run_sections import unrecorded
from scalable.sweeps.decisions import Decision, Verdict
from scalable.sweeps.workload import SHIPPED
from scalable.wording import plural, some_of

STATES = {"ok": "good", "failed": "bad", "running": "live"}
VERDICTS = {Verdict.LOCK: "good", Verdict.KEEP_AVAILABLE: "warn", Verdict.ABANDON: "bad"}
WORDS = {
    Verdict.LOCK: "proven better; may become part of the base",
    Verdict.KEEP_AVAILABLE: "stays available; the rule decides neither way",
}
"""What a verdict means; one that gives a variant up has its reason instead."""


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
            chip(judgement.verdict.value, VERDICTS[judgement.verdict]),
            tag("strong", str(judgement.variant)),
            tag("span", WORDS.get(judgement.verdict, judgement.reason)),
        )
        for judgement in decision.variants
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
    if all(judgement.verdict is Verdict.ABANDON for judgement in decision.variants):
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
        before = f"{there:,} were there before" if there else ""
        beside = f"{failed:,} failed" if failed else before
        yield "rows", f"{there + rows - failed:,} / {expected:,}", beside, "bad" if failed else ""
    elif count := sum(entry["count"] for entry in tasks):
        failed = sum(entry["failed"] for entry in tasks)
        yield "tasks", f"{count:,}", f"{failed:,} failed" if failed else "none failed", "bad" if failed else ""
    both = report["plan_vs_actual"]
    planned = length(both["wall_s"]["planned"]) if both else ""
    so_far = "so far" if material.live else ""
    beside = ", ".join(filter(None, (so_far, f"planned {planned}" if planned else "")))
    yield "time", length(report["run"]["duration_s"]), beside, ""
    if (cost := report["cost"]) and cost.get("currency"):
        budget = f"budget {paid(material.budget)}" if material.budget else ""
        yield "cost", fine(cost["amount"], cost["currency"]), budget, ""
    if workers := report["workers"]:
        started = sum(entry["started"] for entry in workers.values())
        most = sum(entry["most"] for entry in workers.values())
        yield "workers", f"{most:,}", f"{started:,} started", ""
    if shares := [entry["share"] for entry in report["peaks"].values() if entry["share"] is not None]:
        yield "memory", percent(max(shares)), "of its limit", "warn" if max(shares) > 0.8 else ""
    count = report["retries"]["count"]
    yield "retries", f"{count:,}", "", "warn" if count else ""
    troubles = len(material.incidents) + len(unrecorded(material))
    yield (
        "incidents",
        f"{troubles:,}",
        "or more" if material.view.incidents_forgotten else "",
        "bad" if troubles else "",
    )


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
    settings = {**made.base_env, **made.sweep.settings}
    pairs: list[tuple[str, Child]] = [
        ("factor", f"{grid.factor}: {', '.join(map(str, grid.variants))}"),
        (
            "assets",
            some_of(grid.assets),
        ),
        ("folds, costs", f"{plural(grid.folds, 'fold')}; {', '.join(f'{cost:g}' for cost in grid.costs_bps)} bps"),
        ("trials, seed", f"{grid.trials} trials, seed {grid.seed}"),
        ("workload", made.workload.path or SHIPPED),
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
                    "What each asset's rows read",
                    ("asset", "fingerprint"),
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
