"""Questions of people to a live session, and its answers: who works on what, dumps, profiles, kills, pauses.

``poll`` is called from the driver's loop twice a second; it never raises and never waits. Every question becomes a task
of its own, so that one worker that does not answer holds up nobody. What changes the session is written to its journal
with the name of who asked.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from shlex import quote
from typing import TYPE_CHECKING, Any

from scalable.engine.events import BoundsSet, Event, JobCancelled, JobState, Paused, SweepCancelled, WorkerLeaving
from scalable.errors import ScalableError, UsageError
from scalable.observe.fields import number
from scalable.observe.folders import RunFolder
from scalable.observe.mailbox import Mailbox, Question
from scalable.session.operate.measures import roster
from scalable.wording import not_defined, plural, some_of, undefined

if TYPE_CHECKING:
    from scalable.session.driver.driver import Driver

logger = logging.getLogger("scalable")

EVERYTHING = "all"
OPERATOR = "operator"  # on whose behalf a session is paused
DEAD_WITHIN_S = 50.0  # killing takes less than a minute, the way of the question included
LOOK_S = 0.05  # how often it is looked whether what was killed is dead
LONGEST_PROFILE_S = 600.0
ANSWERED_S = 0.2  # from the answer to a question that ends the session to its end
ON_A_WORKER = (JobState.RUNNING, JobState.KILLING)


class Control:
    """``close`` tells those who still wait; nothing is answered after it."""

    def __init__(self, driver: Driver, folder: RunFolder) -> None:
        self.driver = driver
        self.mailbox = Mailbox(folder.control)

    def poll(self) -> None:
        try:
            for question in self.mailbox.questions():
                self.driver.cluster.keep(self.answer(question))
        except Exception:  # the session must go on whatever lies in that folder
            logger.exception("questions of operators could not be looked at")

    def close(self) -> None:
        self.mailbox.close()

    async def answer(self, question: Question) -> None:
        closing = {"ok": False, "error": "the session closed before it had the answer"}
        answer: dict[str, Any] = closing
        try:
            if question.ask not in QUESTIONS:
                raise UsageError("; ".join(not_defined("question", question.ask, QUESTIONS)))
            asked = QUESTIONS[question.ask](self, question, **question.arguments)
            answer = {"ok": True, **await asked}
        except ScalableError as error:
            answer = {"ok": False, "error": str(error), "usage": isinstance(error, UsageError)}
        except Exception as error:  # the asker waits, and must hear of it
            logger.exception("the question %s failed", question.ask)
            answer = {"ok": False, "error": f"the session could not answer: {type(error).__name__}: {error}"}
        finally:  # also when the cluster closes and cancels this
            self.mailbox.answer(question.id, answer)

    # Questions that change nothing

    async def workers(self, question: Question) -> dict[str, Any]:
        return {"workers": roster(self.driver), "paused": self.driver.engine.view.paused}

    async def dump(self, question: Question, target: str) -> dict[str, Any]:
        worker, job = self.on_worker(target)
        return {"worker": worker, "run": job, **await self.driver.ask(worker, "dump", run=job)}

    async def profile(self, question: Question, target: str, seconds: float) -> dict[str, Any]:
        wanted = number(seconds)
        if wanted is None or not 0 < wanted <= LONGEST_PROFILE_S:
            raise UsageError(f"{seconds!r} seconds; write a number up to {LONGEST_PROFILE_S:.0f}, e.g. --seconds 10")
        worker, job = self.on_worker(target)
        return {"worker": worker, "run": job, **await self.driver.ask(worker, "profile", seconds=wanted, run=job)}

    async def protections(self, question: Question, worker: str) -> dict[str, Any]:
        if worker not in self.driver.cluster.members:
            raise unknown("worker", worker, self.driver.cluster.members)
        return {"protections": await self.driver.ask(worker, "protections")}

    async def explain(self, question: Question, run: str | None = None) -> dict[str, Any]:
        jobs = self.driver.engine.view.jobs
        name = run if run is not None else self.only_unfinished()
        lines, state = [], JobState.RUNNING.value
        if name in jobs:
            lines, state = self.driver.engine.view.explain(name, self.driver.now()), jobs[name].state.value
        elif task := self.task(name):
            worker, guarded = task
            lines = [f"handed to Dask directly, {'guarded, ' if guarded else ''}on {worker}"]
            name = guarded or name
        else:
            raise unknown("job", name, [*jobs, *self.tasks()])
        doing = [doings for doings in self.driver.activity() if doings["run"] == name]
        return {"run": name, "state": state, "lines": lines, "doing": doing}

    # Questions that act

    async def kill(self, question: Question, target: str) -> dict[str, Any]:
        """Kill it, and answer when it is dead, or that it is not yet."""
        engine = self.driver.engine.view
        reason = f"killed by {question.by or 'an operator'}"
        if target in self.driver.cluster.members:
            return await self.kill_worker(question, target, reason)
        if target in engine.jobs:
            if engine.jobs[target].state.final:
                raise UsageError(f"{target} is {engine.jobs[target].state.value} already: there is nothing to kill")
            events: list[Event] = [JobCancelled(target, question.by)]
            jobs, what = [target], f"job {target}"
        elif target in engine.sweeps or target == EVERYTHING:
            sweeps = [target] if target in engine.sweeps else list(engine.sweeps)
            sweeps = [sweep for sweep in sweeps if not engine.sweeps[sweep].ended]
            if not sweeps and target != EVERYTHING:
                raise UsageError(f"sweep {target} has ended already: there is nothing to kill")
            events = [SweepCancelled(sweep) for sweep in sweeps]
            jobs = [id for id, record in engine.jobs.items() if record.job.sweep in sweeps and not record.state.final]
            what = f"sweep {target} with {plural(len(jobs), 'job')}" if target in sweeps else plural(len(jobs), "job")
        elif task := self.task(target):
            raise UsageError(f"{target} was handed to Dask: cancel its future, or kill its worker {task[0]}")
        else:
            raise unknown("worker, job or sweep", target, self.names())
        self.record(question, target, jobs)
        for event in events:
            self.driver.handle(event)
        await self.until(lambda: all(engine.jobs[job].state.final for job in jobs), f"{what} is not dead yet")
        follows = "not run again in this session; scalable run  computes what is missing"
        if target == EVERYTHING and (outside := len(self.tasks())):
            follows += f". {plural(outside, 'task')} handed to Dask directly run on; end the session to end them"
        return {"killed": what, "runs": jobs, "follows": follows}

    async def kill_worker(self, question: Question, name: str, reason: str) -> dict[str, Any]:
        record = self.driver.engine.view.workers.get(name)
        jobs = sorted(record.jobs) if record else []
        self.record(question, name, jobs)
        await self.ended([name], reason)
        await self.until(lambda: name not in self.driver.cluster.members, f"worker {name} is not gone yet")
        self.driver.gauge(self.driver.seen(), force=True)
        are = "is" if len(jobs) == 1 else "are"
        again = f"{plural(len(jobs), 'job')} {are} run again elsewhere, at no retry's cost; " if jobs else ""
        follows = f"{again}another worker is asked for if work needs one"
        return {"killed": f"worker {name}", "runs": jobs, "follows": follows}

    async def pause(self, question: Question, now: bool = False) -> dict[str, Any]:
        """Start nothing new; ``now`` also ends what runs, to be run again later, and sends all workers away."""
        reason = f"paused by {question.by or 'an operator'}"
        self.record(question, "--now" if now else "")
        self.driver.halt(OPERATOR, Paused(reason, drop_workers=bool(now)))
        engine = self.driver.engine.view
        busy = [name for name, worker in engine.workers.items() if worker.jobs]
        stopped = sorted(job for name in busy for job in engine.workers[name].jobs)
        if now:
            await self.ended(busy, reason)
            self.driver.gauge(self.driver.seen(), force=True)
        waiting = sum(not record.state.final for record in engine.jobs.values()) - len(stopped)
        affected = {"stopped": stopped if now else [], "running": [] if now else stopped}
        return {**affected, "waiting": max(0, waiting), "outside": len(self.tasks())}

    async def stop(self, question: Question, dry_run: bool = False) -> dict[str, Any]:
        """End the session as Ctrl-C does, once this is answered; with ``dry_run`` only say what that would stop."""
        jobs = self.driver.engine.view.jobs
        running = sorted(name for name, record in jobs.items() if record.state in ON_A_WORKER)
        waiting = sum(not record.state.final for record in jobs.values()) - len(running)
        if not dry_run:
            self.record(question, "", running)
            asyncio.get_running_loop().call_later(ANSWERED_S, interrupt)
        return {"running": running, "waiting": waiting, "outside": len(self.tasks())}

    async def resume(self, question: Question) -> dict[str, Any]:
        """Start work again; what others than the operator hold up stays so, and is told."""
        was = self.driver.engine.view.paused
        self.record(question, "")
        self.driver.halt(OPERATOR, None)
        return {"was": was, "still": self.driver.engine.view.paused}

    async def rollback(self, question: Question, workers: dict[str, int], to: str) -> dict[str, Any]:
        """Apply the numbers of an earlier plan from now on; what runs may end, on surplus workers, too."""
        driver, engine = self.driver, self.driver.engine.view
        if driver.scaler is not None:
            raise UsageError("a scaler of the script's own decides how many workers there are; change it there")
        for tag, count in workers.items():
            if tag not in engine.tags:
                raise unknown("kind of workers", tag, engine.tags)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise UsageError(f"{tag}: {count!r} workers; write a whole number from 0")
        self.record(question, to)
        before = {tag: driver.staying(tag) for tag in workers}
        for tag, count in workers.items():
            bounds = engine.tags[tag]
            fixed = bounds.minimum == bounds.maximum  # else it scales with the work, now up to this
            driver.handle(BoundsSet(tag, count if fixed else min(bounds.minimum, count), count))
            await asyncio.sleep(0)  # idle ones that the engine gave back are leaving after that
            for member in driver.cluster.choose(max(0, driver.staying(tag) - count), tag):
                if member.name in engine.workers:  # as with notice: no more work, and it goes with its last job
                    driver.handle(WorkerLeaving(member.name))
                else:
                    driver.cluster.keep(driver.cluster.dismiss(member, f"rolled back to {to}"))
        return {"workers": {tag: {"from": before[tag], "to": count} for tag, count in workers.items()}}

    # Help

    def on_worker(self, target: str) -> tuple[str, str | None]:
        """Return the worker that is meant, and the job or guarded task on it if one is."""
        if target in self.driver.cluster.members:
            return target, None
        jobs = self.driver.engine.view.jobs
        if target not in jobs:
            if task := self.task(target):
                return task
            raise unknown("worker or job", target, [*self.driver.cluster.members, *jobs, *self.tasks()])
        if jobs[target].state not in ON_A_WORKER:
            state = jobs[target].state.value
            raise UsageError(f"{target} is on no worker: it is {state}; scalable explain {quote(target)}  says why")
        return jobs[target].worker, target

    def task(self, key: str) -> tuple[str, str | None] | None:
        """Return which worker has a task that the engine does not know, by Dask's name for it or its runner's."""
        doing = {activity["run"]: str(activity["worker"]) for activity in self.driver.activity()}
        if key in doing:
            return doing[key], key
        tasks = self.tasks()
        if (worker := tasks.get(key)) is None:
            return None
        guarded = [job for job, where in doing.items() if where == worker]
        only = list(tasks.values()).count(worker) == 1  # else it may be another one's
        return worker, guarded[0] if only and len(guarded) == 1 else None

    def tasks(self) -> dict[str, str]:
        """Return the workers of tasks that Dask runs."""
        worker_by_task: dict[str, str] = {}
        for member in self.driver.cluster.members.values():
            worker = self.driver.cluster.scheduler.workers.get(member.address)
            worker_by_task |= {str(task.key): member.name for task in worker.processing} if worker else {}
        return worker_by_task

    def only_unfinished(self) -> str:
        jobs = {name: record for name, record in self.driver.engine.view.jobs.items() if not record.state.final}
        if len(jobs) == 1:
            return next(iter(jobs))
        if jobs:
            raise UsageError(f"{len(jobs)} jobs are not finished; name one of {some_of(sorted(jobs))}")
        raise UsageError(f"no job is unfinished; name one of {some_of(sorted(self.driver.engine.view.jobs)) or 'none'}")

    def names(self) -> list[str]:
        engine = self.driver.engine.view
        living = [name for name, record in engine.jobs.items() if not record.state.final]
        several = Counter(record.job.sweep for record in engine.jobs.values())  # a task's only job has its own name
        sweeps = [name for name, sweep in engine.sweeps.items() if not sweep.ended and several[name] > 1]
        return [*self.driver.cluster.members, *living, *sweeps]

    def record(self, question: Question, target: str, jobs: Iterable[str] = ()) -> None:
        self.driver.journal.write("operator", ask=question.ask, target=target, by=question.by, runs=list(jobs))

    async def ended(self, workers: list[str], reason: str) -> None:
        """Kill workers and wait until they are gone."""
        ends = asyncio.gather(*(self.driver.kill_worker(name, reason) for name in workers))
        try:
            await asyncio.wait_for(ends, DEAD_WITHIN_S)
        except TimeoutError:
            left = some_of(sorted(name for name in workers if name in self.driver.cluster.members))
            raise ScalableError(f"{left} told to die and still there after {DEAD_WITHIN_S:.0f} s") from None

    async def until(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = asyncio.get_running_loop().time() + DEAD_WITHIN_S
        while not condition():
            if asyncio.get_running_loop().time() > deadline:
                raise ScalableError(
                    f"{otherwise} after {DEAD_WITHIN_S:.0f} s; scalable ops workers  shows who is there"
                )
            try:
                await asyncio.sleep(LOOK_S)
            except asyncio.CancelledError:  # what ended may have been the last, and the session ends with it
                if not condition():
                    raise


def interrupt() -> None:
    """Interrupt the main thread as Ctrl-C does; where that is ignored, as after nohup, as ``kill`` does."""
    heard = callable(signal.getsignal(signal.SIGINT))
    os.kill(os.getpid(), signal.SIGINT if heard else signal.SIGTERM)


def unknown(noun: str, name: str, known: Iterable[str]) -> UsageError:
    return UsageError(undefined(noun, name, known))


QUESTIONS: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
    "workers": Control.workers,
    "dump": Control.dump,
    "profile": Control.profile,
    "protections": Control.protections,
    "explain": Control.explain,
    "kill": Control.kill,
    "pause": Control.pause,
    "resume": Control.resume,
    "stop": Control.stop,
    "rollback": Control.rollback,
}
