"""``diagnose``: from a snapshot to findings. Pure, so that every sentence can be tested."""

from __future__ import annotations

from collections.abc import Iterator

from scalable.cluster.diagnosis.limits import LIMITS, Limits
from scalable.cluster.diagnosis.snapshot import Kind, Snapshot
from scalable.cluster.diagnosis.spare import idle_workers, slow_starts
from scalable.cluster.diagnosis.starting import queued, refused, silent
from scalable.cluster.diagnosis.waiting import waiting_tasks
from scalable.findings import Finding, Severity


def diagnose(snapshot: Snapshot, now: float, limits: Limits = LIMITS) -> list[Finding]:
    """Why workers do not connect, why tasks wait, why workers idle; the gravest first."""
    found = [*everywhere(snapshot)]
    for kind in snapshot.kinds:
        found += of_kind(snapshot, kind, now, limits)
    return sorted(found, key=lambda finding: list(Severity).index(finding.severity), reverse=True)


def of_kind(snapshot: Snapshot, kind: Kind, now: float, limits: Limits) -> Iterator[Finding]:
    held_up = [finding for why in (queued, silent, refused) for finding in why(snapshot, kind, now, limits)]
    yield from held_up
    if not held_up:  # else that is why tasks wait
        yield from waiting_tasks(snapshot, kind, now, limits)
    yield from idle_workers(snapshot, kind, now, limits)
    yield from slow_starts(kind, limits)


def everywhere(snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.trouble:
        who, check = ("the batch system", "scontrol ping shows whether the controller is there")
        if snapshot.pods:
            who, check = "the cluster's API", "kubectl get pods shows whether it is there"
        yield Finding.warning(
            "backend-silent",
            "",
            f"{who} does not answer: {snapshot.trouble}; workers that run go on, new ones cannot be had",
            f"it is asked again by itself; {check}",
        )
    waiting = sum(kind.waiting for kind in snapshot.kinds)
    if waiting and snapshot.stopped:
        yield Finding.error(
            "budget", "", f"{tasks(waiting)} not started: {snapshot.stopped}", "raise the budget and start again"
        )
    elif waiting and snapshot.paused:
        yield Finding.error("paused", "", f"{tasks(waiting)} not started: {snapshot.paused}", "resume to go on")


def tasks(count: int) -> str:
    return "1 task is" if count == 1 else f"{count} tasks are"
