"""Starts workers on hired capacity, watches all of them with one question to the cloud, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalable.cluster.base import Launched, LaunchRefused, WorkerFate, WorkerTemplate
from scalable.cluster.clouds.fleet import KNOWN_AFTER_S, CloudError, Fleet, Seen
from scalable.cluster.clouds.start import HandoutError, packed
from scalable.cluster.remote import RemoteLauncher, RemoteWorker
from scalable.engine.events import Loss
from scalable.worker.reaper import Reaper

logger = logging.getLogger("scalable")

SOON_S, SELDOM_S = 0.5, 10.0  # between questions to the cloud; they get rarer while nothing changes
RARER = 1.4
FORGOTTEN_AFTER = 5  # answers in a row without a worker before it counts as gone; clouds answer with a delay
CLEAR_WITHIN_S = 120.0  # a task's network interface goes half a minute after the task
END_AGAIN_S = 5.0  # between attempts to end a worker that the cloud did not end when it was asked to
CLOSE_WITHIN_S = 60.0  # for answers to what was asked before; what is missing then is searched for


class CloudLauncher(RemoteLauncher):
    """The workers of one run."""

    def __init__(self, fleet: Fleet, handout: Path, environment: Mapping[str, str]) -> None:
        super().__init__()
        self.fleet = fleet
        self.handout = handout
        self.environment = environment
        """Of all workers; what a kind has in its own counts more."""
        self.reaper = Reaper()
        self.trouble = ""
        """Why the cloud does not answer, if it does not."""
        self.workers: set[CloudWorker] = set()
        """All that may still be there."""
        self.ready: asyncio.Future[None] | None = None
        self.kinds: dict[str, tuple[WorkerTemplate, asyncio.Future[str]]] = {}
        """Where workers of a kind find what is handed to them; a tag may be defined anew."""
        self.closing = False
        self.pause, self.due = SOON_S, 0.0
        self.end_again_at = 0.0

    def check(self, template: WorkerTemplate) -> str:
        if template.mounts:
            return "workers in a cloud have no folders of this machine; remove mounts"
        return self.fleet.check(template)

    async def start(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        if self.closing:
            raise LaunchRefused("the cluster is closed")
        try:
            source = await self.source(template)
            arguments = [source, *template.options(name, scheduler).arguments()]
            cloud_id = await asyncio.to_thread(self.fleet.start, name, template, arguments)
        except CloudError as error:
            raise LaunchRefused(str(error), definite=not error.passing) from None
        except HandoutError as error:
            raise LaunchRefused(str(error), definite=True) from None
        worker = CloudWorker(cloud_id, self.fleet)
        self.workers.add(worker)
        self.pause, self.due = SOON_S, 0.0
        return worker

    async def source(self, template: WorkerTemplate) -> str:
        """Prepare the run once and each kind once, however many are asked for side by side."""
        if self.ready is None or failed(self.ready):
            self.reaper.on_death(self.fleet.clean_up_command())
            self.ready = asyncio.ensure_future(asyncio.to_thread(self.fleet.prepare))
        await asyncio.shield(self.ready)
        defined, place = self.kinds.get(template.tag, (None, None))
        if place is None or defined != template or failed(place):
            self.fleet.kinds.add(template.tag)
            self.reaper.on_death(self.fleet.clean_up_command())
            text = packed(self.handout, {**self.environment, **template.environment})
            place = asyncio.ensure_future(asyncio.to_thread(self.fleet.publish, template, text))
            self.kinds[template.tag] = (template, place)
        return await asyncio.shield(place)

    async def poll(self, launched: list[Launched]) -> float:
        """Ask the cloud, when it is time to, about all workers at once."""
        self.end_again()
        workers = [worker for worker in launched if isinstance(worker, CloudWorker) and worker.fate is None]
        if not workers or time.monotonic() < self.due:
            return SOON_S
        before = [(worker.waits, worker.fate) for worker in workers]
        try:
            seen = await asyncio.to_thread(self.fleet.look, [worker.id for worker in workers])
        except CloudError as error:
            self.trouble = str(error)
            self.due = time.monotonic() + SELDOM_S / 3
            return SOON_S
        self.trouble = ""
        for worker in workers:
            worker.update(seen.get(worker.id))
        changed = before != [(worker.waits, worker.fate) for worker in workers]
        self.pause = SOON_S if changed else min(self.pause * RARER, SELDOM_S)
        self.due = time.monotonic() + self.pause
        return SOON_S

    def end_again(self) -> None:
        """Try again to end what could not be ended, since it is still paid."""
        if time.monotonic() >= self.end_again_at:
            self.end_again_at = time.monotonic() + END_AGAIN_S
            for worker in self.workers:
                if not worker.ended and worker.ending is not None and worker.ending.done():
                    worker.ending = asyncio.ensure_future(worker.end(gently=True))

    async def close(self) -> None:
        """Remove everything of the run; what the cloud does not let go in time is left to the reaper."""
        self.closing = True
        slow = await ended(self.starting)
        if self.ready is None:
            return
        await ended({asyncio.ensure_future(worker.stop()) for worker in self.workers})
        deadline = time.monotonic() + CLEAR_WITHIN_S
        pause = SOON_S / 5
        while (left := await self.left()) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * RARER, SELDOM_S / 2)
        if slow:
            left.append("what was still being asked for")
        if left:
            logger.error("%s could not be removed; a process that stays behind goes on trying", ", ".join(left))
            self.reaper.leave()
        else:
            self.reaper.done()

    async def left(self) -> list[str]:
        try:
            return await asyncio.to_thread(self.fleet.clear)
        except CloudError as error:
            return [f"what this run has made ({error})"]


async def ended(work: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Wait for work; returns what has not ended in time."""
    if not work:
        return set()
    over, slow = await asyncio.wait(set(work), timeout=CLOSE_WITHIN_S)
    await asyncio.gather(*over, return_exceptions=True)  # who asked has heard of refusals, or is gone
    return slow


