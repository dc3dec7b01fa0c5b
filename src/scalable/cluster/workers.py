"""The workers of one cluster from request to end: what is known of each, why it is gone, and what replaces it.

``Member`` is one worker, ``Watcher`` hears of all of them from Dask's scheduler, ``Losses`` finds out why workers are
gone, ``Replacements`` asks for others in their place.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin

from scalable.cluster.base import (
    Finite,
    Grouped,
    Launched,
    LaunchRefused,
    Successor,
    Witness,
    WorkerFate,
    WorkerTemplate,
)
from scalable.cluster.scheduler import give_up, give_up_large
from scalable.engine.events import NEVER, Loss
from scalable.engine.fleet import LATE_AFTER_S, START_DELAY_S, YOUNG_S
from scalable.walltime import EARLY_S
from scalable.wording import plural
from scalable.worker.crashes import crash_in
from scalable.worker.meter import TOPIC, UNREADABLE

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster

logger = logging.getLogger("scalable")

STOP_WITHIN_S = 60.0  # stopping takes less than a minute, or it is reported


@dataclass(eq=False)
class Member:
    """One worker from the moment it was asked for until it is gone."""

    name: str
    template: WorkerTemplate
    launched: Launched
    since: float
    """When it was asked for, in seconds since the epoch."""
    asked: float
    """When it was asked for, by a clock that nobody sets."""
    address: str | None = None
    """Set while it is connected."""
    joined: bool = False
    joined_at: float = 0.0
    """When it was first connected, in seconds since the epoch."""
    span: float = 0.0
    """The longest time that its work was to have since then; its allocation may be shortened later.

    Endless for one that came late into its allocation: what is cut off there may fit into a whole one.
    """
    work_ends_at: float | None = None
    """When work on it must be over, if it ends and its backend says when; in seconds since the epoch."""
    leaving: str = ""
    """Why it was told to go; empty while it is wanted."""
    had_notice: bool = False
    """It said that it will go soon."""
    noticed: bool = False
    """It will go soon, and another one was asked for in its place."""
    waits: str = ""
    died_of: tuple[Any, ...] = ()
    """Keys of tasks that were running on it when it died."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.asked

    @property
    def tag(self) -> str:
        return self.template.tag

    def note_end(self) -> None:
        """Note what its backend says of its end."""
        ends_at = self.launched.work_ends_at if isinstance(self.launched, Finite) else None
        if ends_at is not None and self.joined:
            late = isinstance(self.launched, Successor) and self.launched.late
            self.span = NEVER if late else max(self.span, ends_at - self.joined_at)
        self.work_ends_at = ends_at if ends_at != NEVER else None

    @property
    def allotted_s(self) -> float | None:
        """The time that its work had if its allocation ends now; endless if it goes for another notice.

        Nothing for a worker that goes for no reason of its backend's.
        """
        ends_at = self.work_ends_at
        if ends_at is not None and time.time() >= ends_at - EARLY_S:
            return self.span
        return NEVER if self.had_notice else None

    @property
    def shared(self) -> dict[str, str]:
        """Return the allocation that it shares with others, as a fact; none if it shares nothing."""
        allocation = self.launched.allocation if isinstance(self.launched, Grouped) else ""
        return {"allocation": allocation} if allocation else {}


class Watcher(SchedulerPlugin):
    """Tells the cluster what the scheduler sees."""

    name = "scalable-watcher"

    def __init__(self, cluster: TaggedCluster) -> None:
        self.cluster = cluster

    def add_worker(self, scheduler: Any, worker: str) -> None:
        self.cluster.joined(worker, str(scheduler.workers[worker].name))

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        self.cluster.losses.parted(worker)

    def log_event(self, topic: str, msg: Any) -> None:
        if topic == TOPIC and isinstance(msg, dict):
            facts = dict(msg)
            worker = facts.pop("worker", None)
            named = next((m for m in self.cluster.members.values() if m.address == worker), None)
            if named is not None:
                kind = facts.pop("kind")
                if kind == UNREADABLE:
                    self.cluster.scheduler.unreadable.add(worker)
                    return
                self.cluster.tell(kind, worker=named.name, tag=named.tag, **facts)
                if kind == "worker-leaving":
                    named.had_notice = True
                    self.cluster.replacements.had_notice(named)


CRASH_TOLD_WITHIN_S = 2.0  # until what a worker printed as it crashed is in its log; others are not held up longer
FATE_WITHIN_S = 10.0  # how long to look for the cause of a worker's death before calling it lost


