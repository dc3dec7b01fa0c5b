"""The part of ``scalable report`` about money: the bill, what a row cost, and what no row can be charged with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from scalable.cli.output import Cell, note, show_table
from scalable.observe.words import BESIDE, UNKNOWN, fine, hours
from scalable.quantities import percent
from scalable.wording import plural


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
    said = [f"planned {fine(planned['amount'], planned['currency'])}" if planned else ""]
    if cost["foreseen"]:
        said.append(f"{fine(cost['foreseen'], currency)} of it until the last machine is gone")
    told: list[Sequence[Cell]] = []
    if rows["count"]:
        each = f"{fine(rows['mean'], currency)} each, half of them up to {fine(rows['median'], currency)}"
        told.append((plural(rows["count"], "row"), fine(rows["amount"], currency), each))
        told.append(("  idle share", fine(rows["idle"], currency), "machines that waited between rows"))
        if rows["lost"]:
            told.append(("  in vain", fine(rows["lost"], currency), "attempts that failed or were run again"))
        dearest = rows["dearest"][0]
        of = f"{dearest['sweep']}, {dearest['run']}" if dearest["sweep"] else dearest["run"]
        told.append(("  dearest", fine(dearest["per_row"], currency), of))
    why = [f"{fine(beside[name], currency)} {text}" for name, text in BESIDE.items() if beside[name]]
    told.append(("unattributed", fine(beside["amount"], currency), "; ".join(why)))
    total = ", ".join(filter(None, said))
    told.append((Text("bill", style="bold"), Text(fine(cost["amount"], currency), style="bold"), total))
    return told
