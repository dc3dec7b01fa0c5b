"""The state of the pods of one run, kept current by one watch on pods and one on events.

Nobody asks about single pods: the pages here change when the cluster changes. Nodes are looked at now and then, where
reading them is allowed; where it is not, a node is known from the pods on it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from scalable.cluster.base import Node
from scalable.cluster.kubernetes.api import ApiError, Change, Kube, Listing, Object, Watching
from scalable.errors import ScalableError
from scalable.observe.starts import FOUND_READY_S

logger = logging.getLogger("scalable")

MOST_EVENTS = 30  # of one pod: the newest tell why it waits
MOST_GONE = 2000  # pods that are remembered after their end, for those who ask late
REFUSED_S = 15.0  # before what could not be watched is tried again
NODES_EVERY_S = 15.0  # a node is paid by the hour; so often is often enough
ANSWER_WITHIN_S = 5.0  # about a node: nobody waits for it


class PodWatch:
    def __init__(self, kube: Kube, name: str, selector: str, pool_of: Callable[[str], str]) -> None:
        self.kube = kube
        self.name = name
        """What every pod's name begins with."""
        self.selector = selector
        self.pool_of = pool_of
        """The pool of a worker's tag, as its label says it."""
        self.pods: dict[str, Object] = {}
        """As last seen, those that are gone too."""
        self.gone: dict[str, float] = {}
        """Pods that were there and are not any more, and since when."""
        self.events: dict[str, deque[Object]] = {}
        self.machines: dict[str, Node] = {}
        self.readable = True
        """Nodes may be read."""
        self.refused: ApiError | None = None
        """Why pods cannot be watched, if that is so."""
        self.cut_at = float("-inf")
        """When all workers at once last lost their way to the scheduler (monotonic)."""
        self._news = asyncio.Event()
        self._watching = False
        self._since: dict[str, float] = {}
        self._looked = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, within: float) -> None:
        """Start to watch; returns when all pods of the run are known, raises why they cannot be."""
        if not self._tasks:
            self._tasks = [asyncio.ensure_future(work) for work in (self.watch_pods(), self.watch_events())]
        known = await self.until(lambda: self._watching or self.refused is not None, within)
        if self.refused is not None:
            refused, self.refused = self.refused, None
            await self.close()
            raise refused
        if not known:
            raise ApiError(0, "", "watch", "pods", f"no answer within {within:g} s")

    async def close(self) -> None:
        await self.kube.calm()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def until(self, condition: Callable[[], bool], within: float) -> bool:
        """Wait for the cluster to tell something; whether it did."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not condition():
                    await self._news.wait()
        return condition()

    def tell(self) -> None:
        """Wake those who wait in ``until``."""
        self._news.set()
        self._news = asyncio.Event()

    # What is watched

    async def watch_pods(self) -> None:
        """Watch pods for ever: a right that was taken away may be given back."""
        while True:
            try:
                async with aclosing(self.kube.watch("pods", labels=self.selector)) as changes:
                    async for change in changes:
                        if isinstance(change, Listing):
                            self.listed(change)
                        elif isinstance(change, Change):
                            self.changed(change)
                        else:
                            self._watching, self.refused = True, None
                        self.tell()
            except ApiError as error:
                self.refused = error
                self.tell()
            except ScalableError as error:
                logger.warning("pods are watched again in %g s: %s", REFUSED_S, error)
            await asyncio.sleep(REFUSED_S)

    def listed(self, listing: Listing) -> None:
        """Take a whole list; pods that went while nobody looked are gone without a last word."""
        there = {name_of(pod): pod for pod in listing.objects}
        for name in self.pods.keys() - there.keys():
            if self._since[name] < listing.began:
                self.gone.setdefault(name, time.time())
        for name, pod in there.items():
            self.gone.pop(name, None)
            self.seen(pod)

    def changed(self, change: Change) -> None:
        if change.kind == "DELETED":
            self.gone[name_of(change.object)] = time.time()
            for old in list(self.gone)[:-MOST_GONE]:
                self.forget(old)
        else:
            self.gone.pop(name_of(change.object), None)
        self.seen(change.object)

    def seen(self, pod: Object) -> None:
        """Take note of a pod, from a watch or an answer, which may be older than what the watch has told."""
        if older(pod, self.pods.get(name_of(pod))):
            return
        self.pods[name_of(pod)] = pod
        self._since.setdefault(name_of(pod), time.monotonic())
        node, labels = node_of(pod), pod["metadata"].get("labels") or {}
        if node is None or "scalable/worker" not in labels:
            return
        known = self.machines.get(node)
        if known is None:
            tag = labels.get("scalable/tag", "")
            since = instant((pod.get("status") or {}).get("startTime")) or time.time()
            asked = instant(pod["metadata"].get("creationTimestamp")) or since
            self.machines[node] = Node(node, self.pool_of(tag), since, awaited=since - asked > FOUND_READY_S)
            self._looked = 0.0
        elif known.until is not None and not self.readable and name_of(pod) not in self.gone:
            self.machines[node] = replace(known, until=None)  # it was only empty

    def forget(self, name: str) -> None:
        self.gone.pop(name, None)
        self._since.pop(name, None)
        self.pods.pop(name, None)
        self.events.pop(name, None)

    async def watch_events(self) -> None:
        """Watch events; without the right to read them a pod's own conditions must do."""
        while True:
            try:
                async with aclosing(self.kube.watch("events", fields="involvedObject.kind=Pod")) as changes:
                    async for change in changes:
                        for event in objects_in(change):
                            self.noted(event)
                        self.tell()
            except ApiError as error:
                logger.info("why pods wait is told without the cluster's events: %s", error)
                return
            except ScalableError as error:
                logger.warning("events are watched again in %g s: %s", REFUSED_S, error)
            await asyncio.sleep(REFUSED_S)

    def noted(self, event: Object) -> None:
        name = str((event.get("involvedObject") or {}).get("name") or "")
        if not name.startswith(self.name):
            return
        uid = event.get("metadata", {}).get("uid")
        pages = self.events.setdefault(name, deque(maxlen=MOST_EVENTS))
        for old in [page for page in pages if page.get("metadata", {}).get("uid") == uid]:
            pages.remove(old)  # the same event, counted once more
        pages.append(event)

    def events_of(self, name: str) -> list[Object]:
        return list(self.events.get(name, ()))

    # Nodes, for those who pay by the node

    async def look_at_nodes(self) -> None:
        """Ask now and then when nodes came, and whether they are still there."""
        if time.monotonic() - self._looked < NODES_EVERY_S:
            return
        self._looked = time.monotonic()
        there = [node for node in self.machines.values() if node.until is None]
        await asyncio.gather(*(self.look_at_node(node) for node in there))

    async def look_at_node(self, node: Node) -> None:
        try:
            machine = await self.kube.get("nodes", node.name, ANSWER_WITHIN_S)
        except ApiError as error:
            self.readable = self.readable and error.status != 403
            if not self.readable and not self.in_use(node.name):
                self.machines[node.name] = replace(node, until=time.time())
            return
        self.readable = True
        if machine is None:
            self.machines[node.name] = replace(node, until=time.time())
        elif (since := instant(machine["metadata"].get("creationTimestamp"))) is not None:
            self.machines[node.name] = replace(node, since=since, awaited=True)

    def in_use(self, node: str) -> bool:
        return any(node_of(pod) == node and name not in self.gone for name, pod in self.pods.items())


def objects_in(event: Listing | Change | Watching) -> list[Object]:
    if isinstance(event, Listing):
        return event.objects
    return [event.object] if isinstance(event, Change) else []


def name_of(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def older(pod: Object, known: Object | None) -> bool:
    """Return whether a pod is an older version of the known one; versions are numbers that grow."""
    about, there = pod["metadata"], (known or {}).get("metadata", {})
    if about.get("uid") != there.get("uid"):
        return False
    versions = [str(metadata.get("resourceVersion")) for metadata in (about, there)]
    return all(number.isdecimal() for number in versions) and int(versions[0]) < int(versions[1])


def node_of(pod: Object) -> str | None:
    return (pod.get("spec") or {}).get("nodeName")


def instant(text: Any) -> float | None:
    """Return the seconds since the epoch of a time as the API writes it."""
    return datetime.fromisoformat(text).timestamp() if text else None
