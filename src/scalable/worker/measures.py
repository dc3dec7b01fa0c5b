"""Measurements of a worker and its machine, for its heartbeats and for Prometheus.

The worker's figures are those of its process and everything it has started, runners among them. The machine's are what
/proc says, which inside a container is the whole node: the container's own limit is the worker's, not the node's. One
look takes less than a millisecond, and whoever asks again within a moment gets the same answer.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tornado.web import RequestHandler

from scalable import proc
from scalable.observe.metrics import CONTENT_TYPE, Sample, exposition
from scalable.worker.runners import METER
from scalable.worker.runners import NAME as RUNNERS

if TYPE_CHECKING:
    pass

NAME = "scalable"
"""Of these figures among a worker's metrics, as Dask's heartbeats carry them."""
FRESH_S = 0.4  # heartbeats come twice a second at most; a shorter while makes no good average of CPU use
IDLE = (3, 4)  # fields of the first line of /proc/stat: idle, and idle because a disk is waited for


@dataclass(frozen=True, slots=True)
class Use:
    """CPU in cores and memory in bytes."""

    cpu: float
    memory: int


class WorkerMeasures:
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

    def reading(self) -> dict[str, Any]:
        """Return the figures for a heartbeat."""
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
    """Return the CPU seconds that this machine has spent on anything since it was started."""
    try:
        fields = [int(field) for field in proc.content("/proc/stat").split(b"\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0.0
    return (sum(fields) - sum(fields[at] for at in IDLE)) / proc.TICKS if len(fields) > max(IDLE) else 0.0


def node_memory() -> tuple[int, int]:
    """Return the bytes that this machine has, and those it could give to programs."""
    total, available = (proc.figure("/proc/meminfo", name) or 0 for name in ("MemTotal", "MemAvailable"))
    return total, available


class MetricsHandler(RequestHandler):
    """The figures of a session or a worker at /metrics, as Prometheus reads them."""

    def initialize(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self.samples = samples

    def get(self) -> None:
        self.set_header("Content-Type", CONTENT_TYPE)
        self.write(exposition(self.samples()).encode("utf-8", "backslashreplace"))


class WorkerMetricsHandler(MetricsHandler):
    """A worker's own view; Dask's worker serves it beside its health, see ``scalable.worker.main``."""

    def initialize(self, dask_server: Any = None) -> None:  # Dask gives its worker by this name
        super().initialize(partial(samples, dask_server))


routes: list[tuple[str, type[RequestHandler], dict[str, Any]]] = [("/metrics", WorkerMetricsHandler, {})]
"""As Dask wants to find them."""


def samples(worker: Any) -> list[Sample]:
    """Return what a worker can say of itself. Its name starts with its tag."""
    reading = worker.plugins[METER].measures.reading()
    runners = worker.plugins[RUNNERS]
    own = {"worker": str(worker.name), "tag": str(worker.name).rpartition("-")[0]}
    node = {"node": reading["node"]}
    figures = [
        Sample("finetune_pod_idle_seconds", round(runners.idle_s, 1), own),
        Sample("scalable_worker_cpu_cores", reading["cpu"], own),
        Sample("scalable_worker_cpu_limit_cores", runners.settings.cpus * worker.state.nthreads, own),
        Sample("scalable_worker_memory_bytes", reading["memory"], own),
        Sample("scalable_node_cpu_cores", reading["node_cpu"], node),
        Sample("scalable_node_cpu_capacity_cores", reading["node_cpus"], node),
        Sample("scalable_node_memory_bytes", reading["node_memory"], node),
        Sample("scalable_node_memory_capacity_bytes", reading["node_memory_total"], node),
    ]
    if (limit := runners.settings.memory) is not None:
        figures.append(Sample("scalable_worker_memory_limit_bytes", limit, own))
    return figures
