"""A private Slurm of several nodes on one machine, on loopback only: real daemons, no privileges, ready in a second."""

from __future__ import annotations

from tests.tools.slurm.client import Job
from tests.tools.slurm.cluster import PrivateSlurm, running
from tests.tools.slurm.settings import MemoryRule, Settings, why_no_cgroup

__all__ = ["Job", "MemoryRule", "PrivateSlurm", "Settings", "running", "why_no_cgroup"]
