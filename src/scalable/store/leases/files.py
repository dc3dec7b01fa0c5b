"""Leases in files: locks that the kernel gives up when their process ends, however it ends.

A claim on a result is a lock on the file ``<key>.part`` beside it. The result is written into the locked file and
renamed, which publishes it and ends the claim at once. Locks belong to processes, not to threads, so ``TURNS`` excludes
the threads of one process.

A registration is a locked file with the keys that its process uses. One lock excludes registering and collecting: a
sweep registers first and looks for artefacts then, so what it found is either registered or was gone before. Locks end
when *any* handle of their file is closed in the same process, so ``OWN`` remembers the registrations of this process,
which are never opened again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from scalable.store.leases import LONGEST_NAME, held
from scalable.wording import file_name

PAUSES_S = (0.002, 0.1)  # the second is the most that a wait takes longer than what it waits for
MOST_ATTEMPTS = 100  # times that the folder may vanish between being made and being used
BUSY = (errno.EAGAIN, errno.EACCES)
KEYS = ".keys"  # ending of registrations
LOCK = "lock"  # excludes registering and collecting
BELIEVED_S = 86_400.0  # where files cannot be locked: how long a registration counts, as nobody knows who lives


@contextmanager
def file_lease(path: Path, *, wait: bool) -> Iterator[int | None]:
    """Hold the lock of a file while within; yields the open file, or None if nobody can be excluded by it.

    That is where files cannot be locked, within the same thread's lease of the same file and, without ``wait``, while
    somebody else has it.
    """
    claim = FileClaim(path)
    with held(claim, wait=wait):
        yield claim.file


class FileClaim:
    """A claim on a file's lock. The file is made, and removed with the lease unless it was renamed."""

    beat_every_s = None
    pauses_s = PAUSES_S

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: int | None = None
        self.has_turn = False

    def take(self) -> bool:
        name = str(self.path)
        if not self.has_turn:
            if TURNS.holder(name) == threading.get_ident():
                return True  # a thread that asks for what it does itself is not made to wait
            self.has_turn = TURNS.take(name)
        return self.has_turn and self.lock()

    def lock(self) -> bool:
        """Lock the file; True as well where that cannot be done and nobody needs to be waited for."""
        vanished = 0
        while vanished < MOST_ATTEMPTS:
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except FileNotFoundError:
                vanished += 1
                try:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                except OSError:
                    return True
                continue
            except OSError:
                return True
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(file)
                return error.errno not in BUSY
            if is_at(file, self.path):
                self.file = file
                return True
            os.close(file)  # published or given up since it was opened
        return True

    def beat(self) -> bool:
        return self.file is not None and is_at(self.file, self.path)

    def release(self) -> None:
        file, self.file = self.file, None
        try:
            if file is not None and is_at(file, self.path):
                self.path.unlink(missing_ok=True)
        finally:
            if file is not None:
                os.close(file)
            if self.has_turn:
                self.has_turn = False
                TURNS.end(str(self.path))


def is_at(file: int, path: Path) -> bool:
    """Return whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False


class Turns:
    """The thread of this process that has each lock."""

    def __init__(self) -> None:
        self.begin()
        os.register_at_fork(after_in_child=self.begin)  # a child has none of its parent's threads

    def begin(self) -> None:
        self.held: dict[str, int] = {}

    def holder(self, name: str) -> int | None:
        return self.held.get(name)

    def take(self, name: str) -> bool:
        thread = threading.get_ident()
        return self.held.setdefault(name, thread) == thread

    def end(self, name: str) -> None:
        self.held.pop(name, None)


TURNS = Turns()


class FileRegistration:
    """A registration of keys in a folder; ``name`` says to people who uses them."""

    beat_every_s = None
    pauses_s = PAUSES_S

    def __init__(self, folder: Path, name: str, keys: frozenset[str]) -> None:
        self.path = folder / f"{file_name(name, LONGEST_NAME)}-{uuid4().hex[:8]}{KEYS}"
        self.keys = keys
        self.file: int | None = None
        self.process = os.getpid()

    def take(self) -> bool:
        """Register unless a collection is at work; raise OSError if the folder cannot be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with held(FileClaim(self.path.parent / LOCK), wait=False) as free:
            if not free:
                return False
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            with suppress(OSError):  # where files cannot be locked, its age must do
                fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with os.fdopen(self.file, "w", encoding="ascii", closefd=False) as text:
                text.write("".join(f"{key}\n" for key in sorted(self.keys)))
            OWN[str(self.path)] = self.keys
        return True

    def beat(self) -> bool:
        return self.file is not None

    def release(self) -> None:
        file, self.file = self.file, None
        if file is None:
            return
        if os.getpid() == self.process:  # a forked child that ends does not end its parent's registration
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
        OWN.pop(str(self.path), None)
        os.close(file)


OWN: dict[str, frozenset[str]] = {}
"""What this process registered, by file."""


@contextmanager
def collecting(folder: Path) -> Iterator[set[str]]:
    """Yield the keys that are registered in a folder; nobody registers others while within."""
    with file_lease(folder / LOCK, wait=True):
        needed: set[str] = set()
        for path in folder.glob(f"*{KEYS}"):
            needed |= OWN[str(path)] if str(path) in OWN else registered(path)
        yield needed


def registered(path: Path) -> set[str]:
    """Return the keys another process registered, if it lives; what the dead left behind is removed."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return set()
    with os.fdopen(file, encoding="ascii") as text:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            lives = False
        except OSError as error:
            lives = error.errno in BUSY or time.time() - path.stat().st_mtime < BELIEVED_S
        if lives:
            return set(text.read().split())
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return set()
