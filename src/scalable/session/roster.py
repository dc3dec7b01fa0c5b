"""The workers of a live session, one record each: where it is, what it does, since when, and what it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalable.engine.events import JobState
from scalable.worker.measures import NAME

if TYPE_CHECKING:
    from scalable.cluster.workers import Member
    from scalable.session.driver import Driver

SHOWN_TASKS = 3  # keys of plain Dask tasks that are named per worker
STATES = ("starting", "idle", "busy", "leaving", "lost")
"""All that ``state`` says."""


def roster(driver: Driver) -> list[dict[str, Any]]:
    doing: dict[str, list[dict[str, Any]]] = {}
    for one in driver.activity():
        record = driver.engine.view.jobs.get(one["run"])
        if record is None or record.state is not JobState.GIVEN:  # what waits behind others does nothing yet
            doing.setdefault(one["worker"], []).append(one)
    return [told(driver, member, doing.get(name, [])) for name, member in sorted(driver.cluster.members.items())]


def told(driver: Driver, member: Member, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    dask = driver.cluster.scheduler.workers.get(member.address) if member.address else None
    tasks = [str(task.key) for task in dask.processing] if dask is not None else []
    limit = member.template.memory.bytes if member.template.memory else getattr(dask, "memory_limit", 0)
    return {
        "worker": member.name,
        "tag": member.tag,
        "state": state(member, busy=bool(jobs or tasks)),
        "why": member.leaving or ("" if member.joined else member.waits or member.launched.waits),
        "runs": jobs,
        "tasks": tasks[:SHOWN_TASKS],
        "task_count": len(tasks),
        "idle_s": idle_s(driver, member, jobs, tasks),
        "memory": memory(member, dask, jobs),
        "memory_limit": limit or None,
        "cpu": cpu(dask, jobs),
        "cpus": member.template.cpus,
        "host": getattr(dask, "host", None),
        "job": member.launched.job,
    }


def state(member: Member, *, busy: bool) -> str:
    if member.leaving:
        return "leaving"
    if not member.address:
        return "lost" if member.joined else "starting"
    return "busy" if busy else "idle"


def idle_s(driver: Driver, member: Member, jobs: list[dict[str, Any]], tasks: list[str]) -> float | None:
    """Since the last sign of what it runs, or since it ended its last job; unknown for plain Dask tasks."""
    if jobs:
        return max(float(one.get("idle_s") or 0.0) for one in jobs)
    idle = driver.engine.view.tags[member.tag].idle if member.tag in driver.engine.view.tags else {}
    return driver.now() - idle[member.name] if member.name in idle and not tasks else None


def memory(member: Member, dask: Any, jobs: list[dict[str, Any]]) -> int | None:
    """What the worker and its jobs use together; a worker that is a thread of the session uses nothing of its own."""
    apart = (member.address or "").startswith("inproc")
    own = 0 if dask is None or apart else int(dask.metrics.get("memory") or 0)
    return own + sum(int(one.get("memory") or 0) for one in jobs) or None


def cpu(dask: Any, jobs: list[dict[str, Any]]) -> float | None:
    """CPUs in use: lately by its process and all it started; where it does not say, by its jobs on average."""
    told = dask.metrics.get(NAME) if dask is not None else None
    if told:
        return float(told["cpu"])
    if jobs:
        return sum(float(one.get("cpu_s") or 0.0) / max(0.1, float(one.get("seconds") or 0.0)) for one in jobs)
    return float(dask.metrics.get("cpu") or 0.0) / 100 if dask is not None else None
