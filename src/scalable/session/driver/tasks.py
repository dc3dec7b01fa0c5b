"""The manifest's tasks as jobs: each starts when those it needs have finished, on a worker of its component.

A task with axes has one job for each combination of their values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from scalable.axes import filled_in, task_of
from scalable.engine.events import Job, JobState, SubmittedSweep, SweepCancelled, SweepKind
from scalable.engine.rules import WorkerKind
from scalable.errors import ScalableError, UsageError
from scalable.manifest.models import RETURNED, Task
from scalable.observe.redact import redact_text
from scalable.quantities import Memory
from scalable.session.driver.driver import Driver
from scalable.session.driver.execution import JobCall
from scalable.session.driver.incidents import IncidentRows
from scalable.session.driver.keeping import AttemptLedger, Keeping
from scalable.store import Receipt, Row, RowError, RowStatus, Store, StoreError
from scalable.store.caching import key_of
from scalable.sweeps.task_graph import TaskGraph, TaskJob
from scalable.wording import not_defined, shortened
from scalable.worker.runner.calls import Call, Output, TaskResult

LONGEST_TEXT = 400  # characters of a result that has no JSON form
MOST_NAMED = 50  # jobs that did not finish that an error names
DEEPEST = 50  # levels of a result that are looked into; deeper ones, and what contains itself, are told as text


class TaskError(ScalableError):
    """Tasks that did not finish, each with its reason."""


def chosen(tasks: Mapping[str, Task], names: Iterable[str] | None) -> dict[str, Task]:
    """Return the tasks to run with all they need, in the manifest's order."""
    runnable = [name for name, task in tasks.items() if task.run is not None]
    wanted: list[str] = list(names) if names is not None else runnable
    if not wanted:
        raise UsageError("no task of the manifest says what to run; write e.g. run: package.module:function in one")
    todo, needed = list(wanted), set[str]()
    while todo:
        name = todo.pop()
        if name not in tasks:
            raise UsageError("; ".join(not_defined("task", name, tasks)))
        if tasks[name].run is None:
            raise UsageError(f"tasks.{name} does not say what to run; write e.g. run: package.module:function")
        if name not in needed:
            needed.add(name)
            todo += tasks[name].needs
    return {name: task for name, task in tasks.items() if name in needed}


