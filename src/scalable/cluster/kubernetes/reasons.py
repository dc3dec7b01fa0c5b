"""The state of a pod in the engine's terms and in sentences: why it waits, what ended it, why it is refused.

Pure, and never in the way: fields may be missing, of another kind, or say what nobody has heard of; then the cluster's
own words are shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from scalable.cluster.base import LaunchRefused, WorkerFate
from scalable.cluster.kubernetes.answers import (
    Facts,
    about,
    brief,
    condition,
    containers,
    get,
    joined,
    last_words,
    latest,
    listed,
    memory_limit,
    message,
    more,
    named,
    node_name,
    ordered,
    phase,
    read,
    reason_of,
    status_of,
    text,
)
from scalable.engine.events import Loss
from scalable.quantities import Memory
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START, LOST_SCHEDULER

NO_NODE: dict[str, Any] = {}
"""Given for a node that is not there any more; nothing is given for one that was not looked at."""

AUTOSCALER = {
    "TriggeredScaleUp": "the autoscaler adds a node",
    "Nominated": "a node is coming",
    "NotTriggerScaleUp": "the autoscaler adds no node",
    "FailedScaleUp": "the autoscaler could not add a node",
    "ScaleUpTimedOut": "the node that the autoscaler asked for did not come",
}
"""Events of what adds nodes, and what they mean."""
TELLING = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady", "Failed")
"""Events that say why a container is not created yet."""
IMAGE = {
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "ErrImageNeverPull": "its image is not on the node, and may not be pulled",
    "InvalidImageName": "the name of its image cannot be read",
    "ImageInspectError": "its image cannot be read",
    "RegistryUnavailable": "the registry of its image does not answer",
    "SignatureValidationFailed": "the signature of its image is not valid",
}
SETUP = {
    "CreateContainerConfigError": "its container lacks something",
    "CreateContainerError": "its container cannot be created",
    "RunContainerError": "its container cannot be started",
}
"""What a container waits for in vain, and the words for it."""
NOT_AGAIN = re.compile(
    r"not found|manifest unknown|does not exist|unauthorized|authentication required|denied|forbidden|no such host"
    r"|no match for platform|invalid reference|couldn't find key|runAsNonRoot|no command specified",
    re.IGNORECASE,
)
"""In what a registry or a node says of what will not come by waiting; nodes also report what passes."""
ENDED_BY = {
    "DeadlineExceeded": (Loss.WALLTIME, "reached its walltime"),
    "NodeLost": (Loss.NODE_LOST, "its node was lost"),
    "Preempting": (Loss.PREEMPTED, "gave way to a pod of the system"),
    "NodeShutdown": (Loss.PREEMPTED, "its node was shut down"),
    "Shutdown": (Loss.PREEMPTED, "its node was shut down"),
    "Terminated": (Loss.PREEMPTED, "its node was shut down"),
}
"""A pod's own reason for its end."""
REFUSED_BY_NODE = re.compile(
    r"OutOf\w+|NodeAffinity|NodeName|NodePorts|TaintToleration|UnexpectedAdmissionError|PodLevelResources\w*"
)
"""Reasons of a node that would not take a pod the scheduler gave it; another may."""
DISRUPTED_BY = {
    "PreemptionByScheduler": (Loss.PREEMPTED, "gave way to a pod of higher priority"),
    "EvictionByEvictionAPI": (Loss.PREEMPTED, "was evicted, as when a node is drained"),
    "DeletionByTaintManager": (Loss.NODE_LOST, "had to leave its node, which is lost or was tainted"),
    "DeletionByPodGC": (Loss.NODE_LOST, "its node is gone"),
    "TerminationByKubelet": (Loss.PREEMPTED, "was ended by its node"),
}
"""Reasons of the condition DisruptionTarget."""
EVENTS = {
    "Preempted": (Loss.PREEMPTED, "gave way to a pod of higher priority"),
    "Evicted": (Loss.PREEMPTED, "was evicted"),
    "TaintManagerEviction": (Loss.NODE_LOST, "had to leave its node, which is lost or was tainted"),
    "NodeNotReady": (Loss.NODE_LOST, "its node does not answer"),
    "NodeShutdown": (Loss.PREEMPTED, "its node was shut down"),
}
"""Events that tell of a pod's end where the pod itself does not."""
NOT_STARTED = ("StartError", "ContainerCannotRun", "DockerError")
BY_STATUS = {
    CANNOT_CONNECT: Loss.WORKER_LOST,
    CANNOT_START: Loss.CANNOT_START,
    CANNOT_READ: Loss.CANNOT_START,
    LOST_SCHEDULER: Loss.WORKER_LOST,
}
SIGTERM_STATUS, SIGKILL_STATUS = 143, 137
NOISE = re.compile(r"(,? ?no new claims to deallocate,?)?,? ?preemption: .*", re.DOTALL)
"""Of a scheduler's words: that nobody could be driven out either."""
NO_CODE = re.compile(r"ModuleNotFoundError|No module named|No such file|not found")


