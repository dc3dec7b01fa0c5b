"""Words for numbers, values and names in messages, and names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

UNPRINTABLE = 10**18  # Python refuses to print numbers of thousands of digits, and nobody wants to read them
LONGEST = 60  # characters of a value that fit into a message
MOST_LISTED = 20  # names in a message
MOST_COMPARED = 2000  # names looked at for one alike, which takes a tenth of a second


def plural(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("ry"):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def some_of(names: Iterable[str], most: int = MOST_LISTED) -> str:
    """The first of some names as one text, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return f"{', '.join(known[:most])}{more}"


def shown(value: object) -> str:
    """A value as a person wrote it, cut to a length that fits a message."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif value is None:
        text = "nothing"
    elif isinstance(value, int) and abs(value) > UNPRINTABLE:
        text = "a number over 10^18"
    else:
        text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def file_name(text: str, longest: int, also: str = "") -> str:
    """Return a text as part of a file's name: ASCII letters, digits, ``_``, ``-`` and what ``also`` may stay."""
    return re.sub(f"[^A-Za-z0-9_{also}-]", "-", text)[:longest]


def worth_listing(name: str, known: Iterable[str]) -> list[str]:
    """Of very many names those to offer instead of one that nothing has: the ones alike, and some."""
    names = sorted(known)
    alike = get_close_matches(str(name), names[:MOST_COMPARED], n=3)
    return [*dict.fromkeys([*alike, *names[:MOST_LISTED]])]


def not_defined(noun: str, name: str, known: Iterable[str]) -> tuple[str, str]:
    """What to say of a name that nothing has: the names there are, and the nearest to write instead."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1)
    listed = f"; known: {', '.join(names)}" if names else ""
    remedy = f"write {near[0]}" if near else f"choose one of {', '.join(names)}" if names else f"define a {noun} first"
    return f"{noun} {name!r} is not defined{listed}", remedy


def undefined(noun: str, name: str, known: Iterable[str]) -> str:
    """The same in one sentence that names those there are once, of very many those worth listing."""
    offered = worth_listing(name, known)
    said, remedy = not_defined(noun, name, offered)
    return said if remedy.startswith("choose") else f"{said}; {remedy}" if offered else f"no {noun} is called {name!r}"
