"""The console's web server: the page's files, what is to be read, the stream of a run, and the one door for actions.

It listens on this machine only unless told otherwise; ``guard`` decides who may come in. Nothing here waits: files are
read and sessions asked in threads, so many pages can be open, and none holds up another.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scalable.errors import MissingExtraError, UsageError
from scalable.show.console.guard import AccessGuard
from scalable.show.console.runs import RunFeeds, RunList
from scalable.show.console.verdicts import Judging
from scalable.wording import install_hint

if TYPE_CHECKING:
    from scalable.show.console.connections import ConsoleServer

MOST_ASKING = 8  # actions that wait for their sessions' answers at once
BACKLOG = 128  # connections that wait to be taken


@dataclass(frozen=True, slots=True)
class Options:
    host: str = "127.0.0.1"
    port: int = 8788
    """0 for any that is free."""
    read_only: bool = False
    runs: Path | None = None
    """Where runs are recorded, if not where they are by default."""
    run_id: str = ""
    """The run to show; empty for the latest."""


class Console:
    """``open`` inside an event loop, then ``close``."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.board = RunList(options.runs)
        self.watching = RunFeeds(self.board, options.run_id)
        self.judging = Judging()
        self.askers = ThreadPoolExecutor(MOST_ASKING, "scalable-console-asking")
        self.closing = False
        self.guard: AccessGuard
        self.server: ConsoleServer

    async def open(self) -> AccessGuard:
        try:
            from scalable.show.console.connections import ConsoleServer
            from scalable.show.console.handlers import application
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"the console needs {error.name}; {install_hint('console')}") from None
        listening = bound(self.options.host, self.options.port)
        self.guard = AccessGuard(self.options.host, listening.getsockname()[1], self.options.read_only)
        self.server = ConsoleServer(application(self))
        self.server.accept_from(listening)
        return self.guard

    async def close(self) -> None:
        self.closing = True  # nobody waits for answers any more, or the process would
        self.server.stop()
        await self.watching.close()
        await self.judging.close()
        await self.server.close_all_connections()
        self.askers.shutdown(wait=False, cancel_futures=True)


def bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        listening.setblocking(False)
        return listening
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} on {host} is in use, by another console perhaps; write --port 0 for one that is free"
            ) from None
        if error.errno == errno.EACCES:
            raise UsageError(
                f"port {port} is not for everybody's use; write one above 1023, e.g. --port 8788"
            ) from None
        if error.errno == errno.EADDRNOTAVAIL or (error.errno or 0) < 0:  # names that cannot be found have such numbers
            raise UsageError(f"--host {host} is no address of this machine; write e.g. --host 127.0.0.1") from None
        raise


async def serve(options: Options, opened: asyncio.Future[AccessGuard], over: asyncio.Event) -> None:
    """Until ``over``; ``opened`` has the address once it can be opened."""
    console = Console(options)
    opened.set_result(await console.open())
    try:
        await over.wait()
    finally:
        await console.close()
