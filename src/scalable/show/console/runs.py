"""The runs there are, the latest first: each by the least that must be read to tell of it.

What is known of a run that is over is kept, for nothing about it changes; of one that runs, or has not written anything
yet, the beginning and end of its journal are read again. ``RunFeeds`` has the pages that are open and what they see.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from scalable.observe import RunState, RunView, read
from scalable.observe.fields import mapping, text
from scalable.observe.files import open_regular
from scalable.observe.folders import NAME, RunFolder, RunFolderError, UnknownRunError, age, read_json
from scalable.observe.journal import ending
from scalable.observe.liveness import state_in
from scalable.show.console.feed import Feed, PageWatcher, encode
from scalable.show.console.sections import empty

MOST_RUNS = 100
FIRST = 300  # records at the beginning of a journal in which its sweeps are looked for
UNREADABLE = "cannot be read"
OPEN = (  # what may change: a folder is empty in the first moment of its run, and who was lost may come back
    RunState.RUNNING.value,
    RunState.EMPTY.value,
    RunState.LOST.value,
)


class RunList:
    def __init__(self, base: Path | None = None) -> None:
        self.base = base
        self.known: dict[str, dict[str, Any]] = {}
        """Runs that are over."""

    def runs(self) -> list[dict[str, Any]]:
        folders, known = list(reversed(RunFolder.list(self.base)[-MOST_RUNS:])), self.known
        self.known = {run.run_id: known[run.run_id] for run in folders if run.run_id in known}
        return [self.entry_of(run) for run in folders]

    def entry_of(self, run: RunFolder) -> dict[str, Any]:
        if (known := self.known.get(run.run_id)) is not None:
            return known
        try:
            listing = reported(run) or looked_at(run)
            if listing["state"] == RunState.GONE.value:  # it may have said its end since its journal was read
                listing = reported(run) or looked_at(run)
        except OSError:  # another user's, in a folder that is shared
            return entry(run, {}, UNREADABLE, None, [])
        if listing["state"] not in OPEN:
            self.known[run.run_id] = listing
        return listing

    def latest(self) -> str:
        """Return the latest that runs, else the latest; empty if there is none that can be read."""
        runs = [listing for listing in self.runs() if listing["state"] != UNREADABLE]
        running = (listing for listing in runs if listing["state"] == RunState.RUNNING.value)
        chosen: Mapping[str, Any] = next(running, runs[0] if runs else {})
        return text(chosen.get("run_id"))

    def open(self, run_id: str) -> RunFolder:
        """Return a run by its id only: a path is no id, whatever it leads to."""
        if not NAME.fullmatch(run_id) or os.sep in run_id or "\0" in run_id:
            raise UnknownRunError(f"{run_id!r} is no id of a run; {RunFolder.known(self.base)}")
        run = RunFolder.open(run_id, self.base)
        try:
            open_regular(run.journal).close()
        except FileNotFoundError:
            pass  # it begins just now
        except OSError as error:
            raise RunFolderError(f"{run.journal} cannot be read: {error.strerror}") from None
        return run


def reported(run: RunFolder) -> dict[str, Any] | None:
    """From the report that a session writes when it ends."""
    report = read_json(run.report_file)
    facts = mapping(report.get("run"))
    if not text(facts.get("state")):
        return None
    return entry(run, facts, text(facts.get("state")), facts.get("started"), list(mapping(report.get("sweeps"))))


def looked_at(run: RunFolder) -> dict[str, Any]:
    view = RunView.of(islice(read(run.journal), FIRST))
    if not view.ended and (record := ending(run.journal)) is not None:
        view.take(record)
    facts = run.facts()
    state = state_in(run, view)
    return entry(run, view.started or facts, state.value, view.began or facts.get("t"), list(view.sweeps))


def entry(run: RunFolder, facts: Mapping[str, Any], state: str, began: object, sweeps: list[str]) -> dict[str, Any]:
    names = {name: facts.get(name) for name in ("project", "target")}
    return {"run_id": run.run_id, **names, "state": state, "started": began, "sweeps": sweeps}


NOTHING = ""  # seen by who has heard that nothing has run
LATEST_EVERY_S = 1.0  # how often it is looked whether another run began


class RunFeeds:
    """Everything here happens on the event loop."""

    def __init__(self, board: RunList, pinned: str = "") -> None:
        self.board = board
        self.pinned = pinned
        """The run that is shown to those who name none; empty for the latest."""
        self.feeds: dict[str, Feed] = {}
        self.followers: dict[PageWatcher, str | None] = {}
        """Those who want the latest run, and which one each sees, as far as each has heard of any."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watched(self, run_id: str = "") -> AsyncIterator[PageWatcher]:
        """Raises ``UnknownRunError`` for a run that is not there."""
        watcher = PageWatcher()
        wanted = run_id or self.pinned
        if wanted:
            self.feed(await asyncio.to_thread(self.board.open, wanted)).watch(watcher)
        try:
            if not wanted:
                self.followers[watcher] = None
                await self.show_latest()
                self.looking = self.looking or self.keep(self.look_for_latest())
            yield watcher
        finally:
            self.followers.pop(watcher, None)
            for feed in self.feeds.values():
                feed.watchers.discard(watcher)

    def feed(self, run: RunFolder) -> Feed:
        if run.run_id not in self.feeds:
            self.feeds[run.run_id] = feed = Feed(run)
            self.keep(feed.follow(self.forget))
        return self.feeds[run.run_id]

    def forget(self, feed: Feed) -> None:
        if self.feeds.get(feed.run.run_id) is feed:
            del self.feeds[feed.run.run_id]

    async def look_for_latest(self) -> None:
        try:
            while self.followers:
                await asyncio.sleep(LATEST_EVERY_S)
                with suppress(RunFolderError):  # who comes hears why the runs cannot be read; who is here stays
                    await self.show_latest()
        finally:
            self.looking = None

    async def show_latest(self) -> None:
        """Let those who want the latest run see it; from one that is seen it is gone on only to a later one."""
        latest = await asyncio.to_thread(self.board.latest)
        for watcher, seen in list(self.followers.items()):
            if not latest and seen is None:
                self.followers[watcher] = NOTHING
                watcher.tell("run", encode(empty(time.time())))
            elif latest and latest != seen and (not seen or age(latest) > age(seen)):
                with suppress(UnknownRunError):  # it was deleted just now
                    self.move(watcher, seen, self.board.open(latest))

    def move(self, watcher: PageWatcher, before: str | None, after: RunFolder) -> None:
        self.followers[watcher] = after.run_id
        if before in self.feeds:
            self.feeds[before].watchers.discard(watcher)
        if before is not None:
            watcher.reset()
        self.feed(after).watch(watcher)

    def keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def close(self) -> None:
        """End every stream and stop following."""
        for watcher in {
            *self.followers,
            *(open_watcher for feed in self.feeds.values() for open_watcher in feed.watchers),
        }:
            watcher.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
