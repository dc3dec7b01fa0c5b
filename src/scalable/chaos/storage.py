"""Faults of storage: a store that cannot be written for a while, a disk that is full.

Both undo themselves even if this process is killed: a lock ends with its connection, and the balloon that fills a disk
is a file without a name.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from scalable.chaos.errors import ChaosError
from scalable.chaos.victims import Processes, environment
from scalable.manifest import load_file
from scalable.observe import RunFolder
from scalable.quantities import Memory
from scalable.store.urls import file_of, rooted

LARGEST_BALLOON = Memory.parse("10GiB")  # more is a mistake more often than a wish, and takes long to write
LEAST_FREE = Memory.parse("16MiB")  # with less, the machine itself may not be able to recover
STEP = 256 << 20  # bytes allocated at once, so that an interruption is heard
WAIT_FOR_LOCK_S = 10.0  # for a writer that is at it


@contextmanager
def blocked(store: str | Path) -> Iterator[Path]:
    """Hold the write lock of an SQLite store: nobody can write, everybody can read."""
    path = Path(store)
    if not path.exists():
        raise ChaosError(f"there is no store at {path} yet")
    with closing(sqlite3.connect(path, timeout=WAIT_FOR_LOCK_S, isolation_level=None)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise ChaosError(f"the store {path} could not be locked: {error}") from None
        yield path
        database.execute("ROLLBACK")


def store_of(run: RunFolder, url: str | None = None) -> Path:
    """Return the file of the store that a live run writes to, found as the run itself found it."""
    process = Processes(run).driver()
    env, facts = environment(process.pid), run.facts()
    folder = Path(f"/proc/{process.pid}/cwd").resolve()  # what the environment says is meant from there
    asked = url or env.get("SCALABLE_STORE_URL")
    if not asked:
        manifest = load_file(Path(facts["manifest"]), env=env, target=facts.get("target")).manifest
        asked, folder = manifest.store, manifest.folder
    return file_of(rooted(asked, folder))


@contextmanager
def filled(folder: str | Path, leave_free: Memory, *, most: Memory | None = LARGEST_BALLOON) -> Iterator[Memory]:
    """Take the free space of the disk that ``folder`` is on, but ``leave_free``; gives how much was taken."""
    free = Memory(shutil.disk_usage(folder).free)
    if leave_free < LEAST_FREE:
        raise ChaosError(f"{leave_free} are too little to leave free; write at least {LEAST_FREE}")
    if free <= leave_free:
        raise ChaosError(f"only {free} are free in {folder} already")
    size = free.bytes - leave_free.bytes
    if most is not None and size > most.bytes:
        raise ChaosError(f"that would take {Memory(size)} of disk, more than {most}; leave more free, or say --yes")
    with balloon(Path(folder)) as file:
        for at in range(0, size, STEP):
            allocate(file, at, min(STEP, size - at))
        yield Memory(size)


@contextmanager
def balloon(folder: Path) -> Iterator[int]:
    """A file that is gone when it is closed, however that happens."""
    try:
        file = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:  # not every file system has files without a name
        file, name = tempfile.mkstemp(dir=folder, prefix=".chaos-")
        with suppress(OSError):
            Path(name).unlink()
    try:
        yield file
    finally:
        os.close(file)


def allocate(file: int, at: int, size: int) -> None:
    try:
        os.posix_fallocate(file, at, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):  # others were faster, or a quota is: full is full
            raise ChaosError(f"the disk could not be filled: {error.strerror}") from None
