"""``PrivateKube``: start, change, crash nodes of, and stop a Kubernetes that lives in one folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.tools.errors import ToolError, ToolMissingError
from tests.tools.kube.client import KubeClient

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
READY_S = 180.0  # five seconds are usual; a busy machine is forgiven
MISSING = 3  # exit status of kube-up where a program is missing


@dataclass(frozen=True, slots=True)
class Settings:
    """What kube-up is told; all of it can be changed while the cluster runs."""

    pools: Mapping[str, str] = field(default_factory=dict)
    """Pool to COUNT or COUNT:cpu=…,memory=…; its nodes are labelled pool=NAME."""
    autoscale: Mapping[str, str] = field(default_factory=dict)
    """Pool to MIN:MAX:PROVISION_SECONDS:IDLE_SECONDS."""
    nodes: int = 0
    """Without a pool."""
    node_grace_s: int = 6
    """A crashed node is missed after this."""
    evict_after_s: int = 5
    """And its pods are given up after this."""

    def options(self) -> list[str]:
        line = [f"--nodes={self.nodes}", f"--node-grace={self.node_grace_s}", f"--evict-after={self.evict_after_s}"]
        line += [f"--pool={name}={what}" for name, what in self.pools.items()]
        return line + [f"--autoscale={name}={what}" for name, what in self.autoscale.items()]


class PrivateKube:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.kubeconfig = self.folder / "kubeconfig"
        self.shared = self.folder.with_name(self.folder.name + "-shared")
        """A folder that pods see as it is here; of the rest of /tmp they have their own."""

    @property
    def admin(self) -> KubeClient:
        return KubeClient(self.kubeconfig)

    @property
    def host(self) -> str:
        """Where pods reach this machine."""
        found: str = json.loads((self.folder / "cluster.json").read_text(encoding="utf-8"))["node_ip"]
        return found

    def start(self, settings: Settings | None = None) -> None:
        """Start what does not run, bring crashed nodes back, apply changed settings."""
        self.shared.mkdir(parents=True, exist_ok=True)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        see = (self.shared, Path(sys.prefix), ROOT)
        options = [*(settings.options() if settings else ()), *(f"--pod-see={folder}" for folder in see)]
        run("kube-up", str(self.folder), *options, env={"KUBE_POD_PATH": path})

    def crash(self, node: str) -> None:
        run("kube-down", str(self.folder), f"--node={node}")

    def stop(self) -> None:
        run("kube-down", str(self.folder), "--purge")


def run(tool: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    """One of the programs beside this file."""
    line = [sys.executable, str(HERE / tool), *arguments]
    try:
        done = subprocess.run(line, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=READY_S)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{tool} took longer than {READY_S:g} s") from error
    if done.returncode == MISSING:
        raise ToolMissingError(done.stderr.strip())
    if done.returncode:
        raise ToolError(done.stderr.strip())


@contextmanager
def running(folder: Path, settings: Settings) -> Iterator[PrivateKube]:
    """A cluster for the length of a block; nothing of it is left, even if this process is killed.

    A guard process waits for the end of its input, which comes when this process is gone, however it went.
    """
    kube = PrivateKube(folder)
    command = [sys.executable, "-m", "tests.tools.kube", "guard", str(kube.folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True) as guard:
        try:
            kube.start(settings)
            yield kube
        finally:
            try:
                kube.stop()
            finally:
                guard.kill()
