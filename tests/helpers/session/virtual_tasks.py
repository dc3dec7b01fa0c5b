"""As much of Dask's scheduler and client as a session sees, for plain tasks in a virtual world."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import weakref
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dask.utils import funcname
from distributed.worker import _worker_cvar
from tornado.web import Application

from scalable.errors import UnknownTagError
from tests.helpers.session import virtual_workers
from tests.helpers.session.virtual_workers import Script

if TYPE_CHECKING:
    from tests.helpers.session.virtual import VirtualCluster
    from tests.helpers.session.virtual_workers import VirtualWorker


class VirtualTask:
    """A task as the scheduler knows it."""

    def __init__(self, key: str, work: Callable[[], Any], tag: str | None, needs: list[VirtualTask]) -> None:
        self.key, self.work, self.needs = key, work, needs
        self.prefix = SimpleNamespace(name=key.rpartition("-")[0])
        self.resource_restrictions = {tag: 1.0} if tag else None
        self.state = "waiting"
        self.worker: VirtualWorker | None = None
        self.begun = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.wanted = True
        """Somebody has a future of it."""

    @property
    def done(self) -> bool:
        return self.state in ("memory", "erred")


class VirtualScheduler:
    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.address = self.contact_address = "tcp://127.0.0.1:4000"
        self.ip = "127.0.0.1"
        self.workers: dict[str, VirtualWorker] = {}
        self.stream_comms = self.workers
        self.stream_handlers: dict[str, Callable[..., None]] = {}
        self.aliases: dict[str, str] = {}
        self.tasks: dict[str, VirtualTask] = {}
        self.queued: list[VirtualTask] = []
        self.serving: set[str] = set()
        self.blamed: dict[str, str] = {}
        self.died_of: dict[str, tuple[str, ...]] = {}
        self.plugins: list[Any] = []
        self.http_application = Application()
        self.http_server = SimpleNamespace(address="127.0.0.1", port=4000)

    @property
    def unrunnable(self) -> list[VirtualTask]:
        return [task for task in self.tasks.values() if task.state == "no-worker"]

    def add_plugin(self, plugin: Any) -> None:
        self.plugins.append(plugin)

    # Workers

    def add_worker(self, worker: VirtualWorker) -> None:
        self.workers[worker.address] = worker
        self.aliases[worker.name] = worker.address
        self.cluster.joined(worker.address, worker.name)
        self.place([task for task in self.tasks.values() if not task.begun and not task.done])

    def drop(self, worker: VirtualWorker) -> None:
        """It is gone: its tasks are done elsewhere, results that it had alone are computed anew."""
        if self.workers.pop(worker.address, None) is None:
            return
        self.aliases.pop(worker.name, None)
        for task in list(worker.processing):
            if task.begun:
                self.blamed[task.key] = worker.address
            self.tell(task, "processing", "released")
            task.begun, task.worker = False, None
        for task in list(worker.has_what):
            self.hand_over(task)
        self.place([task for task in worker.processing if not task.done])
        worker.processing.clear()

    def hand_over(self, task: VirtualTask) -> None:
        taker = next(iter(self.workers.values()), None)
        task.worker = taker
        if taker is not None:
            taker.has_what[task] = None

    def close_worker(self, address: str) -> None:
        """Whoever calls this stops the worker as well."""

    async def retire_workers(self, workers: Iterable[str], close_workers: bool) -> None:
        for address in workers:
            if (worker := self.workers.get(address)) is not None:
                self.drop(worker)

    # Tasks

    def place(self, tasks: list[VirtualTask]) -> None:
        """Give each to the worker with the least to do among those that may have it."""
        for task in tasks:
            if task.worker is not None:
                task.worker.processing.pop(task, None)
                task.worker = None
        for task in tasks:
            if failed := next((need for need in task.needs if need.state == "erred"), None):
                self.end(task, error=failed.error)
                continue
            if not all(need.done for need in task.needs):
                task.state = "waiting"
                continue
            wanted = task.resource_restrictions or {}
            able = [one for one in self.workers.values() if all(name in one.resources for name in wanted)]
            able = [one for one in able if one.address not in self.serving] or able
            task.state = "processing" if able else "no-worker"
            if able:
                task.worker = min(able, key=lambda one: len(one.processing))
                task.worker.processing[task] = 0.0
        for worker in list(self.workers.values()):
            self.begin_next(worker)

    def begin_next(self, worker: VirtualWorker) -> None:
        for task in list(worker.processing):
            if sum(one.begun for one in worker.processing) >= worker.nthreads:
                return
            if not task.begun:
                task.begun = True
                self.world.loop.call_soon(self.execute, task, worker)

    def execute(self, task: VirtualTask, worker: VirtualWorker) -> None:
        if task.worker is not worker or worker.address not in self.workers:
            return
        script, started, error, value = Script(), self.world.clock.time(), None, None
        virtual_workers._current.append(script)
        here = _worker_cvar.set(worker)  # type: ignore[arg-type]
        try:
            with self.world.executing(script):
                value = task.work()
        except Exception as raised:  # noqa: BLE001 - its future raises it
            error = raised
        finally:
            _worker_cvar.reset(here)
            virtual_workers._current.pop()
        self.world.loop.call_later(script.seconds, self.finish, task, worker, started, value, error)

    def finish(self, task: VirtualTask, worker: VirtualWorker, started: float, value: Any, error: Any) -> None:
        if task.worker is not worker or worker.address not in self.workers or task.done:
            return
        del worker.processing[task]
        times = [{"action": "compute", "start": started, "stop": self.world.clock.time()}]
        self.end(task, value=value, error=error, worker=worker.address, startstops=times)
        self.begin_next(worker)

    def end(self, task: VirtualTask, *, value: Any = None, error: Any = None, **facts: Any) -> None:
        start, task.state = task.state, "erred" if error is not None else "memory"
        task.value, task.error, task.begun = value, error, False
        if error is not None:
            facts["exception_text"] = repr(error)
        elif task.worker is not None and task.wanted:
            task.worker.has_what[task] = None
        self.tell(task, start, task.state, **facts)
        self.place([other for other in self.tasks.values() if task in other.needs and not other.done])

    def tell(self, task: VirtualTask, start: str, finish: str, **facts: Any) -> None:
        for plugin in self.plugins:
            plugin.transition(task.key, start, finish, **facts)

    def transition(self, key: str, finish: str, **facts: Any) -> dict[str, Any]:
        """The one that a cluster asks for: a task is given up, or stopped while it runs."""
        assert finish == "erred"
        task = self.tasks[key]
        if task.worker is not None:
            task.worker.processing.pop(task, None)
        self.end(task, error=pickle.loads(facts["exception"]))
        return {}

    def transitions(self, recommendations: dict[str, Any], stimulus_id: str) -> None:
        """Nothing is left to do."""

    def release(self, key: str) -> None:
        """Nobody has a future of it any more."""
        task = self.tasks[key]
        task.wanted = False
        if task.worker is not None:
            task.worker.has_what.pop(task, None)


class VirtualFuture:
    def __init__(self, scheduler: VirtualScheduler, task: VirtualTask) -> None:
        self.scheduler, self.task, self.key = scheduler, task, task.key
        weakref.finalize(self, scheduler.release, task.key)

    def done(self) -> bool:
        return self.task.done

    def exception(self) -> BaseException | None:
        self.scheduler.world.run(until_done(self.task))
        return self.task.error

    def result(self, timeout: float | None = None) -> Any:
        if (error := self.exception()) is not None:
            raise error
        return self.task.value


async def until_done(task: VirtualTask) -> None:
    while not task.done:
        await asyncio.sleep(0.01)


class VirtualClient:
    """Hands plain tasks to the virtual scheduler."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster, self.scheduler = cluster, cluster.scheduler
        self.numbers = itertools.count()

    def submit(self, func: Callable[..., Any], *args: Any, tag: str | None = None, **kw: Any) -> VirtualFuture:
        if tag is not None and tag not in {name for kind in self.cluster.templates.values() for name in kind.resources}:
            raise UnknownTagError(f"tag {tag!r}")
        needs = [one.task for one in args if isinstance(one, VirtualFuture)]

        def work() -> Any:
            return func(*(one.task.value if isinstance(one, VirtualFuture) else one for one in args), **kw)

        task = VirtualTask(f"{funcname(func)}-{next(self.numbers)}", work, tag, needs)
        self.scheduler.tasks[task.key] = task
        future = VirtualFuture(self.scheduler, task)
        self.scheduler.world.loop.call_soon(self.scheduler.place, [task])
        return future

    def map(self, func: Callable[..., Any], *iterables: Any, tag: str | None = None, **kw: Any) -> list[VirtualFuture]:
        return [self.submit(func, *args, tag=tag, **kw) for args in zip(*iterables, strict=False)]

    def gather(self, futures: list[VirtualFuture]) -> list[Any]:
        return [future.result() for future in futures]

    def worker_count(self, tag: str | None = None) -> int:
        return self.cluster.worker_count(tag)

    def close(self) -> None:
        """Nothing is held."""
