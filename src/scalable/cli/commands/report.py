"""``scalable report``: what a run did, beside what its plan said."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from scalable.cli import operating
from scalable.cli.operating import save_shown
from scalable.cli.output import Cell, console, facts, note, print_json, show_table, working
from scalable.errors import ScalableError, UsageError
from scalable.findings import Finding
from scalable.machine_hours import CORE_HOURS, GPU_HOURS, hours_text
from scalable.observe import RunFolder, fan_out
from scalable.observe.alerts import TOLD_OTHERWISE
from scalable.observe.files import write_beside
from scalable.observe.redact import redact
from scalable.observe.report import recorded_report
from scalable.observe.words import (
    BESIDE,
    TIGHT,
    UNKNOWN,
    clock,
    fine,
    hours,
    hours_line,
    length,
    moment,
    named,
    one_line,
    paid,
    size,
)
from scalable.quantities import percent
from scalable.wording import plural

LISTED = 8  # incidents, alerts and decisions shown to people; machines get all


def run(options: argparse.Namespace) -> int:
    folder = RunFolder.find(options.run_id, manifest=options.manifest)
    if options.format == "html":
        manifest = Path(options.manifest) if options.manifest is not None else None
        written = folder.facts().get("manifest")
        if manifest is None and isinstance(written, str) and Path(written).parent == Path.cwd():
            manifest = Path(written) if operating.trusted(folder, None) else None
        write_page(folder, Path(options.output or f"report-{folder.run_id}.html"), manifest)
        return 0
    report = redact(recorded_report(folder, time.time())[1])
    if options.output is not None:
        save_shown(Path(options.output), options.format, report, lambda screen: show(screen, report))
    elif options.format == "json":
        print_json(report)
    else:
        show(console(), report)
    return 0


def write_page(folder: RunFolder, path: Path, manifest: Path | None) -> None:
    check_file(path, "html")
    from scalable.show.report.material import material_of  # reads results as well, which takes libraries of its own
    from scalable.show.report.page import page

    with working("reading what the run left"):
        text = page(material_of(folder, manifest=manifest))
    put(path, text)


def check_file(path: Path, ending: str) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file, e.g. --output {path / f'report.{ending}'}")


def put(path: Path, text: str) -> None:
    try:
        write_beside(path, text, private=False)
    except OSError as error:
        raise ScalableError(f"{path} cannot be written: {error.strerror}") from None
    console().print(f"wrote {path}", soft_wrap=True)


def show(screen: Console, report: Mapping[str, Any]) -> None:
    workers, scaling = report["workers"], report["scaling"]
    screen.print(f"run_id: {report['run']['run_id']}", soft_wrap=True)
    screen.print("Workers:")
    for tag, each in workers.items():
        counts = f"{each['started']} started, {each['removed']} removed, {each['final']} final"
        screen.print(f"  {tag}: {counts}", soft_wrap=True)
    if not workers:
        screen.print("  none")
    screen.print(f"Scaling events: {scaling['up']} scale-up, {scaling['down']} scale-down")
    section(screen, "Run")
    screen.print(Padding(facts(run_facts(report)), (0, 0, 0, 2)))
    show_decisions(screen, scaling["decisions"])
    show_sweeps(screen, report["sweeps"])
    show_tasks(screen, report["tasks"])
    show_fan_outs(screen, report)
    show_failures(screen, report["failures"])
    show_peaks(screen, report["peaks"])
    show_plan(screen, report["plan_vs_actual"])
    show_cost(screen, report["cost"], report["plan_vs_actual"])
    show_incidents(screen, report)
    show_remarks(screen, report)


def run_facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    run = report["run"]
    place = " on ".join(filter(None, (named(run.get("target")), named(run.get("host")))))
    pairs = [
        ("state", f"{run['state']}: {reason(report)}" if run["reason"] else run["state"]),
        ("started", moment(run["started"])),
        ("took", length(run["duration_s"])),
        ("project", named(run.get("project"))),
        ("target", f"{place} ({run['provider']})" if place and run.get("provider") else place),
        ("command", one_line(named(run.get("command")))),
        ("cost", paid(report["cost"])),
        ("hours", hours_line(report["hours"], over=True) if report["hours"] else ""),
    ]
    return [(name, text) for name, text in pairs if text]


def reason(report: Mapping[str, Any]) -> str:
    """Why the run ended as it did; what is listed below under its own title is not told here, too."""
    first = report["run"]["reason"].strip().partition("\n")[0]
    return one_line(first if report["failures"] else report["run"]["reason"]).rstrip(":")


def show_decisions(screen: Console, decisions: list[Mapping[str, Any]]) -> None:
    if not decisions:
        return
    section(screen, "Scaling")
    rows = [
        (clock(each["t"]), f"{'+' if each['direction'] == 'up' else '−'}{each['count']} {each['tag']}", one_line(each))
        for each in shortened(screen, decisions)
    ]
    show_table(screen, ("", "", ""), rows, indent=2)


def show_sweeps(screen: Console, sweeps: Mapping[str, Mapping[str, Any]]) -> None:
    if not sweeps:
        return
    section(screen, "Sweeps")
    rows: list[Sequence[Cell]] = []
    for name, each in sweeps.items():
        seconds = each["unit_seconds"]
        failed = Text(f"{each['failed']:,}", style="bold red" if each["failed"] else "")
        counts = (f"{each['expected']:,}", f"{each['there']:,}", f"{each['rows']:,}", failed, f"{each['units_done']:,}")
        took = f"{length(seconds['mean'])} × {seconds['measured']}" if seconds["measured"] else UNKNOWN
        cores = f"{each['cores']:.2g}" if each["cores"] is not None else UNKNOWN
        rows.append([Text(name, style="bold"), one_line(each["status"]), *counts, took, cores])
    columns = ("", "", ">rows", ">there", ">computed", ">failed", ">jobs", ">measured", ">cores")
    show_table(screen, columns, rows, indent=2)


def show_tasks(screen: Console, tasks: Mapping[str, Mapping[str, Any]]) -> None:
    worked = {tag: each for tag, each in tasks.items() if each["count"] or each["stopped"]}
    if not worked:
        return
    section(screen, "Tasks")
    recalled = any(each["recalled"] for each in worked.values())
    rows: list[Sequence[Cell]] = []
    for tag, each in worked.items():
        seconds = each["seconds"]
        busy = percent(each["busy_share"]) if each["busy_share"] is not None else UNKNOWN
        failed = Text(f"{each['failed']:,}", style="bold red" if each["failed"] else "")
        times = [length(seconds[name]) if seconds["mean"] is not None else UNKNOWN for name in ("p50", "p95", "total")]
        counts = (f"{each['count']:,}", *((f"{each['recalled']:,}",) if recalled else ()), failed)
        rows.append([Text(tag, style="bold"), *counts, f"{each['retries']:,}", *times, busy])
    cached = (">from the cache",) if recalled else ()
    columns = ("", ">ended", *cached, ">failed", ">retries", ">median", ">95 % within", ">together", ">busy")
    show_table(screen, columns, rows, indent=2)


def show_fan_outs(screen: Console, report: Mapping[str, Any]) -> None:
    if not report["fan_outs"]:
        return
    section(screen, "Tasks by axis")
    over = report["run"]["ended"] is not None
    for task, each in report["fan_outs"].items():
        lines = [(task, fan_out.in_words(each, over=over))]
        lines += [(f"  {axis}", counts) for axis, counts in fan_out.by_value(each)]
        screen.print(Padding(facts(lines), (0, 0, 0, 2)))


def show_failures(screen: Console, failures: list[Mapping[str, Any]]) -> None:
    if not failures:
        return
    section(screen, "Failed")
    rows = [
        (clock(failure["t"]), one_line(failure["task"]), one_line(failure["error"]))
        for failure in shortened(screen, failures)
    ]
    show_table(screen, ("", "", ""), rows, indent=2)


def show_peaks(screen: Console, peaks: Mapping[str, Mapping[str, Any]]) -> None:
    if not peaks:
        return
    section(screen, "Memory peaks")
    rows = []
    for tag, each in peaks.items():
        share = each["share"]
        part = Text(
            percent(share) if share is not None else UNKNOWN, style="bold yellow" if (share or 0) > TIGHT else ""
        )
        rows.append(
            (Text(tag, style="bold"), size(each["bytes"]), size(each["limit"]) or UNKNOWN, part, one_line(each["task"]))
        )
    show_table(screen, ("", ">peak", ">limit", ">used", "in"), rows, indent=2)


def show_plan(screen: Console, both: Mapping[str, Any] | None) -> None:
    if not both:
        return
    section(screen, "Plan against actual")
    rows = [(f"workers {tag}", str(each["planned"]), str(each["actual"])) for tag, each in both["workers"].items()]
    rows += [(f"tasks {tag}", f"{each['planned']:,}", f"{each['actual']:,}") for tag, each in both["tasks"].items()]
    if both["startup_s"]["actual"] is not None:
        rows.append(("start-up", length(both["startup_s"]["planned"]), length(both["startup_s"]["actual"])))
    rows.append(("time", length(both["wall_s"]["planned"]), length(both["wall_s"]["actual"])))
    rows += [(f"peak {tag}", size(each["planned"]), size(each["actual"])) for tag, each in both["peaks"].items()]
    if both["node_hours"]["planned"] and both["node_hours"]["actual"] is not None:
        rows.append(("machine-hours", hours(both["node_hours"]["planned"]), hours(both["node_hours"]["actual"])))
    rows += [
        (unit, hours_text((both["hours"]["planned"] or {}).get(unit, 0.0)), hours_text(both["hours"]["actual"][unit]))
        for unit in (CORE_HOURS, GPU_HOURS)
        if (both["hours"]["actual"] or {}).get(unit)
    ]
    rows.append(("cost", paid(both["cost"]["planned"]), paid(both["cost"]["actual"])))
    rows.append(("retries", str(both["retries"]["planned"]), str(both["retries"]["actual"])))
    known = [(name, planned or UNKNOWN, actual or UNKNOWN) for name, planned, actual in rows if planned or actual]
    show_table(screen, ("", ">planned", ">actual"), known, indent=2)
    if both["there"]:
        screen.print(note("·", f"planned for all rows; {both['there']:,} were there already", "dim"))


def show_incidents(screen: Console, report: Mapping[str, Any]) -> None:
    retries = report["retries"]
    never = {tag: each for tag, each in report["workers"].items() if each["requested"] or each["refused"]}
    if not (report["losses"] or retries["count"] or never or report["incidents"]):
        return
    section(screen, "Losses and retries")
    for tag, each in never.items():
        phrases = [f"{each['requested']} never joined"] if each["requested"] else []
        phrases += [f"{each['refused']} refused"] if each["refused"] else []
        screen.print(f"  {tag}: {', '.join(phrases)}")
    for cause, count in report["losses"].items():
        screen.print(f"  lost, {cause}: {count}")
    if retries["count"]:
        causes = ", ".join(f"{count} after {cause}" for cause, count in retries["by_cause"].items())
        screen.print(f"  retries: {causes}")
    rows = []
    for each in shortened(screen, report["incidents"]):
        what = " ".join(filter(None, (named(each["run"]), "on" if each["run"] else "", named(each["worker"]))))
        rows.append((clock(each["started"]), Text(each["kind"], style="yellow"), what, one_line(each["evidence"])))
    if rows:
        show_table(screen, ("", "", "", ""), rows, indent=2)


def show_remarks(screen: Console, report: Mapping[str, Any]) -> None:
    """Findings with what to do about them, then alerts, then what is missing in the journal itself."""
    failed = {f"{entry['task']}: {entry['error']}" for entry in report["failures"]}  # told above
    alerts = [entry for entry in report["alerts"] if entry.get("text") not in failed]
    alerts = [entry for entry in alerts if entry.get("alert") not in TOLD_OTHERWISE]
    if report["findings"] or alerts:
        section(screen, "Findings")
    for each in report["findings"]:
        screen.print(note("!", one_line(Finding.from_record(each)), "bold yellow"))
    for each in shortened(screen, alerts):
        over = "over: " if each.get("state") == "resolved" else ""
        screen.print(note("·", f"{clock(each['t'])}  {over}{one_line(each)}"))
    run = report["run"]
    if run["damaged_lines"] or run["torn"]:
        screen.print()
    if run["damaged_lines"]:
        screen.print(note("·", f"{plural(run['damaged_lines'], 'line')} of the journal could not be read", "dim"))
    if run["torn"]:
        screen.print(
            note("·", "the journal ends in the middle of a line: its writer was killed, or the disk was full", "dim")
        )


def section(screen: Console, title: str) -> None:
    screen.print()
    screen.print(title, style="bold")


def shortened(screen: Console, each: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the latest entries; says first how many more there are."""
    if len(each) > LISTED:
        screen.print(f"  … {len(each) - LISTED} earlier ones in --format json", style="dim")
    return each[-LISTED:]


