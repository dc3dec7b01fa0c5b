"""Reasons why a task waits or ended and what became of an instance, from AWS's own answers; pure, in tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scalable.cluster.base import WorkerFate
from scalable.cluster.clouds.fleet import Ending
from scalable.engine.events import Loss
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START

KILLED = 137  # 128 + SIGKILL

WAITS = {
    "PROVISIONING": "ECS looks for capacity and sets up its network",
    "PENDING": "its image is being pulled",
    "ACTIVATING": "it is being started",
}

REFUSED = {
    "RESOURCE:CPU": ("no capacity with that many CPUs is free", True),
    "RESOURCE:MEMORY": ("no capacity with that much memory is free", True),
    "RESOURCE:ENI": ("no network interface is free", True),
    "Capacity is unavailable": ("AWS has no Fargate capacity at the moment", True),
    "AGENT": ("the ECS agent is not connected", True),
    "ATTRIBUTE": ("no instance has what the task definition asks for", False),
    "MISSING": ("what the task needs does not exist", False),
    "You’ve reached the limit": ("the account's limit of tasks is used up", True),
    "You've reached the limit": ("the account's limit of tasks is used up", True),
}
"""How a failure of RunTask begins, what it means, and whether asking again later may help."""

STOPPED = (
    (r"OutOfMemoryError", Loss.OUT_OF_MEMORY, "used more memory than the task has"),
    (r"SpotInterruption|Your Spot Task was interrupted", Loss.PREEMPTED, "AWS took the spot capacity back"),
    (r"CannotPull\w*|pull image manifest", Loss.CANNOT_START, "the image could not be pulled"),
    (r"ResourceInitializationError.*(secret|ssm)", Loss.CANNOT_START, "the run's secret could not be read; may the "
     "execution role do secretsmanager:GetSecretValue on scalable-*, and is there a way to that service?"),
    (r"ResourceInitializationError", Loss.CANNOT_START, "its surroundings could not be set up"),
    (r"Cannot(Create|Start|Inspect)Container\w*|InvalidParameter|MissingFilesError", Loss.CANNOT_START,
     "its container could not be started"),
    (r"Timeout waiting for network interface|DeploymentError", Loss.WORKER_LOST, "its network was not set up"),
    (r"Host EC2|infrastructure|ContainerInstance|InternalError|TaskFailedToStart: .*internal", Loss.NODE_LOST,
     "its host failed or was retired"),
    (r"Capacity is unavailable|RESOURCE:", Loss.WORKER_LOST, "there was no capacity"),
)  # fmt: skip
"""Words of stoppedReason or of a container's reason, in the order they are looked for."""

BY_SOMEONE = ("UserInitiated", "ServiceSchedulerInitiated")

INSTANCE = {
    "Server.SpotInstanceTermination": (Loss.PREEMPTED, "AWS took the spot capacity back"),
    "Server.SpotInstanceShutdown": (Loss.PREEMPTED, "AWS took the spot capacity back"),
    "Server.ScheduledStop": (Loss.NODE_LOST, "AWS retired its host"),
    "Server.InsufficientInstanceCapacity": (Loss.WORKER_LOST, "AWS had no capacity of this type"),
    "Server.InternalError": (Loss.NODE_LOST, "its host failed"),
    "Client.VolumeLimitExceeded": (Loss.CANNOT_START, "the account's limit of volumes is used up"),
    "Client.InternalError": (Loss.CANNOT_START, "its disk could not be made, mostly for want of a key's right"),
    "Client.InvalidSnapshot.NotFound": (Loss.CANNOT_START, "the machine image has no disk any more"),
    "Client.UserInitiatedShutdown": (Loss.PREEMPTED, "someone terminated it"),
    "Client.UserInitiatedHibernate": (Loss.PREEMPTED, "someone put it to sleep"),
    "Client.InstanceInitiatedShutdown": (Loss.WORKER_LOST, "it switched itself off"),
    "Client.InstanceTerminated": (Loss.WORKER_LOST, "it switched itself off"),
}
"""StateReason.Code of an instance that goes or is gone."""


def refusal(failure: Mapping[str, Any]) -> tuple[str, bool]:
    """Return why RunTask started nothing, and whether that may pass."""
    reason = str(failure.get("reason", "")) or "no reason given"
    detail = f": {failure['detail']}" if failure.get("detail") else ""
    for begin, (words, passing) in REFUSED.items():
        if reason.startswith(begin):
            return f"{words} ({reason}{detail})", passing
    return f"ECS did not start the task: {reason}{detail}", False


def task_waits(task: Mapping[str, Any]) -> str:
    return WAITS.get(str(task.get("lastStatus")), "")


def over(task: Mapping[str, Any]) -> bool:
    return task.get("lastStatus") in ("STOPPED", "DEPROVISIONING", "DELETED")


def task_fate(task: Mapping[str, Any], last_words: str = "") -> WorkerFate:
    """Return why a task stopped. ``last_words`` are those of the worker itself."""
    name = f"task {str(task.get('taskArn', '')).rpartition('/')[2]}"
    containers = task.get("containers") or [{}]
    code = containers[0].get("exitCode")
    stopped = " ".join([str(task.get("stopCode") or ""), str(task.get("stoppedReason") or "")]).strip()
    words = "; ".join([stopped, *(str(container["reason"]) for container in containers if container.get("reason"))])
    for pattern, loss, meaning in STOPPED:
        if re.search(pattern, words, re.IGNORECASE):
            return WorkerFate(loss, f"{name}: {meaning} ({words})")
    if task.get("stopCode") in BY_SOMEONE:
        return WorkerFate(Loss.PREEMPTED, f"{name} was stopped by someone ({words})")
    return by_exit(name, code, last_words, words)


def by_exit(name: str, code: int | None, last_words: str, words: str) -> WorkerFate:
    """Return what a worker's own exit status says."""
    if code == 0:
        return WorkerFate(Loss.PREEMPTED, f"{name} left after notice")
    if code in (CANNOT_START, CANNOT_READ):
        return WorkerFate(Loss.CANNOT_START, f"{name}: {last_words or words}")
    if code == CANNOT_CONNECT:
        text = f"{name}: {last_words or 'cannot reach the scheduler'}; do security groups let workers in?"
        return WorkerFate(Loss.WORKER_LOST, text)
    if code == KILLED:
        return WorkerFate(Loss.WORKER_LOST, f"{name} was killed (SIGKILL), not by us ({words})")
    return WorkerFate(
        Loss.WORKER_LOST, f"{name} ended with exit code {code}{f': {last_words}' if last_words else ''} ({words})"
    )


def instance_fate(instance: Mapping[str, Any], end: Ending | None = None) -> WorkerFate:
    """Return why an instance goes or is gone. ``end`` is what its console said of the worker."""
    name = f"instance {instance.get('InstanceId', '')}"
    reason = instance.get("StateReason") or {}
    code, message = str(reason.get("Code", "")), str(reason.get("Message", ""))
    loss, meaning = INSTANCE.get(code, (Loss.WORKER_LOST, "it is gone"))
    if end is not None and loss in (Loss.WORKER_LOST, Loss.PREEMPTED) and not code.startswith("Server."):
        if end.out_of_memory:
            return WorkerFate(Loss.OUT_OF_MEMORY, f"{name}: the worker used more memory than it may")
        if end.code == 125:
            return WorkerFate(Loss.CANNOT_START, f"{name}: {end.message or 'its container could not be started'}")
        return by_exit(name, end.code, end.message, message)
    return WorkerFate(loss, f"{name}: {meaning} ({message or code or 'no reason given'})")
