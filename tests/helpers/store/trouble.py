"""Real trouble for a store: files that may not grow, other writers, a full database, processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

NOBODY = 65534

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["scalable.store.sql", "psycopg", "tests.helpers.store.trouble", "tests.helpers.store.children"]
)


def prepare() -> None:
    """Start what children are forked from, here: it finds the tests from the folder it is started in."""
    forkserver.ensure_running()


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file of this process may grow beyond the size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def another_writer(path: Path) -> Iterator[None]:
    """Somebody else is in the middle of writing to the database."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@contextmanager
def no_more_pages() -> Iterator[None]:
    """Databases opened meanwhile may not grow: the database's own "database or disk is full"."""

    def connected(connection: Any, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")

    event.listen(Engine, "connect", connected)
    try:
        yield
    finally:
        event.remove(Engine, "connect", connected)


@contextmanager
def failures_counted() -> Iterator[list[str]]:
    found: list[str] = []

    def failed(context: Any) -> None:
        found.append(str(context.original_exception))

    event.listen(Engine, "handle_error", failed)
    try:
        yield found
    finally:
        event.remove(Engine, "handle_error", failed)


class Child:
    """A process that runs a function of ``tests.helpers.store.children`` and tells what it did through a pipe."""

    def __init__(self, function: Callable[..., None], *arguments: object) -> None:
        self._ear, mouth = processes.Pipe(duplex=False)
        self.process = processes.Process(target=function, args=(mouth, *arguments))
        self.process.start()
        mouth.close()

    def hear(self) -> Any:
        assert self._ear.poll(60), "the child says nothing"
        return self._ear.recv()

    def says_something(self, within_s: float) -> bool:
        return self._ear.poll(within_s)

    def kill(self) -> None:
        assert self.process.pid
        os.kill(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Whatever it does and whatever it still wants to say."""
        if self.process.is_alive():
            self.kill()
        self.process.join(60)
        self._ear.close()

    def last_words(self) -> list[Any]:
        """What it said until its end; its last word may be half."""
        said = []
        with suppress(EOFError, OSError):
            while True:
                said.append(self.hear())
        self.process.join(60)
        assert self.process.exitcode is not None
        self._ear.close()
        return said


def without_rights() -> None:
    """Be somebody whom files can be denied; root cannot be."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
