"""The store of a run, seen from the console: what became of its dead letters, and results that shall count no longer.

Manifest and folder are those the run names, if the console was started in that folder. A store that is not there is not
made by looking for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scalable.errors import ScalableError
from scalable.observe import RunFolder
from scalable.store import Store, open_store
from scalable.store.marking import mark
from scalable.wording import plural


@contextmanager
def store_of(run: RunFolder) -> Iterator[Store]:
    from scalable.show.report.results import manifest_of, url_of  # takes a second, which no page shall wait for

    facts = run.facts()
    manifest, _ = manifest_of(run, facts)
    with open_store(url_of(manifest, facts)) as store:
        yield store


def dead_letters(run: RunFolder) -> int | None:
    """How many there are; nothing where that cannot be known."""
    try:
        with store_of(run) as store:
            return len(store.dead_letters())
    except (ScalableError, OSError):
        return None


def mark_failed(run: RunFolder, name: str, reason: str) -> str:
    with store_of(run) as store:
        done = mark(store, name, reason)
    follows = "the next run computes them again" if done.marked else "nothing changed"
    return f"{done}; {follows}"


def replay(run: RunFolder) -> str:
    with store_of(run) as store:
        letters = store.dead_letters()
        if not letters:
            return "there are no dead letters: the database took everything it was given"
        outcome = store.replay_dead_letters([letter.id for letter in letters])
    told = [f"{plural(outcome.replayed, 'dead letter')} stored"]
    if outcome.left:
        told.append(f"{plural(len(outcome.left), 'dead letter')} refused again: {outcome.left[0].reason}")
    if outcome.reason:
        told.append(f"the rest was not tried: {outcome.reason}")
    return "; ".join(told)
