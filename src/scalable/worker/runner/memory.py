"""Memory limits: who keeps which, decided by ``memory_limits``; and figures that cost more than a look at a process.

A worker has one limit, that of its component or profile. From the inside out:

- ``jobs``: what all jobs of a worker may use. The kernel keeps it for each job, by a control group (``limits``), where
  it lets us; the supervisor keeps it for all together, ten times a second. The job over it, or the largest, dies.
- ``worker``: what the worker's process may use without its jobs. On this machine the launcher keeps it, up to ten times
  a second. The worker dies, and its jobs with it.
- ``together``: what both may use. Kept like ``worker``.
- The limit itself holds for both where Slurm, a pod or Docker runs the worker. The kernel chooses who dies.

The inner ones act first, so that a job dies alone. That is why a worker in a pod is told less than the pod's limit
(``told_in_pod``), and why the launcher of this machine bears more than the limit before it acts. Dask's own limits are
off: a worker that pauses at 80 % of its memory and never gets below it again hangs for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scalable import proc

OWN_SHARE = 0.02  # of the limit left to the worker beyond what it uses, since it grows a little while it serves
BEYOND = 1.25  # of the limit that a worker with its jobs may use: the supervisor acts first if it can
POD_HEADROOM = 0.03  # of a pod's memory that jobs may not use: at the limit the kernel ends the whole pod, not the job
LEAST_POD_HEADROOM = 32 * 2**20  # for the processes that look after the worker


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Bytes beyond which somebody is killed; the table above says who."""

    jobs: int
    worker: int
    together: int


def memory_limits(limit: int, own: int = 0, *, apart: bool = False) -> MemoryLimits:
    """Divide a worker's limit. ``own`` is what its process uses now; ``apart`` if the limit is for jobs alone."""
    jobs = limit if apart else int(limit * (1 - OWN_SHARE)) - own
    return MemoryLimits(jobs=jobs, worker=limit, together=int(limit * BEYOND))


def told_in_pod(limit: int) -> int:
    """Return the limit that a worker in a pod with this limit is told."""
    return limit - min(limit // 2, max(int(limit * POD_HEADROOM), LEAST_POD_HEADROOM))


def proportional(pid: int) -> int:
    """Bytes in memory, with pages that several processes share divided among them; needs about a millisecond."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return proc.resident(pid)


def oom_kills() -> int:
    """How many processes the kernel has killed on this machine because memory ran out."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0


def readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
