"""Answers of the Kubernetes API: objects, changes, refusals; and how to read them where any part may be missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from scalable.cluster.base import ProviderError
from scalable.observe.logs import without_time
from scalable.quantities import Memory
from scalable.wording import shortened

LATEST_RETRY_AFTER_S = 30.0  # a server may ask for any delay; ours is bounded
BUSY = (429, 500, 502, 503, 504)  # it may work a moment later

Object = dict[str, Any]


class ApiError(ProviderError):
    """The server refused, or gave no answer (status 0)."""

    def __init__(
        self, status: int, reason: str, verb: str, resource: str, message: str = "", body: Object | None = None
    ) -> None:
        words = message or reason or "no reason given"
        super().__init__(f"{verb} {resource}: {words}{f' ({status} {reason})' if status else ''}")
        self.status = status
        self.reason = reason
        self.verb = verb
        self.resource = resource
        self.body = body or {}
        """The server's own answer, a Status object."""

    @property
    def unclear(self) -> bool:
        """Return whether it may have been done all the same."""
        return self.status in (0, *BUSY)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Object
    again: bool = False
    """An earlier try had no clear end."""

    @property
    def reason(self) -> str:
        return str(self.body.get("reason") or "")


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects there are now; those that are not among them are gone."""

    objects: list[Object]
    began: float = 0.0
    """When it was asked for (monotonic); what was made later may be missing."""


@dataclass(frozen=True, slots=True)
class Change:
    """One object that came, changed, or went."""

    kind: str
    """ADDED, MODIFIED or DELETED; BOOKMARK within a watch."""
    object: Object


@dataclass(frozen=True, slots=True)
class Watching:
    """From now on changes are told."""


WatchEvent = Listing | Change | Watching


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster and namespace, and where the credentials are: those of this pod, or of a kubeconfig."""

    namespace: str
    kubeconfig: str | None = None
    context: str | None = None
    url: str | None = None
    """For a server that asks for no credentials, such as kubectl proxy."""

    def arguments(self) -> list[str]:
        """Return the same for a command line; there are no secrets in it."""
        named = {"namespace": self.namespace, "kubeconfig": self.kubeconfig, "context": self.context, "url": self.url}
        return [f"--{name}={value}" for name, value in named.items() if value is not None]


def selected(labels: str, fields: str) -> dict[str, str]:
    return {name: text for name, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}


def busy(answer: Answer, method: str) -> bool:
    """Return whether to ask again. A quota that others count at the same moment is a conflict, too."""
    counted = answer.status == 409 and method == "POST" and answer.reason == "Conflict"
    return answer.status in BUSY or counted


def delay(headers: Mapping[str, str]) -> float:
    """Return what the server asks for; it may also be a date, which is not worth reading."""
    text = headers.get("retry-after", "")
    return min(float(text), LATEST_RETRY_AFTER_S) if text.isdecimal() else 0.0


def checked(answer: Answer, verb: str, resource: str) -> Object:
    if answer.status >= 400:
        raise refused(answer.status, answer.body, verb, resource)
    return answer.body


def refused(status: int, body: Object, verb: str, resource: str) -> ApiError:
    return ApiError(status, str(body.get("reason") or ""), verb, resource, str(body.get("message") or ""), body)


LONGEST = 400  # characters of the cluster's words that fit into a message

Facts = dict[str, Any]


def get(value: object, *path: str) -> Any:
    """Return what stands at a path; nothing if any part of it is not there."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text(value: object, *path: str) -> str:
    leaf = get(value, *path)
    return leaf if isinstance(leaf, str) else ""


def listed(value: object, *path: str) -> list[Facts]:
    items = get(value, *path)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def phase(pod: Facts) -> str:
    return text(pod, "status", "phase")


def node_name(pod: Facts) -> str:
    return text(pod, "spec", "nodeName")


def named(pod: Facts) -> str:
    name = text(pod, "metadata", "name")
    who = f"pod {name}" if name else "its pod"
    return f"{who} on {node_name(pod)}" if node_name(pod) else who


def condition(pod: Facts, kind: str) -> Facts:
    return next((state for state in listed(pod, "status", "conditions") if text(state, "type") == kind), {})


def containers(pod: Facts) -> Iterator[tuple[str, Facts]]:
    """Yield every container's name and status, those that run first among them."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in listed(pod, "status", kind):
            yield text(status, "name"), status


def status_of(end: Facts) -> int | None:
    code = get(end, "exitCode")
    return code if isinstance(code, int) else None


def memory_limit(pod: Facts, container: str) -> Memory | None:
    for part in (*listed(pod, "spec", "containers"), *listed(pod, "spec", "initContainers")):
        limit = read(get(part, "resources", "limits", "memory"))
        if limit and text(part, "name") == container:
            return Memory(int(limit))
    return None


def about(event: Facts, pod: Facts) -> bool:
    """Return whether an event is of this pod; one that does not say of what it is was chosen by whoever gives it."""
    of = get(event, "involvedObject") or get(event, "regarding")
    for name in ("uid", "name"):
        own, there = text(pod, "metadata", name), text(of, name)
        if own and there:
            return own == there
    return True


def ordered(events: Sequence[Facts]) -> list[Facts]:
    """Sort events, oldest first; times of Kubernetes are texts that sort."""
    return sorted((event for event in events if isinstance(event, dict)), key=when)


def when(event: Facts) -> str:
    series = text(event, "series", "lastObservedTime")
    return series or text(event, "lastTimestamp") or text(event, "eventTime") or text(event, "firstTimestamp")


def latest(events: Sequence[Facts], reasons: tuple[str, ...]) -> Facts | None:
    return next((event for event in reversed(events) if reason_of(event) in reasons), None)


def reason_of(event: Facts) -> str:
    return text(event, "reason")


def message(event: Facts) -> str:
    return text(event, "message") or text(event, "note")


def last_words(log: str) -> str:
    """Return what a worker said of its end: its own last line, or the last of any."""
    lines = [without_time(line).strip() for line in log.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("scalable worker:")]
    return (own or lines or [""])[-1].removeprefix("scalable worker:").strip()


def joined(between: str, *parts: str) -> str:
    return between.join(part for part in parts if part)


def brief(words: str) -> str:
    """Put words on one line that can be read."""
    return shortened(" ".join(words.split()), LONGEST)


UNITS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}  # fmt: skip
WRITTEN = re.compile(r"([+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18}))(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i))?")


def read(written: object) -> Decimal | None:
    """Read an amount; nothing for what is none."""
    if isinstance(written, int) and not isinstance(written, bool):
        return Decimal(written)
    amount = WRITTEN.fullmatch(written.strip()) if isinstance(written, str) else None
    if amount is None:
        return None
    number, power, unit = amount.groups()
    return Decimal(number) * (Decimal(10) ** int(power) if power else UNITS[unit or ""])


def more(amount: object, other: object) -> bool:
    """Return whether the first is certainly more than the second."""
    first, second = read(amount), read(other)
    return first is not None and second is not None and first > second
