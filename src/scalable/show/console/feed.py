"""One run followed for all who watch it: its journal is read once, whoever watches, and only what is new in it.

Reading and folding happen in a thread; what came of it is handed to the watchers on the event loop. Each watcher keeps
the latest of every section until its page has taken it, so a slow one skips what is outdated and holds up nobody.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scalable.observe import RunFolder, RunView
from scalable.observe.liveness import Follower
from scalable.observe.sweep_progress import GridProgress
from scalable.show.console.sections import dead_letters, sections, use_memory

EVERY_S = 1.0  # how often a run is looked at: as often as a person can follow
OVER_EVERY_S = 5.0  # the same of one that is over
LINGERS_S = 10.0  # how long a run is followed that nobody watches: someone may reload the page
AT_ONCE = 20_000  # records taken in by one look; so many take a quarter of a second, and closing waits for that
CELLS = "cells"

logger = logging.getLogger("scalable")


@dataclass(frozen=True, slots=True)
class News:
    """What a look at a run found."""

    sections: dict[str, str]
    """All of them, encoded."""
    reshaped: bool
    """Whether a grid came, so that all are told anew."""
    cells: list[dict[str, Any]]
    over: bool


class PageWatcher:
    """One open page: what it has not been sent yet."""

    def __init__(self) -> None:
        self.pending: dict[str, str] = {}
        self.cells: dict[str, dict[int, str]] = {}
        """By sweep, the cells that changed since its grid was told."""
        self.resets = False
        self.closed = False
        self.news = asyncio.Event()

    def tell(self, name: str, data: str) -> None:
        if name == "grid":
            self.cells.clear()
        self.pending[name] = data
        self.news.set()

    def tell_cells(self, changes: list[dict[str, Any]]) -> None:
        for change in changes:
            self.cells.setdefault(change["sweep"], {}).update(change["changed"])
            self.news.set()

    def reset(self) -> None:
        """What was told is of another run."""
        self.pending.clear()
        self.cells.clear()
        self.resets = True
        self.news.set()

    def close(self) -> None:
        self.closed = True
        self.news.set()

    async def next(self, within_s: float) -> str:
        """Return the next events as they are sent; empty if nothing came in time."""
        if not await news_within(self.news, within_s):
            return ""
        messages = [("reset", "{}")] if self.resets else []
        messages += self.pending.items()
        for sweep, cells in self.cells.items():
            messages.append((CELLS, encode({"sweep": sweep, "changed": [*cells.items()]})))
        self.pending, self.cells, self.resets = {}, {}, False
        return "".join(f"event: {name}\ndata: {data}\n\n" for name, data in messages)


@dataclass(eq=False)
class Feed:
    run: RunFolder
    watchers: set[PageWatcher] = field(default_factory=set)
    sections: dict[str, str] = field(default_factory=dict)
    """As the watchers know them."""
    letters: int | None = None
    """Dead letters of the run's store, as far as known."""
    counted: int | None = None
    """How many rows had been set aside when they were counted."""
    counting: asyncio.Task[None] | None = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.follower = Follower(self.run)
        self.grids: dict[str, tuple[GridProgress, bytes]] = {}
        """By sweep, its grid and the letters it had at the last look."""

    @property
    def view(self) -> RunView:
        return self.follower.view

    def watch(self, watcher: PageWatcher) -> None:
        self.watchers.add(watcher)
        for name, data in self.sections.items():
            watcher.tell(name, data)

    async def follow(self, ended: Callable[[Feed], None]) -> None:
        """Until nobody has watched for a while."""
        alone_since: float | None = None
        try:
            while self.watchers or alone_since is None or time.monotonic() - alone_since < LINGERS_S:
                if (news := await asyncio.to_thread(self.look)) is None:
                    continue
                self.publish(news)
                if self.view.sweeps and self.counted != self.view.aside and self.counting is None:
                    self.counting = asyncio.create_task(self.count_letters())
                alone_since = None if self.watchers else alone_since or time.monotonic()
                await self.pause(OVER_EVERY_S if news.over else EVERY_S)
        except Exception:  # whoever watches must hear of it, by a stream that ends and is asked for again
            logger.exception("%s cannot be followed", self.run.run_id)
            for watcher in self.watchers:
                watcher.close()
        finally:
            ended(self)
            if self.counting is not None:
                self.counting.cancel()

    async def count_letters(self) -> None:
        """Ask the store, which may take long to answer; again when rows were set aside since."""
        self.counted = self.view.aside
        try:
            self.letters = await asyncio.to_thread(dead_letters, self.run)
        finally:
            self.counting = None
        self.woken.set()

    def recount(self) -> None:
        """Somebody did something about the dead letters."""
        self.counted = None
        self.woken.set()

    async def pause(self, seconds: float) -> None:
        await news_within(self.woken, seconds)

    def look(self) -> News | None:
        """Take in what was written since the last look. Called in a thread, never twice at once.

        Nothing comes of it before the journal is read to its end: by its first half, a run that ended well is gone.
        """
        if not self.follower.look(AT_ONCE):
            return None
        view, state = self.view, self.follower.state
        live = {} if state.over else self.run.live()
        use_memory(view, live)
        parts = sections(view, state, time.time(), live, self.run.run_id, self.follower.sign)
        parts["trouble"]["dead_letters"] = self.letters
        reshaped, cells = self.changed_cells(over=state.over)
        parts["grid"] = view.grids.to_list(over=state.over)
        return News({name: encode(section) for name, section in parts.items()}, reshaped, cells, state.over)

    def changed_cells(self, *, over: bool) -> tuple[bool, list[dict[str, Any]]]:
        """Return whether a grid came or went since the last call, and which cells of those that were there changed."""
        known = self.grids
        self.grids = {name: (grid, grid.letters(over=over)) for name, grid in self.view.grids.by_sweep.items()}
        same = known.keys() == self.grids.keys()
        if not same or any(known[name][0] is not grid for name, (grid, _) in self.grids.items()):
            return True, []
        changes = []
        for name, (_, letters) in self.grids.items():
            if letters != (before := known[name][1]):
                pairs = enumerate(zip(letters, before, strict=True))
                cells = [[at, chr(now)] for at, (now, then) in pairs if now != then]
                changes.append({"sweep": name, "changed": cells})
        return False, changes

    def publish(self, news: News) -> None:
        """Tell the watchers what differs from what they know."""
        for name, data in news.sections.items():
            known = self.sections.get(name)
            if known is None or (data != known and (name != "grid" or news.reshaped)):
                for watcher in self.watchers:
                    watcher.tell(name, data)
        if not news.reshaped:
            for watcher in self.watchers:
                watcher.tell_cells(news.cells)
        self.sections = news.sections


def encode(value: Any) -> str:
    """As JSON in one line, for a line is what an event's data is."""
    return json.dumps(value, separators=(",", ":"))


async def news_within(news: asyncio.Event, seconds: float) -> bool:
    """Wait for an event and clear it; return False if it does not come in time."""
    try:
        await asyncio.wait_for(news.wait(), seconds)
    except TimeoutError:
        return False
    news.clear()
    return True
