"""The jobs of the manifest's tasks for a plan: how many there are, and when the last of them ends.

The time is that of jobs that are given to workers in order as soon as what they need is there, each as long as its task
took on average: what the engine does where nothing goes wrong.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Mapping

from scalable.axes import count
from scalable.manifest.models import Manifest, Task
from scalable.planning.history import History
from scalable.sweeps.task_graph import TaskGraph, TaskJob


def fanned_out(manifest: Manifest) -> dict[str, Task]:
    """Return the tasks that ``scalable run`` runs; none if none of them has axes, since scripts may start others."""
    tasks = {name: task for name, task in manifest.tasks.items() if task.run is not None}
    return tasks if any(task.over for task in tasks.values()) else {}


def jobs_by_task(tasks: Mapping[str, Task]) -> dict[str, int]:
    return {name: count(task.over) for name, task in tasks.items()}


def jobs_by_tag(tasks: Mapping[str, Task]) -> Counter[str]:
    jobs: Counter[str] = Counter()
    for task in tasks.values():
        jobs[task.component] += count(task.over)
    return jobs


def mean_seconds(name: str, task: Task, history: History) -> float | None:
    """Return what a job of a task took on average: of its own kind if that was measured, else of its component's."""
    measured = history.seconds.get(f"run:{name}") or history.seconds.get(f"tag:{task.component}")
    return sum(measured) / len(measured) if measured else None


def time_of(tasks: Mapping[str, Task], seconds: Mapping[str, float], slots: Mapping[str, int]) -> float:
    """Return when the last job ends. ``seconds`` are those of a job of each task, ``slots`` those of each tag."""
    graph = TaskGraph(tasks)
    queues: defaultdict[str, deque[TaskJob]] = defaultdict(deque)
    free = Counter(slots)
    running: list[tuple[float, int, TaskJob]] = []
    now, number, able = 0.0, 0, graph.ready()
    while True:
        for job in able:
            queues[tasks[job.task].component].append(job)
        for tag, queue in queues.items():
            while queue and free[tag]:
                job = queue.popleft()
                free[tag] -= 1
                number += 1
                heapq.heappush(running, (now + seconds[job.task], number, job))
        if not running:
            return now
        now, _, ended = heapq.heappop(running)
        free[tasks[ended.task].component] += 1
        able = graph.finish(ended)
