"""What sections share: a long list that is cut to what is worth reading, and one part for each sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scalable.show.report.elements import Child, Markup, join, more, table, tag
from scalable.show.report.results import SweepResults

LISTED = 20  # lines of a list on the page; the rest is folded away
MOST_LISTED = 200  # of which all are told, folded


def folded_table(
    found: Sequence[Mapping[str, Any]],
    row: Callable[[Mapping[str, Any]], Sequence[Child]],
    columns: Sequence[str],
    caption: str,
) -> Markup | None:
    """The latest on the page, earlier ones folded, and how many are left out if there are very many."""
    if not found:
        return None
    latest, earlier = found[-LISTED:], found[:-LISTED]
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
