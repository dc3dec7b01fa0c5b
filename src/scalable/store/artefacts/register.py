"""Who needs which artefacts in a folder, so that a collection leaves them alone.

Whoever uses artefacts writes a file with their keys and holds a lock on it, which the kernel gives up when the process
ends, however it ends. One lock excludes registering and removing: a sweep registers first and looks for artefacts then,
so what it found is either registered or was gone before. A collection lets go of that lock every second, so nobody
waits for it for long. Locks belong to processes and end when *any* handle of the file is closed in the same process, so
this process remembers its own registrations and never opens them again.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from scalable.store.artefacts.errors import trouble
from scalable.store.caching.claims import BUSY, claimed

ENDING = ".keys"
LONGEST_NAME = 60  # characters of a sweep's name in that of its file
BELIEVED_S = 86_400.0  # where files cannot be locked: how long a registration counts, as nobody knows who lives

OWN: dict[str, frozenset[str]] = {}
"""What this process registered, by file."""


class Register:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def using(self, name: str, keys: Iterable[str]) -> Iterator[None]:
        """Keep keys from being collected while within."""
        path = self.folder / f"{re.sub('[^A-Za-z0-9_-]', '-', name)[:LONGEST_NAME]}-{uuid4().hex[:8]}{ENDING}"
        needed = frozenset(keys)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.changing():
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                with suppress(OSError):  # where files cannot be locked, its age must do
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with os.fdopen(file, "w", encoding="ascii", closefd=False) as text:
                    text.write("".join(f"{key}\n" for key in sorted(needed)))
                OWN[str(path)] = needed
        except OSError as error:
            raise trouble("what is in use could not be registered", str(self.folder.parent), error) from error
        owner = os.getpid()
        try:
            yield
        finally:
            if os.getpid() == owner:  # a forked child that ends does not end its parent's registration
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            OWN.pop(str(path), None)
            os.close(file)

    @contextmanager
    def collecting(self) -> Iterator[set[str]]:
        """The keys in use; nobody registers others while within."""
        if not self.folder.parent.is_dir():
            yield set()
            return
        with self.changing():
            yield self.in_use()

    @contextmanager
    def changing(self) -> Iterator[None]:
        with claimed(self.folder / "lock", wait=True):
            yield

    def in_use(self) -> set[str]:
        needed: set[str] = set()
        for path in self.folder.glob(f"*{ENDING}"):
            needed |= OWN[str(path)] if str(path) in OWN else registered(path)
        return needed


def registered(path: Path) -> set[str]:
    """The keys another process registered, if it lives; what the dead left behind is removed."""
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
