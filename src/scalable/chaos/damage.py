"""The damage itself: to processes, to the connection between a worker and its scheduler, to storage.

Processes are killed, stopped for a while, or made short of memory; whoever gets their numbers next is not hit.

``sever`` shuts down the worker's own sockets to the scheduler: both ends see the connection break at once, as when a
switch resets it. It takes the right to look into the worker (the same user where ``ptrace_scope`` is 0, or root). To
make a worker unreachable without breaking its connection, as a lost cable does, stop its process: ``stopped``.

A store is blocked, or a disk filled. Both undo themselves even if this process is killed: a lock ends with its
connection, and the balloon that fills a disk is a file without a name.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
import signal
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from scalable import proc
from scalable.chaos.victims import ChaosError, NoVictimError, Processes, Victim, as_victim, environment
from scalable.manifest import load_file
from scalable.observe import RunFolder
from scalable.quantities import Memory
from scalable.store.urls import file_of, rooted

LITTLE = Memory.parse("1MiB")
PIDFD_GETFD = 438  # the same number on all machines, see pidfd_getfd(2)
ESTABLISHED = "01"  # in /proc/net/tcp
LARGEST_BALLOON = Memory.parse("10GiB")  # more is a mistake more often than a wish, and takes long to write
LEAST_FREE = Memory.parse("16MiB")  # with less, the machine itself may not be able to recover
STEP = 256 << 20  # bytes allocated at once, so that an interruption is heard
WAIT_FOR_LOCK_S = 10.0  # for a writer that is at it


def kill(process: int | Victim) -> None:
    """Send SIGKILL, as the kernel does when memory runs out, or an impatient person."""
    send(as_victim(process), signal.SIGKILL)


def lose(worker: int | Victim) -> int:
    """End all processes of a worker at once, as when its machine vanishes, and return how many there were."""
    victim = as_victim(worker)
    send(victim, signal.SIGSTOP)  # it must not see the others die, nor start new ones
    below = [process for pid in proc.tree(victim.pid)[1:] if (process := proc.look(pid)) is not None]
    return sum(proc.send(process, signal.SIGKILL) for process in [*reversed(below), victim.process])


@contextmanager
def stopped(process: int | Victim) -> Iterator[Victim]:
    """Send SIGSTOP, and SIGCONT at the end: it is there, holds what it holds, and does nothing."""
    victim = as_victim(process)
    send(victim, signal.SIGSTOP)
    try:
        yield victim
    finally:
        with suppress(ChaosError):  # someone has killed it in the meantime, and may
            send(victim, signal.SIGCONT)


@contextmanager
def starved(process: int | Victim, leave: Memory = LITTLE) -> Iterator[Victim]:
    """Give it and its children no more than ``leave`` beyond the memory they have: allocations fail, nothing else.

    What their code makes of that is its own affair, mostly a MemoryError. The machine's memory is not used up.
    """
    victim = as_victim(process)
    before: list[tuple[proc.Process, tuple[int, int]]] = []
    try:
        for pid in proc.tree(victim.pid):
            with suppress(ProcessLookupError, FileNotFoundError), refusals_told(victim):
                if (seen := proc.look(pid)) is not None:
                    has = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * proc.PAGE
                    limits = resource.prlimit(pid, resource.RLIMIT_AS)
                    before.append((seen, limits))
                    resource.prlimit(pid, resource.RLIMIT_AS, (has + leave.bytes, limits[1]))
        if not victim.there:
            raise NoVictimError(f"{victim} is gone already")
        yield victim
    finally:
        for seen, limits in before:
            with suppress(OSError):
                if proc.same(seen) is not None:
                    resource.prlimit(seen.pid, resource.RLIMIT_AS, limits)


def send(victim: Victim, name: signal.Signals) -> None:
    with refusals_told(victim):
        if not proc.send(victim.process, name):
            raise NoVictimError(f"{victim} is gone already")


@contextmanager
def refusals_told(victim: Victim) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise ChaosError(f"{victim} belongs to another user; call this as that user") from None


def sever(worker: Victim, run: RunFolder) -> int:
    """Break the worker's connections to the scheduler; how many there were."""
    port = scheduler_port(run)
    broken = 0
    try:
        handle = os.pidfd_open(worker.pid)
    except ProcessLookupError:
        raise NoVictimError(f"{worker} is gone already") from None
    try:
        for number in sockets_to(worker.pid, port) if worker.there else ():
            with borrowed(handle, number, worker) as line, suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
                broken += 1
    finally:
        os.close(handle)
    if not broken:
        raise NoVictimError(f"{worker} has no connection to the scheduler on port {port}, or is gone")
    return broken


def scheduler_port(run: RunFolder) -> int:
    address = run.facts().get("scheduler")
    port = urlsplit(address).port if isinstance(address, str) and not address.startswith("inproc") else None
    if port is None:
        raise ChaosError(f"{run.run_id} has its scheduler and workers in one process; there is no connection to cut")
    return port


def sockets_to(pid: int, port: int) -> Iterator[int]:
    """Yield file descriptors of a process that are connected to a port."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = row.split()
                if fields[3] == ESTABLISHED and int(fields[2].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    with suppress(OSError):  # it ends meanwhile
        for entry in list(Path(f"/proc/{pid}/fd").iterdir()):
            with suppress(OSError):
                if str(entry.readlink()) in inodes:
                    yield int(entry.name)


def borrowed(handle: int, number: int, worker: Victim) -> socket.socket:
    """Return a process's own socket, as a second descriptor of ours."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(PIDFD_GETFD, handle, number, 0)
    if descriptor < 0:
        code = ctypes.get_errno()
        if code in (errno.EBADF, errno.ESRCH):
            raise NoVictimError(f"{worker} closed its connection meanwhile, or is gone")
        why = os.strerror(code)
        raise ChaosError(f"the connection of {worker} cannot be cut: {why}; --how freeze needs no rights for that")
    return socket.socket(fileno=descriptor)


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
    """Make a file that is gone when it is closed, however that happens."""
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
