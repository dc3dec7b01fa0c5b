"""The manifest's tasks as jobs: each starts when those it needs have finished, on a worker of its component."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from scalable.engine.events import Job, JobState, Sweep, SweepCancelled, SweepKind
from scalable.engine.rules import WorkerKind
from scalable.errors import ScalableError, UsageError
from scalable.manifest.models import Task
from scalable.observe.redact import redact_text
from scalable.quantities import Memory
from scalable.session.driver.driver import Driver
from scalable.session.driver.execution import JobCall
from scalable.session.driver.incident_rows import IncidentRows
from scalable.session.driver.keeping import Keeping
from scalable.session.driver.ledger import Ledger
from scalable.store import Receipt, Row, RowError, RowStatus, Store, StoreError
from scalable.store.caching import key_of
from scalable.wording import not_defined
from scalable.worker.runner.calls import Call

LONGEST_TEXT = 400  # characters of a result that has no JSON form
DEEPEST = 50  # levels of a result that are looked into; deeper ones, and what contains itself, are told as text


class TaskError(ScalableError):
    """Tasks that did not finish, each with its reason."""


def chosen(tasks: Mapping[str, Task], names: Iterable[str] | None) -> dict[str, Task]:
    """The tasks to run with all they need, in the manifest's order."""
    runnable = [name for name, task in tasks.items() if task.run is not None]
    wanted: list[str] = list(names) if names is not None else runnable
    if not wanted:
        raise UsageError("no task of the manifest says what to run; write e.g. run: package.module:function in one")
    todo, found = list(wanted), set[str]()
    while todo:
        name = todo.pop()
        if name not in tasks:
            raise UsageError("; ".join(not_defined("task", name, tasks)))
        if tasks[name].run is None:
            raise UsageError(f"tasks.{name} does not say what to run; write e.g. run: package.module:function")
        if name not in found:
            found.add(name)
            todo += tasks[name].needs
    return {name: task for name, task in tasks.items() if name in found}


async def run_tasks(
    driver: Driver, tasks: Mapping[str, Task], store: Store, peaks: Mapping[str, Memory], cache_dir: str | None
) -> dict[str, Any]:
    """Results by task, each a row of the store too; raises ``TaskError`` after everything that could run has run.

    ``peaks`` are what earlier runs used, by ``run:<task>``: what will not fit is not tried. Cached results are kept in
    ``cache_dir``.
    """
    async with IncidentRows(driver.attempts.incidents, store, lambda job: job.partition("#")[0] in tasks):
        return await results_of(driver, tasks, store, peaks, cache_dir)


async def results_of(
    driver: Driver, tasks: Mapping[str, Task], store: Store, peaks: Mapping[str, Memory], cache_dir: str | None
) -> dict[str, Any]:
    receipts: list[asyncio.Future[Receipt]] = []
    results: dict[str, Any] = {}
    problems: dict[str, str] = {}
    running: dict[str, asyncio.Task[tuple[str, JobState, Any]]] = {}
    left = dict(tasks)
    keys = {name: key_of((name, task.run, task.arguments, task.needs)) for name, task in tasks.items()}
    before = store.find(list(keys.values()))
    ledger = Ledger(store, driver.attempts.folder.run_id, keys.values(), before)
    keeping = ledger.keeping = Keeping(driver, lambda: cancel(driver, ledger))
    try:
        while left or running:
            for name, task in list(left.items()):
                if broken := [need for need in task.needs if need in problems]:
                    problems[name] = f"not started: {', '.join(broken)} did not finish"
                    del left[name]
                elif all(need in results for need in task.needs):
                    peak = peaks.get(f"run:{name}")
                    running[name] = asyncio.ensure_future(
                        start(driver, name, left.pop(name), results, peak, cache_dir, ledger, keys[name])
                    )
            if not running:
                continue
            done, _ = await asyncio.wait(running.values(), return_when=asyncio.FIRST_COMPLETED)
            for name in [name for name, one in running.items() if one in done]:
                job, state, value = running.pop(name).result()
                row = row_of(driver, job, name, keys[name], state, value, ledger)
                receipts.append(asyncio.ensure_future(persisted(driver, store, row, keeping)))
                if state is JobState.FINISHED:
                    results[name] = value
                else:
                    problems[name] = f"{state.value}: {value}"
    except BaseException:
        keeping.over = True
        raise
    finally:  # nobody waits any longer for what still runs
        driver.attempts.leave(ledger)
        for one in running.values():
            one.cancel()
    for receipt in await asyncio.gather(*receipts):
        if not receipt.safe:
            raise StoreError(f"results could not be stored: {receipt.reason}")
    if problems:
        told = "\n".join(f"  {name}: {reason}" for name, reason in problems.items())
        raise TaskError(f"{len(problems)} of {len(tasks)} tasks did not finish:\n{told}")
    return results


def cancel(driver: Driver, ledger: Ledger) -> None:
    """Run nothing more of these tasks: their results would be lost."""
    for job in ledger.rows:
        driver.handle(SweepCancelled(driver.engine.view.jobs[job].job.sweep))


async def persisted(driver: Driver, store: Store, row: Row, keeping: Keeping) -> Receipt:
    """Until the row is where no crash can lose it; its worker is seen to get somewhere by that."""
    receipt = await keeping.put(lambda: store.submit([row]), 1)
    driver.stored(row.worker, 1, receipt, store)
    return receipt


async def start(
    driver: Driver, name: str, task: Task, results: Mapping[str, Any], peak: Memory | None, cache_dir: str | None,
    ledger: Ledger, key: str,
) -> tuple[str, JobState, Any]:  # fmt: skip
    arguments = {**task.arguments, **{need: results[need] for need in task.needs}}
    work = JobCall(Call(str(task.run), task.cache, tuple(task.outputs.items()), cache_dir), arguments)
    before = sum(job == name or job.startswith(f"{name}#") for job in driver.engine.view.jobs)
    tag = fitting(driver.engine.view.rules.kinds, task.component, peak)
    job = Job(
        f"{name}#{before + 1}" if before else name,
        f"task {name} {before}",
        tag,
        memory=peak,
        charged=ledger.charged([key]),
    )
    ledger.rows[job.id] = (key,)
    driver.attempts.ledgers[job.id] = ledger
    retry = task.retry and driver.engine.view.rules.policies.retry_of(task.retry)
    futures = await driver.submit(Sweep(job.sweep, SweepKind.FREE, (job,), 1, retry), {job.id: work})
    try:
        return job.id, *await futures[job.id]
    except asyncio.CancelledError:
        driver.handle(SweepCancelled(job.sweep))
        raise


def fitting(kinds: Mapping[str, WorkerKind], tag: str, peak: Memory | None) -> str:
    """The first of a kind and its larger ones that takes this peak; the last if none does."""
    while peak is not None and tag in kinds and peak > kinds[tag].memory and (above := kinds[tag].larger) is not None:
        tag = above
    return tag


def row_of(driver: Driver, job: str, name: str, key: str, state: JobState, value: Any, ledger: Ledger) -> Row:
    """A task's row: its key is what it calls and with what. Its attempts follow those that were made before."""
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
    """A result as JSON where it has a JSON form, else as text."""
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
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
