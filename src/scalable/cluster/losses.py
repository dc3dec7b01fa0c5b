"""Notices that workers are gone, whoever sees it first, finds out why, and ends what is left of them."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from scalable.cluster.base import Fate, Witness
from scalable.cluster.members import STOP_WITHIN_S, Member
from scalable.engine.events import Loss

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster

FATE_WITHIN_S = 10.0  # how long to look for the cause of a worker's death before calling it lost


class Losses:
    """Of one cluster, in whose event loop all of this runs."""

    def __init__(self, cluster: TaggedCluster) -> None:
        self.cluster = cluster
        self.fates: dict[str, Fate] = {}
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
        """The scheduler lost a worker; find out why, and make sure that its process is gone too."""
        member = next((m for m in self.cluster.members.values() if m.address == address), None)
        if member is None:
            return
        if member.leaving:
            member.address = None
        else:
            member.worked = address in self.cluster.scheduler.blamed.values()
            self.cluster.keep(self.bury(member))

    async def bury(self, member: Member) -> None:
        fate = await member.launched.learn_fate(FATE_WITHIN_S)
        if member.had_notice and fate.cause is Loss.WORKER_LOST:  # the worker said more than its backend
            fate = Fate(Loss.PREEMPTED, f"left after notice; {fate.detail}")
        if member.address:
            self.fates[member.address] = fate  # before the rest of it is ended: someone may be waiting for the reason
        with suppress(TimeoutError):
            await asyncio.wait_for(member.launched.stop(gently=False), STOP_WITHIN_S)
        self.cluster.over(member, fate)

    def running_on(self, address: str) -> set[str] | None:
        """Keys of the tasks that a worker was doing when it died, if it kept a note of them."""
        launched = next((m.launched for m in self.cluster.members.values() if m.address == address), None)
        return launched.running() if isinstance(launched, Witness) else None

    async def fate_of(self, address: str) -> Fate | None:
        """Why a worker that was at this address is gone, waiting a while for the backend to say so."""
        deadline = time.monotonic() + 2 * FATE_WITHIN_S
        while address not in self.fates and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        return self.fates.get(address)
