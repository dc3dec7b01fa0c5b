"""The section about money: what the bill is made of, what a row cost, what no row can be charged with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable.quantities import percent
from scalable.reporting.drawing import legend
from scalable.reporting.elements import Child, Markup, facts, figure, join, more, paragraph, table
from scalable.reporting.material import Material
from scalable.reporting.run_charts import bill_bar
from scalable.reporting.words import BESIDE, UNKNOWN, fine, hours, paid


def cost(found: Material) -> Markup | None:
    bill, both = found.report["cost"], found.report["plan_vs_actual"]
    if not bill or "pools" not in bill:
        return paragraph(f"Spent: {paid(bill)}.") if bill else None
    currency, rows, beside = bill["currency"], bill["rows"], bill["unattributed"]
    parts: list[Child] = []
    if currency:
        planned = both["cost"]["planned"] if both else None
        marks = [(f"planned {paid(planned)}", planned["amount"])] if planned and planned["currency"] == currency else []
        if found.budget and found.budget["currency"] == currency:
            marks.append((f"budget {paid(found.budget)}", found.budget["amount"]))
        working = rows["amount"] - rows["idle"] - rows["lost"]
        kinds = [
            ("rows", working, "c1"),
            ("machines that waited between rows", rows["idle"], "c6"),
            ("in vain", rows["lost"], "bad"),
        ]
        kinds += [(words, beside[name], "muted") for name, words in BESIDE.items()]
        shown = [(f"{name} {fine(amount, currency)}", amount, kind) for name, amount, kind in kinds if amount > 0]
        if shown:
            parts.append(
                figure(
                    bill_bar(shown, marks),
                    f"The bill: {fine(bill['amount'], currency)}.",
                    legend([(name, kind) for name, _, kind in shown]),
                )
            )
        parts.append(facts(bill_facts(bill, found, currency)))
    by_node = bill["basis"] != "workers"
    lines = []
    for name, pool in bill["pools"].items():
        used = percent(pool["busy_share"]) if pool["busy_share"] is not None else UNKNOWN
        amount = fine(pool["amount"], currency) if currency else UNKNOWN
        lines.append(
            (
                name,
                f"{pool['machines']:,}",
                hours(pool["hours"]),
                hours(pool["standing_hours"]) if by_node else UNKNOWN,
                used,
                amount,
            )
        )
    columns = ("pool", ">nodes" if by_node else ">workers", ">hours", ">always there", ">busy", ">cost")
    parts.append(table("The bill by pool", columns, lines))
    if currency and rows["dearest"]:
        dearest = [
            (
                each["run"],
                each["sweep"],
                f"{each['rows']:,}",
                fine(each["per_row"], currency),
                fine(each["lost"], currency),
            )
            for each in rows["dearest"]
        ]
        parts.append(
            more(
                "The dearest rows", table("The dearest rows", ("work", "sweep", ">rows", ">a row", ">in vain"), dearest)
            )
        )
    parts += [paragraph(words, class_="quiet") for words in bill["assumed"]]
    return join(parts)


def bill_facts(bill: Mapping[str, Any], found: Material, currency: str) -> list[tuple[str, Child]]:
    rows, beside, both = bill["rows"], bill["unattributed"], found.report["plan_vs_actual"]
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
    if found.budget:
        pairs.append(("may be spent", paid(found.budget)))
    return pairs
