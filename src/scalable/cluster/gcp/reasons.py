"""Why an instance was not placed, waits or is gone, from Google's own answers; pure and driven by tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable.cluster.base import Fate
from scalable.cluster.clouds.machine import CANNOT_PULL, Ending
from scalable.engine.events import Loss
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START

REFUSED = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": ("the zone has no room for this machine type at the moment", True),
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": ("the zone has no room for this machine type at the moment", True),
    "STOCKOUT": ("the zone has no room for this machine type at the moment", True),
    "QUOTA_EXCEEDED": ("a quota of the project is used up", True),
    "RATE_LIMIT_EXCEEDED": ("too many calls", True),
    "IP_SPACE_EXHAUSTED": ("the subnetwork has no free addresses", True),
    "RESOURCE_NOT_FOUND": ("something it names does not exist", False),
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": ("something it names is in use", False),
    "PERMISSIONS_ERROR": ("the project may not use something it names", False),
    "UNSUPPORTED_OPERATION": ("the zone does not do that", False),
    "INVALID_USAGE": ("the request cannot be met", False),
}
"""Codes of a failed operation, what they mean, and whether asking again later may help."""

WAITS = {"PROVISIONING": "Google looks for capacity", "STAGING": "the machine is being set up"}
GONE = ("STOPPING", "SUSPENDING", "SUSPENDED", "TERMINATED", "STOPPED", "DEPROVISIONING")

TAKEN = {
    "compute.instances.preempted": (Loss.PREEMPTED, "Google took the spot capacity back"),
    "compute.instances.hostError": (Loss.NODE_LOST, "its host failed"),
    "compute.instances.automaticRestart": (Loss.NODE_LOST, "its host failed"),
    "compute.instances.guestTerminate": (Loss.WORKER_LOST, "it switched itself off"),
    "stop": (Loss.PREEMPTED, "someone stopped it"),
    "delete": (Loss.PREEMPTED, "someone deleted it"),
    "suspend": (Loss.PREEMPTED, "someone suspended it"),
}
"""Types of the operations that end an instance; the newest one of an instance tells."""


def operation_error(error: Mapping[str, Any]) -> tuple[str, bool]:
    """Why an operation failed, and whether that may pass."""
    first = (error.get("errors") or [{}])[0]
    code, message = str(first.get("code", "")), str(first.get("message", ""))
    words, passing = REFUSED.get(code, ("Google refused it", False))
    return f"{words}: {message} ({code})", passing


def waits(instance: Mapping[str, Any]) -> str:
    return WAITS.get(str(instance.get("status")), "")


def gone(instance: Mapping[str, Any]) -> bool:
    return instance.get("status") in GONE


def fate(name: str, operation: str, end: Ending | None) -> Fate:
    """An instance that goes or is gone. ``operation`` ended it; ``end`` is what its console said of the worker."""
    name = f"instance {name}"
    loss, meaning = TAKEN.get(operation, (Loss.WORKER_LOST, "it is gone"))
    if end is None or loss in (Loss.NODE_LOST, Loss.PREEMPTED):
        return Fate(loss, f"{name}: {meaning} ({operation or 'no reason given'})")
    if end.out_of_memory:
        return Fate(Loss.OUT_OF_MEMORY, f"{name}: the worker used more memory than it may")
    if end.code in (CANNOT_START, CANNOT_READ, CANNOT_PULL):
        return Fate(Loss.CANNOT_START, f"{name}: {end.said or 'its container could not be started'}")
    if end.code == CANNOT_CONNECT:
        return Fate(Loss.WORKER_LOST, f"{name}: {end.said}; do firewall rules let workers in?")
    if end.code == 0:
        return Fate(Loss.PREEMPTED, f"{name} left after notice")
    return Fate(
        Loss.WORKER_LOST, f"{name}: the worker ended with exit code {end.code}{f': {end.said}' if end.said else ''}"
    )
