"""One worker of a cluster from the moment it was asked for, and what Dask's scheduler tells of all of them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distributed.diagnostics.plugin import SchedulerPlugin

from scalable.cluster.base import Launched, WorkerTemplate
from scalable.worker.meter import TOPIC, UNREADABLE

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster

STOP_WITHIN_S = 60.0  # stopping takes less than a minute, or it is reported


@dataclass(eq=False)
class Member:
    """One worker from the moment it was asked for until it is gone."""

    name: str
    template: WorkerTemplate
    launched: Launched
    since: float
    """When it was asked for, in seconds since the epoch."""
    asked: float
    """When it was asked for, by a clock that nobody sets."""
    address: str | None = None
    """Set while it is connected."""
    joined: bool = False
    leaving: str = ""
    """Why it was told to go; empty while it is wanted."""
    had_notice: bool = False
    """It said that it will go soon."""
    noticed: bool = False
    """It will go soon, and another one was asked for in its place."""
    waits: str = ""
    worked: bool = False
    """Tasks were running on it when it died."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.asked

    @property
    def tag(self) -> str:
        return self.template.tag


class Watcher(SchedulerPlugin):
    """Tells the cluster what the scheduler sees."""

    name = "scalable-watcher"

    def __init__(self, cluster: TaggedCluster) -> None:
        self.cluster = cluster

    def add_worker(self, scheduler: Any, worker: str) -> None:
        self.cluster.joined(worker, str(scheduler.workers[worker].name))

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        self.cluster.losses.parted(worker)

    def log_event(self, topic: str, msg: Any) -> None:
        if topic == TOPIC and isinstance(msg, dict):
            facts = dict(msg)
            worker = facts.pop("worker", None)
            named = next((m for m in self.cluster.members.values() if m.address == worker), None)
            if named is not None:
                kind = facts.pop("kind")
                if kind == UNREADABLE:
                    self.cluster.scheduler.unreadable.add(worker)
                    return
                self.cluster.tell(kind, worker=named.name, tag=named.tag, **facts)
                if kind == "worker-leaving":
                    named.had_notice = True
                    self.cluster.replacements.had_notice(named)
