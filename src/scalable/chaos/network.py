"""Faults of the connection between a worker and its scheduler, made without touching firewall or routes.

``sever`` shuts down the worker's own sockets to the scheduler: both ends see the connection break at once, as when a
switch resets it. It takes the right to look into the worker (the same user where ``ptrace_scope`` is 0, or root).
To make a worker unreachable without breaking its connection, as a lost cable does, stop its process: ``stopped``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from scalable.chaos.errors import ChaosError, NoVictimError
from scalable.chaos.victims import Victim
from scalable.observe import RunFolder

PIDFD_GETFD = 438  # the same number on all machines, see pidfd_getfd(2)
ESTABLISHED = "01"  # in /proc/net/tcp


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
    """File descriptors of a process that are connected to a port."""
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
