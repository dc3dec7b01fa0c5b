"""The common part of workers on other machines: a request that is never forgotten, and an end that may take long.

A backend that is asked for a worker may answer when the caller has gone, and one that is asked to end it may not answer
at all; in neither case may a worker stay that nobody knows.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

from scalable.cluster.base import Launched, LaunchRefused, WorkerFate, WorkerTemplate

Result = TypeVar("Result")

PROMPT_S = 2.0  # how long others wait for the end of a worker that is dead anyway


class RemoteLauncher(ABC):
    """Asks for one worker after another; each request goes on when its caller is interrupted."""

    def __init__(self) -> None:
        self.starting: set[asyncio.Task[Launched]] = set()

    @abstractmethod
    def check(self, template: WorkerTemplate) -> str: ...

    @abstractmethod
    async def start(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched: ...

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        if problem := self.check(template):
            raise LaunchRefused(f"{template.tag}: {problem}", definite=True)
        return await asyncio.shield(begun(self.start(name, template, scheduler), self.starting))


class RemoteWorker(ABC):
    """One worker whose end is asked of a backend."""

    fate: WorkerFate | None

    def __init__(self) -> None:
        self.fate = None
        self.unwanted = False
        """It was told to go."""
        self.ended = False
        """The backend has confirmed that it goes."""
        self.ending: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Return whether nothing of it is left, or will be."""
        return self.ended

    @abstractmethod
    async def end(self, *, gently: bool) -> None:
        """Ask the backend to end it, and set ``ended`` if it agrees; a failure is logged, not raised."""

    async def stop(self, *, gently: bool = True) -> None:
        """Have it ended. Without ``gently`` the caller is not kept waiting for a backend that does not answer."""
        if self.over:
            return
        self.unwanted = True
        if self.ending is None or self.ending.done():
            self.ending = asyncio.ensure_future(self.end(gently=gently))
        await asyncio.wait({self.ending}, timeout=None if gently else PROMPT_S)


def begun(work: Coroutine[Any, Any, Result], tasks: set[asyncio.Task[Result]]) -> asyncio.Task[Result]:
    """Start something in the background, and keep it among ``tasks`` until it is done."""
    task = asyncio.ensure_future(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task
