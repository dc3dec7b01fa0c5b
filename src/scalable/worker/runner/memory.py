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

import resource
from collections.abc import Sequence
from dataclasses import dataclass

from scalable import proc

OWN_SHARE = 0.02  # of the limit left to the worker beyond what it uses, since it grows a little while it serves
BEYOND = 1.25  # of the limit that a worker with its jobs may use: the supervisor acts first if it can
POD_HEADROOM = 0.03  # of a pod's memory that jobs may not use: at the limit the kernel ends the whole pod, not the job
CLOSER = 1.02  # of the sum at which processes were last looked at closely, from which on they are again
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
    """Return the bytes in memory, shared pages divided among those who share them; takes about a millisecond."""
    shared = proc.figure(f"/proc/{pid}/smaps_rollup", "Pss")
    return proc.resident(pid) if shared is None else shared


class TreePeak:
    """The most memory that a process and all it has started used together, seen by looking again and again.

    Of several processes each page counts once, divided among those that share it (PSS): what each of them has resident,
    added up, is too much by their libraries, and after a fork by all that they have in common. Telling shared pages
    apart takes about a millisecond for each process, so it is done only when the plain sum grows.
    """

    def __init__(self) -> None:
        self.highest = 0
        self.looked_at = 0
        """The plain sum when shared pages were last told apart."""

    def note(self, resident: int, pids: Sequence[int]) -> int:
        """Take what processes have resident, added up, and return the highest use so far."""
        if resident <= self.highest:
            return self.highest
        if len(pids) > 1:
            if resident <= CLOSER * self.looked_at:
                return self.highest
            self.looked_at = resident
            resident = sum(map(proportional, pids))
        self.highest = max(self.highest, resident)
        return self.highest


class ReapedChildren:
    """The largest child of this process that was waited for: those that come and go between two looks are seen by it.

    The kernel keeps one figure for a process's whole life, so only a child larger than all before it counts. A child
    begins as its parent, so one that never was larger than that is not told apart from it.
    """

    def __init__(self) -> None:
        self.largest = largest_child()

    def grown(self, own_peak: int) -> int:
        """Return the size of a child that was larger than this process and than all before it; 0 if there was none."""
        before, self.largest = self.largest, largest_child()
        return self.largest if self.largest > max(before, own_peak) else 0


def largest_child() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def oom_kills() -> int:
    """Return how many processes the kernel has killed on this machine because memory ran out."""
    return proc.figure("/proc/vmstat", "oom_kill") or 0


def readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
