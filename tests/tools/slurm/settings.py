"""What a private Slurm looks like: its size, how it enforces memory, where its files are, and its slurm.conf."""

from __future__ import annotations

import getpass
import hashlib
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.tools.errors import ToolError, ToolMissingError

LONGEST_PREFIX = 8  # letters; node names are part of socket paths
LONGEST_RUNTIME = 60  # a socket's path holds 107 bytes; Slurm adds folder, node, job and step to this
UNUSABLE = " \t\n#,%\"'="  # characters slurm.conf cannot have in a path
CGROUP_MEMORY = Path("/sys/fs/cgroup/memory")


class MemoryRule(StrEnum):
    """What happens to a job that uses more than its --mem."""

    LINUX = "linux"  # its processes are measured every second; needs no privileges; the job ends FAILED
    CGROUP = "cgroup"  # the kernel kills it, as on real sites; needs root and cgroup v1; it ends OUT_OF_MEMORY
    NONE = "none"  # nothing


@dataclass(frozen=True, slots=True)
class Settings:
    """Size and behaviour of a private Slurm; nodes may have more CPUs than the machine."""

    nodes: int = 4
    cpus: int = 4
    memory_mb: int = 4000
    memory: MemoryRule = MemoryRule.LINUX
    slurmd_timeout_s: int = 10
    """After so long a silent node is down, give or take the seconds in which Slurm looks."""
    partition: str = "main"
    prefix: str = "n"
    """Nodes are called n1, n2, …; clusters with the cgroup rule need different ones, the kernel's tree is shared."""
    extra: tuple[str, ...] = ()
    """More lines for slurm.conf, e.g. MessageTimeout=3."""

    def __post_init__(self) -> None:
        if min(self.nodes, self.cpus, self.memory_mb, self.slurmd_timeout_s) < 1:
            raise ToolError("nodes, cpus, memory_mb and slurmd_timeout_s must each be 1 or more")
        if not (self.prefix.isascii() and self.prefix.isalpha() and len(self.prefix) <= LONGEST_PREFIX):
            raise ToolError(f"prefix {self.prefix!r} cannot begin a node's name; write 1 to {LONGEST_PREFIX} letters")

    @property
    def node_names(self) -> list[str]:
        return [f"{self.prefix}{number}" for number in range(1, self.nodes + 1)]


@dataclass(frozen=True, slots=True)
class Paths:
    """Every path of one cluster."""

    folder: Path

    def __post_init__(self) -> None:
        if any(character in str(self.folder) for character in UNUSABLE):
            raise ToolError(f"Slurm cannot use the path {str(self.folder)!r}; it has one of space , # % = ' \"")

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def record(self) -> Path:
        """The settings and ports; written last, so a folder that has it is a cluster's."""
        return self.folder / "cluster.json"

    @property
    def key(self) -> Path:
        return self.folder / "munge.key"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def runtime(self) -> Path:
        """Where the sockets are: in the folder, or in a short one where its path is too long for a socket."""
        if len(str(self.folder)) <= LONGEST_RUNTIME:
            return self.folder
        return Path(f"/tmp/slurm-{os.getuid()}-{hashlib.sha256(bytes(self.folder)).hexdigest()[:10]}")

    def spool(self, node: str) -> Path:
        return self.runtime / "spool" / node

    def pid(self, daemon: str, node: str = "") -> Path:
        return self.run / (f"{daemon}-{node}.pid" if node else f"{daemon}.pid")


def slurm_conf(settings: Settings, paths: Paths, port: int) -> str:
    """The text of slurm.conf; the controller has ``port``, the nodes those that follow."""
    user = getpass.getuser()
    count = settings.nodes
    nodes = f"{settings.prefix}[1-{count}]" if count > 1 else f"{settings.prefix}1"
    ports = f"[{port + 1}-{port + count}]" if count > 1 else str(port + 1)
    lines = [
        "ClusterName=private",
        "SlurmctldHost=localhost(127.0.0.1)",
        f"SlurmctldPort={port}",
        f"SlurmUser={user}",
        f"SlurmdUser={user}",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        # cred_expire is also the wait before a requeued job may start again, 120 s unless told.
        f"AuthInfo=socket={paths.runtime}/munge.sock,cred_expire=5",
        "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
        f"StateSaveLocation={paths.state}",
        f"SlurmctldPidFile={paths.pid('slurmctld')}",
        f"SlurmdPidFile={paths.pid('slurmd', '%n')}",
        f"SlurmdSpoolDir={paths.spool('%n')}",
        f"SlurmctldLogFile={paths.log}/slurmctld.log",
        f"SlurmdLogFile={paths.log}/slurmd-%n.log",
        "SlurmdParameters=config_overrides",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU_Memory",
        f"DefMemPerCPU={max(1, settings.memory_mb // settings.cpus)}",
        "MpiDefault=none",
        "SwitchType=switch/none",
        "ReturnToService=2",
        "AccountingStorageType=accounting_storage/none",
        "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={paths.log}/jobcomp.txt",
        f"SlurmdTimeout={settings.slurmd_timeout_s}",
        "SlurmctldTimeout=30",
        "KillWait=2",
        "MinJobAge=3600",
        "CompleteWait=0",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2",
        *MEMORY_LINES[settings.memory],
        *settings.extra,
        f"NodeName={nodes} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports} "
        f"CPUs={settings.cpus} RealMemory={settings.memory_mb} State=UNKNOWN",
        f"PartitionName={settings.partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    ]
    return "\n".join(lines) + "\n"


MEMORY_LINES = {
    MemoryRule.LINUX: (
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=1",
        "JobAcctGatherParams=OverMemoryKill",
    ),
    MemoryRule.CGROUP: (
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/cgroup",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=1",
    ),
    MemoryRule.NONE: (
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
    ),
}

CGROUP_CONF = """\
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
ConstrainCores=no
ConstrainDevices=no
MinRAMSpace=1
"""


def why_no_cgroup() -> str | None:
    """Why the kernel cannot enforce memory for a private Slurm here, or None if it can."""
    if os.geteuid() != 0:
        return "memory rule cgroup needs root; use linux"
    if not CGROUP_MEMORY.is_dir():
        return f"memory rule cgroup needs the cgroup v1 memory controller at {CGROUP_MEMORY}; use linux"
    if not os.access(CGROUP_MEMORY, os.W_OK):
        return f"memory rule cgroup needs to write to {CGROUP_MEMORY}, which is read-only here; use linux"
    return None


def check_cgroup(settings: Settings) -> None:
    """Refuse the cgroup rule where it cannot work, or where it would share the kernel's tree with another cluster."""
    if reason := why_no_cgroup():
        raise ToolMissingError(reason)
    taken = [group for group in cgroups(settings) if group.exists()]
    if taken:
        raise ToolError(f"{taken[0]} exists: another cluster with these node names runs here; choose another prefix")


def cgroups(settings: Settings) -> list[Path]:
    """The folders Slurm makes for these nodes, in every controller's tree."""
    return [group for name in settings.node_names for group in CGROUP_MEMORY.parent.glob(f"*/slurm_{name}")]
