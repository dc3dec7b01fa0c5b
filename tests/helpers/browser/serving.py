"""The real console in a thread of this process, for pages that are opened in a real browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalable.show.console.guard import AccessGuard
from scalable.show.console.server import Options, serve

PATIENCE_S = 60.0  # an upper bound against hanging, not a measure


@contextmanager
def served(runs: Path, *, read_only: bool = False) -> Iterator[AccessGuard]:
    """Its guard gives out addresses."""
    loop = asyncio.new_event_loop()
    over = asyncio.Event()
    there = threading.Event()
    found: list[AccessGuard] = []

    def is_open(opened: asyncio.Future[AccessGuard]) -> None:
        found.append(opened.result())
        there.set()

    async def main() -> None:
        opened: asyncio.Future[AccessGuard] = loop.create_future()
        opened.add_done_callback(is_open)
        await serve(Options(port=0, read_only=read_only, runs=runs), opened, over)

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), name="console", daemon=True)
    thread.start()
    try:
        assert there.wait(PATIENCE_S) and found, "the console did not open"
        yield found[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE_S)
        if not thread.is_alive():
            loop.close()
