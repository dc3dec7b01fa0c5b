"""A sweep carried out: what the store lacks is computed, every row is committed as it arrives, and the store decides.

The driver believes only the store: rows that are there are not computed again, and a sweep is complete when every
expected row is there. Whoever dies, the next start goes on from what the store and the artefacts have.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scalable.caching import key_of
from scalable.engine.events import RowPersisted, Run, RunState, Sweep, SweepKind
from scalable.grid import Cell
from scalable.session.execution import Work
from scalable.store import Filter, Row, RowStatus, Store, StoreError, SweepRun, SweepStatus
from scalable.sweeps.compiling import Compiled
from scalable.sweeps.units import Computed
from scalable.telemetry.redact import redact_text
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.quantities import Memory
    from scalable.session.driver import Driver

MOST_NAMED = 3  # failures that are told in full; the results have all of them


@dataclass(frozen=True, slots=True)
class Request:
    """What a sweep needs besides its rows."""

    tag: str
    kind: SweepKind
    workers: int
    artefacts: str
    expected_s: float | None = None
    """Of a unit, as far as known."""
    peak: Memory | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """What the store has of a sweep when it ended."""

    sweep: str
    expected: int
    finished: int
    failed: Mapping[str, str] = field(default_factory=dict)
    """Rows that failed, by where they are in the grid, with the reason."""
    missing: tuple[str, ...] = ()
    """Rows nobody knows anything about: not computed yet."""
    computed: int = 0
    """Rows that this start computed; the others were there."""
    executed: Mapping[str, int] = field(default_factory=dict)
    """How often each stage was computed, not found."""
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        return self.finished == self.expected

    def to_dict(self) -> dict[str, Any]:
        names = ("expected", "finished", "computed", "failed", "missing", "executed", "seconds")
        return {"complete": self.complete, **{name: getattr(self, name) for name in names}}

    def why(self) -> str:
        """Why it is not complete, in words; empty if it is."""
        parts = []
        if self.failed:
            told = [f"{where}: {reason}" for where, reason in list(self.failed.items())[:MOST_NAMED]]
            parts.append(f"{plural(len(self.failed), 'row')} failed ({'; '.join(told)})")
        if self.missing:
            named = ", ".join(self.missing[:MOST_NAMED])
            more = " …" if len(self.missing) > MOST_NAMED else ""
            parts.append(f"{plural(len(self.missing), 'row')} not computed ({named}{more})")
        return "; ".join(parts)


def lacking(compiled: Compiled, there: Mapping[str, Row]) -> list[str]:
    """Keys of rows that must be computed: those that are not there, or failed."""
    return [key for key, _ in compiled.expected if key not in there or not there[key].finished]


def outcome_of(compiled: Compiled, there: Mapping[str, Row], **facts: Any) -> SweepOutcome:
    """What these rows of the store make of a sweep."""
    named_rows = [(key, named(cell)) for key, cell in compiled.expected]
    failed = {name: there[key].error or "" for key, name in named_rows if key in there and not there[key].finished}
    missing = tuple(name for key, name in named_rows if key not in there)
    finished = len(named_rows) - len(failed) - len(missing)
    return SweepOutcome(compiled.name, len(named_rows), finished, failed, missing, **facts)


def changed(compiled: Compiled, missing: Iterable[str], store: Store) -> str:
    """Why rows that were there are computed anew, in words; empty if there were none."""
    cells = {identity(compiled.where[key]) for key in missing}
    old = {}
    for row in store.rows(Filter(sweep=compiled.name)):
        cell = (row.factor, row.variant, row.asset, row.fold, row.cost_bps)
        if row.finished and row.run_key not in compiled.where and cell in cells:
            old[cell] = row
    if not old:
        return ""
    latest = max(old.values(), key=lambda row: row.written_at or 0.0)
    reasons = []
    if stages := changed_stages(latest.code_fingerprint or "", compiled.workload.code_fingerprint()):
        reasons.append(f"the code of {', '.join(stages)} changed")
    if latest.data_fingerprint != compiled.data_fingerprint:
        reasons.append("the data changed")
    if not reasons:
        reasons.append("the settings changed")
    told = f"{plural(len(old), 'row')} that {'was' if len(old) == 1 else 'were'} there"
    verb = "is of another version and is" if len(old) == 1 else "are of another version and are"
    return f"{told} {verb} computed anew: {', '.join(reasons)}"


def changed_stages(before: str, after: str) -> list[str]:
    """Names of stages whose code is another one."""
    was = dict(part.split(":", 1) for part in before.split() if ":" in part)
    return [name for name, _, code in (part.partition(":") for part in after.split()) if was.get(name) != code]


def identity(cell: Cell) -> tuple[Any, ...]:
    return (cell.factor, cell.variant, cell.asset, cell.fold, cell.cost_bps)


class SweepExecution:
    """One sweep, from the rows the store lacks to what it has in the end."""

    def __init__(
        self, driver: Driver, compiled: Compiled, store: Store, request: Request, before: Mapping[str, Row]
    ) -> None:
        self.driver = driver
        self.compiled = compiled
        self.store = store
        self.request = request
        self.began = time.time()
        self.before = before
        self.executed: Counter[str] = Counter()
        self.fresh: set[str] = set()
        """Units whose costliest stage was computed, not found: only their durations say something."""
        self.computed = 0
        self.writing: set[asyncio.Task[None]] = set()
        self.refused = ""
        """Why rows could not be stored, if they could not."""
        self.works = {work.run_key: work for work, _ in compiled.cells}
        self.code = compiled.workload.code_fingerprint()

    async def run(self) -> SweepOutcome:
        missing = lacking(self.compiled, self.before)
        expected = len(self.compiled.cells)
        started = SweepRun(
            id=f"{self.driver.attempts.folder.run_id} {self.compiled.name}", sweep=self.compiled.name,
            started=self.began, expected=expected, target=self.request.target,
        )  # fmt: skip
        self.tell_start(expected, expected - len(missing), missing)
        await asyncio.to_thread(self.store.put_run, started)
        try:
            await self.compute(missing)
        finally:
            await self.settle()
        return await self.conclude(started)

    def tell_start(self, expected: int, there: int, missing: list[str]) -> None:
        units = len(self.compiled.units_of(missing)) if missing else 0
        self.driver.journal.write(
            "sweep-started", sweep=self.compiled.name, factor=self.compiled.grid.factor, tag=self.request.tag,
            expected=expected, there=there, units=units, all_units=len(self.compiled.units),
            stages={name: list(counts) for name, counts in self.compiled.sharing().items()},
            run=self.compiled.sweep.run or "", settings=dict(self.compiled.sweep.settings),
            trials=self.compiled.grid.trials,
        )  # fmt: skip

    async def compute(self, missing: list[str]) -> None:
        """Give the engine a run for every unit that lacks rows, and commit what comes back."""
        name, request = self.compiled.name, self.request
        known = self.driver.engine.state.runs
        again = sum(1 for one in self.driver.engine.state.sweeps if one == name or one.startswith(f"{name} #"))
        sweep = f"{name} #{again + 1}" if again else name
        units, works = {}, {}
        for place in self.compiled.units_of(missing):
            run = place.name if place.name not in known else f"{place.name} #{again + 1}"
            units[run] = place
            marked = any(cell.run_key in self.before and self.before[cell.run_key].marked for cell in place.cells)
            works[run] = Work(self.compiled.unit(place, request.artefacts, fresh=marked))
        runs = tuple(
            Run(run, sweep, request.tag, place.group, request.expected_s, request.peak) for run, place in units.items()
        )
        futures = await self.driver.submit(Sweep(sweep, request.kind, runs, request.workers), works)
        waiting = {asyncio.ensure_future(self.follow(run, futures[run], units[run].cells)) for run in units}
        try:
            for done in asyncio.as_completed(waiting):
                await done
        finally:
            for one in waiting:
                one.cancel()

    async def follow(self, run: str, future: asyncio.Future[tuple[RunState, Any]], cells: tuple[Any, ...]) -> None:
        """The end of one unit: its rows, or why there are none."""
        state, value = await future
        if state is RunState.STOPPED:
            return  # not run: the rows are missing, and a resumed sweep computes them
        record = self.driver.engine.state.runs[run]
        attempt, worker = max(1, len(record.past) + (state is RunState.FINISHED)), record.worker or None
        found: list[Computed] = (
            value if state is RunState.FINISHED else [Computed(cell.run_key, error=str(value)) for cell in cells]
        )
        for one in found:
            self.executed.update(one.executed)
        if any(self.compiled.workload.shared_by in one.executed for one in found):
            self.fresh.add(run)
        rows = [self.row(one, attempt, worker) for one in found]
        self.write(run, rows)

    def row(self, one: Computed, attempt: int, worker: str | None) -> Row:
        where = self.compiled.where[one.run_key]
        earlier = self.before.get(one.run_key)
        work = self.works[one.run_key]
        return Row(
            run_key=one.run_key,
            sweep=self.compiled.name,
            factor=where.factor,
            variant=where.variant,
            asset=where.asset,
            fold=where.fold,
            cost_bps=where.cost_bps,
            metrics=one.metrics,
            buys=one.metrics.get("buys") if isinstance(one.metrics.get("buys"), int) else None,
            elapsed_s=round(one.elapsed_s, 6) if not one.error else None,
            run_status=RowStatus.FAILED if one.error else RowStatus.FINISHED,
            attempt=attempt + (earlier.attempt if earlier is not None else 0),
            error=redact_text(one.error) if one.error else None,
            code_fingerprint=self.code,
            config_fingerprint=key_of(dict(work.configuration)),
            data_fingerprint=self.compiled.data_fingerprint,
            worker=worker,
        )

    def write(self, run: str, rows: list[Row]) -> None:
        task = asyncio.ensure_future(self.persist(run, rows))
        self.writing.add(task)
        task.add_done_callback(self.writing.discard)

    async def persist(self, run: str, rows: list[Row]) -> None:
        """Until the rows are where no crash can lose them; their worker is seen to get somewhere by that."""
        receipt = await asyncio.wrap_future(self.store.submit(rows))
        if not receipt.safe:
            self.refused = receipt.reason
            return
        self.computed += len(rows)
        if rows and rows[0].worker:
            self.driver.handle(RowPersisted(rows[0].worker))
        failed = sum(not row.finished for row in rows)
        self.driver.journal.write(
            "rows", sweep=self.compiled.name, run=run, count=len(rows), failed=failed, fresh=run in self.fresh
        )

    async def settle(self) -> None:
        """Rows under way to the store arrive there, also when the sweep is interrupted."""
        while self.writing:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(set(self.writing))

    async def conclude(self, started: SweepRun) -> SweepOutcome:
        """What the store has, which is what counts."""
        if self.refused:
            raise StoreError(f"rows of {self.compiled.name} could not be stored: {self.refused}")
        if self.store.waiting:
            await asyncio.to_thread(self.store.replay)
        there = await asyncio.to_thread(self.store.find, list(self.compiled.where))
        outcome = outcome_of(
            self.compiled, there, computed=self.computed, executed=dict(self.executed),
            seconds=time.time() - self.began,
        )  # fmt: skip
        status = SweepStatus.FINISHED if outcome.complete else SweepStatus.FAILED
        ended = SweepRun(
            id=started.id, sweep=started.sweep, started=started.started, ended=time.time(), status=status,
            expected=started.expected, target=started.target, reason=outcome.why() or None,
        )  # fmt: skip
        await asyncio.to_thread(self.store.put_run, ended)
        self.driver.journal.write(
            "sweep-ended", sweep=outcome.sweep, status=status.value, expected=outcome.expected,
            finished=outcome.finished, failed=len(outcome.failed), missing=len(outcome.missing), reason=outcome.why(),
            executed=dict(outcome.executed), seconds=round(outcome.seconds, 3),
        )  # fmt: skip
        return outcome


def named(cell: Cell) -> str:
    """A cell as people say it."""
    return f"{cell.asset} {cell.factor} {cell.variant} fold {cell.fold} at {cell.cost_bps:g} bps"
