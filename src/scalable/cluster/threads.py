"""Workers as threads of this process: no start-up time, no copies of data, and no separation either."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

from distributed import Worker

from scalable.cluster.base import Fate, Launched, LaunchRefused, WorkerTemplate
from scalable.cluster.scratch import Scratch, off_the_path
from scalable.engine.events import Loss
from scalable.worker.main import first_cause
from scalable.worker.runners import Runners

LOOK_EVERY_S = 0.5  # nothing can happen to a thread that the scheduler would not notice by itself


class ThreadLauncher:
    def __init__(self, folder: str | None = None) -> None:
        """Code in ``folder`` can be imported, as it can where workers are processes."""
        self.scratch = Scratch()
        self.path = [folder] if folder is not None and folder not in sys.path else []
        sys.path[:0] = self.path

    def check(self, template: WorkerTemplate) -> str:
        return ""

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        try:
            worker = await Worker(
                scheduler,
                name=name,
                nthreads=template.slots,
                resources=template.resources,
                memory_limit=0,
                local_directory=str(self.scratch.path),
                plugins=(Runners(),),
                preload=[template.preload_script] if template.preload_script else [],
                dashboard=False,
                dashboard_address="127.0.0.1:0",
            )
        except (Exception, SystemExit) as error:  # a preload script may raise anything
            raise LaunchRefused(f"{name} cannot start: {first_cause(error)}", definite=True) from error
        off_the_path(worker.local_directory)
        return WorkerThreads(worker)

    async def poll(self, launched: list[Launched]) -> float:
        return LOOK_EVERY_S

    async def close(self) -> None:
        self.scratch.remove()
        for folder in self.path:
            with suppress(ValueError):  # someone else took it out
                sys.path.remove(folder)


class WorkerThreads:
    waits = ""
    job: str | None = None

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.ending: asyncio.Task[Any] | None = None

    @property
    def fate(self) -> Fate | None:
        return Fate(Loss.WORKER_LOST, "its worker was closed") if self.worker.status.name == "closed" else None

    async def learn_fate(self, within: float) -> Fate:
        return self.fate or Fate(Loss.WORKER_LOST, "the scheduler lost sight of it")

    async def stop(self, *, gently: bool = True) -> None:
        if self.ending is None:  # a close that is interrupted half-way never ends
            self.ending = asyncio.ensure_future(self.worker.close(executor_wait=False))
        await asyncio.shield(self.ending)