def show_cost(screen: Console, cost: Mapping[str, Any] | None, both: Mapping[str, Any] | None) -> None:
    """Nothing where only a sum is known, which stands among the facts of the run."""
    if not cost or "pools" not in cost:
        return
    currency = cost["currency"]
    screen.print()
    screen.print("Cost", style="bold")
    if currency:
        show_table(screen, ("", ">", ""), bill(cost, currency, both), indent=2)
        screen.print()
    by_node = cost["basis"] != "workers"
    what = "nodes" if by_node else "workers"
    columns = ("", f">{what}", ">hours", *((">always there",) if by_node else ()), ">busy", ">cost")
    rows: list[Sequence[Cell]] = []
    for name, pool in cost["pools"].items():
        busy = percent(pool["busy_share"]) if pool["busy_share"] is not None else UNKNOWN
        standing = (hours(pool["standing_hours"]),) if by_node else ()
        amount = fine(pool["amount"], currency) if currency else UNKNOWN
        counts = (f"{pool['machines']:,}", hours(pool["hours"]), *standing)
        rows.append([Text(name, style="bold"), *counts, busy, amount])
    show_table(screen, columns, rows, indent=2)
    for text in cost["assumed"]:
        screen.print(note("·", text, "dim"))


def bill(cost: Mapping[str, Any], currency: str, both: Mapping[str, Any] | None) -> list[Sequence[Cell]]:
    rows, beside = cost["rows"], cost["unattributed"]
    planned = both["cost"]["planned"] if both else None
    notes = [f"planned {fine(planned['amount'], planned['currency'])}" if planned else ""]
    if cost["foreseen"]:
        notes.append(f"{fine(cost['foreseen'], currency)} of it until the last machine is gone")
    lines: list[Sequence[Cell]] = []
    if rows["count"]:
        each = f"{fine(rows['mean'], currency)} each, half of them up to {fine(rows['median'], currency)}"
        lines.append((plural(rows["count"], "row"), fine(rows["amount"], currency), each))
        lines.append(("  idle share", fine(rows["idle"], currency), "machines that waited between rows"))
        if rows["lost"]:
            lines.append(("  in vain", fine(rows["lost"], currency), "attempts that failed or were run again"))
        dearest = rows["dearest"][0]
        of = f"{dearest['sweep']}, {dearest['run']}" if dearest["sweep"] else dearest["run"]
        lines.append(("  dearest", fine(dearest["per_row"], currency), of))
    why = [f"{fine(beside[name], currency)} {text}" for name, text in BESIDE.items() if beside[name]]
    lines.append(("unattributed", fine(beside["amount"], currency), "; ".join(why)))
    total = ", ".join(filter(None, notes))
    lines.append((Text("bill", style="bold"), Text(fine(cost["amount"], currency), style="bold"), total))
    return lines
