"""A Dask client that knows tags: work goes to the kind of worker it names, or fails at once if there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from dask import config
from dask.base import tokenize
from dask.utils import funcname
from distributed import Client, Future
from distributed.client import ClosedClientError
from distributed.core import clean_exception
from distributed.scheduler import KilledWorker
from distributed.security import Security

from scalable.cluster.base import ClusterHandle
from scalable.cluster.cluster import TaggedCluster, forgive_interrupts
from scalable.cluster.scheduler import WorkerKilledError as WorkerKilledError
from scalable.errors import UnknownTagError, UsageError
from scalable.wording import not_defined, plural
from scalable.worker.guarded import Guarded


class ClientClosedError(ClosedClientError, UsageError):
    """A client was used after it, or its session, was closed."""


class ScalableClient(Client):
    """``submit`` and ``map`` take a ``tag``; everything else is a ``distributed.Client``."""

    guards_all = False
    """Whether tasks run in runner processes unless they say otherwise: the manifest's ``policies.guard``."""

    def __init__(self, cluster: TaggedCluster | ClusterHandle | Any = None, **options: Any) -> None:
        if cluster is None and not (
            options.keys() & {"address", "scheduler_file"} or config.get("scheduler-address", None)
        ):
            raise UsageError(
                "which cluster? write ScalableClient(cluster), or take the client that session.start() gives"
            )
        backend = cluster.backend if isinstance(cluster, ClusterHandle) else cluster
        self.tagged = backend if isinstance(backend, TaggedCluster) else None
        if self.tagged is not None and options.get("asynchronous"):
            raise UsageError(
                "the cluster has an event loop of its own, which no other can wait for; "
                "leave asynchronous out and write  await asyncio.to_thread(future.result)"
            )
        if isinstance(backend, str) and "security" not in options:
            options["security"] = security_at(backend)
        try:
            super().__init__(backend, **options)
        except BaseException:  # Dask would keep the loop's thread until this object is collected
            self.status = "closed"
            if (runner := getattr(self, "_loop_runner", None)) is not None:
                runner.stop()
            raise
        if not self.asynchronous and self.loop is not None:
            self.loop.add_callback(forgive_interrupts)

    def submit(
        self,
        func: Callable[..., Any],
        *args: Any,
        tag: str | None = None,
        n: int = 1,
        guarded: bool | None = None,
        **kw: Any,
    ) -> Future[Any]:
        """Run ``func`` on a worker of a kind; it takes ``n`` of the slots of that worker.

        A plain task runs in a thread of the worker and is not protected: a hang is not found, a crash or too much
        memory takes the worker with all its tasks along. ``guarded=True`` runs it in a process of its own beside the
        worker, where it can be limited, looked at and killed without harm to anything else. Without ``guarded``,
        the manifest's ``policies.guard`` decides: ``asked`` (plain) or ``all`` (guarded). What asks Dask for its
        worker (``get_worker``, ``get_client``, ``secede``) needs to be plain.

        >>> client.submit(train, 2020, tag="model", guarded=True).result()  # doctest: +SKIP
        """
        guarded = self.is_guarded(guarded, kw)
        self.prepare(func, tag, n, kw)
        if (kw.get("resources") or guarded) and named_by_content(kw):
            kw["key"] = key_for(func, args, kw, guarded)
        return super().submit(Guarded(func) if guarded else func, *args, **kw)

    def is_guarded(self, guarded: bool | None, kw: dict[str, Any]) -> bool:
        """Return whether a task is to run in a runner process; an actor lives in its worker."""
        plain = bool(kw.get("actor") or kw.get("actors"))
        return self.guards_all and not plain if guarded is None else guarded

    def prepare(self, func: Callable[..., Any], tag: str | None, n: int, kw: dict[str, Any]) -> None:
        """Refuse what cannot work, and say in Dask's words where the rest shall run."""
        self.must_be_open()
        if not callable(func):
            raise TypeError(f"{func!r} is nothing that can be called; write submit(function, arguments...)")
        if tag is not None or n != 1:
            kw["resources"] = self.demand(tag, n, kw.get("resources"))
        elif self.tagged is not None and kw.get("resources"):
            self.must_be_had(kw["resources"])

    def map(
        self,
        func: Callable[..., Any],
        *iterables: Collection[Any],
        tag: str | None = None,
        n: int = 1,
        guarded: bool | None = None,
        **kw: Any,
    ) -> list[Future[Any]]:
        """Run ``func`` on each element, on workers of a kind; ``guarded`` as in ``submit``."""
        guarded = self.is_guarded(guarded, kw)
        self.prepare(func, tag, n, kw)
        if (kw.get("resources") or guarded) and named_by_content(kw):
            iterables = tuple(map(list, iterables))
            kw["key"] = [key_for(func, args, kw, guarded) for args in zip(*iterables, strict=False)]
        futures: list[Future[Any]] = super().map(Guarded(func) if guarded else func, *iterables, **kw)
        return futures

    def close(self, *args: Any, **kw: Any) -> Any:
        """End the connection. If the cluster was closed before, Dask's own way would leave a thread behind."""
        ending = super().close(*args, **kw)
        # Dask calls this again when the object is collected, in any thread; stopping takes a lock that a start may hold
        if self.status == "closed" and not self.asynchronous and self._loop_runner.is_started():
            self._loop_runner.stop()
        return ending

    def sync(self, func: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Make a call that waits for the scheduler; all of them come through here."""
        self.must_be_open()
        return super().sync(func, *args, **kw)

    def must_be_open(self) -> None:
        if self.status == "closed":
            raise ClientClosedError("this client is closed, and what it submitted is gone; start() gives a new one")

    def gather(self, futures: Any, *args: Any, **kw: Any) -> Any:
        """Return results of futures, in the shape in which they are given."""
        return super().gather(futures, *args, **kw)

    def worker_count(self, tag: str | None = None) -> int:
        """Count workers that are connected now, of one kind or of all."""
        known = self.slots()
        if tag is not None and tag not in known:
            raise UnknownTagError("; ".join(not_defined("tag", tag, known)))
        if self.tagged is not None:
            return self.tagged.worker_count(tag)
        workers = self.scheduler_info(n_workers=-1)["workers"].values()
        return sum(1 for worker in workers if tag is None or tag in worker["resources"])

    def demand(self, tag: str | None, n: int, also: dict[str, float] | None) -> dict[str, float]:
        """Return what Dask routes by; refuses what no worker can ever meet."""
        known = self.slots()
        if tag is not None and not isinstance(tag, str):
            raise UsageError(f"tag={tag!r}: write the name of one kind of worker as text: {', '.join(sorted(known))}")
        if tag is None:
            raise UsageError(f"n={n} slots of which kind of worker? name a tag: {', '.join(sorted(known))}")
        if tag not in known:
            raise UnknownTagError("; ".join(not_defined("tag", tag, known)))
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise UsageError(f"n={n!r}: how many slots of a worker the task takes; write a whole number from 1")
        if n <= known[tag]:
            wanted = {**(also or {}), tag: n}
            self.must_be_had(wanted)
            return wanted
        room = plural(int(known[tag]), "slot")
        raise UsageError(
            f"n={n!r}: a worker of {tag} has {room}, so no worker can ever run this; "
            f"write n from 1 to {known[tag]:g}, or give workers more (threads_per_worker)"
        )

    def must_be_had(self, wanted: dict[str, float]) -> None:
        """Refuse what no worker has; Dask would let the task wait for ever."""
        kinds = self.kinds()
        if any(all(kind.get(name, 0) >= units for name, units in wanted.items()) for kind in kinds):
            return
        demand = " and ".join(f"{units:g} {name}" for name, units in wanted.items())
        has = dict.fromkeys(" and ".join(f"{units:g} {name}" for name, units in kind.items()) for kind in kinds)
        raise UsageError(f"resources: no worker has {demand}, so none can ever run this; workers have {', '.join(has)}")

    def kinds(self) -> list[dict[str, float]]:
        """Return what workers of each kind have, whether or not there is one now, and what connected ones have."""
        if self.tagged is not None:
            there = [dict(worker.resources) for worker in list(self.tagged.scheduler.workers.values())]
            return [*(template.resources for template in list(self.tagged.templates.values())), *there]
        return [worker["resources"] for worker in self.scheduler_info(n_workers=-1)["workers"].values()]

    def slots(self) -> dict[str, float]:
        """Return the most slots that a worker of each tag has."""
        most: dict[str, float] = {}
        for kind in self.kinds():
            for tag, units in kind.items():
                most[tag] = max(units, most.get(tag, 0))
        return most

    def _handle_task_erred(self, key: Any = None, exception: Any = None, traceback: Any = None) -> None:
        _, error, _ = clean_exception(exception, traceback)
        if isinstance(error, KilledWorker) and not isinstance(error, WorkerKilledError) and self.tagged is not None:
            self.tagged.keep(self._explain(key, error, traceback))
        else:
            super()._handle_task_erred(key, exception, traceback)

    async def _explain(self, key: Any, error: Any, traceback: Any) -> None:
        """Let the backend say why the worker died before the caller is told that it did."""
        assert self.tagged is not None
        try:
            fate = await self.tagged.losses.fate_of(error.last_worker.address)
        except asyncio.CancelledError:  # the cluster closes: what is known must do
            fate = None
        limit = next((kind.memory for kind in self.tagged.templates.values() if kind.tag in resources_of(error)), None)
        explained = WorkerKilledError(error.task, error.last_worker, error.allowed_failures, fate, limit)
        super()._handle_task_erred(key, explained, traceback)


def resources_of(error: KilledWorker) -> Collection[str]:
    return getattr(error.last_worker, "resources", None) or ()


def security_at(address: str) -> Security | None:
    """Return the certificates of a cluster of this process; whoever knows only an address has to bring them."""
    clusters = (cluster for cluster in TaggedCluster._instances if isinstance(cluster, TaggedCluster))
    return next((cluster.security for cluster in clusters if cluster.scheduler_address == address), None)


DASK_OPTIONS = frozenset({"key", "workers", "resources", "retries", "priority", "fifo_timeout", "allow_other_workers"}
    | {"actor", "actors", "pure", "batch_size"})  # fmt: skip


def named_by_content(kw: dict[str, Any]) -> bool:
    """Return whether Dask would derive the task's name from function and arguments."""
    return kw.get("key") is None and kw.get("pure", True) and not (kw.get("actor") or kw.get("actors"))


def key_for(func: Callable[..., Any], args: tuple[Any, ...], kw: dict[str, Any], guarded: bool) -> str:
    """Name a task as Dask does, but the same call on another kind of worker is another task."""
    given = {name: value for name, value in kw.items() if name not in DASK_OPTIONS}
    return f"{funcname(func)}-{tokenize(func, kw.get('resources'), guarded, given, *args)}"
