"""A sweep carried out: what the store lacks is computed, every row is committed as it arrives, and the store decides.

The driver believes only the store: rows that are there are not computed again, and a sweep is complete when every
expected row is there. Whoever dies, the next start goes on from what the store and the artefacts have.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Container, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from scalable.engine.events import Job, JobState, SubmittedSweep, SweepCancelled, SweepKind
from scalable.errors import ScalableError
from scalable.findings import Finding
from scalable.observe.redact import redact_text
from scalable.planning.expected import base_of
from scalable.session.driver import keeping
from scalable.session.driver.execution import JobCall
from scalable.session.driver.incidents import IncidentRows
from scalable.session.driver.keeping import AttemptLedger
from scalable.session.sweep.outcomes import Cells, SweepOutcome, lacking, outcome_of
from scalable.session.sweep.piloting import PilotTimes
from scalable.session.sweep.sharing import LIFE_S, Division, Sharing, is_news
from scalable.store import (
    Fate,
    Row,
    RowError,
    RowStatus,
    Store,
    StoreError,
    SweepRun,
    SweepStatus,
)
from scalable.store.artefacts import ArtefactError
from scalable.store.caching import key_of
from scalable.sweeps.compiling import Compiled, CompiledJob
from scalable.sweeps.rows import row_of
from scalable.sweeps.units import Computed
from scalable.wording import plural, some_of

if TYPE_CHECKING:
    from scalable.manifest.work import Retry
    from scalable.quantities import Memory
    from scalable.session.driver.driver import Driver


LEAVE_WITHIN_S = 5.0  # until an interrupted sweep has noted what became of its attempts
logger = logging.getLogger("scalable")


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What a sweep needs besides its rows."""

    tag: str
    kind: SweepKind
    workers: int
    artefacts: str
    expected_s: float | None = None
    """Of a job, as far as known."""
    peak: Memory | None = None
    target: str | None = None
    retry: Retry | None = None
    since: float | None = None
    """Rows that failed after this moment are not tried again."""
    pilot: PilotTimes | None = None
    """Collects what the jobs of a pilot take."""
    limit_s: float | None = None
    """Jobs that have not ended after so many seconds are stopped."""