class Losses:
    """The search for workers that are gone: notices it first or is told, finds out why, ends what is left of them.

    All of it runs in the event loop of the cluster.
    """

    def __init__(self, cluster: TaggedCluster) -> None:
        self.cluster = cluster
        self.fates: dict[str, WorkerFate] = {}
        """Why workers are gone, by their address."""

    async def watch(self) -> None:
        """Ask the backend about its workers: why they wait, and which are gone without having said so."""
        cluster = self.cluster
        while True:
            members = list(cluster.members.values())
            pause = await cluster.launcher.poll([member.launched for member in members])
            for member in members:
                if member.name not in cluster.members:
                    continue
                member.note_end()
                fate = member.launched.fate
                if fate is not None and not member.leaving:
                    if member.address in cluster.scheduler.workers:  # the scheduler has not noticed yet
                        self.fates[str(member.address)] = fate
                        expected = fate.cause in (Loss.WALLTIME, Loss.PREEMPTED)
                        await cluster.scheduler.remove_worker(
                            member.address, stimulus_id=f"gone-{member.name}", expected=expected, close=False
                        )
                    await self.bury(member)
                elif not member.joined and member.launched.waits != member.waits:
                    cluster.waits(member, member.launched.waits)
            await asyncio.sleep(pause)

    def parted(self, address: str) -> None:
        """Find out why the scheduler lost a worker, and make sure that its process is gone too."""
        member = next((m for m in self.cluster.members.values() if m.address == address), None)
        if member is None:
            return
        if member.leaving:
            member.address = None
        else:
            member.died_of = self.cluster.scheduler.died_of.pop(address, ())
            self.cluster.keep(self.bury(member))

    async def bury(self, member: Member) -> None:
        fate = await member.launched.learn_fate(FATE_WITHIN_S)
        if member.had_notice and fate.cause is Loss.WORKER_LOST:  # the worker said more than its backend
            fate = WorkerFate(Loss.PREEMPTED, f"left after notice; {fate.detail}")
        if member.address:
            self.fates[member.address] = fate  # before the rest of it is ended: someone may be waiting for the reason
        if fate.cause is Loss.OUT_OF_MEMORY:  # also where the backend said so later than the scheduler lost the worker
            give_up_large(self.cluster.scheduler, member.died_of, member.name, fate, member.template.memory)
        with suppress(TimeoutError):
            await asyncio.wait_for(member.launched.stop(gently=False), STOP_WITHIN_S)
        self.cluster.over(member, fate)

    def known_fate(self, address: str) -> WorkerFate | None:
        """Return why a worker is gone, if its backend knows that without being asked."""
        launched = self.launched_at(address)
        return self.fates.get(address) or (launched.fate if launched is not None else None)

    def running_on(self, address: str) -> set[str] | None:
        """Return keys of the tasks that a worker was doing when it died, if it kept a note of them."""
        launched = self.launched_at(address)
        return launched.running() if isinstance(launched, Witness) else None

    def allotted_s(self, address: str) -> float | None:
        """Return the time that work had on a worker whose allocation ends, see ``Member.allotted_s``."""
        member = next((m for m in self.cluster.members.values() if m.address == address), None)
        return member.allotted_s if member is not None else None

    def launched_at(self, address: str) -> Launched | None:
        return next((m.launched for m in self.cluster.members.values() if m.address == address), None)

    async def crashed_in(self, address: str) -> str:
        """Return the key of the task that a worker crashed in, as its log prints it; empty if that is not known.

        The log is a moment behind; if the backend knows that it was no crash, nothing is waited for.
        """
        log = getattr(self.launched_at(address), "log", None)
        deadline = time.monotonic() + CRASH_TOLD_WITHIN_S
        while log is not None:
            fate = self.known_fate(address)
            if fate is not None and fate.cause is not Loss.WORKER_CRASHED:
                break
            if (crash := await asyncio.to_thread(crash_in, log)) is not None and crash.task:
                return crash.task
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(CRASH_TOLD_WITHIN_S / 20)
        return ""

    async def fate_of(self, address: str) -> WorkerFate | None:
        """Return why a worker that was at this address is gone, waiting a while for the backend to say so."""
        deadline = time.monotonic() + 2 * FATE_WITHIN_S
        while address not in self.fates and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        return self.fates.get(address)


MOST_FAILED_STARTS = 3  # in a row, of workers that are replaced; then nobody would gain from a fourth


class Replacements:
    """Other workers for those that were lost or had notice, as long as anybody would gain from them.

    ``wanted`` is off where an engine decides how many workers there are.
    """

    def __init__(self, cluster: TaggedCluster, wanted: bool) -> None:
        self.cluster = cluster
        self.wanted = wanted
        self.failed_starts: Counter[str] = Counter()
        """How many workers of a tag in a row did not join."""
        self.short_lives: Counter[str] = Counter()
        """How many workers of a tag in a row joined and died without having worked."""
        self.given_up: dict[str, str] = {}
        """Tags for which no more workers are tried, with the reason."""

    def joined(self, member: Member) -> None:
        self.failed_starts[member.tag] = 0
        self.given_up.pop(member.tag, None)

    def lost(self, member: Member, fate: WorkerFate) -> None:
        """Count a worker that is gone without having been told to, and start another."""
        if member.joined:
            young = not member.died_of and member.age_s < YOUNG_S
            self.short_lives[member.tag] = self.short_lives[member.tag] + 1 if young else 0
            self.failed_starts[member.tag] = 0
        else:
            self.failed_starts[member.tag] += 1
        if self.possible and not member.noticed:
            self.cluster.keep(self.start_another(member, fate))

    def had_notice(self, member: Member) -> None:
        """Start another one now, so that it can take over what this one holds."""
        if self.possible and not (member.leaving or member.noticed):
            member.noticed = True
            self.cluster.keep(self.start_another(member, WorkerFate(Loss.PREEMPTED, "had notice")))

    @property
    def possible(self) -> bool:
        return self.wanted and self.cluster.status is Status.running

    async def start_another(self, member: Member, fate: WorkerFate) -> None:
        if self.failed_starts[member.tag] >= MOST_FAILED_STARTS:
            tried = plural(MOST_FAILED_STARTS, member.tag + " worker")
            logger.error("%s in a row did not start; no more are tried", tried)
            self.give_up(member.tag, fate.detail or fate.cause.value)
            return
        if (lives := self.short_lives[member.tag]) > 1:
            await asyncio.sleep(min(START_DELAY_S * 2 ** min(lives - 2, 10), LATE_AFTER_S))
        try:
            await self.cluster.launch(1, member.template)
        except LaunchRefused as refusal:
            if member.name in self.cluster.members:  # it is tried again when this one is gone
                member.noticed = False
                return
            logger.error("a worker for the lost %s was refused: %s", member.name, refusal)
            self.give_up(member.tag, str(refusal))

    def give_up(self, tag: str, reason: str) -> None:
        self.given_up[tag] = reason
        give_up(self.cluster, tag, reason)
