"""What the Kubernetes API answers: objects, changes, refusals; and which answers are worth asking again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scalable.cluster.base import ProviderError

LATEST_RETRY_AFTER_S = 30.0  # a server may ask for any delay; ours is bounded
BUSY = (429, 500, 502, 503, 504)  # it may work a moment later

Object = dict[str, Any]


class ApiError(ProviderError):
    """The server refused, or gave no answer (status 0)."""

    def __init__(
        self, status: int, reason: str, verb: str, resource: str, message: str = "", body: Object | None = None
    ) -> None:
        told = message or reason or "no reason given"
        super().__init__(f"{verb} {resource}: {told}{f' ({status} {reason})' if status else ''}")
        self.status = status
        self.reason = reason
        self.verb = verb
        self.resource = resource
        self.body = body or {}
        """The server's own answer, a Status object."""

    @property
    def unclear(self) -> bool:
        """It may have been done all the same."""
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


Told = Listing | Change | Watching


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which cluster and namespace, and where the credentials are: the ones of this pod, or of a kubeconfig."""

    namespace: str
    kubeconfig: str | None = None
    context: str | None = None
    url: str | None = None
    """For a server that asks for no credentials, such as kubectl proxy."""

    def arguments(self) -> list[str]:
        """The same on a command line; there are no secrets in it."""
        named = {"namespace": self.namespace, "kubeconfig": self.kubeconfig, "context": self.context, "url": self.url}
        return [f"--{name}={value}" for name, value in named.items() if value is not None]


def selected(labels: str, fields: str) -> dict[str, str]:
    return {name: text for name, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}


def busy(answer: Answer, method: str) -> bool:
    """Worth asking again. A quota that others count at the same moment is a conflict, not an object that exists."""
    counted = answer.status == 409 and method == "POST" and answer.reason == "Conflict"
    return answer.status in BUSY or counted


def delay(headers: Mapping[str, str]) -> float:
    """What the server asks for; it may also be a date, which is not worth reading."""
    text = headers.get("retry-after", "")
    return min(float(text), LATEST_RETRY_AFTER_S) if text.isdecimal() else 0.0


def checked(answer: Answer, verb: str, resource: str) -> Object:
    if answer.status >= 400:
        raise refused(answer.status, answer.body, verb, resource)
    return answer.body


def refused(status: int, body: Object, verb: str, resource: str) -> ApiError:
    return ApiError(status, str(body.get("reason") or ""), verb, resource, str(body.get("message") or ""), body)
