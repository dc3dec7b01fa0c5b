"""Sessions without processes, sockets and waiting: one thread, one event loop, and a clock that jumps.

Everything above the workers is real: session, driver, engine, store, journal, and the cluster's own bookkeeping. The
workers are stand-ins (``virtual_workers``) that call the user's code in this thread when it begins and report its end
as much later as it slept. Time passes only while somebody waits: the event loop jumps to its next timer, ``time.sleep``
in a test lets the world go on for so long, ``time.sleep`` in the user's code makes its run longer.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.core import Status

from scalable.cluster.base import ClusterHandle, DeploymentSpec, LaunchRefused, WorkerFate, WorkerTemplate
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.local import LocalProvider
from scalable.engine.events import Loss
from scalable.errors import UsageError
from scalable.manifest.targets import REGISTERED
from scalable.quantities import Memory
from scalable.store import Receipt
from scalable.store.writer import Writer
from tests.helpers.session.builders import Project
from tests.helpers.session.virtual_tasks import VirtualClient, VirtualScheduler
from tests.helpers.session.virtual_workers import Script, VirtualWorker

LONGEST_S = 3000.0  # of virtual time that anything waits; what takes longer never comes
START_S = 0.5  # between asking for a worker and its being there
POLL_S = 0.5


class Clock:
    def __init__(self) -> None:
        self.epoch, self.origin = time.time(), time.monotonic()
        self.elapsed = 0.0
        self.script: Script | None = None
        """What the code that is being called has done so far."""

    def time(self) -> float:
        return self.epoch + self.elapsed + (self.script.seconds if self.script else 0.0)

    def monotonic(self) -> float:
        return self.origin + self.elapsed + (self.script.seconds if self.script else 0.0)


class JumpingSelector(selectors.DefaultSelector):
    """Does not wait for the next timer but lets its time be now."""

    clock: Clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is not None and timeout > 0:
            self.clock.elapsed += timeout
        return ready if ready or timeout is not None else super().select(None)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Has no threads: what is given to one is done at once."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        selector = JumpingSelector()
        selector.clock = clock
        super().__init__(selector)

    def time(self) -> float:
        return self.clock.monotonic()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whoever waits for it has it
            future.set_exception(error)
        return future


class World:
    """What a test can do to its session: let time pass, have workers refused, lost, or late."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.clock = Clock()
        self.loop = VirtualLoop(self.clock)
        self.start_s = START_S
        self.refuse: Callable[[str], str | LaunchRefused] = lambda name: ""
        """Why a worker of this name cannot be had; empty if it can."""
        self.die_at_start: Callable[[str], str] = lambda name: ""
        """Of what a worker of this name dies before it joins; empty if it does not."""
        self.clusters: list[VirtualCluster] = []
        self.launcher: Callable[[World], VirtualLauncher] = VirtualLauncher

    @property
    def cluster(self) -> VirtualCluster:
        return self.clusters[-1]

    def worker(self, name: str) -> VirtualWorker:
        found = self.cluster.members[name].launched
        assert isinstance(found, VirtualWorker)
        return found

    def run(self, work: Any) -> Any:
        """Let the world go on until something is done."""
        return self.loop.run_until_complete(asyncio.wait_for(work, LONGEST_S))

    def sleep(self, seconds: float) -> None:
        """Stands for ``time.sleep``."""
        if threading.current_thread() is not threading.main_thread():
            REAL_SLEEP(seconds)
        elif self.clock.script is not None:
            self.clock.script.seconds += seconds
        elif self.loop.is_running():
            self.clock.elapsed += seconds
        else:
            self.run(asyncio.sleep(seconds))

    def at(self, seconds: float, action: Callable[..., Any], *arguments: Any) -> None:
        """Do something so much later, while the test waits for something else."""
        self.loop.call_later(seconds, action, *arguments)

    def lose(self, name: str, cause: Loss = Loss.WORKER_LOST, detail: str = "", peak: Memory | None = None) -> None:
        """A worker dies."""
        self.worker(name).die(WorkerFate(cause, detail, peak))

    @contextmanager
    def executing(self, script: Script) -> Iterator[None]:
        """Within, time passes for the code that is called only."""
        self.clock.script = script
        try:
            yield
        finally:
            self.clock.script = None

    def build(self, spec: DeploymentSpec) -> ClusterHandle:
        cluster = VirtualCluster(self, templates=spec.components.values(), name=spec.project)
        facts = {"scheduler": cluster.scheduler_address}
        return ClusterHandle(cluster, lambda: VirtualClient(cluster), facts)  # type: ignore[arg-type,return-value]


