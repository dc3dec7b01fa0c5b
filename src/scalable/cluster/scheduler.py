"""Dask's scheduler, fair to tasks that only waited on a worker that died; ends tasks that would wait in vain.

Dask holds a worker's death against all tasks it had been given, and gives those up that saw a few deaths. Tagged tasks
are all given out at once, so one task that always kills its worker would take its neighbours with it. Here only tasks
that were running are blamed, as far as that can be known: by a note the worker kept, or by what it last reported, which
it does twice a second; and only the one whose thread crashed, where the worker's log says so. Where nothing is known
all are blamed, as Dask does. A task that was alone on a worker which ran out of memory is given up at once: another
worker of that size would not do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from heapq import nsmallest
from time import time
from typing import TYPE_CHECKING, Any, Literal

from distributed import Scheduler
from distributed.core import Status
from distributed.protocol import pickle
from distributed.scheduler import KilledWorker, heartbeat_interval

from scalable.cluster.base import WorkerFate
from scalable.engine.ending import MAX_HANDOVERS
from scalable.engine.events import Loss
from scalable.engine.walltime import WHOLE
from scalable.errors import ScalableError
from scalable.findings import Finding
from scalable.quantities import Memory
from scalable.wording import plural
from scalable.worker.crashes import printed
from scalable.worker.rights import Refusals, WorkerConnection, at_a_scheduler, limit
from scalable.worker.runners import OP

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster


OPEN = ("processing", "no-worker", "queued")  # states of tasks that can be failed: wanted, and not done
MOST_BEATS = 50  # heartbeats a second; Dask's 200 would be more than a login node allows a process
SELDOM_BEAT_S = 30.0  # a worker that is silent for ten times as long is given up


def beat_every(workers: int) -> float:
    """Return the seconds between two heartbeats of a worker: as Dask has it, and rarer where there are many."""
    return max(float(heartbeat_interval(workers)), min(workers / MOST_BEATS, SELDOM_BEAT_S))


async def unknown(address: str) -> str:
    return ""


class FairScheduler(Scheduler):
    """Dask's scheduler, with blame for a worker's death on the tasks that were running."""

    def __init__(
        self,
        *args: Any,
        running: Callable[[str], set[str] | None],
        fate: Callable[[str], WorkerFate | None] = lambda address: None,
        allotted: Callable[[str], float | None] = lambda address: None,
        crashed: Callable[[str], Awaitable[str]] = unknown,
        unwanted: Callable[[str, str], str] = lambda name, peer: "",
        tell: Callable[[Finding], None] = lambda finding: None,
        **options: Any,
    ) -> None:
        """Take what is known of the worker at an address.

        ``running`` tells the keys that it noted, if it keeps such a note; ``fate`` why it is gone, if that is known;
        ``allotted`` the seconds that its work had, if it goes because its allocation ends or its machine is taken;
        ``crashed`` the key of the task that it crashed in, as its log prints it, empty if that is not known;
        ``unwanted`` why no worker of a name may join from a place, if so. ``tell`` hears of what workers were refused.
        """
        super().__init__(*args, **options)
        self.running_on, self.fate_of, self.crashed_in, self.unwanted = running, fate, crashed, unwanted
        self.allotted_s = allotted
        self.refused = Refusals(tell)
        self.stream_handlers[OP] = lambda **report: None  # what workers tell of runs, until a session listens
        self.moves: Counter[Any] = Counter()
        """Count, by task, of workers that ended before the task finished."""
        self.unreadable: set[str] = set()
        """Addresses of workers that said that they cannot read a task."""
        self.blamed: dict[Any, str] = {}
        """Tasks that were running on the worker that died last, with its address, until someone takes note of it."""
        self.died_of: dict[str, tuple[Any, ...]] = {}
        """The keys of the same tasks, by the address of their worker, until it is known why that died."""
        self.serving: set[str] = set()
        """Addresses of workers that have runs, which Dask knows nothing of."""

    async def listen(self, *args: Any, **options: Any) -> None:
        await super().listen(*args, **options)
        limit(self.listeners[-1], at_a_scheduler(self.may_retire), self.refused)

    def may_retire(self, message: Mapping[str, Any]) -> bool:
        """Return whether a worker may have workers taken out: those that have said themselves that they leave."""
        if not message.get("workers") or message.get("names") or message.get("close_workers"):
            return False
        known = [self.workers.get(address) for address in message["workers"]]
        return all(worker is None or worker.status is Status.closing_gracefully for worker in known)

    async def add_worker(self, comm: Any, *, name: Any, **facts: Any) -> None:
        """Take a worker in that was asked for: a worker's key alone does not make anybody a worker."""
        if isinstance(comm, WorkerConnection) and (reason := self.unwanted(str(name), comm.peer_address)):
            await comm.write({"status": "error", "message": reason, "time": time()})
            return
        await super().add_worker(comm, name=name, **facts)

    def heartbeat_worker(self, **facts: Any) -> dict[str, Any]:
        """Take a worker's sign of life, and tell it when the next is due."""
        answer: dict[str, Any] = super().heartbeat_worker(**facts)
        if "heartbeat-interval" in answer:
            answer["heartbeat-interval"] = beat_every(len(self.workers))
        return answer

    def valid_workers(self, ts: Any) -> set[Any] | None:
        """Return workers for a task: tagged ones go to workers without jobs as long as there are some."""
        valid = super().valid_workers(ts)
        if not valid or not self.serving:
            return valid
        return {worker for worker in valid if worker.address not in self.serving} or valid

    async def remove_worker(
        self, address: str, *, stimulus_id: str, expected: bool = False, close: bool = True
    ) -> Literal["OK", "already-removed"]:
        worker = self.workers.get(address)
        if worker is not None and not expected:
            guilty = blamed(worker, self.running_on(address), address in self.unreadable)
            if len(guilty) > 1 and (key := await self.crashed_in(address)):
                guilty = {task for task in worker.processing if printed(str(task.key)) == key} or guilty
            if self.workers.get(address) is not worker:  # somebody else has removed it meanwhile
                return "already-removed"
            self.blamed = {task.key: address for task in guilty}
            self.died_of[address] = tuple(self.blamed)
            for task in worker.processing:
                if task not in guilty:
                    task.suspicious -= 1  # makes up for the one that Dask adds now
            if len(guilty) == 1 and (fate := self.fate_of(address)) and fate.cause is Loss.OUT_OF_MEMORY:
                [task] = guilty
                task.suspicious = max(task.suspicious, self.allowed_failures)  # so that Dask gives it up now
        self.unreadable.discard(address)
        allotted = self.allotted_s(address)
        cut = list(worker.executing.items()) if worker is not None else []
        answer = await super().remove_worker(address, stimulus_id=stimulus_id, expected=expected, close=close)
        for task, ran in cut:
            self.note_move(task.key, str(worker.name) if worker is not None else address, ran, allotted)
        return answer

    def _reschedule(self, key: Any, worker: str | None = None, *, stimulus_id: str) -> None:
        """Let a task start elsewhere that its worker gave up, as guarded ones are when their worker has to go."""
        task = self.tasks.get(key)
        there = task.processing_on if task is not None else None
        allotted = self.allotted_s(there.address) if there is not None else None
        ran = there.executing.get(task, 0.0) if there is not None and task is not None else 0.0
        super()._reschedule(key, worker, stimulus_id=stimulus_id)
        if allotted is not None and there is not None:
            self.note_move(key, str(there.name), ran, allotted)

    def note_move(self, key: Any, worker: str, ran: float, allotted: float | None) -> None:
        """Count a task that its worker's end cut off; fail it if a whole allocation, or many parts, did not do."""
        task = self.tasks.get(key)
        if task is None or allotted is None or task.state not in OPEN:
            return
        self.moves = Counter({one: count for one, count in self.moves.items() if one in self.tasks})
        self.moves[key] += 1
        if ran >= WHOLE * allotted or self.moves[key] > MAX_HANDOVERS:
            fail(self, {key: AllocationError(str(key), worker, ran, allotted, self.moves.pop(key))})


