"""The section about money: what the bill is made of, what a row cost, what no row can be charged with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable.observe.words import BESIDE, UNKNOWN, fine, hours, paid
from scalable.quantities import percent
from scalable.show.report.drawing import legend
from scalable.show.report.elements import Child, Markup, facts, figure, join, more, paragraph, table
from scalable.show.report.material import Material
from scalable.show.report.run_charts import bill_bar

COLOURS = {"tail": "muted", "unused": "c8", "without_rows": "c7"}
"""Of what is charged to no row."""
FAR = 5.0  # times the bill; a budget beyond that would make the picture one of the budget


def cost(found: Material) -> Markup | None:
    bill = found.report["cost"]
    if not bill or "pools" not in bill:
        return paragraph(f"Spent: {paid(bill)}.") if bill else None
    currency, dearest = bill["currency"], bill["rows"]["dearest"]
    parts: list[Child] = [picture(bill, found, currency), facts(bill_facts(bill, found, currency))] if currency else []
    parts.append(pools(bill))
    if currency and dearest:
        lines = [
            (one["run"], one["sweep"], one["rows"], fine(one["per_row"], currency), fine(one["lost"], currency))
            for one in dearest
        ]
        columns = ("work", "sweep", ">rows", ">a row", ">in vain")
        parts.append(more("The dearest rows", table("The dearest rows", columns, lines)))
    parts += [paragraph(words, class_="quiet") for words in bill["assumed"]]
    return join(parts)


def picture(bill: Mapping[str, Any], found: Material, currency: str) -> Markup | None:
    rows, beside, both = bill["rows"], bill["unattributed"], found.report["plan_vs_actual"]
    parts = [
        ("rows", rows["amount"] - rows["idle"] - rows["lost"], "c1"),
        ("machines that waited between rows", rows["idle"], "c6"),
        ("in vain", rows["lost"], "bad"),
        *((words, beside[name], COLOURS[name]) for name, words in BESIDE.items()),
    ]
    shown = [(f"{name} {fine(amount, currency)}", amount, kind) for name, amount, kind in parts if amount > 0]
    if not shown:
        return None
    marks = []
    for word, amount in (("planned", both["cost"]["planned"] if both else None), ("budget", found.budget)):
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