class VirtualRunner:
    """Stands for Dask's way to have an event loop in a thread."""

    def __init__(self, world: World) -> None:
        self.started = False
        add_callback = world.loop.call_soon_threadsafe
        self.loop = SimpleNamespace(asyncio_loop=world.loop, add_callback=add_callback)

    def start(self) -> None:
        self.started = True

    def stop(self, timeout: float = 0.0) -> None:
        self.started = False

    def is_started(self) -> bool:
        return self.started


class VirtualCluster(TaggedCluster):
    """The cluster's own bookkeeping on a scheduler that is none."""

    def __init__(self, world: World, **options: Any) -> None:
        self.world = world
        world.clusters.append(self)
        super().__init__(world.launcher(world), **options)

    def sync(self, func: Any, *args: Any, callback_timeout: float | None = None, **kw: Any) -> Any:
        if not self._loop_runner.is_started():
            raise UsageError("the cluster is closed")
        try:
            return self.world.run(func(*args, **kw))
        except asyncio.CancelledError:
            raise UsageError("the cluster was closed") from None

    async def _start(self) -> None:
        self.scheduler = VirtualScheduler(self)
        self.status = Status.running
        self.keep(self.losses.watch())

    async def _end_scheduler(self) -> None:
        self.status = Status.closed

    @property
    def scheduler_address(self) -> str:
        return str(self.scheduler.address)


class VirtualLauncher:
    def __init__(self, world: World) -> None:
        self.world = world

    def check(self, template: WorkerTemplate) -> str:
        return ""

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> VirtualWorker:
        if reason := self.world.refuse(name):
            raise reason if isinstance(reason, LaunchRefused) else LaunchRefused(reason)
        worker = VirtualWorker(name, template, self.world)
        self.world.loop.call_later(self.world.start_s, worker.join)
        return worker

    async def poll(self, launched: Any) -> float:
        return POLL_S

    async def close(self) -> None:
        """Nothing is left."""


class VirtualProvider(LocalProvider):
    def __init__(self, world: World) -> None:
        self.world = world

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        return self.world.build(spec)


class Unwatched:
    """Stands for the thread that notices an event loop that hangs, by the real clock."""

    def __init__(self, watch: Any) -> None:
        """Nothing to watch."""

    def beat(self) -> None: ...

    def close(self) -> None: ...


REAL_SLEEP = time.sleep


@pytest.fixture
def world(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Sessions of this test, those of its target ``local``, have virtual workers and a virtual clock."""
    found = World(project)
    submit = Writer.submit

    def submit_and_wait(self: Writer, entries: Any) -> Future[Receipt]:
        receipt = submit(self, entries)
        wait([receipt])
        return receipt

    monkeypatch.setattr(time, "time", found.clock.time)
    monkeypatch.setattr(time, "monotonic", found.clock.monotonic)
    monkeypatch.setattr(time, "sleep", found.sleep)
    monkeypatch.setattr("distributed.deploy.cluster.LoopRunner", lambda **_: VirtualRunner(found))
    monkeypatch.setattr("scalable.session.driver.diagnosis.Pulse", Unwatched)
    monkeypatch.setattr(Writer, "submit", submit_and_wait)
    monkeypatch.setitem(REGISTERED, "local", lambda: VirtualProvider(found))
    monkeypatch.syspath_prepend(project.folder)
    modules = set(sys.modules)
    asyncio.set_event_loop(found.loop)  # a test may act between two looks, while the loop stands still
    yield found
    asyncio.set_event_loop(None)
    for name in set(sys.modules) - modules:
        if name.startswith("code_"):
            del sys.modules[name]
    with suppress(RuntimeError):
        for task in asyncio.all_tasks(found.loop):
            task.cancel()
        found.loop.run_until_complete(asyncio.sleep(0))
    found.loop.close()