def waits(pod: Facts, events: Sequence[Facts] = ()) -> str:
    """Return why a pod does not run yet; empty once it runs or has ended."""
    if phase(pod) not in ("", "Pending"):
        return ""
    events = [event for event in ordered(events) if about(event, pod)]
    scheduled = condition(pod, "PodScheduled")
    if text(scheduled, "status") != "True" and not text(pod, "spec", "nodeName"):
        return joined("; ", unscheduled(scheduled, events), autoscaler(events))
    where = f" on {node_name(pod)}" if node_name(pod) else ""
    for _, status in containers(pod):
        reason, given = text(status, "state", "waiting", "reason"), text(status, "state", "waiting", "message")
        if words := IMAGE.get(reason) or SETUP.get(reason):
            detail = pull_detail(given, events) if reason in IMAGE else given
            return brief(joined(": ", f"{words} ({reason})", detail))
        if reason not in ("", "ContainerCreating", "PodInitializing"):
            return brief(joined(": ", reason, given))
    if trouble := latest(events, TELLING):
        return brief(f"its container is not there yet{where}: {message(trouble)}")
    if pulling := latest(events, ("Pulling", "Pulled")):
        return f"its image is being pulled{where}" if reason_of(pulling) == "Pulling" else f"it starts{where}"
    return f"its container is being made{where}"


def unscheduled(scheduled: Facts, events: Sequence[Facts]) -> str:
    reason = text(scheduled, "reason")
    failed = latest(events, ("FailedScheduling",))
    words = NOISE.sub("", text(scheduled, "message") or (message(failed) if failed else ""))
    if reason == "SchedulingGated":
        return brief(joined(": ", "it is held back (SchedulingGated)", words))
    if reason == "Unschedulable" or failed:
        return brief(joined(": ", "no node has room for it", words))
    return brief(joined(": ", reason or "the scheduler has not looked at it yet", words))


def autoscaler(events: Sequence[Facts]) -> str:
    """Return what adds nodes has decided last."""
    event = latest(events, tuple(AUTOSCALER))
    return brief(joined(": ", AUTOSCALER[reason_of(event)], message(event))) if event else ""


def pull_detail(words: str, events: Sequence[Facts]) -> str:
    """Return why an image is not pulled; a kubelet that backs off says it only in an event."""
    tried = [event for event in events if reason_of(event) == "Failed" and "pull" in message(event)]
    return message(tried[-1]) if tried and not NOT_AGAIN.search(words) else words


def fate(
    pod: Facts | None, events: Sequence[Facts] = (), node: Facts | None = None, *, gone: bool = False
) -> WorkerFate | None:
    """Return why a pod is gone; nothing while it is there, even if it was told to go and still hands its work over.

    ``pod`` is as it was seen last, with ``gone`` if the API has it no more; nothing if it was never seen.
    """
    there, pod = pod is not None and not gone, pod or {}
    events = [event for event in ordered(events) if about(event, pod)]
    who = named(pod)
    if verdict := over(pod, who) or disrupted(pod, who, there=there):
        return verdict
    if there and (verdict := hopeless(pod, who, events)):
        return verdict
    if node is not None and (problem := lost(node)):  # one that is drained before it goes tells its pods
        return disrupted(pod, who, there=False) or WorkerFate(Loss.NODE_LOST, f"{who}: {problem}")
    if phase(pod) == "Unknown":
        return WorkerFate(Loss.NODE_LOST, f"{who}: its node does not answer")
    if there:
        return None
    if event := latest(events, tuple(EVENTS)):
        cause, words = EVENTS[reason_of(event)]
        return WorkerFate(cause, brief(joined(": ", f"{who}: {words}", message(event))))
    return WorkerFate(Loss.PREEMPTED, f"{who} was deleted by somebody")


