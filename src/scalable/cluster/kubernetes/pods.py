"""One worker as a pod: why it waits, what became of it, what it printed, and how it is ended.

The board knows what the cluster says; ``reasons`` puts it into words. What a pod prints is copied to this machine while
it runs, since the cluster forgets it with the pod.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from scalable.cluster.base import WorkerFate
from scalable.cluster.kubernetes import reasons
from scalable.cluster.kubernetes.api import ApiError, Kube, Object
from scalable.cluster.kubernetes.watch import PodWatch, node_of
from scalable.cluster.remote import RemoteWorker
from scalable.engine.events import Loss
from scalable.observe.files import append_private
from scalable.observe.logs import LAST_LINES, last_lines

logger = logging.getLogger("scalable")

KILL_WITHIN_S = 1  # of a pod that need not hand anything over; 0 would forget it without knowing that it ended
DELETE_WITHIN_S = 45.0  # a server that does not answer; the parent's end takes the pod with it later
ASK_WITHIN_S = 5.0  # one pod or node whose worker is gone
CUT_S = 90.0  # after the relay was lost workers leave: they look for it as long as it is kept, and then their pods end
AGAIN_S = 2.0  # before a log whose connection broke is followed again


class WorkerPod(RemoteWorker):
    """One worker as a pod."""

    def __init__(self, name: str, kube: Kube, board: PodWatch, log: Path | None = None, contact: str = "") -> None:
        super().__init__()
        self.name = name
        self.job: str | None = f"pod {name}"
        self.kube = kube
        self.board = board
        self.log = log
        self.contact = contact
        """What it was told to connect to."""
        self.following: asyncio.Task[None] | None = None

    @property
    def waits(self) -> str:
        if self.name in self.board.gone or self.fate is not None:
            return ""
        pod = self.board.pods.get(self.name)
        return reasons.waits(pod, self.board.events_of(self.name)) if pod else "the cluster has not told of it yet"

    @property
    def node(self) -> str | None:
        return node_of(self.board.pods.get(self.name, {}))

    @property
    def notice(self) -> str:
        """Return who ends it: an eviction, a pod of higher priority, its node."""
        fate = reasons.disrupted(self.board.pods.get(self.name, {}), str(self.job), there=False)
        return fate.detail if fate else ""

    # What became of it

    async def update(self) -> None:
        if self.fate is None and not self.unwanted:
            self.fate = await self.judged()

    async def judged(self, node: Object | None = None) -> WorkerFate | None:
        events, pod = self.board.events_of(self.name), self.board.pods.get(self.name)
        gone = self.name in self.board.gone
        fate = reasons.fate(pod, events, node, gone=gone)
        if pod is not None and fate is not None and silent(pod):
            fate = reasons.fate(speaking(pod, await self.last_lines()), events, node, gone=gone)
        return self.excused(fate) if fate else None

    def excused(self, fate: WorkerFate) -> WorkerFate:
        """Excuse a worker that left because the relay was lost; neither it nor its work is to blame."""
        if fate.cause is Loss.WORKER_LOST and time.monotonic() - self.board.cut_at < CUT_S:
            return WorkerFate(Loss.PREEMPTED, f"the connection to the relay broke; {fate.detail}")
        return fate

    async def last_lines(self) -> str:
        """Return its last lines from the cluster, which may still have them, else from what was copied."""
        if text := await self.kube.log(self.name, lines=LAST_LINES):
            return text
        return "\n".join(last_lines(self.log, LAST_LINES)) if self.log is not None else ""

    def leave(self, why: str) -> bool:
        """Give it up if it has not started; returns whether that is so."""
        waits = (self.board.pods.get(self.name, {}).get("status") or {}).get("phase") == "Pending"
        if not waits or self.name in self.board.gone or self.fate is not None or self.unwanted:
            return False
        self.fate = WorkerFate(Loss.PREEMPTED, f"{self.job} had not started: {why}")
        return True

    async def learn_fate(self, within: float) -> WorkerFate:
        """Find out why a connection broke: the pod ends, its node is gone, or only the network is."""
        deadline = time.monotonic() + within
        while self.fate is None and not self.unwanted and (left := deadline - time.monotonic()) > 0:
            await self.ask_again(min(ASK_WITHIN_S, left))
            await self.update()
            if self.fate is None:
                await self.board.until(lambda: self.name in self.board.gone, min(1.0, left))
        if self.fate is None and not self.unwanted:
            self.fate = await self.judged(await self.its_node())
        return self.fate or self.excused(
            WorkerFate(Loss.WORKER_LOST, f"its connection broke; {self.job} {self.described()}")
        )

    async def ask_again(self, within: float) -> None:
        """Ask for the pod itself: the watch may be cut just now."""
        with suppress(ApiError):
            pod = await self.kube.get("pods", self.name, within)
            if pod is not None:
                self.board.seen(pod)
            elif self.name in self.board.pods:
                self.board.gone.setdefault(self.name, time.time())

    async def its_node(self) -> Object | None:
        """Return its node; nothing where that is not known or not ours to read."""
        if not (self.node and self.board.readable):
            return None
        try:
            return await self.kube.get("nodes", self.node, ASK_WITHIN_S) or reasons.NO_NODE
        except ApiError:
            return None

    def described(self) -> str:
        pod = self.board.pods.get(self.name, {})
        phase = (pod.get("status") or {}).get("phase", "unknown")
        return f"is {phase}{f' on {self.node}' if self.node else ''}"

    # Its end

    async def end(self, *, gently: bool) -> None:
        """Have it deleted. If the cluster does not confirm that now, the end of the parent takes it along."""
        grace = None if gently else KILL_WITHIN_S
        if self.following is None and self.log is not None and self.name not in self.board.gone:
            self.keep(await self.kube.log(self.name, lines=LAST_LINES))
        try:
            await self.kube.delete("pods", self.name, grace=grace, within=DELETE_WITHIN_S)
            self.ended = True
        except ApiError as error:
            logger.error("%s could not be deleted: %s", self.job, error)

    # What it prints

    @property
    def printing(self) -> bool:
        """Return whether there is or was something to read."""
        return any(state.keys() & {"running", "terminated"} for state in states(self.board.pods.get(self.name, {})))

    def follow(self) -> None:
        if self.following is None and self.log is not None:
            self.following = asyncio.ensure_future(self.copy())

    async def copy(self) -> None:
        """Copy what it prints until it has ended, also what was printed while a connection was broken."""
        since = None
        while True:
            async with aclosing(self.kube.follow_log(self.name, since)) as parts:
                async for part in parts:
                    self.keep(part.decode(errors="replace"))
                    since = time.time()
            if self.fate is not None or self.name in self.board.gone or ended(self.board.pods.get(self.name, {})):
                return
            await asyncio.sleep(AGAIN_S)

    def keep(self, text: str) -> None:
        assert self.log is not None
        if text:
            with suppress(OSError), os.fdopen(append_private(self.log), "a", encoding="utf-8") as file:
                file.write(text)  # a full disk keeps no pod alive


def states(pod: Object) -> list[dict[str, Any]]:
    return [status.get("state") or {} for status in (pod.get("status") or {}).get("containerStatuses") or []]


def ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def silent(pod: Object) -> bool:
    """Return whether its process ended with an error and the cluster does not say with which words."""
    ends = [state["terminated"] for state in states(pod) if state.get("terminated")]
    return any(end.get("exitCode") and not end.get("message") for end in ends)


def speaking(pod: Object, text: str) -> Object:
    """Return the same pod with its last words, as clusters report them that do."""
    pod = copy.deepcopy(pod)
    for state in states(pod):
        if (end := state.get("terminated")) and end.get("exitCode") and not end.get("message"):
            end["message"] = text
    return pod
