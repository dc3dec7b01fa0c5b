"""What can be seen of a live cluster at one moment: workers and tasks by tag, counted from Dask's scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.cluster.workers import Member
    from scalable.session.driver.recorder import TaskRecorder


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
            tag: {"live": one.live, "busy": len(one.working), "requested": one.requested}
            for tag, one in self.tags.items()
        }
        tasks = {
            tag: {"waiting": one.waiting, "running": one.running, "done": one.done, "failed": one.failed}
            for tag, one in self.tags.items()
        }
        return {"workers": workers, "tasks": tasks}


def look(cluster: TaggedCluster, recorder: TaskRecorder, serving: set[str]) -> Look:
    """Costs a little per worker and per task without a worker, nothing per task in all. ``serving`` have jobs."""
    done, failed = recorder.done, recorder.failed
    tags = {tag: TagLook(done=done.get(tag, 0), failed=failed.get(tag, 0)) for tag in cluster.templates}
    if not tags:
        return Look(tags)
    scheduler, first = cluster.scheduler, next(iter(tags))
    holders: list[tuple[int, Member]] = []
    for member in list(cluster.members.values()):
        if member.leaving or member.tag not in tags:
            continue
        one = tags[member.tag]
        state = scheduler.workers.get(member.address) if member.address else None
        if state is None:
            one.requested += 1
            continue
        one.live += 1
        if state.has_what:
            holders.append((state.nbytes, member))
        given = len(state.processing)
        if given or member.name in serving:
            one.working.add(member.name)
        if given:
            one.busy.add(member.name)
            one.running += min(given, member.template.slots)
            one.waiting += max(0, given - member.template.slots)
    if keeper := max(holders, key=lambda pair: pair[0], default=None):
        tags[keeper[1].tag].holding.add(keeper[1].name)
    for task in list(scheduler.unrunnable):
        tags[recorder.tag_of(task) or first].waiting += 1
    tags[first].waiting += len(scheduler.queued)
    for place, counts in (("done", done), ("failed", failed)):
        if "" in counts:  # tasks without a tag
            setattr(tags[first], place, getattr(tags[first], place) + counts[""])
    return Look(tags)
