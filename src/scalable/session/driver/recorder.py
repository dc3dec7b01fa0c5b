"""Writes what happens in a cluster to its journal, and counts what can be seen of it at one moment.

Recorded are the life of workers, and every task with its true times. Counted are workers and tasks by tag, from Dask's
scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distributed.diagnostics.plugin import SchedulerPlugin

from scalable.engine.events import JobState, Loss

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.cluster.workers import Member
    from scalable.observe.journal import Journal

LONGEST_ERROR = 500  # characters of an error that are kept


def record(cluster: TaggedCluster, journal: Journal) -> TaskRecorder:
    """Record tasks from now on, until the cluster closes."""
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
        times = [span for span in kwargs.get("startstops") or () if span["action"] == "compute"]
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
        """Note that a task's worker died and Dask runs it again; the cause is known a moment later."""
        task = self.scheduler.tasks.get(key)
        tag = self.tag_of(task) if task is not None else None
        fate = None
        try:
            fate = await self.cluster.losses.fate_of(address)
        finally:
            cause = fate.cause if fate else Loss.WORKER_LOST
            self.journal.write("retry", key=str(key), tag=tag, cause=cause.value)

    def count(self, tag: str, state: JobState) -> None:
        """Count a job of the engine that has ended."""
        if state is JobState.FINISHED:
            self.done[tag] = self.done.get(tag, 0) + 1
        elif state is not JobState.STOPPED:
            self.failed[tag] = self.failed.get(tag, 0) + 1

    def count_failed_rows(self, tag: str) -> None:
        """Count a job as failed that had been counted as done: some of its rows failed."""
        self.done[tag] = self.done.get(tag, 0) - 1
        self.failed[tag] = self.failed.get(tag, 0) + 1

    def tag_of(self, task: Any) -> str | None:
        """Return the kind of worker a task asks for."""
        for name in task.resource_restrictions or ():
            if name in self.tags:
                return self.tags[name]
        return None


@dataclass(slots=True)
class TagLook:
    live: int = 0
    requested: int = 0
    """Asked for and not connected."""
    busy: set[str] = field(default_factory=set)
    """Workers that have tasks the engine did not start."""
    working: set[str] = field(default_factory=set)
    """Workers that have any tasks or jobs."""
    holding: set[str] = field(default_factory=set)
    """The worker that keeps results for all; others can hand theirs to it when they go."""
    running: int = 0
    waiting: int = 0
    """Tasks the engine did not start, beyond what the workers' slots take."""
    done: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    tags: dict[str, TagLook]

    def to_dict(self) -> dict[str, Any]:
        workers = {
            tag: {"live": counts.live, "busy": len(counts.working), "requested": counts.requested}
            for tag, counts in self.tags.items()
        }
        tasks = {
            tag: {"waiting": counts.waiting, "running": counts.running, "done": counts.done, "failed": counts.failed}
            for tag, counts in self.tags.items()
        }
        return {"workers": workers, "tasks": tasks}


def look(cluster: TaggedCluster, recorder: TaskRecorder, serving: set[str]) -> Look:
    """Look at workers, and at tasks without one; costs nothing per task in all. ``serving`` have jobs."""
    done, failed = recorder.done, recorder.failed
    tags = {tag: TagLook(done=done.get(tag, 0), failed=failed.get(tag, 0)) for tag in cluster.templates}
    if not tags:
        return Look(tags)
    scheduler, first = cluster.scheduler, next(iter(tags))
    holders: list[tuple[int, Member]] = []
    for member in list(cluster.members.values()):
        if member.leaving or member.tag not in tags:
            continue
        own = tags[member.tag]
        state = scheduler.workers.get(member.address) if member.address else None
        if state is None:
            own.requested += 1
            continue
        own.live += 1
        if state.has_what:
            holders.append((state.nbytes, member))
        given = len(state.processing)
        if given or member.name in serving:
            own.working.add(member.name)
        if given:
            own.busy.add(member.name)
            own.running += min(given, member.template.slots)
            own.waiting += max(0, given - member.template.slots)
    if keeper := max(holders, key=lambda pair: pair[0], default=None):
        tags[keeper[1].tag].holding.add(keeper[1].name)
    for task in list(scheduler.unrunnable):
        tags[recorder.tag_of(task) or first].waiting += 1
    tags[first].waiting += len(scheduler.queued)
    for place, counts in (("done", done), ("failed", failed)):
        if "" in counts:  # tasks without a tag
            setattr(tags[first], place, getattr(tags[first], place) + counts[""])
    return Look(tags)
