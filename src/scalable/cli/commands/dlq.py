"""``scalable admin dlq``: what the store's database refused for good, to be tried again or dropped.

Needs no session. Tries again only what is a dead letter; rows that merely wait for a database are in its outbox and
follow by themselves.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from scalable.cli import context
from scalable.cli.operating import agreed
from scalable.cli.output import console, errors, note, print_json, show_table
from scalable.errors import UsageError
from scalable.store import DeadLetter, ReplayOutcome
from scalable.store.json_values import from_json
from scalable.store.rows import with_axes
from scalable.wording import plural, undefined

SHORTEST = 4  # digits of an id that mean one letter as a rule
NAMES = ("name", "id", "kind", "run")


def run(options: argparse.Namespace) -> int:
    with context.opened_store(options) as store:
        if options.action == "list":
            return show(store.dead_letters(), options)
        ids = chosen(options, store.dead_letters())
        if options.action == "replay":
            return replayed(store.replay_dead_letters(ids), options)
        if not may_drop(options, ids):
            return 1
        dropped = store.drop_dead_letters(ids) if ids else 0
    if options.format == "json":
        print_json({"dropped": dropped})
    else:
        console().print(f"dropped {plural(dropped, 'dead letter')}")
    return 0


def chosen(options: argparse.Namespace, letters: Sequence[DeadLetter]) -> list[str]:
    """Return the ids that are meant, each by as many of its digits as it takes."""
    if options.all:
        if options.ids:
            raise UsageError("--all means every dead letter; leave out the ids, or --all")
        return [letter.id for letter in letters]
    if not options.ids:
        raise UsageError(f"which ones? write  scalable admin dlq {options.action} ID  or --all; … dlq list  shows them")
    letters_chosen = []
    for written in options.ids:
        alike = [letter.id for letter in letters if letter.id.startswith(written)]
        if not alike or (len(written) < SHORTEST and written not in alike):
            raise UsageError(undefined("dead letter", written, [letter.id for letter in letters]))
        if len(alike) > 1:
            raise UsageError(f"{written} begins {len(alike)} dead letters; write more of its digits")
        letters_chosen += alike
    return list(dict.fromkeys(letters_chosen))


def may_drop(options: argparse.Namespace, ids: Sequence[str]) -> bool:
    """Dropping loses results: a person at a terminal is asked, a script must have said it."""
    question = f"drop {plural(len(ids), 'dead letter')}? what is in them is lost"
    if agreed(question, options.yes or not ids, "what is dropped is lost; write --yes to drop it without being asked"):
        return True
    errors().print("nothing was dropped")
    return False


def show(letters: Sequence[DeadLetter], options: argparse.Namespace) -> int:
    if options.ids or options.all:
        raise UsageError("list shows all of them; leave out the ids and --all")
    if options.format == "json":
        print_json({"dead_letters": [asdict(letter) for letter in letters]})
        return 0
    screen = console()
    if not letters:
        screen.print("no dead letters: the database took everything it was given")
        return 0
    rows = [[each.id, when(each.written_at), each.kind, what(each), str(each.tries)] for each in letters]
    show_table(screen, ["id", "since (UTC)", "kind", "what", ">tries"], rows)
    reasons(screen, letters)
    screen.print()
    screen.print(
        "  once the cause is gone:  scalable admin dlq replay --all      to give up:  scalable admin dlq drop ID"
    )
    return 0


def replayed(outcome: ReplayOutcome, options: argparse.Namespace) -> int:
    if options.format == "json":
        print_json({**asdict(outcome), "left": [asdict(letter) for letter in outcome.left]})
    else:
        screen = console()
        screen.print(f"{plural(outcome.replayed, 'dead letter')} stored")
        if outcome.left:
            screen.print(f"{plural(len(outcome.left), 'dead letter')} refused again")
            reasons(screen, outcome.left)
        if outcome.reason:
            screen.print(f"the rest was not tried: {outcome.reason}", soft_wrap=True)
    return 1 if outcome.left or outcome.reason else 0


def reasons(screen: Console, letters: Sequence[DeadLetter]) -> None:
    for reason in dict.fromkeys(letter.reason for letter in letters):
        screen.print(note("·", reason))


def when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def what(letter: DeadLetter) -> str:
    """Return what the letter is about, as far as it can be read."""
    try:
        content: Any = from_json(letter.content)[letter.kind]
        if letter.kind == "row" and "axes" not in content:
            content = with_axes(content)  # written before rows had axes
    except (ValueError, KeyError, TypeError):
        return f"{letter.content[:50]} …"
    place = (content.get("axes") or {}).values()
    named = (content[name] for name in NAMES if content.get(name) is not None)
    return " ".join(str(each) for each in (content.get("sweep"), *place, *named) if each is not None)