def over(pod: Facts, who: str) -> WorkerFate | None:
    """Return the fate of a pod whose containers, or node, ended it: the worst that any of them says."""
    reason, detail = text(pod, "status", "reason"), text(pod, "status", "message")
    if phase(pod) not in ("Failed", "Succeeded"):
        return None
    ends = [(part, end) for part, status in containers(pod) for end in [get(status, "state", "terminated")] if end]
    for part, end in ends:
        if text(end, "reason") == "OOMKilled":
            limit = memory_limit(pod, part)
            return WorkerFate(
                Loss.OUT_OF_MEMORY,
                f"{who} used more memory than its limit{f' of {limit}' if limit else ''} (OOMKilled)",
                limit,
            )
    if reason == "Evicted":
        return evicted(who, detail)
    if reason in ENDED_BY:
        cause, words = ENDED_BY[reason]
        return WorkerFate(cause, brief(joined(": ", f"{who} {words}", detail)))
    if REFUSED_BY_NODE.fullmatch(reason):
        return WorkerFate(Loss.PREEMPTED, brief(joined(": ", f"{who} was not taken by its node ({reason})", detail)))
    if fate := disrupted(pod, who, there=False):
        return fate
    for _, end in sorted(ends, key=lambda end: status_of(end[1]) == 0):
        return ended(who, end)
    if phase(pod) == "Succeeded":
        return WorkerFate(Loss.PREEMPTED, f"{who} left after notice")
    return WorkerFate(Loss.WORKER_LOST, brief(joined(": ", f"{who} failed", reason, detail)))


def ended(who: str, end: Facts) -> WorkerFate:
    """Return a fate by the status of a process and its last words, which the node keeps."""
    status, reason, detail = status_of(end), text(end, "reason"), last_words(text(end, "message"))
    if reason in NOT_STARTED:
        return WorkerFate(Loss.CANNOT_START, brief(joined(": ", f"{who} could not be started ({reason})", detail)))
    if reason == "ContainerStatusUnknown":
        return WorkerFate(Loss.NODE_LOST, f"{who}: its node lost sight of it")
    if status in (0, SIGTERM_STATUS):
        return WorkerFate(Loss.PREEMPTED, f"{who} left after notice")
    if status in BY_STATUS:
        return WorkerFate(BY_STATUS[status], brief(joined(": ", who, detail or f"ended with status {status}")))
    if status == SIGKILL_STATUS:
        return WorkerFate(
            Loss.WORKER_LOST, brief(joined(": ", f"{who} was killed (SIGKILL), as a node short of memory does"))
        )
    known = "" if reason in ("", "Error", "Completed") else f" ({reason})"
    words = joined(": ", f"{who} ended with status {'?' if status is None else status}{known}", detail)
    return WorkerFate(Loss.CANNOT_START if NO_CODE.search(detail) else Loss.WORKER_LOST, brief(words))


def evicted(who: str, detail: str) -> WorkerFate:
    """Return the fate of a pod evicted by a node that runs short; a greedy one would be evicted again."""
    words = brief(joined(": ", f"{who} was evicted", detail))
    usage = re.search(r"was using (\S+), request is (\S+?),? has larger consumption", detail)
    if "low on resource: memory" in detail and usage and more(usage[1].rstrip(","), usage[2].rstrip(",")):
        used = read(usage[1].rstrip(","))
        return WorkerFate(Loss.OUT_OF_MEMORY, words, Memory(int(used)) if used else None)
    own = re.search(r"exceeds the (total )?limit", detail)  # of ephemeral storage: it would do so again
    return WorkerFate(Loss.WORKER_LOST if own else Loss.PREEMPTED, words)


def disrupted(pod: Facts, who: str, *, there: bool) -> WorkerFate | None:
    """Return the fate of a pod that somebody ended; while its containers run it is not gone."""
    target = condition(pod, "DisruptionTarget")
    reason, detail = text(target, "reason"), text(target, "message")
    if text(target, "status") != "True" or (there and not unheard(pod, reason)):
        return None
    cause, words = DISRUPTED_BY.get(reason, (Loss.PREEMPTED, f"was ended ({reason})"))
    return WorkerFate(cause, brief(joined(": ", f"{who} {words}", detail)))


def unheard(pod: Facts, reason: str) -> bool:
    """Return whether its node is silent: it must leave, and is called not ready while its containers are said to run.

    A node that answers keeps a worker ready until it has ended, since it has no probe that could fail.
    """
    runs = any(get(status, "state", "running") for _, status in containers(pod))
    return reason == "DeletionByTaintManager" and runs and text(condition(pod, "Ready"), "status") == "False"


