"""Reading what a cluster tells of a pod and its events, where any part may be missing or of another kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scalable.cluster.kubernetes.quantities import read
from scalable.quantities import Memory

LONGEST = 400  # characters of the cluster's words that fit into a message

Facts = dict[str, Any]


def get(value: object, *path: str) -> Any:
    """What stands at a path; nothing if any part of it is not there."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text(value: object, *path: str) -> str:
    found = get(value, *path)
    return found if isinstance(found, str) else ""


def listed(value: object, *path: str) -> list[Facts]:
    found = get(value, *path)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def phase(pod: Facts) -> str:
    return text(pod, "status", "phase")


def node_name(pod: Facts) -> str:
    return text(pod, "spec", "nodeName")


def named(pod: Facts) -> str:
    name = text(pod, "metadata", "name")
    who = f"pod {name}" if name else "its pod"
    return f"{who} on {node_name(pod)}" if node_name(pod) else who


def condition(pod: Facts, kind: str) -> Facts:
    return next((one for one in listed(pod, "status", "conditions") if text(one, "type") == kind), {})


def containers(pod: Facts) -> Iterator[tuple[str, Facts]]:
    """Every container's name and status, those that run first among them."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in listed(pod, "status", kind):
            yield text(status, "name"), status


def status_of(end: Facts) -> int | None:
    code = get(end, "exitCode")
    return code if isinstance(code, int) else None


def memory_limit(pod: Facts, container: str) -> Memory | None:
    for one in (*listed(pod, "spec", "containers"), *listed(pod, "spec", "initContainers")):
        limit = read(get(one, "resources", "limits", "memory"))
        if limit and text(one, "name") == container:
            return Memory(int(limit))
    return None


def about(event: Facts, pod: Facts) -> bool:
    """Whether an event is of this pod; one that does not say of what it is was chosen by whoever gives it."""
    of = get(event, "involvedObject") or get(event, "regarding")
    for name in ("uid", "name"):
        here, there = text(pod, "metadata", name), text(of, name)
        if here and there:
            return here == there
    return True


def ordered(events: Sequence[Facts]) -> list[Facts]:
    """Oldest first; times of Kubernetes are texts that sort."""
    return sorted((one for one in events if isinstance(one, dict)), key=when)


def when(event: Facts) -> str:
    series = text(event, "series", "lastObservedTime")
    return series or text(event, "lastTimestamp") or text(event, "eventTime") or text(event, "firstTimestamp")


def latest(events: Sequence[Facts], reasons: tuple[str, ...]) -> Facts | None:
    return next((one for one in reversed(events) if reason_of(one) in reasons), None)


def reason_of(event: Facts) -> str:
    return text(event, "reason")


def message(event: Facts) -> str:
    return text(event, "message") or text(event, "note")


def last_words(said: str) -> str:
    """What a worker said of its end: its own last line, or the last of any."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("scalable worker:")]
    return (own or lines or [""])[-1].removeprefix("scalable worker:").strip()


def joined(between: str, *parts: str) -> str:
    return between.join(part for part in parts if part)


def brief(said: str) -> str:
    """On one line that can be read."""
    line = " ".join(said.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