async def run_tasks(
    driver: Driver, tasks: Mapping[str, Task], store: Store, peaks: Mapping[str, Memory], places: TaskFolders,
    lengths: Mapping[str, float | None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return results by task, each a row of the store too; raise ``TaskError`` after all that could run has run.

    A task with axes has a mapping of results, by value. ``peaks`` are what earlier runs used, by ``run:<task>``, and
    ``lengths`` the seconds that a call of each task takes: what will not fit is not tried.
    """
    async with IncidentRows(driver.attempts.incidents, store, lambda job: task_of(job) in tasks):
        return await TaskRun(driver, tasks, store, peaks, places, lengths or {}).results()


@dataclass(frozen=True, slots=True)
class TaskFolders:
    """The folders in which tasks find and leave things, as workers see them."""

    cache: str | None = None
    """Cached results."""
    outputs: str = ""
    """Where paths of outputs start; empty for the folder a worker is in."""
    scratch: str | None = None
    """Half-done work of tasks that declare checkpoints; nothing where workers do not see the project's folder."""


class TaskRun:
    """One run of some tasks: their jobs are handed to the engine when what they need is there."""

    def __init__(
        self, driver: Driver, tasks: Mapping[str, Task], store: Store, peaks: Mapping[str, Memory], places: TaskFolders,
        lengths: Mapping[str, float | None],
    ) -> None:  # fmt: skip
        self.driver = driver
        self.tasks = tasks
        self.store = store
        self.peaks = peaks
        self.places = places
        self.lengths = lengths
        self.graph = TaskGraph(tasks)
        self.numbers = {task: again(driver.engine.view.jobs, jobs[0].name) for task, jobs in self.graph.jobs.items()}
        """How often each task was run before in this session."""
        self.keys = {job.name: row_key(job, tasks[task]) for task, jobs in self.graph.jobs.items() for job in jobs}
        before = store.find(list(self.keys.values()))
        self.ledger = AttemptLedger(store, driver.attempts.folder.run_id, self.keys.values(), before)
        self.keeping = self.ledger.keeping = Keeping(driver, self.cancel)
        self.running: dict[str, str] = {}
        """By job: the engine's sweep that it is part of."""
        self.ended: asyncio.Queue[tuple[TaskJob, str, asyncio.Future[tuple[JobState, Any]]]] = asyncio.Queue()
        self.receipts: list[asyncio.Future[Receipt]] = []
        self.problems: dict[str, str] = {}
        """Why jobs did not finish."""

    async def results(self) -> dict[str, Any]:
        for task, jobs in self.graph.jobs.items():
            if over := self.tasks[task].over:
                axes = {axis: list(values) for axis, values in over.items()}
                self.driver.journal.write("fan-out", task=task, axes=axes, number=self.numbers[task], jobs=len(jobs))
        try:
            await self.submit(self.graph.ready())
            while self.running:
                job, job_id, future = await self.ended.get()
                able = self.take(job, job_id, future)
                while not self.ended.empty():  # so that jobs that can start together are handed over together
                    able += self.take(*self.ended.get_nowait())
                await self.submit(able)
        except BaseException:
            self.keeping.over = True
            raise
        finally:  # nobody waits any longer for what still runs
            self.driver.attempts.leave(self.ledger)
            self.cancel()
        for receipt in await asyncio.gather(*self.receipts):
            if not receipt.safe:
                raise StoreError(f"results could not be stored: {receipt.reason}")
        if self.problems:
            raise TaskError(failures(self.problems, len(self.keys)))
        return self.graph.by_task()

    async def submit(self, jobs: Iterable[TaskJob]) -> None:
        """Hand jobs to the engine, those of a task together."""
        for task, members in groupby(jobs, key=lambda job: job.task):
            retry = self.tasks[task].retry
            works: dict[str, JobCall] = {}
            known: dict[str, TaskJob] = {}
            for member in members:
                number = self.numbers[task]
                job_id = f"{member.name}#{number + 1}" if number else member.name
                known[job_id], works[job_id] = member, self.work(member)
            sweep = f"task {next(iter(known))}"
            sent = tuple(self.job(job_id, member, sweep) for job_id, member in known.items())
            self.running |= dict.fromkeys(known, sweep)
            for job_id, member in known.items():
                self.ledger.rows[job_id] = (self.keys[member.name],)
                self.driver.attempts.ledgers[job_id] = self.ledger
            policy = retry and self.driver.engine.view.rules.policies.retry_of(retry)
            futures = await self.driver.submit(SubmittedSweep(sweep, SweepKind.FREE, sent, len(sent), policy), works)
            for job_id, future in futures.items():
                future.add_done_callback(partial(self.put, known[job_id], job_id))

    def put(self, job: TaskJob, job_id: str, future: asyncio.Future[tuple[JobState, Any]]) -> None:
        self.ended.put_nowait((job, job_id, future))

    def job(self, job_id: str, member: TaskJob, sweep: str) -> Job:
        kinds, peak = self.driver.engine.view.rules.kinds, self.peaks.get(f"run:{member.task}")
        tag = fitting(kinds, self.tasks[member.task].component, peak)
        return Job(
            job_id,
            sweep,
            tag,
            expected_s=self.lengths.get(member.task) if tag in kinds and kinds[tag].walltime is not None else None,
            memory=peak,
            charged=self.ledger.charged([self.keys[member.name]]),
            checkpoints=self.tasks[member.task].checkpoints,
        )

    def work(self, member: TaskJob) -> JobCall:
        task = self.tasks[member.task]
        outputs = tuple(output(name, written, member) for name, written in task.outputs.items())
        scratch = f"{self.places.scratch}/{member.task}/{self.keys[member.name]}" if self.places.scratch else None
        call = Call(
            str(task.run), task.cache, outputs, self.places.cache, self.places.outputs, self.graph.reads(member),
            scratch if task.checkpoints else None,
        )  # fmt: skip
        return JobCall(call, self.graph.arguments(member))

    def take(self, job: TaskJob, job_id: str, future: asyncio.Future[tuple[JobState, Any]]) -> list[TaskJob]:
        """Take in the end of a job, and return those that can start now."""
        del self.running[job_id]
        state, value = future.result()
        result = value if isinstance(value, TaskResult) else TaskResult(value)
        row = row_of(self.driver, job_id, job.name, self.keys[job.name], state, result.value, self.ledger)
        self.receipts.append(asyncio.ensure_future(persisted(self.driver, self.store, row, self.keeping)))
        if state is JobState.FINISHED:
            mark = key_of(sorted(mark.digest for mark in result.files.values())) if result.files else ""
            return self.graph.finish(job, result.value, mark)
        self.problems[job.name] = f"{state.value}: {value}"
        for waiting, needed in self.graph.fail(job):
            self.problems[waiting.name] = f"not started: {needed} did not finish"
        return []

    def cancel(self) -> None:
        """Run nothing more of these tasks: nobody waits for their results, or they would be lost."""
        for sweep in dict.fromkeys(self.running.values()):
            self.driver.handle(SweepCancelled(sweep))


def again(jobs: Iterable[str], name: str) -> int:
    """Return how often a job was run before."""
    return sum(job == name or (job.startswith(f"{name}#") and job[len(name) + 1 :].isdecimal()) for job in jobs)


def row_key(job: TaskJob, task: Task) -> str:
    """Return the key of a job's row: what it calls, and with what."""
    called = (job.task, task.run, task.arguments, task.needs)
    return key_of((*called, dict(job.coordinates)) if job.coordinates else called)


def output(name: str, written: str, job: TaskJob) -> Output:
    if written in RETURNED:
        return Output(name, written)
    return Output(name, "dir" if written.endswith("/") else "file", filled_in(written, job.coordinates))


def failures(problems: Mapping[str, str], jobs: int) -> str:
    """Return what to say of jobs that did not finish: each with its reason, of very many the first."""
    lines = [f"  {name}: {reason}" for name, reason in problems.items()]
    more = [f"  … and {len(lines) - MOST_NAMED:,} more; scalable report  shows them by axis"]
    listed = lines if len(lines) <= MOST_NAMED else [*lines[:MOST_NAMED], *more]
    return "\n".join([f"{len(problems):,} of {jobs:,} tasks did not finish:", *listed])


async def persisted(driver: Driver, store: Store, row: Row, keeping: Keeping) -> Receipt:
    """Wait until the row is where no crash can lose it, which counts as a sign of life of its worker."""
    receipt = await keeping.put(lambda: store.submit([row]), 1)
    driver.stored(row.worker, 1, receipt, store)
    return receipt


def fitting(kinds: Mapping[str, WorkerKind], tag: str, peak: Memory | None) -> str:
    """Return the first of a kind and its larger ones that takes this peak; the last if none does."""
    while peak is not None and tag in kinds and peak > kinds[tag].memory and (above := kinds[tag].larger) is not None:
        tag = above
    return tag


def row_of(driver: Driver, job: str, name: str, key: str, state: JobState, value: Any, ledger: AttemptLedger) -> Row:
    """Return a task's row, keyed by what it calls and with what. Its attempts follow those made before."""
    record = driver.engine.view.jobs[job]
    finished = state is JobState.FINISHED
    row = Row(
        run_key=key,
        name=name,
        run_status=RowStatus.FINISHED if finished else RowStatus.FAILED,
        error=None if finished else redact_text(str(value)),
        attempt=ledger.final(key, len(record.past) + finished),
        worker=record.worker or None,
        run_id=ledger.run_id,
    )
    try:
        return replace(row, value=as_json(value)) if finished else row
    except RowError:  # too large for a store; the task has finished all the same
        return replace(row, value=in_words(value))


def as_json(value: Any, depth: int = 0) -> Any:
    """Return a result as JSON where it has a JSON form, else as text."""
    if isinstance(value, Mapping) and depth < DEEPEST:
        return {str(key): as_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return [as_json(item, depth + 1) for item in value]
    if isinstance(value, str | bool | None):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if isfinite(value) else str(float(value))
    return in_words(value)


def in_words(value: Any) -> str:
    try:
        text = str(value) if isinstance(value, Path) else repr(value)
    except Exception:  # noqa: BLE001 - a value's own code
        text = f"a {type(value).__name__}"
    return shortened(text, LONGEST_TEXT)
