"""Values of a run in words for people, the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import floor, log10
from typing import Any

from scalable.machine_hours import CORE_HOURS, NODE_HOURS, UNITS, hours_text
from scalable.observe.fields import money, number
from scalable.quantities import Duration, Memory

TIGHT = 0.8  # above this part of its limit a peak is worth a colour
UNKNOWN = "–"
NOT_MEASURED = "not measured"  # a metric that is None in a finished row
SMALLEST = 0.0001  # of a currency; less is shown as less than this
BESIDE = {
    "tail": "after the last work on a machine",
    "unused": "machines without any work",
    "without_rows": "work that was stopped or is under way",
}
"""Why something is charged to no row."""


def one_line(value: object) -> str:
    """Return one line of text from what others wrote: a text, or the telling part of a record."""
    if isinstance(value, dict):
        value = value.get("reason") or value.get("text") or value.get("detail") or value.get("alert") or ""
    line = " ".join(str(value).split())
    return "".join(letter if letter.isprintable() else "�" for letter in line)


def step(run: Mapping[str, Any]) -> str:
    """Return how far a run is, such as ``trial 22/30``."""
    far, note = step_number(run), one_line(run.get("note") or "")
    return note if far and note.endswith(far) else f"{note} {far}".strip()  # a note may say it itself


def step_number(run: Mapping[str, Any]) -> str:
    """Return ``22/30``, or nothing if the run says no number."""
    done, of = number(run.get("step")), number(run.get("of"))
    return f"{done:g}{f'/{of:g}' if of is not None else ''}" if done is not None else ""


def named(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value or "")


def length(seconds: float | None) -> str:
    return str(Duration(max(0.0, seconds))) if seconds is not None else ""


def size(bytes_: int | None) -> str:
    return str(Memory(bytes_)) if bytes_ else ""


def paid(amount: object) -> str:
    amount_paid = money(amount)
    return str(amount_paid) if amount_paid is not None else ""


def fine(amount: float, currency: str) -> str:
    """Return money as it is worth telling: a row may cost a hundredth of a cent."""
    if not amount or amount >= 1:
        return f"{currency} {amount:.2f}"
    return f"{currency} {amount:.4f}" if amount >= SMALLEST else f"< {currency} {SMALLEST}"


def hours(count: float) -> str:
    return f"{count:.2f} h" if not count or count >= 0.1 else f"{count * 60:.2f} min"


def moment(when: float | None) -> str:
    return stamp(when, "%Y-%m-%d %H:%M:%S UTC")


def clock(when: float | None) -> str:
    return stamp(when, "%H:%M:%S")


def stamp(when: float | None, form: str) -> str:
    try:
        return datetime.fromtimestamp(when, UTC).strftime(form) if when is not None else ""
    except (ValueError, OverflowError, OSError):
        return ""


def measured(value: float | None) -> str:
    """Return a metric."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def metric_text(value: float | None) -> str:
    """Return a metric of a finished row, or a mean over such rows, for people."""
    return NOT_MEASURED if value is None else measured(value)


def decimals(size: float) -> int:
    """Return how many decimals give a number of this size two or three digits that say something."""
    return min(9, max(0, 1 - floor(log10(size)) + 1)) if size else 0


def probability(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def hours_line(hours: Mapping[str, Any], *, over: bool) -> str:
    """Return ``12.5 core-hours, 1.25 gpu-hours; 8 core-hours an hour; 487.5 of 500 core-hours left``.

    Node-hours are told where they are budgeted: other jobs may share the nodes.
    """
    budget, left = hours["budget"], hours["left"]
    unit = budget["unit"] if budget else CORE_HOURS
    units = [each for each in UNITS if hours["used"][each] and (each != NODE_HOURS or each == unit)]
    parts = [", ".join(f"{hours_text(hours['used'][each])} {each}" for each in units) or f"0 {unit}"]
    if not over and hours["per_hour"][unit]:
        parts.append(f"{hours_text(hours['per_hour'][unit])} {unit} an hour")
    if budget:
        parts.append(f"{hours_text(left['amount'])} of {hours_text(budget['amount'])} {unit} left")
    return "; ".join(parts)
