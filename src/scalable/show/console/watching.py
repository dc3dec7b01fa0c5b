"""Who watches which run: a feed for each run that somebody watches, and the latest run for those who named none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from scalable.observe.folders import RunFolder, RunFolderError, UnknownRunError, age
from scalable.show.console.board import Board
from scalable.show.console.feed import Feed, Watcher, encode
from scalable.show.console.sections import empty

NOTHING = ""  # seen by who has heard that nothing has run
LATEST_EVERY_S = 1.0  # how often it is looked whether another run began


class Watching:
    """Everything here happens on the event loop."""

    def __init__(self, board: Board, pinned: str = "") -> None:
        self.board = board
        self.pinned = pinned
        """The run that is shown to those who name none; empty for the latest."""
        self.feeds: dict[str, Feed] = {}
        self.followers: dict[Watcher, str | None] = {}
        """Those who want the latest run, and which one each sees, as far as each has heard of any."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watched(self, run_id: str = "") -> AsyncIterator[Watcher]:
        """Raises ``UnknownRunError`` for a run that is not there."""
        watcher = Watcher()
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

    def move(self, watcher: Watcher, before: str | None, after: RunFolder) -> None:
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
        for watcher in {*self.followers, *(one for feed in self.feeds.values() for one in feed.watchers)}:
            watcher.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