def hopeless(pod: Facts, who: str, events: Sequence[Facts]) -> WorkerFate | None:
    """Return the fate of a pod that waits for what will not come."""
    if phase(pod) not in ("", "Pending"):
        return None
    for _, status in containers(pod):
        reason, detail = text(status, "state", "waiting", "reason"), text(status, "state", "waiting", "message")
        if reason in IMAGE:
            detail = pull_detail(detail, events)
        never = reason in ("InvalidImageName", "ErrImageNeverPull", "SignatureValidationFailed")
        if never or (reason in IMAGE.keys() | SETUP.keys() and NOT_AGAIN.search(detail)):
            words = IMAGE.get(reason) or SETUP[reason]
            return WorkerFate(Loss.CANNOT_START, brief(joined(": ", f"{who}: {words} ({reason})", detail)))
    return None


def lost(node: Facts) -> str:
    """Return why a node is lost; empty if it is not."""
    if not node:
        return "its node is gone"
    ready = next((item for item in listed(node, "status", "conditions") if text(item, "type") == "Ready"), {})
    name = text(node, "metadata", "name") or "its node"
    if text(ready, "status") == "Unknown":
        return brief(joined(": ", f"{name} does not answer", text(ready, "message")))
    taints = [text(item, "key") for item in listed(node, "spec", "taints")]
    return f"{name} cannot be reached" if "node.kubernetes.io/unreachable" in taints else ""


def refusal(status_code: int, body: object) -> LaunchRefused:
    """Return why the API did not take a pod; definite if it would not take it later either."""
    given = text(body, "message") or (body if isinstance(body, str) else "")
    if quota := re.search(r"exceeded quota: (.*?), requested: (.*?), used: (.*?), limited: (.*)", given, re.DOTALL):
        return quota_refusal(*quota.groups())
    if rights := re.search(
        r'[Uu]ser "(.*?)" cannot (\S+) resource "(.*?)".*?(?:in the namespace "(.*?)"|at the cluster scope|$)', given
    ):
        user, verb, resource, namespace = rights.groups()
        where = f" in the namespace {namespace}" if namespace else ""
        remedy = f"have a Role with the verb {verb} for {resource} bound to it"
        return LaunchRefused(f"{user} may not {verb} {resource}{where}; {remedy}", definite=True)
    if account := re.search(r'error looking up service account \S+: serviceaccount "(.*?)" not found', given):
        remedy = "create it, or name another: worker_service_account"
        return LaunchRefused(f"the service account {account[1]} does not exist; {remedy}", definite=True)
    if missing := re.search(r'namespaces "(.*?)" not found', given):
        name = missing[1]
        return LaunchRefused(f"the namespace {name} does not exist; kubectl create namespace {name}", definite=True)
    if status_code == 401:
        return LaunchRefused(
            joined(": ", "the cluster does not accept the credentials; log in again", brief(given)), definite=True
        )
    if status_code in (409, 429) or status_code >= 500:
        words = "there is one already" if status_code == 409 else "the cluster's API is busy or fails"
        return LaunchRefused(joined(": ", f"{words} ({status_code})", brief(given)))
    causes = [joined(": ", text(cause, "field"), text(cause, "message")) for cause in listed(body, "details", "causes")]
    detail = brief("; ".join(filter(None, causes)) or given) if status_code == 422 else brief(given)
    return LaunchRefused(joined(": ", f"the cluster refuses it ({status_code})", detail), definite=True)


def quota_refusal(name: str, requested: str, used: str, limited: str) -> LaunchRefused:
    """Explain a quota; one that is used up may be freed, one smaller than a pod will never do."""
    asked, there = pairs(requested), pairs(limited)
    never = [what for what, amount in asked.items() if what in there and more(amount, there[what])]
    had = pairs(used)
    facts = [
        f"{what} {amount} with {had.get(what, '?')} of {there.get(what, '?')} used" for what, amount in asked.items()
    ]
    if never:
        small = f"the quota {name} is smaller than one worker: {', '.join(facts)}; raise it, or use a smaller profile"
        return LaunchRefused(brief(small), definite=True)
    return LaunchRefused(brief(f"the quota {name} is used up: it asks for {', '.join(facts)}"))


def pairs(written: str) -> dict[str, str]:
    parts = (pair.strip().partition("=") for pair in written.split(","))
    return {what: amount for what, sign, amount in parts if sign}
