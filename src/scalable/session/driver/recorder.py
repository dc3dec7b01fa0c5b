"""Writes what happens in a cluster to its journal: the life of workers, and every task with its true times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distributed.diagnostics.plugin import SchedulerPlugin

from scalable.engine.events import JobState, Loss

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.observe.journal import Journal

LONGEST_ERROR = 500  # characters of an error that are kept


def record(cluster: TaggedCluster, journal: Journal) -> TaskRecorder:
    """From now on, until the cluster closes."""
    cluster.listeners.append(lambda kind, facts: journal.write(kind, **facts))
    recorder = TaskRecorder(cluster, journal)
    cluster.scheduler.add_plugin(recorder)
    return recorder


class TaskRecorder(SchedulerPlugin):
    """Times are those the worker measured; Dask sends them with every result anyway."""

    name = "scalable-recorder"

    def __init__(self, cluster: TaggedCluster, journal: Journal) -> None:
        self.cluster = cluster
        self.scheduler = cluster.scheduler
        self.journal = journal
        self.done: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.tags = {name: kind.tag for kind in cluster.templates.values() for name in kind.resources}

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        address = self.scheduler.blamed.pop(key, None)
        if address is not None and finish == "released":
            self.cluster.keep(self.retried(key, address))
        ended = start == "processing" and finish in ("memory", "erred")
        given_up = start in ("no-worker", "queued") and finish == "erred"
        if not (ended or given_up):
            return
        task = self.scheduler.tasks.get(key)
        if task is None:
            return
        place = kwargs.get("worker", "")
        worker = self.scheduler.workers.get(place)
        tag = self.tag_of(task)
        times = [one for one in kwargs.get("startstops") or () if one["action"] == "compute"]
        facts: dict[str, Any] = {
            "key": str(key),
            "name": task.prefix.name,
            "tag": tag,
            "worker": str(worker.name) if worker else place,
            "start": times[0]["start"] if times else None,
            "stop": times[-1]["stop"] if times else None,
            "status": "finished" if finish == "memory" else "failed",
        }
        counts = self.done if finish == "memory" else self.failed
        counts[tag or ""] = counts.get(tag or "", 0) + 1
        if finish == "erred":
            facts["error"] = str(kwargs.get("exception_text") or "its workers died")[:LONGEST_ERROR]
        self.journal.write("task", **facts)

    async def retried(self, key: Any, address: str) -> None:
        """A task's worker died and Dask runs it again; the cause is known a moment later."""
        task = self.scheduler.tasks.get(key)
        tag = self.tag_of(task) if task is not None else None
        fate = None
        try:
            fate = await self.cluster.losses.fate_of(address)
        finally:
            cause = fate.cause if fate else Loss.WORKER_LOST
            self.journal.write("retry", key=str(key), tag=tag, cause=cause.value)

    def count(self, tag: str, state: JobState) -> None:
        """A job of the engine has ended."""
        if state is JobState.FINISHED:
            self.done[tag] = self.done.get(tag, 0) + 1
        elif state is not JobState.STOPPED:
            self.failed[tag] = self.failed.get(tag, 0) + 1

    def count_failed_rows(self, tag: str) -> None:
        """Count a job as failed that had been counted as done: some of its rows failed."""
        self.done[tag] = self.done.get(tag, 0) - 1
        self.failed[tag] = self.failed.get(tag, 0) + 1

    def tag_of(self, task: Any) -> str | None:
        """The kind of worker a task asks for."""
        for name in task.resource_restrictions or ():
            if name in self.tags:
                return self.tags[name]
        return None
