"""A Dask cluster whose workers come in kinds: one scheduler in this process, workers started by a launcher.

Differs from Dask's own ``SpecCluster`` in what people suffer from there: workers have tags, a refused start reaches the
caller, a worker that dies is noticed with its cause, and closing never leaves anything behind. What happens to workers
is told to ``listeners`` as (kind, facts) in the words of the journal.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar

import dask
from distributed.client import AllExit
from distributed.core import Status, rpc
from distributed.deploy.cluster import Cluster
from distributed.security import Security
from distributed.utils import silence_logging_cmgr

from scalable.cluster.base import Launcher, Warned, WorkerFate, WorkerTemplate
from scalable.cluster.diagnosis.observing import LOOK_EVERY_S, Observer
from scalable.cluster.scheduler import FairScheduler
from scalable.cluster.security import RunSecurity, Scratch
from scalable.cluster.workers import STOP_WITHIN_S, Losses, Member, Replacements, Watcher
from scalable.engine.events import Loss
from scalable.errors import UnknownTagError, UsageError
from scalable.observe.fleet import CLOSED
from scalable.wording import not_defined
from scalable.worker.rights import JOINING
from scalable.worker.runner.environment import off_the_path

logger = logging.getLogger("scalable")

QUIET = {"distributed.admin.tick.interval": "1s", "distributed.admin.system-monitor.interval": "2s"}
"""What a scheduler measures of itself all the time, less often: it shares this machine with the workers."""
ROUTES = ["distributed.http.health"]
LOOP_WITHIN_S = 10.0  # for the event loop to end: threads that wait for a disk or a service may not

Listener = Callable[[str, dict[str, Any]], None]


class TaggedCluster(Cluster):
    """See the module. ``with`` closes it; so do ``close()``, from any thread and any number of times, and the exit."""

    _instances: ClassVar[weakref.WeakSet[TaggedCluster]] = weakref.WeakSet()

    def __init__(
        self,
        launcher: Launcher,
        templates: Iterable[WorkerTemplate] = (),
        *,
        security: Security | None = None,
        scheduler: Mapping[str, Any] | None = None,
        replace: bool = True,
        allowed_failures: int = 1,
        name: str | None = None,
    ) -> None:
        self.launcher = launcher
        self.process = os.getpid()
        """The one that can close it; a forked child has only a copy of this object."""
        self.templates: dict[str, WorkerTemplate] = {}
        self.members: dict[str, Member] = {}
        self.launching: set[str] = set()
        """Names of workers that the launcher is being asked for."""
        self.refused: set[str] = set()
        """Names of workers that could not be had, as far as the backend's answer told, or were not wanted any more."""
        self.losses = Losses(self)
        self.listeners: list[Listener] = []
        self.replacements = Replacements(self, wanted=replace)
        self.security = security or Security()
        self.scratch = Scratch()
        self.certificates: Path | None = None
        """Folder with the keys for other clients of the same user; it is removed with the cluster."""
        if isinstance(security, RunSecurity):
            self.certificates = self.scratch.path / "certificates"
            security.driver.write(self.certificates)
        self.scheduler: Any = None
        self.has_observer = False
        """Somebody else says why workers do not come and tasks wait."""
        options: dict[str, Any] = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
        self._scheduler_options = options | {"allowed_failures": allowed_failures} | dict(scheduler or {})
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._launches: set[asyncio.Task[list[str]]] = set()
        self._ending: asyncio.Task[None] | None = None
        for template in templates:  # before anything is there that would have to be closed
            self.add_template(template)
        self._quiet = ExitStack()
        self._quiet.enter_context(silence_logging_cmgr(logging.WARNING))
        super().__init__(asynchronous=False, name=name)
        self._instances.add(self)
        self._loop_runner.start()
        try:
            self.sync(self._start)
        except BaseException:
            self.close()
            raise

    # What callers use

    def add_template(self, template: WorkerTemplate) -> None:
        """Make a kind of worker known; a tag can be defined again as long as it has no workers."""
        if problem := self.launcher.check(template):
            raise UsageError(f"{template.tag}: {problem}")
        taken = {tag: other.tag for other in self.templates.values() for tag in other.resources}
        if any(member.tag == template.tag for member in self.members.values()):
            raise UsageError(f"{template.tag} has workers already; remove them before defining it anew")
        if template.tag in taken and taken[template.tag] != template.tag:
            raise UsageError(f"{template.tag!r} is already a tag of {taken[template.tag]}; choose another name")
        if own := [name for name in template.also if name in self.templates and name != template.tag]:
            raise UsageError(f"{template.tag}: the tag {own[0]!r} is another component; choose another name")
        self.templates[template.tag] = template

    def template(self, tag: str) -> WorkerTemplate:
        try:
            return self.templates[tag]
        except KeyError:
            raise UnknownTagError("; ".join(not_defined("tag", tag, self.templates))) from None

    def add_workers(self, n: int, tag: str) -> list[str]:
        """Ask for workers of a kind. If the backend refuses any, none of these stays and its reason is raised."""
        template = self.template(tag)
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise UsageError(f"n is {n!r}; write how many workers to add, from 1")
        self.replacements.given_up.pop(tag, None)
        names: list[str] = self.sync(self.launch, n, template)
        return names

    def remove_workers(self, n: int, tag: str) -> list[str]:
        """Let workers go: those that have not started first, then idle ones, then the least busy."""
        self.template(tag)
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise UsageError(f"n is {n!r}; write how many workers to remove, from 1")
        names: list[str] = self.sync(self.dismiss_some, n, tag)
        return names

    def worker_count(self, tag: str | None = None) -> int:
        """Count workers that are connected now."""
        members = list(self.members.values())
        return sum(1 for m in members if m.address and (tag is None or tag in m.template.resources))

    def scale(self, n: int) -> None:
        raise UsageError("workers come in kinds here: use add_workers(n, tag) and remove_workers(n, tag)")

    def adapt(self, *args: Any, **kw: Any) -> Any:
        raise UsageError("workers come in kinds here: use add_workers(n, tag), or a session whose target is adaptive")

    def sync(self, func: Any, *args: Any, **kw: Any) -> Any:
        """Call in the event loop as Dask does; whoever waits when the cluster is closed is told so."""
        if self.called_from_running_loop:
            return super().sync(func, *args, **kw)

        async def call(*args: Any, **kw: Any) -> Any:
            try:
                return await func(*args, **kw)
            except asyncio.CancelledError:
                raise UsageError("the cluster was closed") from None

        if self.loop is None or self.loop.asyncio_loop.is_closed():  # type: ignore[attr-defined]
            raise UsageError("the cluster is closed")
        return super().sync(call, *args, **kw)

    def wait_until(self, counts: Mapping[str, int], timeout: float | None = None) -> None:
        """Block until so many workers of each tag are connected, or can no longer be expected."""
        self.sync(self.until_joined, dict(counts), timeout)

    def close(self, timeout: float | None = None) -> None:
        """End all workers and the scheduler. Safe from any thread, any number of times, after any failure."""
        if self.status is Status.closed and not self._loop_runner.is_started():
            return
        try:
            with suppress(RuntimeError, UsageError):  # the loop is gone at the end of the process
                self.sync(self._close, callback_timeout=timeout)
        except BaseException:
            if self._ending is not None and self._ending.done():  # else it goes on without this caller
                self._leave_loop()
            raise
        self._leave_loop()

    def _leave_loop(self) -> None:
        """End its thread, unless a client still uses it."""
        over = True
        try:
            self._loop_runner.stop(LOOP_WITHIN_S)
        except TimeoutError:
            over = False
        self._quiet.close()  # before that nothing could be told
        if not over:
            logger.warning("the cluster is closed; a disk or a service that it asked before has not answered yet")

    # In the event loop

    async def _start(self) -> None:
        self.status = Status.starting
        forgive_interrupts()
        # others may be on this machine or in its network; they read of our tasks in a browser only if that is asked for
        shown = {} if self._scheduler_options["dashboard"] else {"distributed.scheduler.http.routes": ROUTES}
        with dask.config.set(QUIET | shown):
            self.scheduler = await FairScheduler(
                security=self.security,
                running=self.losses.running_on,
                fate=self.losses.known_fate,
                allotted=self.losses.allotted_s,
                crashed=self.losses.crashed_in,
                unwanted=self.unwanted,
                tell=lambda finding: self.tell("finding", **finding.to_record("finding")),
                local_directory=str(self.scratch.path),
                **self._scheduler_options,
            )
        off_the_path(self.scheduler.local_directory)
        self.scheduler.add_plugin(Watcher(self))
        self.scheduler_comm = rpc(self.scheduler.address, connection_args=self.security.get_connection_args("client"))
        await super()._start()
        self.keep(self.losses.watch())
        self.keep(self.explain())

    async def _close(self) -> None:
        """Wait for the end, which is the same for all callers; one who is interrupted does not stop it half-way."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        self.status = Status.closing
        self._quiet.enter_context(silence_logging_cmgr(logging.CRITICAL))  # of connections that close, too
        for task in list(self._tasks):
            task.cancel()
        if self._launches:  # what was asked for a moment ago must be known to be ended
            await asyncio.wait(self._launches, timeout=STOP_WITHIN_S)
        members = list(self.members.values())
        for member in members:
            member.leaving = member.leaving or CLOSED
        if self.scheduler is not None:
            for address in list(self.scheduler.workers):
                with suppress(KeyError, OSError):
                    self.scheduler.close_worker(address)
        async with AsyncExitStack() as ends:  # the last first; each is done whatever becomes of those before
            ends.push_async_callback(self._end_scheduler)
            ends.push_async_callback(self.launcher.close)
            stopped = await asyncio.gather(*(self.stop(member) for member in members), return_exceptions=True)
            for failure in filter(None, stopped):
                raise failure

    async def _end_scheduler(self) -> None:
        self.status = Status.running  # the base closes only what runs
        try:
            await super()._close()
            if self.scheduler is not None:
                await self.scheduler.close(reason="cluster closed")
        finally:
            self.scratch.remove()
            self.status = Status.closed

    def keep(self, work: Any) -> None:
        """Run something in the background until the cluster closes."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self.forget)

    def forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background work of the cluster failed", exc_info=error)

    def tell(self, kind: str, **facts: Any) -> None:
        for listener in list(self.listeners):
            listener(kind, facts)

    async def launch(self, n: int, template: WorkerTemplate, *, partly: bool = False) -> list[str]:
        """Ask for workers, all or none: after a refusal those accepted are taken back, unless ``partly``."""
        if self.status is not Status.running:
            raise UsageError("the cluster is closed")
        names = []
        for _ in range(n):
            names.append(f"{template.tag}-{self._count}")
            self._count += 1
        self.launching.update(names)
        launch = asyncio.ensure_future(self.launch_all(names, template, partly=partly))
        self._launches.add(launch)
        launch.add_done_callback(lambda task: self.launching.difference_update(names))
        launch.add_done_callback(self._launches.discard)
        launch.add_done_callback(lambda task: task.cancelled() or task.exception())  # its caller may be gone
        return await asyncio.shield(launch)

    async def launch_all(self, names: list[str], template: WorkerTemplate, *, partly: bool) -> list[str]:
        contact = self.scheduler.contact_address or self.scheduler.address
        asked = [self.launcher.launch(name, template, contact) for name in names]
        results = dict(zip(names, await asyncio.gather(*asked, return_exceptions=True), strict=True))
        accepted = {name: result for name, result in results.items() if not isinstance(result, BaseException)}
        refusals = [result for result in results.values() if isinstance(result, BaseException)]
        if accepted and (reaper := getattr(self.launcher, "reaper", None)) is not None:
            reaper.on_death(["rm", "-rf", str(self.scratch.path)])  # a driver that is killed cannot
        if refusals and not partly:
            await asyncio.gather(*(launched.stop(gently=False) for launched in accepted.values()))
            accepted = {}
        for name in names:
            if name not in accepted:
                self.refused.add(name)
                self.turn_away(self.scheduler.aliases.get(name), name)
        members = [Member(name, template, result, time.time(), time.monotonic()) for name, result in accepted.items()]
        self.members |= {member.name: member for member in members}
        for member in members:
            self.tell("worker-started", worker=member.name, tag=member.tag, job=member.launched.job)
            if (address := self.scheduler.aliases.get(member.name)) is not None:  # it was quicker than this line
                self.joined(address, member.name)
        if refusals:
            definite = {"cause": Loss.CANNOT_START.value} if getattr(refusals[0], "definite", False) else {}
            count = len(names) - len(members)
            self.tell("workers-refused", tag=template.tag, count=count, reason=str(refusals[0]), **definite)
            raise refusals[0]
        return names

    async def dismiss_some(self, n: int, tag: str, reason: str = "removed by hand") -> list[str]:
        chosen = self.choose(n, tag)
        await asyncio.gather(*(self.dismiss(member, reason) for member in chosen))
        return [member.name for member in chosen]

    def choose(self, n: int, tag: str) -> list[Member]:
        """Return those to go first: not started, then idle, then the least busy."""
        wanted = [m for m in self.members.values() if m.tag == tag and not m.leaving]
        return sorted(wanted, key=lambda m: (not m.noticed, m.joined, self.load(m), -m.since))[:n]

    def load(self, member: Member) -> int:
        """Count tasks it has been given and not finished."""
        state = self.scheduler.workers.get(member.address)
        return len(state.processing) if state is not None else 0

    async def dismiss(self, member: Member, reason: str) -> None:
        """Hand its results and tasks over, then end it."""
        if member.leaving:
            await member.gone.wait()
            return
        member.leaving = reason
        if member.address in self.scheduler.workers:
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self.scheduler.retire_workers(workers=[member.address], close_workers=True), STOP_WITHIN_S / 2
                )
        await self.stop(member)

    async def kill(self, member: Member, reason: str) -> None:
        """End it at once; what it holds is lost."""
        member.leaving = member.leaving or reason
        await self.stop(member, gently=False)

    async def stop(self, member: Member, *, gently: bool = True) -> None:
        try:
            await asyncio.wait_for(member.launched.stop(gently=gently), STOP_WITHIN_S)
        except TimeoutError:
            logger.error("%s did not end within %g s (%s)", member.name, STOP_WITHIN_S, member.launched.job)
        except Exception:  # of a backend; a caller who is only interrupted leaves it to whoever closes the cluster
            self.over(member, None)
            raise
        self.over(member, None)

    def over(self, member: Member, fate: WorkerFate | None) -> None:
        """Say once that a worker is gone."""
        if self.members.pop(member.name, None) is None:
            return
        member.gone.set()
        if not member.joined:
            self.refused.add(member.name)  # one of several in a batch job may still be on its way
        facts = {"worker": member.name, "tag": member.tag}
        if member.address and fate:
            self.losses.fates[member.address] = fate
        member.address = None
        if member.leaving:
            why = member.launched.notice if member.had_notice and isinstance(member.launched, Warned) else ""
            self.tell("worker-removed", reason=f"{member.leaving}: {why}" if why else member.leaving, **facts)
            return
        fate = fate or WorkerFate(Loss.WORKER_LOST)
        if member.joined:
            peak = {"peak": fate.peak.bytes} if fate.peak else {}
            self.tell("worker-lost", cause=fate.cause.value, detail=fate.detail, **peak, **facts)
        else:
            reason = fate.detail or fate.cause.value
            refused = {"count": 1, "reason": reason, "cause": fate.cause.value}
            self.tell("workers-refused", **refused, **facts)
        self.replacements.lost(member, fate)

    async def until_joined(self, counts: dict[str, int], timeout: float | None) -> None:
        deadline = time.monotonic() + timeout if timeout is not None else float("inf")

        def missing(tag: str, count: int) -> bool:
            there = [m for m in self.members.values() if m.tag == tag and not m.leaving]
            replaced = self.replacements.wanted and tag not in self.replacements.given_up
            return sum(m.address is not None for m in there) < (count if replaced else min(count, len(there)))

        while any(missing(tag, count) for tag, count in counts.items()) and time.monotonic() < deadline:
            if self.status is not Status.running:
                raise UsageError("the cluster was closed")
            await asyncio.sleep(0.005)

    # What the scheduler and the backend report

    def unwanted(self, name: str, peer: str) -> str:
        """Return why no worker of a name may join, empty if it may; tells of one that nobody ever asked for."""
        if name in self.members or name in self.launching:
            return ""
        if name in self.refused:
            return f"{name} is not wanted any more"
        reason = f"no worker was asked for as {name}"
        self.scheduler.refused(JOINING, peer, reason)
        return reason

    def turn_away(self, address: str | None, name: str) -> None:
        """Close one that came although it was refused or sent away before: nobody counts it or would end it."""
        if address is not None and name in self.refused:
            with suppress(KeyError, OSError):
                self.scheduler.close_worker(address)

    def joined(self, address: str, name: str) -> None:
        self.turn_away(address, name)
        member = self.members.get(name)
        if member is None or member.leaving:
            return
        member.joined_at = member.joined_at if member.joined else time.time()
        member.address, member.joined, member.waits = address, True, ""
        member.note_end()
        state = self.scheduler.workers[address]
        self.replacements.joined(member)
        self.tell(
            "worker-joined",
            worker=name,
            tag=member.tag,
            address=address,
            host=state.host,
            pid=state.pid if isinstance(getattr(state, "pid", None), int) else None,
            slots=member.template.slots,
            took_s=round(member.age_s, 3),
            **member.shared,
        )

    def waits(self, member: Member, reason: str) -> None:
        """Say why a worker is not there yet, if the reason is a new one."""
        member.waits = reason
        self.tell("worker-pending", worker=member.name, tag=member.tag, reason=reason)

    async def explain(self) -> None:
        """Say why workers do not come and tasks wait, unless a session does that better."""
        observer = Observer(self)
        await asyncio.sleep(LOOK_EVERY_S)
        while not self.has_observer:
            observer.look()
            await asyncio.sleep(LOOK_EVERY_S)
        self.listeners.remove(observer.heard)


def forgive_interrupts() -> None:
    """Keep off the screen what Dask leaves behind for every future that an interrupted caller waited for."""
    loop = asyncio.get_running_loop()
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(unless_interrupted)
    logging.getLogger("tornado.application").addFilter(no_cancel_before_start)


def unless_interrupted(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), AllExit):
        loop.default_exception_handler(context)


def no_cancel_before_start(record: logging.LogRecord) -> bool:
    """Drop the error of an interrupt that falls between the first lines of ``distributed.utils.sync``.

    Its ``cancel`` then reads the variable ``future`` before the waiting has set it; nothing is left to cancel.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not (
        isinstance(error, NameError) and error.name == "future" and "sync.<locals>.cancel" in record.getMessage()
    )


@atexit.register
def close_all() -> None:
    """Close at exit whatever the script forgot."""
    with ExitStack() as ends:  # each is done whatever becomes of the others
        for cluster in list(TaggedCluster._instances):
            if cluster.status is not Status.closed and cluster.process == os.getpid():
                ends.callback(cluster.close, timeout=STOP_WITHIN_S)
