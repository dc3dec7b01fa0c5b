"""Claims and registrations in an object store: small objects that their holders renew until they are done.

Who holds one is judged by the store's own clock, or at once if it is a process of this machine, so nobody waits for the
dead for longer than ``EXPIRES_S``. An object is made only where none is; where a store cannot promise that, everyone
computes for himself, which costs time but no result. A collection holds a lease while it removes; a sweep writes what
it needs first and waits for that lease then, so it finds nothing that is about to go.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from scalable import proc

RENEW_S = 10.0
EXPIRES_S = 40.0  # three renewals may be late
USING_EXPIRES_S = 300.0  # a registration that lapses too early costs more than one that lapses late
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
LONGEST_NAME = 60
TIMES = ("LastModified", "mtime", "updated", "last_modified", "modified", "created")  # as the libraries call it


class Leases:
    def __init__(self, system: Any, root: str) -> None:
        self.system = system
        self.root = root
        self.folder = f"{root}/.using"
        self.ahead: float | None = None

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Be the only one who holds this name, as far as the store can promise it."""
        token = signature()
        pause = FIRST_PAUSE_S
        while not self.made(name, token):
            if not self.lives(name, EXPIRES_S):
                self.drop(name)
                continue
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_PAUSE_S)
        with self.renewed(name, token):
            try:
                yield
            finally:
                with suppress(Exception):  # what was computed is worth more: a lease that cannot be given up expires
                    if self.content(name) == token:
                        self.drop(name)

    @contextmanager
    def using(self, name: str, keys: frozenset[str]) -> Iterator[None]:
        own = f"{self.folder}/{re.sub('[^A-Za-z0-9_-]', '-', name)[:LONGEST_NAME]}-{uuid4().hex[:8]}"
        token = signature()

        def register() -> None:
            self.put(f"{own}.beat", token)
            self.put(f"{own}.keys", "\n".join(sorted(keys)).encode())

        register()
        try:
            with self.renewed(f"{own}.beat", token, register):
                while self.lives(self.marker, EXPIRES_S):
                    time.sleep(FIRST_PAUSE_S)
                yield
        finally:
            with suppress(Exception):  # it expires
                self.drop(f"{own}.keys")
                self.drop(f"{own}.beat")

    @contextmanager
    def collecting(self) -> Iterator[set[str]]:
        with self.held(self.marker):
            yield self.in_use()

    @property
    def marker(self) -> str:
        return f"{self.folder}/collecting"

    def in_use(self) -> set[str]:
        needed: set[str] = set()
        try:
            names = self.system.ls(self.folder, detail=False)
        except FileNotFoundError:
            return needed
        for name in names:
            if not name.endswith(".keys"):
                continue
            beat = f"{name.removesuffix('.keys')}.beat"
            if self.lives(beat, USING_EXPIRES_S):
                needed.update((self.content(name) or b"").decode("ascii").split())
            else:
                self.drop(name)
                self.drop(beat)
        return needed

    @contextmanager
    def renewed(self, name: str, token: bytes, again: Callable[[], None] | None = None) -> Iterator[None]:
        """Renew a lease while within; one that lapsed and was taken is given up, or registered ``again``."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(RENEW_S):
                with suppress(Exception):  # a store that does not answer now may answer the next time
                    if self.content(name) == token:
                        self.put(name, token)
                    elif again is not None:
                        again()

        renewer = threading.Thread(target=renew, name="scalable-lease", daemon=True)
        renewer.start()
        try:
            yield
        finally:
            done.set()
            renewer.join()

    def lives(self, name: str, expires_s: float) -> bool:
        content = self.content(name)
        if content is None or is_dead(content):
            return False
        try:
            return self.now() - self.modified(name) < expires_s
        except FileNotFoundError:
            return False

    def made(self, name: str, content: bytes) -> bool:
        try:
            self.system.pipe_file(name, content, mode="create")
        except FileExistsError:
            return False
        except NotImplementedError:
            self.put(name, content)
        return True

    def put(self, name: str, content: bytes) -> None:
        self.system.pipe_file(name, content)

    def content(self, name: str) -> bytes | None:
        try:
            content: bytes = self.system.cat_file(name)
        except FileNotFoundError:
            return None
        return content

    def drop(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self.system.rm_file(name)

    def now(self) -> float:
        """The store's time, which is not this machine's: as it stamped an object that was just written."""
        if self.ahead is None:
            name = f"{self.folder}/clock-{uuid4().hex}"
            self.put(name, b"")
            self.ahead = self.modified(name) - time.monotonic()
            self.drop(name)
        return self.ahead + time.monotonic()

    def modified(self, name: str, info: Mapping[str, Any] | None = None) -> float:
        known = info if info is not None else self.system.info(name)
        for field in TIMES:
            if (value := known.get(field)) is not None:
                return seconds(value)
        return seconds(self.system.modified(name))


def seconds(value: Any) -> float:
    """A time as any library tells it, in seconds since 1970."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return float(value)


def signature() -> bytes:
    """Who holds a lease, so that others on this machine can see whether it lives."""
    own = proc.look(os.getpid())
    facts = {"id": uuid4().hex, "machine": proc.machine(), "pid": os.getpid(), "started": own.started if own else 0}
    return json.dumps(facts).encode()


def is_dead(content: bytes) -> bool:
    """Whether the holder is known to be gone; one on another machine is not known of."""
    try:
        facts = json.loads(content)
        if not proc.machine() or facts["machine"] != proc.machine():
            return False
        process = proc.look(int(facts["pid"]))
        return process is None or not process.alive or process.started != facts["started"]
    except (ValueError, KeyError, TypeError):
        return False