def blamed(worker: Any, noted: set[str] | None, unreadable: bool) -> set[Any]:
    """Return tasks that a worker can have died of."""
    begun = {task for task in worker.processing if task in worker.executing or task in worker.long_running}
    begun |= {task for task in worker.processing if noted and str(task.key) in noted}
    if unreadable or not begun:
        return set(worker.processing) - begun
    return begun if noted else begun | following(worker, begun)


def following(worker: Any, begun: set[Any]) -> set[Any]:
    """Return tasks that a worker will have begun since its last report, if it had room, in their order."""
    left = Counter(worker.resources)
    for task in begun:
        left.subtract(task.resource_restrictions or {})
    others = [task for task in worker.processing if task not in begun and fits(task, left)]
    return set(nsmallest(worker.nthreads - len(begun), others, key=lambda task: task.priority))


def fits(task: Any, left: Counter[str]) -> bool:
    return all(units <= left[name] for name, units in (task.resource_restrictions or {}).items())


class WorkerKilledError(KilledWorker, ScalableError):
    """A task was given up because of the workers that died while they ran it; says of what the last one died."""

    def __init__(
        self,
        task: Any,
        last_worker: Any,
        allowed_failures: int,
        fate: WorkerFate | None = None,
        limit: Memory | None = None,
    ) -> None:
        super().__init__(task, last_worker, allowed_failures)
        self.args = (task, last_worker, allowed_failures, fate, limit)
        self.fate, self.limit = fate, limit

    def __str__(self) -> str:
        name = getattr(self.last_worker, "name", self.last_worker)
        if self.fate is not None and self.fate.cause is Loss.OUT_OF_MEMORY:
            size = Memory.to_ask_for(self.fate.peak, self.limit)
            return (
                f"{self.task} was given up: its worker {name} was lost: out of memory ({self.fate.detail}); "
                f"it would be so again on a worker of that size, ask for {f'memory: {size.exact}' if size else 'more'}"
            )
        tries = plural(self.allowed_failures + 1, "worker")
        text = f"{self.task} was given up after {tries} died of it"
        if self.fate is not None:
            text += f"; the last, {name}, was lost: {self.fate.cause.value} ({self.fate.detail})"
        return text