class SweepExecution:
    """One sweep, from the rows the store lacks to what it has in the end."""

    def __init__(
        self, driver: Driver, compiled: Compiled, store: Store, request: SweepRequest, before: Mapping[str, Row]
    ) -> None:
        self.driver = driver
        self.compiled = compiled
        self.store = store
        self.request = request
        self.began = time.time()
        self.since = time.monotonic()
        """When it began, by a clock that nobody sets."""
        self.before = before
        self.executed: Counter[str] = Counter()
        self.unnamed: tuple[str, ...] = ()
        """Files that its jobs read and nobody named, as one of them reported."""
        self.fresh: set[str] = set()
        """Units whose costliest stage was computed, not found: only their durations say something."""
        self.computed = 0
        self.writing: set[asyncio.Task[None]] = set()
        self.refused: list[tuple[str, list[Row]]] = []
        """Rows of jobs that neither the database nor a disk took; nobody else has them."""
        self.refusal = ""
        self.stopped = ""
        """Why jobs were not run, if some were stopped."""
        self.aside = ""
        """Why rows became dead letters, if some did."""
        self.jobs: dict[str, CompiledJob] = {}
        """By the engine's name of the job."""
        self.works = {work.run_key: work for work, _ in compiled.cells}
        self.cells = Cells(compiled)
        self.keeping = keeping.Keeping(driver, self.give_up)
        self.sweep = ""
        """The engine's name of the sweep."""
        self.leases = store.work_leases(driver.attempts.folder.run_id, LIFE_S)
        """On the jobs that this run computes."""
        self.left = threading.Event()
        """Set when nothing more is computed, and the store was told so."""
        self.sharing: Sharing | None = None
        """Shares the jobs with other runs; made when something is computed."""
        self.asking: asyncio.Future[None] | None = None
        """Leases jobs and keeps the leases alive."""
        self.elsewhere = 0
        """Rows that another run computed meanwhile."""
        self.living: frozenset[str] = frozenset()
        """Other runs that lived when this one began."""
        self.ledger: AttemptLedger
        """Counts the attempts; made when something is computed."""
        self.code = compiled.workload.code_fingerprint()

    async def run(self) -> SweepOutcome:
        missing = await asyncio.to_thread(self.join)
        expected = len(self.compiled.cells)
        started = SweepRun(
            id=f"{self.driver.attempts.folder.run_id} {self.compiled.name}", sweep=self.compiled.name,
            started=self.began, expected=expected, target=self.request.target,
        )  # fmt: skip
        self.tell_start(expected, expected - len(missing), missing)
        await asyncio.to_thread(self.store.put_run, started)
        try:
            incidents, ours = self.driver.attempts.incidents, self.jobs.__contains__
            async with IncidentRows(incidents, self.store, ours, self.compiled.name):
                try:
                    if missing:
                        await self.compute(missing)
                except BaseException:
                    self.keeping.over = True
                    raise
                finally:
                    await self.settle()
            return await self.conclude(started)
        except ScalableError as error:
            await asyncio.to_thread(self.store.put_run, ended(started, SweepStatus.FAILED, str(error)))
            raise
        except BaseException:
            run = ended(started, SweepStatus.INTERRUPTED)  # by a thread, since nobody waits for this any more
            threading.Thread(target=self.note_end, args=(run,), name="scalable-interrupted", daemon=True).start()
            raise
        finally:
            self.left.set()
            if self.asking is not None:
                self.asking.cancel()

    def join(self) -> list[str]:
        """Let other runs know of this one, and return the keys of rows that must be computed.

        What another run has computed or failed to compute since the rows were last looked at needs no computing.
        """
        there: Mapping[str, Row] = {}
        with suppress(StoreError):  # it is asked again before a job starts
            self.leases.take()
            self.living = self.leases.living()
            there = self.store.find(list(self.compiled.where))
        known = {key for key, row in there.items() if is_news(row, self.before.get(key))}
        missing = lacking(self.compiled, self.before, self.request.since, self.living)
        self.before = {**self.before, **there}
        return [key for key in missing if key not in known]

    def release(self) -> None:
        """Leave every job to other runs; called when the sweep has ended or was interrupted, from another thread."""
        leaving = threading.Thread(target=self.give_back, name="scalable-leaving", daemon=True)
        leaving.start()
        leaving.join(LEAVE_WITHIN_S)

    def give_back(self) -> None:
        self.left.wait(LEAVE_WITHIN_S)
        with suppress(StoreError):  # it expires by itself
            self.store.replay()  # what was noted of attempts is there before others read it
            self.leases.release()

    def known_attempts(self, missing: list[str]) -> AttemptLedger:
        """Read the attempts of all runs; those of runs that live, also of ones that began meanwhile, are under way."""
        run_id = self.driver.attempts.folder.run_id
        ledger = AttemptLedger(self.store, run_id, missing, self.before, self.living)
        while not (living := self.leases.living()) <= self.living:
            self.living |= living
            ledger.read(missing, self.living)
        return ledger

    def note_end(self, run: SweepRun) -> None:
        """A store that does not answer keeps no worker from being ended, which the event loop does meanwhile."""
        with suppress(StoreError):  # it was closed before
            self.store.put_run(run)

    def tell_start(self, expected: int, there: int, missing: list[str]) -> None:
        jobs = len(self.compiled.units_of(missing)) if missing else 0
        known = self.compiled.where.keys() - set(missing)
        failed = {key for key in known if not self.before[key].finished}
        self.driver.journal.write(
            "sweep-started", sweep=self.compiled.name, factor=self.compiled.grid.factor, tag=self.request.tag,
            expected=expected, there=there, units=jobs, all_units=len(self.compiled.units),
            stages={name: list(counts) for name, counts in self.compiled.sharing().items()},
            run=self.compiled.sweep.run or "", settings=dict(self.compiled.sweep.settings),
            base=base_of(self.compiled.sweep, self.compiled.base_env, self.compiled.workload.reads),
            reads=sorted(self.compiled.workload.reads), code=self.code, data=key_of(dict(self.compiled.data)),
            trials=self.compiled.grid.trials, pilot=self.request.pilot is not None,
            **self.cells.start(known - failed, failed),
        )  # fmt: skip

    async def compute(self, missing: list[str]) -> None:
        """Give the engine every job that lacks rows, and commit what comes back."""
        name, request = self.compiled.name, self.request
        ledger = self.ledger = await asyncio.to_thread(self.known_attempts, missing)
        engine = self.driver.engine.view
        ledger.keeping = self.keeping
        sweep = self.sweep = unused(name, engine.sweeps)
        jobs, works = self.jobs, {}
        places = self.compiled.units_of(missing)
        for place in reversed(places) if self.living else places:  # two runs meet in the middle
            job = unused(place.name, engine.jobs)
            jobs[job] = place
            ledger.rows[job] = tuple(cell.run_key for cell in place.cells)
            marked = any(cell.run_key in self.before and self.before[cell.run_key].marked for cell in place.cells)
            works[job] = JobCall(self.compiled.unit(place, request.artefacts, fresh=marked))
        for portion in self.cells.of_jobs(jobs):
            self.driver.journal.write("sweep-units", sweep=name, unit_cells=portion)
        submitted = tuple(
            Job(
                job, sweep, request.tag, place.group, request.expected_s, request.peak,
                charged=ledger.charged(ledger.rows[job]), checkpoints=self.compiled.sweep.checkpoints,
            )
            for job, place in jobs.items()
        )  # fmt: skip
        division = Division({job: place.group for job, place in jobs.items()}, time.monotonic())
        shared_by = self.compiled.workload.shared_by
        keys = {job: place.cells[0].keys[shared_by] for job, place in jobs.items()}
        sharing = self.sharing = ledger.sharing = Sharing(
            self.driver, self.store, self.leases, ledger, division, keys, self.before
        )
        sharing.alone = not self.living
        self.asking = asyncio.ensure_future(sharing.run())
        self.driver.attempts.ledgers |= dict.fromkeys(jobs, ledger)
        futures = await self.driver.submit(
            SubmittedSweep(sweep, request.kind, submitted, request.workers, request.retry), works
        )
        waiting = {asyncio.ensure_future(self.follow(job, futures[job], jobs[job].cells)) for job in jobs}
        if request.limit_s is not None:
            limit = asyncio.get_running_loop().call_later(request.limit_s, self.driver.handle, SweepCancelled(sweep))
        try:
            for done in asyncio.as_completed(waiting):
                await done
        except BaseException:
            self.driver.handle(SweepCancelled(sweep))
            raise
        finally:
            if request.limit_s is not None:
                limit.cancel()
            self.driver.attempts.leave(ledger)
            self.left.set()
            for future in waiting:
                future.cancel()

    async def follow(self, job: str, future: asyncio.Future[tuple[JobState, Any]], cells: tuple[Any, ...]) -> None:
        """The end of one job: its rows, or why there are none."""
        assert self.sharing is not None
        state, value = await future
        if state is JobState.FINISHED and (rows := self.sharing.rows.pop(job, None)) is not None:
            self.take_over(job, rows)
            return
        if state is JobState.STOPPED:
            self.stopped = str(value)
            self.sharing.finish(job)
            return  # not run: the rows are missing, and a resumed sweep computes them
        record = self.driver.engine.view.jobs[job]
        tries, worker = len(record.past) + (state is JobState.FINISHED), record.worker or None
        others = f" (computed together with {plural(len(cells) - 1, 'other row')})" if len(cells) > 1 else ""
        computed: list[Computed] = (
            value
            if state is JobState.FINISHED
            else [Computed(cell.run_key, error=f"{value}{others}") for cell in cells]
        )
        for result in computed:
            self.executed.update(result.executed)
            self.tell_unnamed(result.unnamed)
        if self.request.pilot is not None:
            self.request.pilot.taken.append(computed)
        if any(self.compiled.workload.shared_by in result.executed for result in computed):
            self.fresh.add(job)
        rows = [self.storable(result, tries, worker) for result in computed if not result.unkept]
        if rows:
            self.write(job, rows)
        if unkept := next((result.unkept for result in computed if result.unkept), ""):
            raise ArtefactError(unkept)  # every other job would be computed in vain, too

    def take_over(self, job: str, rows: list[Row]) -> None:
        """Take note of rows that another run has computed and stored."""
        self.elsewhere += len(rows)
        failed = [row.run_key for row in rows if not row.finished]
        self.driver.journal.write(
            "rows", sweep=self.compiled.name, run=job, tag=self.request.tag, count=len(rows), failed=len(failed),
            error=next((row.error or "" for row in rows if not row.finished), ""), fresh=False, aside=False,
            elsewhere=rows[0].run_id or "", **self.cells.rows((row.run_key for row in rows), failed),
        )  # fmt: skip

    def tell_unnamed(self, names: tuple[str, ...]) -> None:
        """Say once for a sweep that its jobs read files that no key covers."""
        if not names or self.unnamed:
            return
        self.unnamed = names
        text = f"{self.compiled.name} reads {some_of(names, 3)}, which nobody named: a change there goes unnoticed"
        remedy = (
            f"write  inputs: [{', '.join(names[:3])}]  in sweeps.{self.compiled.name}, or mark an argument FileType"
        )
        finding = Finding.warning("unnamed-files", f"sweeps.{self.compiled.name}.inputs", text, remedy)
        self.driver.journal.write("finding", **finding.to_record("finding"))

    def storable(self, computed: Computed, tries: int, worker: str | None) -> Row:
        """Metrics that no store can hold are the end of their row only."""
        try:
            return self.row(computed, tries, worker)
        except RowError as error:
            reason = str(error).removeprefix(f"row {computed.run_key}: ")  # rows that fail alike are told together
            return self.row(Computed(computed.run_key, error=reason), tries, worker)

    def row(self, computed: Computed, tries: int, worker: str | None) -> Row:
        where = self.compiled.where[computed.run_key]
        work = self.works[computed.run_key]
        return row_of(
            self.compiled.name,
            self.compiled.grid,
            where,
            run_key=computed.run_key,
            metrics=computed.metrics,
            elapsed_s=round(computed.elapsed_s, 6) if not computed.error else None,
            run_status=RowStatus.FAILED if computed.error else RowStatus.FINISHED,
            attempt=self.ledger.final(computed.run_key, tries),
            error=redact_text(computed.error) if computed.error else None,
            code_fingerprint=self.code,
            config_fingerprint=key_of(dict(work.configuration)),
            data_fingerprint=self.compiled.data[self.compiled.grid.group_of(where)],
            worker=worker,
            run_id=self.ledger.run_id,
        )

    def give_up(self) -> None:
        """The store has no room: what is computed would be lost."""
        self.driver.handle(SweepCancelled(self.sweep))

    def write(self, job: str, rows: list[Row]) -> None:
        self.keep(self.persist(job, rows))

    def keep(self, writing: Coroutine[Any, Any, None]) -> None:
        """Write in the background; nothing ends before it is done."""
        task = asyncio.ensure_future(writing)
        self.writing.add(task)
        task.add_done_callback(self.writing.discard)

    async def persist(self, job: str, rows: list[Row]) -> None:
        """Until the rows are where no crash can lose them; their worker is seen to get somewhere by that."""
        assert self.sharing is not None
        if job in self.sharing.contested and (theirs := await self.stored_by_others(rows)):
            self.sharing.finish(job)
            self.take_over(job, theirs)
            return
        receipt = await self.keeping.put(lambda: self.store.submit(rows), len(rows))
        self.driver.stored(rows[0].worker, len(rows), receipt, self.store)
        if not receipt.safe:
            self.refused.append((job, rows))
            self.refusal = receipt.reason
            return
        if receipt.fate is not Fate.KEPT:  # else nobody else could see that they were computed
            self.sharing.finish(job)
        if receipt.fate is Fate.SET_ASIDE:
            self.aside = receipt.reason
        self.computed += len(rows)
        failed = [row.run_key for row in rows if not row.finished]
        known = self.driver.engine.view.jobs[job]
        if failed and known.state is JobState.FINISHED:
            self.driver.recorder.count_failed_rows(known.tag)
        self.driver.journal.write(
            "rows", sweep=self.compiled.name, run=job, tag=known.tag,
            count=len(rows) - receipt.dead, failed=min(len(failed), len(rows) - receipt.dead),
            error=next((row.error or "" for row in rows if not row.finished), ""), fresh=job in self.fresh,
            aside=receipt.fate is Fate.SET_ASIDE, **self.cells.rows((row.run_key for row in rows), failed),
        )  # fmt: skip

    async def stored_by_others(self, rows: list[Row]) -> list[Row]:
        """Return what another run has stored in the place of these rows; nothing unless that is all of them."""
        keys = [row.run_key for row in rows]
        with suppress(StoreError):  # which of two results with one key is kept does not matter
            there = await asyncio.to_thread(self.store.find, keys)
            return [there[key] for key in keys] if all(key in there and there[key].finished for key in keys) else []
        return []

    async def settle(self) -> None:
        """Rows under way to the store arrive there, also when the sweep is interrupted."""
        while self.writing:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(set(self.writing))
        if self.refused:
            logger.error("%s", self.lost())

    def lost(self) -> str:
        rows = plural(sum(len(rows) for _, rows in self.refused), "computed row")
        return f"{rows} of {self.compiled.name} could not be stored: {self.refusal}"

    async def stored(self) -> dict[str, Row]:
        """What the store has once it took every row. One that does not answer is waited for: its rows are safe."""
        refused, self.refused = self.refused, []
        for job, rows in refused:  # there may be room by now
            await self.persist(job, rows)
        if self.refused:
            raise StoreError(f"{self.lost()}; make room, then start it again: they are computed anew")
        deadline = time.monotonic() + keeping.STORE_WAIT_S
        warned = False
        while True:
            try:
                there = await asyncio.to_thread(self.find_rows)
                self.driver.store_trouble("")
                return there
            except StoreError as error:
                if time.monotonic() > deadline:
                    raise
                if not warned:
                    warned = True
                    text = f"{self.compiled.name} waits for its store, nothing is lost meanwhile: {error}"
                    self.driver.tell(Finding.warning("store-unreachable", "", text))
                    logger.warning("%s", text)
            await asyncio.sleep(keeping.ASK_STORE_EVERY_S)

    def find_rows(self) -> dict[str, Row]:
        """Raises if the store does not answer, or has not taken everything yet."""
        if self.store.waiting:
            receipt = self.store.replay()
            if self.store.waiting:
                raise StoreError(receipt.reason)
        return self.store.find(list(self.compiled.where))

    async def conclude(self, started: SweepRun) -> SweepOutcome:
        """What the store has, which is what counts."""
        there = await self.stored()
        outcome = outcome_of(
            self.compiled, there, computed=self.computed, elsewhere=self.elsewhere, executed=dict(self.executed),
            seconds=time.monotonic() - self.since, aside=self.aside, stopped=self.stopped,
        )  # fmt: skip
        status = SweepStatus.FINISHED if outcome.complete else SweepStatus.FAILED
        await asyncio.to_thread(self.store.put_run, ended(started, status, outcome.why()))
        self.driver.journal.write(
            "sweep-ended", sweep=outcome.sweep, status=status.value, expected=outcome.expected,
            finished=outcome.finished, failed=len(outcome.failed), missing=len(outcome.missing), reason=outcome.why(),
            elsewhere=outcome.elsewhere, executed=dict(outcome.executed), seconds=round(outcome.seconds, 3),
            **({"job_s": job_s} if self.request.pilot and (job_s := self.request.pilot.job_seconds()) else {}),
        )  # fmt: skip
        return outcome


def unused(name: str, known: Container[str]) -> str:
    """A name the session does not know yet: sweeps over the same assets and folds call their jobs alike."""
    return name if name not in known else next(each for n in count(2) if (each := f"{name} #{n}") not in known)


def ended(started: SweepRun, status: SweepStatus, reason: str = "") -> SweepRun:
    return replace(started, ended=time.time(), status=status, reason=redact_text(reason) or None)
