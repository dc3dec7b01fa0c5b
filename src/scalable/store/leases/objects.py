"""Leases in an object store: small objects that their holders renew until they are done.

Who holds one is judged by the store's own clock, or at once if it is a process of this machine, so nobody waits for the
dead for longer than ``EXPIRES_S``. An object is made only where none is; where a store cannot promise that, everyone
computes for himself, which costs time but no result. A collection holds a lease while it removes; a sweep registers
what it needs first and waits for that lease then, so it finds nothing that is about to go.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from scalable import proc
from scalable.store.leases import LONGEST_NAME, held
from scalable.wording import file_name

RENEW_S = 10.0
EXPIRES_S = 40.0  # three renewals may be late
USING_EXPIRES_S = 300.0  # a registration that lapses too early costs more than one that lapses late
PAUSES_S = (0.05, 2.0)  # the second is the most that a wait takes longer than what it waits for
TIMES = ("LastModified", "mtime", "updated", "last_modified", "modified", "created")  # as the libraries call it


class ObjectLeases:
    """The leases below ``root`` in an fsspec file system."""

    def __init__(self, system: Any, root: str) -> None:
        self.system = system
        self.folder = f"{root}/.using"
        self.marker = f"{self.folder}/collecting"
        self.ahead: float | None = None

    def ask(self, name: str) -> ObjectClaim:
        return ObjectClaim(self, name)

    def register(self, name: str, keys: frozenset[str]) -> ObjectRegistration:
        return ObjectRegistration(self, name, keys)

    @contextmanager
    def collecting(self) -> Iterator[set[str]]:
        """Yield the keys that are registered; nobody registers others while within."""
        with held(self.ask(self.marker)):
            yield self.in_use()

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

    def lives(self, name: str, expires_s: float) -> bool:
        content = self.content(name)
        if content is None or is_dead(content):
            return False
        try:
            return self.now() - self.modified(name) < expires_s
        except FileNotFoundError:
            return False

    def create(self, name: str, content: bytes) -> bool:
        """Put an object where none is; return whether there was none, as far as the store can tell."""
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
        """Return the store's time, which is not this machine's: as it stamped an object that was just written."""
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


class ObjectClaim:
    """A claim on the object of this name. One that lapsed and was taken by another is not taken back."""

    pauses_s = PAUSES_S

    def __init__(self, leases: ObjectLeases, name: str) -> None:
        self.leases = leases
        self.name = name
        self.signature = signature()
        self.taken = False

    @property
    def beat_every_s(self) -> float:
        return RENEW_S

    def take(self) -> bool:
        while not self.leases.create(self.name, self.signature):
            if self.leases.lives(self.name, EXPIRES_S):
                return False
            self.leases.drop(self.name)
        self.taken = True
        return True

    def beat(self) -> bool:
        if self.leases.content(self.name) != self.signature:
            return False
        self.leases.put(self.name, self.signature)
        return True

    def release(self) -> None:
        if self.taken and self.leases.content(self.name) == self.signature:
            self.leases.drop(self.name)
        self.taken = False


class ObjectRegistration:
    """A registration of keys. One that lapsed is made again."""

    pauses_s = (PAUSES_S[0], PAUSES_S[0])  # a collection lets others register every second

    def __init__(self, leases: ObjectLeases, name: str, keys: frozenset[str]) -> None:
        own = f"{leases.folder}/{file_name(name, LONGEST_NAME)}-{uuid4().hex[:8]}"
        self.leases = leases
        self.objects = {
            f"{own}.beat": signature(),
            f"{own}.keys": "\n".join(sorted(keys)).encode(),
        }
        self.registered = False

    @property
    def beat_every_s(self) -> float:
        return RENEW_S

    def take(self) -> bool:
        """Register, which counts at once; False while a collection that may not have seen it is at work."""
        if not self.registered:
            self.registered = True
            self.register()
        return not self.leases.lives(self.leases.marker, EXPIRES_S)

    def register(self) -> None:
        for name, content in self.objects.items():
            self.leases.put(name, content)

    def beat(self) -> bool:
        beat, content = next(iter(self.objects.items()))
        if self.leases.content(beat) == content:
            self.leases.put(beat, content)
        else:
            self.register()
        return True

    def release(self) -> None:
        if self.registered:
            self.registered = False
            for name in reversed(self.objects):
                self.leases.drop(name)


def seconds(value: Any) -> float:
    """Return a time as any library tells it in seconds since 1970."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return float(value)


def signature() -> bytes:
    """Return who holds a lease, so that others on this machine can see whether it lives."""
    own = proc.look(os.getpid())
    facts = {"id": uuid4().hex, "machine": proc.machine(), "pid": os.getpid(), "started": own.started if own else 0}
    return json.dumps(facts).encode()


def is_dead(content: bytes) -> bool:
    """Return whether the holder is known to be gone; one on another machine is not known of."""
    try:
        facts = json.loads(content)
        if not proc.machine() or facts["machine"] != proc.machine():
            return False
        process = proc.look(int(facts["pid"]))
        return process is None or not process.alive or process.started != facts["started"]
    except (ValueError, KeyError, TypeError):
        return False
