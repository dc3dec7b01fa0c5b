"""Positions in a sweep's grid as short texts for the journal: ``0-99,120`` stands for a hundred rows and one more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

AXES = ("variant", "asset", "fold", "cost_bps")  # in this order; the position of the last one changes fastest


def spans(positions: Iterable[int]) -> str:
    """Positions as ranges."""
    parts: list[list[int]] = []
    for position in sorted(set(positions)):
        if parts and position == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], position]
        else:
            parts.append([position])
    return ",".join("-".join(map(str, part)) for part in parts)


def positions(spans: str, end: int) -> Iterator[int]:
    """The positions below ``end`` that a text stands for; what makes no sense in it is passed over."""
    for part in spans.split(","):
        first, _, last = part.partition("-")
        if is_position(first) and (not last or is_position(last)):
            yield from range(int(first), min(int(last or first) + 1, end))


def is_position(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
