"""Words for numbers, values and names in messages, and names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution

UNPRINTABLE = 10**18  # Python refuses to print numbers of thousands of digits, and nobody wants to read them
LONGEST = 60  # characters of a value that fit into a message
MOST_LISTED = 20  # names in a message
MOST_COMPARED = 2000  # names looked at for one alike, which takes a tenth of a second
DISTRIBUTION = "scalable-sweeps"  # what is installed; its import name is shorter
SOURCE = Path(__file__).parents[2]  # where a clone has its pyproject.toml
PLACE: dict[str, str] = {}
"""Options with which this process was told what manifest, target and overlay are meant; suggestions repeat them."""
OF_A_TARGET = frozenset({"plan", "run", "results", "decide", "lock", "ledger", "validate", "doctor"})
"""Commands that take a target and an overlay beside the manifest."""


def command(name: str, *words: object) -> str:
    """Return a command to suggest, quoted for a shell, that means the same project as the present one."""
    place = [
        part
        for option, value in PLACE.items()
        if option == "--manifest" or name in OF_A_TARGET
        for part in (option, value)
    ]
    return " ".join(["scalable", name, *(quote(str(word)) for word in (*words, *place))])


def own_distribution() -> Distribution | None:
    """Return what is installed of this package, also under the name it had before; None if it is only on a path."""
    from importlib.metadata import PackageNotFoundError, distribution  # takes longer to import than all the rest

    for name in (DISTRIBUTION, "scalable"):
        with suppress(PackageNotFoundError):
            return distribution(name)
    return None


def install_hint(extra: str = "", pip: str = "pip") -> str:
    """Return what to type to install this package with an extra; it is had as a clone, not from an index."""
    wanted = f"[{extra}]" if extra else ""
    if (SOURCE / "pyproject.toml").is_file():
        return f"write  {pip} install -e {quote(f'{SOURCE}{wanted}')}"
    return f"write  {pip} install -e {quote(f'.{wanted}')}  in a clone of the project"


def plural(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("ry"):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def some_of(names: Iterable[str], most: int = MOST_LISTED) -> str:
    """Return the first of some names as one text, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return f"{', '.join(known[:most])}{more}"


def shown(value: object) -> str:
    """Return a value as a person wrote it, cut to a length that fits a message."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif value is None:
        text = "nothing"
    elif isinstance(value, int) and abs(value) > UNPRINTABLE:
        text = "a number over 10^18"
    else:
        text = repr(value) if isinstance(value, str) else str(value)
    return shortened(text, LONGEST)


def shortened(text: str, longest: int) -> str:
    """Return a text of at most ``longest`` characters; an ellipsis stands for what was cut off.

    >>> shortened("calibration", 6)
    'calib…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def file_name(text: str, longest: int, also: str = "") -> str:
    """Return a text as part of a file's name: ASCII letters, digits, ``_``, ``-`` and what ``also`` may stay."""
    return re.sub(f"[^A-Za-z0-9_{also}-]", "-", text)[:longest]


def worth_listing(name: str, known: Iterable[str]) -> list[str]:
    """Return which of very many names to offer instead of an unknown one: those alike, and some more."""
    names = sorted(known)
    alike = get_close_matches(str(name), names[:MOST_COMPARED], n=3)
    return [*dict.fromkeys([*alike, *names[:MOST_LISTED]])]


def not_defined(noun: str, name: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the message about an unknown name with the names there are, and the nearest to write instead."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1)
    listed = f"; known: {', '.join(names)}" if names else ""
    remedy = f"write {near[0]}" if near else f"choose one of {', '.join(names)}" if names else f"define a {noun} first"
    return f"{noun} {name!r} is not defined{listed}", remedy


def undefined(noun: str, name: str, known: Iterable[str]) -> str:
    """Return message and remedy in one sentence, which names the known names once, or those worth listing."""
    offered = worth_listing(name, known)
    problem, remedy = not_defined(noun, name, offered)
    return (
        problem
        if remedy.startswith("choose")
        else f"{problem}; {remedy}"
        if offered
        else f"no {noun} is called {name!r}"
    )
