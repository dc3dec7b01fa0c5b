"""Builders for tests on Slurm: a cluster as a user makes it, what it told, and what is left of it."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from scalable.cluster.client import ScalableClient
from scalable.cluster.slurm.launcher import SlurmLauncher
from scalable.cluster.slurm.provider import SlurmCluster
from tests.helpers.waiting import eventually
from tests.tools import processes

WITHIN_S = 60.0  # a hang is longer than anything a busy machine needs
SMALL = "400M"  # holds a worker and a small task

Told = list[tuple[str, dict[str, Any]]]


class Made:
    """A cluster with a client and everything the cluster told of its workers."""

    def __init__(self, cluster: SlurmCluster, client: ScalableClient) -> None:
        self.cluster = cluster
        self.client = client
        self.told: Told = []
        cluster.listeners.append(lambda kind, facts: self.told.append((kind, facts)))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [facts for name, facts in list(self.told) if name == kind]

    def wait_for(self, kind: str, count: int = 1, within_s: float = WITHIN_S) -> list[dict[str, Any]]:
        eventually(lambda: len(self.of(kind)) >= count, lambda: f"{count} × {kind} in {self.told}", within_s)
        return self.of(kind)

    def trouble(self) -> str:
        """Why Slurm does not answer, as far as the cluster knows."""
        assert isinstance(self.cluster.launcher, SlurmLauncher)
        return self.cluster.launcher.trouble

    def jobs(self) -> list[int]:
        """The batch jobs of workers that are there, oldest first."""
        members = list(self.cluster.members.values())
        return sorted(int(str(m.launched.job).removeprefix("job ")) for m in members)


@contextmanager
def made(**options: Any) -> Iterator[Made]:
    """A cluster as in the tutorial, with a kind of worker called ``small``."""
    with SlurmCluster(**{"queue": "main", "interface": "lo", **options}) as cluster:
        cluster.add_container(tag="small", cpus=1, memory=SMALL)
        with ScalableClient(cluster) as client:
            yield Made(cluster, client)


def workers_of(folder: Path) -> list[int]:
    """Living worker processes that were started for a project's folder."""
    return [process.pid for process in processes.everyone() if is_worker(process.pid, folder)]


def is_worker(pid: int, folder: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return "scalable.worker" in words and any(str(folder) in word for word in words)


def left_by(name: str) -> list[int]:
    """Living processes with a variable that tasks gave them."""
    return [p.pid for p in processes.everyone() if processes.environment(p.pid).get("LEFT_BY") == name]


def path_without(program: str) -> str:
    """PATH without the folders that have a program."""
    return os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not Path(p, program).exists())


@contextmanager
def closed_port() -> Iterator[int]:
    """A port on which nothing listens and which nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that swallows connections as a firewall does: its queue is full and nobody takes from it."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(3):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(server.getsockname())
        yield server.getsockname()[1]


def limited_sbatch(folder: Path, most: int) -> Path:
    """A folder with an sbatch that takes so many jobs at a time, as accounting lets a user have, and no more."""
    place = folder / "bin"
    place.mkdir()
    (place / "most").write_text(str(most))
    text = (
        f"#!/bin/bash\nexec 9>{place}/lock\nflock 9\n"
        f"if [ $(squeue --noheader | wc -l) -ge $(cat {place}/most) ]; then\n"
        "  echo 'sbatch: error: AssocMaxSubmitJobLimit' >&2\n"
        "  echo 'sbatch: error: Batch job submission failed: Job violates accounting/QOS policy"
        " (job submit limit, user'\"'\"'s size and/or time limits)' >&2\n"
        "  exit 1\n"
        "fi\n"
        f'exec {shutil.which("sbatch")} "$@"\n'
    )
    (place / "sbatch").write_text(text)
    (place / "sbatch").chmod(0o755)
    return place
