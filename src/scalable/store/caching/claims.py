"""Claims: a result that somebody computes already is awaited, not computed twice.

A claim is a lock on the file ``<key>.part`` beside the result. The kernel gives it up when its process ends, however it
ends, so nobody waits for the dead. The result is written into the claimed file and renamed, which publishes it and ends
the claim at once. Locks belong to processes, not to threads; turns exclude the threads of one process. Where locks do
not work, on some network file systems, everyone computes for himself: that costs time but no result.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FIRST_PAUSE_S = 0.002
LONGEST_PAUSE_S = 0.1  # the most that a wait takes longer than what it waits for
MOST_ATTEMPTS = 100  # times that the folder may vanish between being made and being used
BUSY = (errno.EAGAIN, errno.EACCES)


@contextmanager
def claimed(part: Path, *, wait: bool) -> Iterator[int | None]:
    """Be the only one to compute a result; yields the open file to write it to, or nothing if that is not possible.

    Without ``wait`` nobody is waited for. A thread that asks for what it is computing itself is not made to wait.
    """
    name = str(part)
    if not TURNS.take(name, wait):
        yield None
        return
    try:
        file = locked(part, wait)
        try:
            yield file
        finally:
            if file is not None:
                if is_at(file, part):
                    part.unlink(missing_ok=True)
                os.close(file)
    finally:
        TURNS.end(name)


def locked(part: Path, wait: bool) -> int | None:
    pause = FIRST_PAUSE_S
    vanished = 0
    while vanished < MOST_ATTEMPTS:
        try:
            file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            vanished += 1
            try:
                part.parent.mkdir(parents=True, exist_ok=True)
            except OSError:
                return None
            continue
        except OSError:
            return None
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno not in BUSY or not wait:
                return None
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_PAUSE_S)
            continue
        if is_at(file, part):
            return file
        os.close(file)  # published or given up since it was opened
    return None


def is_at(file: int, path: Path) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False


class Turns:
    """Which thread of this process computes what."""

    def __init__(self) -> None:
        self.begin()
        os.register_at_fork(after_in_child=self.begin)  # a child has none of its parent's threads

    def begin(self) -> None:
        self.changed = threading.Condition()
        self.held: dict[str, int] = {}

    def take(self, name: str, wait: bool) -> bool:
        thread = threading.get_ident()
        with self.changed:
            while (holder := self.held.get(name)) is not None:
                if holder == thread or not wait:
                    return False
                self.changed.wait()
            self.held[name] = thread
        return True

    def end(self, name: str) -> None:
        with self.changed:
            self.held.pop(name, None)
            self.changed.notify_all()


TURNS = Turns()
