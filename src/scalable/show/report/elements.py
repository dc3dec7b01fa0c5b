"""Markup from plain values. Whatever is not ``Markup`` already is text: its secrets are hidden, then it is escaped.

So there is one place through which names, errors and log lines of others come onto a page, and none around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from scalable.observe.redact import redact_text

if TYPE_CHECKING:
    from scalable.show.report.material import SweepResults

VOID = frozenset({"meta", "br", "path", "line", "rect", "circle", "polygon"})
KEPT = "\n\t"  # of what is no printable character; the rest, such as a terminal's commands, is shown as a mark


class Markup(str):
    """Text that is markup and stands as it is."""

    __slots__ = ()


Child = str | float | None | Iterable["Child"]
Cell = Child


def escaped(value: str | float) -> Markup:
    if isinstance(value, Markup):
        return value
    if not isinstance(value, str):
        return Markup(coordinate(value))
    plain = (
        value
        if value.isprintable()
        else "".join(letter if letter.isprintable() or letter in KEPT else "�" for letter in value)
    )
    return Markup(escape(redact_text(plain)))


def coordinate(value: float) -> str:
    """Return a coordinate or a count: a tenth of a pixel is all that can be seen."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def join(children: Iterable[Child]) -> Markup:
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        parts.append(escaped(child) if isinstance(child, str | int | float) else join(child))
    return Markup("".join(parts))


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Return an element.

    ``class_`` is the attribute ``class``, ``stroke_width`` is ``stroke-width``; None leaves one out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def table(
    caption: Child, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, class_: str | None = None
) -> Markup:
    """Columns whose name begins with ``>`` hold figures; the first cell of a row names it."""
    figures = [name.startswith(">") for name in columns]
    head = [
        tag("th", name.removeprefix(">"), scope="col", class_="figure" if right else None)
        for name, right in zip(columns, figures, strict=True)
    ]
    body = []
    for row in rows:
        cells = [
            tag("td" if at else "th", cell, scope=None if at else "row", class_="figure" if right else None)
            for at, (cell, right) in enumerate(zip(row, figures, strict=True))
        ]
        body.append(tag("tr", cells))
    parts = (tag("caption", caption), tag("thead", tag("tr", head)), tag("tbody", body))
    return tag("div", tag("table", parts, class_=class_), class_="wide", tabindex=0, role="region", aria_label="table")


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Names with values; those without a value are left out."""
    return tag(
        "dl", (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs if value not in ("", None))
    )


def more(summary: str, *children: Child) -> Markup:
    """Return what only some will look at: folded on a screen, left out on paper."""
    return tag("details", tag("summary", summary), children, class_="more")


def chip(word: str, kind: str = "") -> Markup:
    return tag("span", word, class_=f"chip {kind}".strip())


def paragraph(*children: Child, class_: str | None = None) -> Markup:
    return tag("p", children, class_=class_)


def figure(picture: Markup, caption: Child, *below: Child) -> Markup:
    return tag("figure", picture, tag("figcaption", caption), below)


LISTED = 20  # lines of a list on the page; the rest is folded away
MOST_LISTED = 200  # of which all are told, folded


def folded_table(
    entries: Sequence[Mapping[str, Any]],
    row: Callable[[Mapping[str, Any]], Sequence[Child]],
    columns: Sequence[str],
    caption: str,
) -> Markup | None:
    """Return the latest on the page, earlier ones folded, and how many are left out if there are very many."""
    if not entries:
        return None
    latest, earlier = entries[-LISTED:], entries[:-LISTED]
    kept = earlier[-MOST_LISTED:]
    title = f"{caption}; the latest {LISTED}" if earlier else caption
    before = f"{len(kept)} earlier ones" if len(kept) == len(earlier) else f"{len(kept)} of {len(earlier)} earlier ones"
    return join(
        [
            table(title, columns, map(row, latest)),
            more(before, table(before, columns, map(row, kept))) if kept else None,
        ]
    )


def by_sweep(results: Sequence[SweepResults], part: Callable[[SweepResults], Markup | None]) -> Markup | None:
    """One part below the other, with their names if there are several sweeps; nothing if none has anything to say."""
    made = [(each.sweep, content) for each in results if (content := part(each))]
    named = len(results) > 1
    return join((tag("h3", sweep) if named else None, content) for sweep, content in made) if made else None


def sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."
