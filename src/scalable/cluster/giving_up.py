"""Fails tasks in Dask for which no worker can be had, with the reason; Dask alone would let them wait for ever."""

from __future__ import annotations

from collections.abc import Collection
from time import time
from typing import TYPE_CHECKING, Any

from distributed.protocol import pickle

from scalable.errors import ScalableError

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster


class NoWorkerError(ScalableError):
    """A task was given up because no worker of its kind can be had; says why not."""

    def __init__(self, task: str, tag: str, reason: str) -> None:
        super().__init__(task, tag, reason)
        self.task, self.tag, self.reason = task, tag, reason

    def __str__(self) -> str:
        return f"{self.task} was given up because no {self.tag} worker can be had: {self.reason}"


def give_up(cluster: TaggedCluster, tag: str, reason: str, spared: Collection[Any] = ()) -> list[Any]:
    """Fail what waits for workers of a tag, if there are none and none is to come; the keys of what was failed.

    Does what Dask's own ``no-workers-timeout`` does, but knows why. ``spared`` are keys that others look after.
    """
    scheduler = cluster.scheduler
    waiting = [*scheduler.unrunnable, *scheduler.queued]
    lost = [task for task in waiting if task.key not in spared and is_hopeless(cluster, task, tag)]
    moment = f"no-worker-{time()}"
    recommendations: dict[Any, Any] = {}
    for task in lost:
        error = NoWorkerError(str(task.key), tag, reason)
        recommendations |= scheduler.transition(
            task.key,
            "erred",
            stimulus_id=moment,
            exception=pickle.dumps(error),
            exception_text=str(error),
            cause=task.key,
        )
    scheduler.transitions(recommendations, stimulus_id=moment)
    return [task.key for task in lost]


def is_hopeless(cluster: TaggedCluster, task: Any, tag: str) -> bool:
    """Whether workers of this tag were its hope, and no other worker is there that could do it."""
    wanted = [name for name in task.resource_restrictions or () if any(name in t.resources for t in kinds(cluster))]
    able = {kind.tag for kind in kinds(cluster) if all(name in kind.resources for name in wanted)}
    hope = tag in able if wanted else tag == next(iter(cluster.templates), None)
    return hope and not any(m.tag in able and not m.leaving for m in list(cluster.members.values()))


def kinds(cluster: TaggedCluster) -> Collection[Any]:
    return cluster.templates.values()
