"""A cluster in small: a network of its own that the driver cannot reach, with a relay and workers in it.

Where the tests may not make networks, everything is on the loopback, and only the relay is shown to be used.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from scalable.cluster.kubernetes.relay import TOKEN_FILE, new_token

CLONE_NEWNET = 0x40000000  # see setns(2)
POD_IP = "10.99.0.1"
numbers = count()


class Pods:
    """Processes on one machine of the cluster, which all have its address."""

    def __init__(self, folder: Path, network: str | None) -> None:
        self.folder = folder
        self.network = network
        self.ip = POD_IP if network else "127.0.0.1"
        self.token = new_token()
        self.processes: list[subprocess.Popen[str]] = []
        folder.mkdir(exist_ok=True)
        (folder / TOKEN_FILE).write_bytes(self.token)
        (self.port, self.control) = (free_port(), free_port())
        self.relay = self.start(
            "scalable.cluster.kubernetes.relay",
            f"--listen={self.ip}:{self.port}",
            f"--control=127.0.0.1:{self.control}",
            f"--token={folder / TOKEN_FILE}",
        )

    def start(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        inside = ["ip", "netns", "exec", self.network] if self.network else []
        process = subprocess.Popen(
            [*inside, sys.executable, "-m", module, *arguments], stderr=subprocess.PIPE, text=True, cwd=self.folder
        )
        self.processes.append(process)
        return process

    async def reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """As a port-forward does: a connection that begins on the loopback of the pod."""
        return await asyncio.open_connection(sock=await asyncio.to_thread(self.socket_inside))

    def socket_inside(self) -> socket.socket:
        made: list[socket.socket | OSError] = []

        def make() -> None:
            try:
                if self.network:
                    with open(f"/run/netns/{self.network}") as file:  # noqa: PTH123
                        enter(file.fileno())
                made.append(socket.create_connection(("127.0.0.1", self.control), 5))
            except OSError as error:
                made.append(error)

        thread = threading.Thread(target=make)  # a thread of its own, since it does not come back
        thread.start()
        thread.join()
        if isinstance(made[0], OSError):
            raise made[0]
        made[0].setblocking(False)
        return made[0]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@contextmanager
def a_cluster(folder: Path) -> Iterator[Pods]:
    network = f"scalable-{os.getpid()}-{next(numbers)}" if can_make_networks() else None
    if network:
        ip("netns", "add", network)
    try:
        if network:
            ip("-n", network, "link", "set", "lo", "up")
            ip("-n", network, "addr", "add", f"{POD_IP}/32", "dev", "lo")
        pods = Pods(folder, network)
        try:
            yield pods
        finally:
            pods.end()
    finally:
        if network:
            ip("netns", "del", network)


def can_make_networks() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"scalable-try-{os.getpid()}-{next(numbers)}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
        return False
    ip("netns", "del", name)
    return True


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def enter(network: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(network, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
