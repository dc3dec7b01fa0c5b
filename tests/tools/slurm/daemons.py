"""The daemons of a private Slurm: starting those that do not run, finding all processes that belong to a cluster."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
from pathlib import Path

from tests.tools import processes
from tests.tools.errors import ToolError
from tests.tools.processes import Process
from tests.tools.slurm.settings import CGROUP_CONF, MemoryRule, Paths, Settings, slurm_conf

START_S = 30.0  # each program puts itself into the background within a second
PORTS = range(20_000, 32_000)  # below those the kernel gives to outgoing connections
TRIES = 200
SLURM_DAEMONS = {"slurmctld", "slurmscriptd", "slurmd", "slurmstepd"}
NODE_MARK = "PRIVATE_SLURM_NODE"  # slurmstepd inherits it from its node's slurmd, nothing else tells its node
SECRET_BYTES = 128


def write_files(settings: Settings, paths: Paths, port: int) -> None:
    """Everything the daemons read, and the folders they write to."""
    for folder in (paths.state, paths.log, *(paths.spool(node) for node in settings.node_names)):
        folder.mkdir(parents=True, exist_ok=True)
    if not paths.key.exists():
        paths.key.touch(mode=0o600)
        paths.key.write_bytes(os.urandom(SECRET_BYTES))
    paths.conf.write_text(slurm_conf(settings, paths, port), encoding="utf-8")
    if settings.memory is MemoryRule.CGROUP:
        (paths.folder / "cgroup.conf").write_text(CGROUP_CONF, encoding="ascii")


def start_munged(paths: Paths, env: dict[str, str]) -> None:
    if processes.recorded(paths.pid("munged"), "munged"):
        return
    for stale in ("munge.sock", "munge.sock.lock"):
        (paths.runtime / stale).unlink(missing_ok=True)
    options = {
        "key-file": paths.key,
        "socket": paths.runtime / "munge.sock",
        "pid-file": paths.pid("munged"),
        "log-file": paths.log / "munged.log",
        "seed-file": paths.run / "munged.seed",
    }
    launch(paths, ["munged", "--force", *(f"--{name}={value}" for name, value in options.items())], env)


def start_controller(paths: Paths, env: dict[str, str]) -> None:
    if not processes.recorded(paths.pid("slurmctld"), "slurmctld"):
        launch(paths, ["slurmctld"], env)


def start_node(paths: Paths, env: dict[str, str], node: str) -> None:
    if not processes.recorded(paths.pid("slurmd", node), "slurmd"):
        launch(paths, ["slurmd", "-N", node], {**env, NODE_MARK: node})


def launch(paths: Paths, command: list[str], env: dict[str, str]) -> None:
    """Run a program that puts itself into the background; it must not hold this process's output open."""
    log = paths.log / "start.log"
    with log.open("ab") as output:
        output.write(f"$ {' '.join(command)}\n".encode())
        output.flush()
        try:
            done = subprocess.run(
                command, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=START_S
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"{command[0]} did not go into the background\n{last_lines(paths)}") from error
    if done.returncode:
        raise ToolError(f"{command[0]} did not start (status {done.returncode})\n{last_lines(paths)}")


def running_daemons(paths: Paths, *names: str) -> list[int]:
    """The living daemons of these kinds, by their pid files."""
    found = (processes.recorded(file, name) for name in names for file in paths.run.glob(f"{name}*.pid"))
    return [pid for pid in found if pid is not None]


def processes_of(paths: Paths, node: str = "") -> list[int]:
    """Slurm's daemons and all that jobs started, of one node or of all: by environment, and by descent from those.

    A job's process may have cleared its environment, and one that was left behind by its parent descends from nobody;
    the two together find all but a process that did both.
    """
    own = processes.ancestors()
    everyone = {process.pid: process for process in processes.everyone() if process.pid not in own}
    found = {pid for pid, process in everyone.items() if belongs(process, str(paths.conf), node)}
    while more := {pid for pid, process in everyone.items() if process.parent in found and pid not in found}:
        found |= more
    return sorted(found)


def belongs(process: Process, conf: str, node: str) -> bool:
    variables = processes.environment(process.pid)
    if variables.get("SLURM_CONF") != conf:
        return False
    if process.name in SLURM_DAEMONS:
        return not node or variables.get(NODE_MARK) == node
    # A person's shell may have the configuration, too, but no job.
    return "SLURM_JOB_ID" in variables and (not node or variables.get("SLURMD_NODENAME") == node)


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for _ in range(TRIES):
        first = random.randrange(PORTS.start, PORTS.stop - count)
        if all(is_free(port) for port in range(first, first + count)):
            return first
    raise ToolError(f"found no {count} free ports in a row between {PORTS.start} and {PORTS.stop}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def last_lines(paths: Paths, count: int = 8) -> str:
    """The end of every log, for an error message."""
    parts = []
    for log in sorted(paths.log.glob("*.log")):
        with contextlib.suppress(OSError):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            parts.append("\n".join([f"--- {log}", *[line for line in lines if "pmix" not in line.lower()][-count:]]))
    return "\n".join(parts)


def remove_cgroups(groups: list[Path]) -> None:
    """Remove the kernel's folders a node leaves behind, from the innermost outwards."""
    for top in groups:
        for folder in sorted((path for path in [top, *top.rglob("*")] if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