def failed(work: asyncio.Future[Any]) -> bool:
    return work.done() and (work.cancelled() or work.exception() is not None)


class CloudWorker(RemoteWorker):
    """One task or instance of a cloud."""

    def __init__(self, cloud_id: str, fleet: Fleet) -> None:
        super().__init__()
        self.id = cloud_id
        self.job: str | None = f"{fleet.noun} {cloud_id.rpartition('/')[2]}"
        self.fleet = fleet
        self.waits = f"{fleet.noun} was asked for"
        self.missing = 0
        self.began = time.monotonic()
        self.trouble = ""
        """Why it could not be ended."""

    def update(self, seen: Seen | None) -> None:
        self.missing = 0 if seen is not None else self.missing + 1
        if seen is not None:
            self.waits, self.fate = seen.waits, self.fate or seen.fate
        elif self.missing >= FORGOTTEN_AFTER and time.monotonic() - self.began > KNOWN_AFTER_S:
            self.fate = WorkerFate(Loss.WORKER_LOST, f"{self.job} is gone without a trace")

    async def learn_fate(self, within: float) -> WorkerFate:
        deadline = time.monotonic() + within
        while self.fate is None and not self.unwanted and time.monotonic() < deadline:
            try:
                self.update((await asyncio.to_thread(self.fleet.look, [self.id])).get(self.id))
            except CloudError:
                break
            if self.fate is None:
                await asyncio.sleep(SOON_S)
        return self.fate or WorkerFate(Loss.WORKER_LOST, f"its connection broke; {self.job} was still there")

    async def end(self, *, gently: bool) -> None:
        try:
            await asyncio.to_thread(self.fleet.stop, [self.id])
            self.ended = True
        except CloudError as error:
            if str(error) != self.trouble:
                self.trouble = str(error)
                logger.error("%s could not be ended yet: %s", self.job, error)