class AllocationError(ScalableError):
    """A task was given up because the allocations of its workers ended before it did."""

    def __init__(self, task: str, worker: str, ran_s: float, allotted_s: float, moves: int) -> None:
        super().__init__(task, worker, ran_s, allotted_s, moves)
        self.task, self.worker, self.ran_s, self.allotted_s, self.moves = task, worker, ran_s, allotted_s, moves

    def __str__(self) -> str:
        remedy = "ask for a longer walltime, or make it a task of the manifest that declares checkpoints: true"
        if self.ran_s >= WHOLE * self.allotted_s:
            had = f"it ran for {self.ran_s:.0f} s of the {self.allotted_s:.0f} s that {self.worker} had for work"
            return f"{self.task} was given up: {had} and did not finish; {remedy}"
        return f"{self.task} was given up: {self.moves} workers had to go before it finished; {remedy}"


class NoWorkerError(ScalableError):
    """A task was given up because no worker of its kind can be had; says why not."""

    def __init__(self, task: str, tag: str, reason: str) -> None:
        super().__init__(task, tag, reason)
        self.task, self.tag, self.reason = task, tag, reason

    def __str__(self) -> str:
        return f"{self.task} was given up because no {self.tag} worker can be had: {self.reason}"


class TaskStoppedError(ScalableError):
    """A task that has not finished and will not, because everything was stopped; says why."""

    def __init__(self, task: str, reason: str) -> None:
        super().__init__(task, reason)
        self.task, self.reason = task, reason

    def __str__(self) -> str:
        return f"{self.task} was stopped: {self.reason}"


def stop_all(scheduler: Any, reason: str) -> list[Any]:
    """Fail every task that is not finished, with those that need its result; the keys of what was failed."""
    tasks = [task for task in scheduler.tasks.values() if task.state in ("processing", "no-worker", "queued")]
    return fail(scheduler, {task.key: TaskStoppedError(str(task.key), reason) for task in tasks})


def give_up(cluster: TaggedCluster, tag: str, reason: str, spared: Collection[Any] = ()) -> list[Any]:
    """Fail what waits for workers of a tag, if there are none and none is to come; the keys of what was failed.

    Does what Dask's own ``no-workers-timeout`` does, but knows why. ``spared`` are keys that others look after.
    """
    scheduler = cluster.scheduler
    waiting = [*scheduler.unrunnable, *scheduler.queued]
    lost = [task for task in waiting if task.key not in spared and is_hopeless(cluster, task, tag)]
    return fail(scheduler, {task.key: NoWorkerError(str(task.key), tag, reason) for task in lost})


def give_up_large(
    scheduler: Any, keys: Collection[Any], worker: str, fate: WorkerFate, limit: Memory | None
) -> list[Any]:
    """Fail a task that was alone on a worker which ran out of memory, as soon as that is known; the keys failed."""
    tasks = [scheduler.tasks[key] for key in keys if len(keys) == 1 and key in scheduler.tasks]
    left = [task for task in tasks if task.state in OPEN]
    return fail(scheduler, {task.key: WorkerKilledError(task.key, worker, 0, fate, limit) for task in left})


def fail(scheduler: Any, errors: Mapping[Any, Exception]) -> list[Any]:
    """End tasks with errors, by their keys."""
    moment = f"given-up-{time()}"
    recommendations: dict[Any, Any] = {}
    for key, error in errors.items():
        recommendations |= scheduler.transition(
            key, "erred", stimulus_id=moment, exception=pickle.dumps(error), exception_text=str(error), cause=key
        )
    scheduler.transitions(recommendations, stimulus_id=moment)
    return list(errors)


def is_hopeless(cluster: TaggedCluster, task: Any, tag: str) -> bool:
    """Return whether workers of this tag were its hope, and no other worker is there that could do it."""
    wanted = [name for name in task.resource_restrictions or () if any(name in t.resources for t in kinds(cluster))]
    able = {kind.tag for kind in kinds(cluster) if all(name in kind.resources for name in wanted)}
    hope = tag in able if wanted else tag == next(iter(cluster.templates), None)
    return hope and not any(m.tag in able and not m.leaving for m in list(cluster.members.values()))


def kinds(cluster: TaggedCluster) -> Collection[Any]:
    return cluster.templates.values()
