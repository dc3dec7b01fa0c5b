"""``PrivateSlurm``: start, stop, crash and restore a Slurm that lives in one folder and belongs to whoever made it.

Only processes proven to belong to the cluster are ever signalled: by a pid file and the program's name, or by the
configuration in their environment. Starting what runs and stopping what is stopped does nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.tools import processes, system
from tests.tools.errors import ToolError
from tests.tools.slurm import daemons
from tests.tools.slurm.client import POLL_S, SlurmClient, wait_until
from tests.tools.slurm.settings import MemoryRule, Paths, Settings, cgroups, check_cgroup

READY = {"idle", "mixed", "allocated", "completing", "draining", "drained", "reserved"}
READY_S = 60.0  # a second is usual; a busy machine is forgiven
GRACE_S = 10.0  # between asking a daemon to end and killing it
ROOT = Path(__file__).parent.parent.parent.parent


class PrivateSlurm(SlurmClient):
    """A Slurm in one folder: settings, state, logs, sockets and key are all there."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        super().__init__(Paths(folder.resolve()))
        self.settings = settings if settings is not None else Settings()

    @classmethod
    def existing(cls, folder: Path) -> PrivateSlurm:
        """The cluster that was started in this folder, by whatever process."""
        record = Paths(folder.resolve()).record
        if not record.exists():
            raise ToolError(f"there is no cluster in {folder}; start one with  python -m tests.tools.slurm up {folder}")
        values = json.loads(record.read_text(encoding="utf-8"))["settings"]
        memory = MemoryRule(values.pop("memory"))
        return cls(folder, Settings(memory=memory, extra=tuple(values.pop("extra")), **values))

    def start(self) -> None:
        """Start every daemon that does not run and wait for all nodes."""
        system.require(system.SLURM_PROGRAMS)
        with self.locked():
            if self.runs():
                if (present := PrivateSlurm.existing(self.paths.folder).settings) != self.settings:
                    raise ToolError(f"{self.paths.folder} has a running cluster with {present}; stop it first")
                self.start_daemons()
                return
            with lock(Path(f"/tmp/private-slurm-{os.getuid()}.lock")):  # others pick ports, too
                self.prepare()
                try:
                    self.start_daemons()
                except ToolError:
                    self.end_processes()
                    raise

    def stop(self) -> None:
        """Cancel the jobs and end all processes; settings, logs and state stay."""
        if not self.paths.record.exists():
            return
        with self.locked():
            if daemons.running_daemons(self.paths, "slurmctld"):
                with contextlib.suppress(ToolError):  # a controller that does not answer is ended all the same
                    self.cancel_all(GRACE_S)
            self.end_processes()

    def crash(self, node: str, *, keep_jobs: bool = False) -> None:
        """Kill a node's daemon and job processes at once; with ``keep_jobs`` the node is cut off and jobs go on."""
        self.check_node(node)
        daemon = processes.recorded(self.paths.pid("slurmd", node), "slurmd")
        processes.kill([daemon] if daemon else [])  # first, so that it reports nothing of what follows
        if keep_jobs:
            return

        def gone() -> bool:
            left = daemons.processes_of(self.paths, node)  # what was started meanwhile is found in the next round
            processes.kill_at_once(left)  # an srun that outlives another process by a moment ends a step elsewhere
            return not left

        wait_until(gone, lambda: f"processes {daemons.processes_of(self.paths, node)} to be gone", processes.KILLED_S)

    def mark_down(self, node: str, reason: str = "crashed") -> None:
        """Tell the controller that a node is gone, which it would find out by itself after the slurmd timeout."""
        self.check_node(node)
        self.run("scontrol", "update", f"nodename={node}", "state=down", f"reason={reason}")

    def restore(self, node: str) -> None:
        """Bring a crashed, downed or drained node back and wait until it takes jobs."""
        self.check_node(node)
        daemons.start_node(self.paths, self.full_env, node)
        self.wait_for_nodes([node])

    def reset(self) -> None:
        """Cancel all jobs and bring every node back, so that the next test finds an idle cluster."""
        self.cancel_all()
        for node in self.settings.node_names:
            daemons.start_node(self.paths, self.full_env, node)
        self.wait_for_nodes(self.settings.node_names, {"idle"})

    def leftovers(self) -> list[int]:
        """Every living process of this cluster."""
        return daemons.processes_of(self.paths) + daemons.running_daemons(self.paths, "munged")

    def runs(self) -> bool:
        return bool(self.paths.record.exists() and daemons.running_daemons(self.paths, "slurmctld", "slurmd"))

    def prepare(self) -> None:
        """Choose ports and write all files; the record comes last."""
        if self.settings.memory is MemoryRule.CGROUP:
            check_cgroup(self.settings)
        self.paths.runtime.mkdir(mode=0o755, exist_ok=True)
        if self.paths.runtime.stat().st_uid != os.getuid():
            raise ToolError(f"{self.paths.runtime} belongs to another user; remove it or choose another folder")
        port = daemons.free_ports(self.settings.nodes + 1)
        daemons.write_files(self.settings, self.paths, port)
        record = {"settings": dataclasses.asdict(self.settings), "port": port}
        fresh = self.paths.record.with_suffix(".new")
        fresh.write_text(json.dumps(record, indent=1), encoding="utf-8")
        fresh.rename(self.paths.record)

    def start_daemons(self) -> None:
        env = self.full_env
        daemons.start_munged(self.paths, env)
        daemons.start_controller(self.paths, env)
        for node in self.settings.node_names:
            daemons.start_node(self.paths, env, node)
        self.wait_for_nodes(self.settings.node_names)

    def wait_for_nodes(self, nodes: list[str], states: set[str] = READY) -> None:
        """Wait until the nodes are in one of the states; one that is down or drained by hand is resumed."""
        seen: dict[str, str] = {}
        answer = ""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            try:
                seen = {name: state for name, state in self.nodes().items() if name in nodes}
            except ToolError as error:  # the controller is not there yet
                answer = str(error)
            if len(seen) == len(nodes) and states.issuperset(seen.values()):
                return
            for name, state in seen.items():
                if state in ("down", "drained", "draining") and state not in states:
                    with contextlib.suppress(ToolError):
                        self.run("scontrol", "update", f"nodename={name}", "state=resume")
            time.sleep(POLL_S)
        raise ToolError(
            f"nodes are not ready after {READY_S:.0f} s: {seen or answer}\n{daemons.last_lines(self.paths)}"
        )

    def end_processes(self) -> None:
        """End all daemons and jobs; munged last, for the others talk through it."""
        left = processes.end(daemons.running_daemons(self.paths, "slurmctld", "slurmd"), GRACE_S)
        while not left and (jobs := daemons.processes_of(self.paths)):  # they may start others meanwhile
            left = processes.end(jobs, GRACE_S / 5)
        left += processes.end(daemons.running_daemons(self.paths, "munged"), GRACE_S)
        if left:
            raise ToolError(f"still alive after SIGKILL: {left}")
        for file in self.paths.run.glob("*.pid"):
            file.unlink(missing_ok=True)
        if self.settings.memory is MemoryRule.CGROUP:
            daemons.remove_cgroups(cgroups(self.settings))
        if self.paths.runtime != self.paths.folder:
            shutil.rmtree(self.paths.runtime, ignore_errors=True)

    def check_node(self, node: str) -> None:
        if node not in self.settings.node_names:
            raise ToolError(f"there is no node {node!r}; there are {', '.join(self.settings.node_names)}")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        self.paths.run.mkdir(parents=True, exist_ok=True)
        with lock(self.paths.run / "lock"):
            yield


@contextlib.contextmanager
def lock(file: Path) -> Iterator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def running(folder: Path, settings: Settings | None = None) -> Iterator[PrivateSlurm]:
    """A cluster for the length of a block; nothing of it is left, even if this process is killed.

    A guard process waits for the end of its input, which comes when this process is gone, however it went.
    """
    slurm = PrivateSlurm(folder, settings)
    slurm.paths.folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.tools.slurm", "guard", str(slurm.paths.folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True) as guard:
        try:
            slurm.start()
            yield slurm
        finally:
            try:
                slurm.stop()
            finally:
                guard.kill()
    wait_until(lambda: not slurm.leftovers(), lambda: f"processes {slurm.leftovers()} to be gone", GRACE_S)
