"""How a decision looks in a notebook: one table, the reason under each variant."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalable.sweeps.decisions import Decision, Judgement, MetricResult

COLOURS = {"LOCK": "#1a7f37", "KEEP_AVAILABLE": "#9a6700", "ABANDON": "#cf222e"}  # readable on white and on dark
STANDING = {"better": COLOURS["LOCK"], "worse": COLOURS["ABANDON"], "open": "inherit"}


def decision_html(decision: Decision) -> str:
    there = f"{decision.finished} of {decision.expected} rows"
    state = "complete" if decision.complete else f"<b>incomplete</b>: {escape(decision.shortfall)}"
    title = f"<b>{escape(decision.sweep)}</b>, compared with {escape(str(decision.baseline))}: {there}, {state}"
    names = list(dict.fromkeys(each.metric.name for one in decision.variants for each in one.metrics))
    head = "".join(f"<th>{escape(name)}</th>" for name in ("variant", "verdict", *names))
    body = "".join(variant_html(one, names) for one in decision.variants)
    return f"<div>{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def variant_html(one: Judgement, names: list[str]) -> str:
    found = {each.metric.name: each for each in one.metrics}
    word = one.verdict.value
    cells = "".join(f"<td>{result_html(found.get(name))}</td>" for name in names)
    verdict = f'<td style="color:{COLOURS[word]}"><b>{word}</b></td>'
    why = "; ".join((one.reason, *one.remarks))
    row = f"<tr><td>{escape(str(one.variant))}</td>{verdict}{cells}</tr>"
    return f'{row}<tr><td></td><td colspan="{len(names) + 1}" style="text-align:left">{escape(why)}</td></tr>'


def result_html(result: MetricResult | None) -> str:
    if result is None:
        return "–"
    low, high = result.comparison.interval
    figures = f"{result.comparison.delta:+.3g}<br><small>[{low:+.2g}, {high:+.2g}]</small>"
    sure = f"<br><small>p {result.p_corrected:.2g}, d {result.comparison.effect:+.2f}</small>"
    return f'<span style="color:{STANDING[result.standing.value]}">{figures}{sure}</span>'
