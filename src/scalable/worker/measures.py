"""What a worker measures of itself and of its machine, for its heartbeats and for Prometheus.

The worker's figures are those of its process and everything it has started, runners among them. The machine's are what
/proc says, which inside a container is the whole node: the container's own limit is the worker's, not the node's. One
look takes less than a millisecond, and whoever asks again within a moment gets the same answer.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tornado.web import RequestHandler

from scalable import proc
from scalable.observe.metrics import CONTENT_TYPE, Sample, exposition

NAME = "scalable"
"""Of these figures among a worker's metrics, as Dask's heartbeats carry them."""
FRESH_S = 0.4  # heartbeats come twice a second at most; a shorter while makes no good average of CPU use
IDLE = (3, 4)  # fields of the first line of /proc/stat: idle, and idle because a disk is waited for


@dataclass(frozen=True, slots=True)
class Use:
    """CPU in cores and memory in bytes."""

    cpu: float
    memory: int


class Measures:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.node = socket.gethostname()
        self.capacity = Use(float(os.cpu_count() or 1), 0)
        self.looked = float("-inf")
        self.own_s = self.node_s = 0.0
        self.own = self.around = Use(0.0, 0)
        self.look()

    def look(self) -> None:
        """Look again unless that was a moment ago; CPU use is that since the last look."""
        now = self.clock()
        passed = now - self.looked
        if passed < FRESH_S:
            return
        pids = proc.tree(os.getpid())
        own_s, node_s = sum(map(proc.cpu_s, pids)), busy_s()
        total, available = node_memory()
        own = max(0.0, own_s - self.own_s) / passed  # nothing at the first look, which was infinitely long after none
        around = max(0.0, node_s - self.node_s) / passed
        self.own = Use(own, sum(map(proc.resident, pids)))
        self.around = Use(min(around, self.capacity.cpu), total - available)
        self.capacity = Use(self.capacity.cpu, total)
        self.looked, self.own_s, self.node_s = now, own_s, node_s

    def told(self) -> dict[str, Any]:
        """For a heartbeat."""
        self.look()
        return {
            "cpu": round(self.own.cpu, 3),
            "memory": self.own.memory,
            "node": self.node,
            "node_cpu": round(self.around.cpu, 3),
            "node_cpus": self.capacity.cpu,
            "node_memory": self.around.memory,
            "node_memory_total": self.capacity.memory,
        }


def busy_s() -> float:
    """CPU seconds that this machine has spent on anything since it was started."""
    try:
        fields = [int(one) for one in proc.content("/proc/stat").split(b"\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0.0
    return (sum(fields) - sum(fields[at] for at in IDLE)) / proc.TICKS if len(fields) > max(IDLE) else 0.0


def node_memory() -> tuple[int, int]:
    """Bytes that this machine has, and those it could give to programs."""
    found = {b"MemTotal": 0, b"MemAvailable": 0}
    with suppress(OSError, ValueError, IndexError):
        for line in proc.content("/proc/meminfo").splitlines():
            name, _, rest = line.partition(b":")
            if name in found:
                found[name] = int(rest.split()[0]) * 1024
    return found[b"MemTotal"], found[b"MemAvailable"]


class MetricsHandler(RequestHandler):
    """A worker's own view; Dask's worker serves it beside its health, see ``scalable.worker.main``."""

    def initialize(self, dask_server: Any = None) -> None:
        self.worker = dask_server

    def get(self) -> None:
        self.set_header("Content-Type", CONTENT_TYPE)
        self.write(exposition(samples(self.worker)).encode("utf-8", "backslashreplace"))


routes: list[tuple[str, type[RequestHandler], dict[str, Any]]] = [("/metrics", MetricsHandler, {})]
"""As Dask wants to find them."""


def samples(worker: Any) -> list[Sample]:
    """What a worker can say of itself. Its name starts with its tag."""
    told = worker.plugins["scalable-meter"].measures.told()
    runners = worker.plugins["scalable-runners"]
    own = {"worker": str(worker.name), "tag": str(worker.name).rpartition("-")[0]}
    node = {"node": told["node"]}
    found = [
        Sample("finetune_pod_idle_seconds", round(runners.idle_s, 1), own),
        Sample("scalable_worker_cpu_cores", told["cpu"], own),
        Sample("scalable_worker_cpu_limit_cores", runners.settings.cpus * worker.state.nthreads, own),
        Sample("scalable_worker_memory_bytes", told["memory"], own),
        Sample("scalable_node_cpu_cores", told["node_cpu"], node),
        Sample("scalable_node_cpu_capacity_cores", told["node_cpus"], node),
        Sample("scalable_node_memory_bytes", told["node_memory"], node),
        Sample("scalable_node_memory_capacity_bytes", told["node_memory_total"], node),
    ]
    if (limit := runners.settings.memory) is not None:
        found.append(Sample("scalable_worker_memory_limit_bytes", limit, own))
    return found
