"""The jobs of the manifest's tasks, and which of them can start: one job for each combination of a task's axes.

A task that needs another gets its result by axis. Of axes that both have, a job gets the result at its own coordinates;
of axes that it has not, the results at all values, as a mapping by value, nested in the order of the axes. Jobs that
get the same results wait for them together, as one ``Group``, so that a thousand jobs that need a thousand others do
not make a million edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scalable.axes import Coordinates, Value, combinations, job_name
from scalable.manifest.models import Task

UNKNOWN: Any = object()


@dataclass(frozen=True, slots=True, eq=False)
class TaskJob:
    """One call of a task's function."""

    task: str
    coordinates: Coordinates
    name: str


@dataclass(slots=True, eq=False)
class Group:
    """The jobs of a task that have the same values on some of its axes; other jobs wait for all of them."""

    axes: tuple[str, ...]
    """The other axes, on which they differ."""
    members: list[TaskJob] = field(default_factory=list)
    waiting: list[TaskJob] = field(default_factory=list)
    left: int = 0
    """Members that have not finished."""
    failed: bool = False
    given: Any = UNKNOWN
    """What those who waited are given, once somebody asked."""

    def collected(self, results: Mapping[str, Any]) -> Any:
        """Return the results of the members: of one alone its own, of several a mapping by value."""
        return nested((values_at(job, self.axes), results.get(job.name)) for job in self.members)


class TaskGraph:
    """The jobs of some tasks: what can start, what waits, and what never will, as jobs finish and fail."""

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self.tasks = tasks
        self.jobs: dict[str, list[TaskJob]] = {
            name: [TaskJob(name, place, job_name(name, place)) for place in combinations(task.over)]
            for name, task in tasks.items()
        }
        self.results: dict[str, Any] = {}
        """By the names of jobs that have finished."""
        self.marks: dict[str, str] = {}
        """By the names of jobs: what tells the files that they wrote from others at the same place."""
        self.groups: dict[tuple[str, tuple[str, ...]], dict[tuple[Value, ...], Group]] = {}
        """By task and the axes that another shares with it, then by the values on these axes."""
        self.blocked: dict[str, int] = {}
        """By the names of jobs that wait: how many of their groups are not complete; less than 0 for ever."""
        for name, task in tasks.items():
            for need in task.needs:
                shared = self.shared(name, need)
                groups = self.grouped(need, shared)
                for job in self.jobs[name]:
                    groups[values_at(job, shared)].waiting.append(job)
                    self.blocked[job.name] = self.blocked.get(job.name, 0) + 1

    def shared(self, task: str, need: str) -> tuple[str, ...]:
        """Return the axes of a task that another shares which needs it."""
        return tuple(axis for axis in self.tasks[need].over if axis in self.tasks[task].over)

    def grouped(self, need: str, shared: tuple[str, ...]) -> dict[tuple[Value, ...], Group]:
        """Return the jobs of a task by their values on some of its axes."""
        if (need, shared) not in self.groups:
            groups = self.groups[need, shared] = {}
            others = tuple(axis for axis in self.tasks[need].over if axis not in shared)
            for member in self.jobs[need]:
                group = groups.setdefault(values_at(member, shared), Group(others))
                group.members.append(member)
                group.left += 1
        return self.groups[need, shared]

    def group(self, job: TaskJob, need: str) -> Group:
        """Return the jobs of a task that a job needs."""
        shared = self.shared(job.task, need)
        return self.groups[need, shared][values_at(job, shared)]

    def ready(self) -> list[TaskJob]:
        """Return the jobs that need nothing, in the manifest's order."""
        return [job for jobs in self.jobs.values() for job in jobs if job.name not in self.blocked]

    def finish(self, job: TaskJob, result: Any = None, mark: str = "") -> list[TaskJob]:
        """Take in the result of a job, and return those that can start now."""
        self.results[job.name] = result
        if mark:
            self.marks[job.name] = mark
        able = []
        for group in self.groups_with(job):
            group.left -= 1
            for waiting in group.waiting if not group.left else ():
                self.blocked[waiting.name] -= 1
                if not self.blocked[waiting.name]:
                    able.append(waiting)
        return able

    def fail(self, job: TaskJob) -> list[tuple[TaskJob, str]]:
        """Return the jobs that can never start now, each with the name of the job that it needed."""
        lost: list[tuple[TaskJob, str]] = []
        gone = [job]
        while gone:
            first = gone.pop()
            for group in self.groups_with(first):
                hit = [waiting for waiting in group.waiting if not group.failed and self.blocked[waiting.name] > 0]
                group.failed = True
                for waiting in hit:
                    self.blocked[waiting.name] = -1
                lost += [(waiting, first.name) for waiting in hit]
                gone += hit
        return lost

    def groups_with(self, job: TaskJob) -> list[Group]:
        return [groups[values_at(job, shared)] for (task, shared), groups in self.groups.items() if task == job.task]

    def arguments(self, job: TaskJob) -> dict[str, Any]:
        """Return what the function of a job is called with: its arguments, its coordinates and what it needs."""
        task = self.tasks[job.task]
        return {**task.arguments, **job.coordinates, **{need: self.given(job, need) for need in task.needs}}

    def given(self, job: TaskJob, need: str) -> Any:
        group = self.group(job, need)
        if group.given is UNKNOWN:
            group.given = group.collected(self.results)
        return group.given

    def reads(self, job: TaskJob) -> tuple[Any, ...]:
        """Return the marks of the files that a job is given; empty if it is given none."""
        if not self.marks:
            return ()
        needs = self.tasks[job.task].needs
        read = tuple(tuple(self.marks.get(member.name) for member in self.group(job, need).members) for need in needs)
        return read if any(map(any, read)) else ()

    def by_task(self) -> dict[str, Any]:
        """Return all results: of a task with axes as a mapping by value, nested in their order."""
        return {
            name: nested((tuple(job.coordinates.values()), self.results[job.name]) for job in jobs)
            for name, jobs in self.jobs.items()
        }


def values_at(job: TaskJob, axes: Iterable[str]) -> tuple[Value, ...]:
    return tuple([job.coordinates[axis] for axis in axes])


def nested(results: Iterable[tuple[tuple[Value, ...], Any]]) -> Any:
    """Return results by the values of axes; the only one where there are no axes.

    >>> nested([(("low", 1), "a"), (("low", 2), "b"), (("high", 1), "c")])
    {'low': {1: 'a', 2: 'b'}, 'high': {1: 'c'}}
    >>> nested([((), "a")])
    'a'
    """
    whole: dict[Value, Any] = {}
    for values, result in results:
        if not values:
            return result
        inner = whole
        for value in values[:-1]:
            inner = inner.setdefault(value, {})
        inner[values[-1]] = result
    return whole
