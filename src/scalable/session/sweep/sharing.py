"""The jobs of a sweep shared among runs that compute it at the same time: each job is computed by one of them.

A run leases a job in the store before a worker gets it. A job that another run has leased is set aside; the engine
starts others meanwhile. Every second one question tells which of those were given back: their rows are taken over, or,
if there are none since that run was stopped or died, the job is computed here.

The driver asks, not the engine: who has what is known to the store only. A start waits for the answer where starts wait
for the note of their attempt anyway, so long jobs are leased one by one as they start, which shares best. Short jobs
are leased ahead, about a second of them at a time, so that a transaction serves many.

``Division`` decides what to ask for and what follows from an answer; ``Sharing`` asks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from scalable.engine.events import JobsDoneElsewhere, JobsElsewhere, JobsReturned, JobState
from scalable.session.driver.keeping import NOTE_WITHIN_S, AttemptLedger
from scalable.store import Row, Store, StoreError, Taken, WorkLeases

if TYPE_CHECKING:
    from scalable.session.driver.driver import Driver

AHEAD_S = 1.0  # of starts that are leased at once; a transaction takes a hundredth of that
FEW_A_SECOND = 5.0  # starts that are leased one by one: who leases ahead leaves less to others
MOST_AHEAD = 1000  # jobs of one question
UNUSED_S = 5.0  # after which a job that was leased and not started is left to others: paused, or too large for now
LOOK_EVERY_S = 1.0  # at what other runs have given back
LIFE_S = 30.0  # after which a run that is not heard of is taken for dead

logger = logging.getLogger("scalable")


class Standing(Enum):
    """Where a job is, as far as other runs are concerned."""

    FREE = auto()  # not asked for
    ASKED = auto()  # is being asked for
    LEASED = auto()  # is this run's
    ELSEWHERE = auto()  # is another run's
    OVER = auto()  # its rows are in the store, or nobody wants them any more


@dataclass(frozen=True, slots=True)
class Answer:
    """What follows from an answer of the store."""

    own: list[str]
    """Jobs that may be started."""
    done: list[str]
    """Jobs whose rows another run has stored."""
    elsewhere: list[str]
    """Jobs that another run computes now."""


class Division:
    """The jobs of one run. ``groups`` has every job in the order in which they are to start, with its group."""

    def __init__(self, groups: Mapping[str, str], now: float) -> None:
        self.groups = groups
        self.standing = dict.fromkeys(groups, Standing.FREE)
        self.free: dict[str, deque[str]] = {}
        """By group: jobs to be leased ahead; some may have been leased meanwhile."""
        for job, group in groups.items():
            self.free.setdefault(group, deque()).append(job)
        self.wanted: dict[str, None] = {}
        """Jobs that are to start and wait for their lease."""
        self.reserve: dict[str, float] = {}
        """Jobs that are leased and not started, with the time at which they were leased."""
        self.over: list[str] = []
        """Jobs whose leases are given back with the next question."""
        self.recent: dict[str, None] = {}
        """Groups of the jobs that were to start since the last question."""
        self.rate = 0.0
        """Starts in a second, of late."""
        self.starts = 0
        self.since = now
        """How many starts there were since when; counted for a second or longer."""

    def start(self, job: str) -> bool:
        """Take note that a job is to start; return whether it may, else it waits for an answer."""
        self.starts += 1
        self.recent[self.groups[job]] = None
        self.reserve.pop(job, None)
        if self.standing[job] is Standing.LEASED:
            return True
        self.wanted[job] = None
        return False

    @property
    def due(self) -> bool:
        """Whether the store should be asked now: something is to start, or there is something to lease ahead."""
        wanted = any(self.standing[job] is Standing.FREE for job in self.wanted)
        return wanted or (2 * len(self.reserve) < self.ahead and any(self.free.values()))

    @property
    def ahead(self) -> int:
        """How many jobs to have leased before they start."""
        return min(MOST_AHEAD, int(self.rate * AHEAD_S)) if self.rate > FEW_A_SECOND else 0

    def question(self, now: float) -> list[str]:
        """Return the jobs to ask for: those that are to start, and some ahead."""
        self.measure(now)
        asked = [job for job in self.wanted if self.standing[job] is Standing.FREE]
        number = max(0, self.ahead - len(self.reserve))
        recent, self.recent = self.recent, {}
        self.mark(asked, Standing.ASKED)
        share = -(-number // max(1, len(recent)))
        for group in (*recent, *(group for group in self.free if group not in recent)):
            if number <= 0:
                break
            some = list(self.take_free(group, min(number, share)))
            self.mark(some, Standing.ASKED)
            asked += some
            number -= len(some)
        return asked

    def measure(self, now: float) -> None:
        """Count starts; a few at once at the beginning say nothing about how many there will be in a second."""
        if now - self.since >= AHEAD_S:
            self.rate = self.starts / (now - self.since)
            self.starts, self.since = 0, now
        else:
            self.rate = max(self.rate, self.starts / AHEAD_S)

    def take_free(self, group: str, count: int) -> Iterator[str]:
        line = self.free[group]
        while line and count:
            job = line.popleft()
            if self.standing[job] is Standing.FREE:
                count -= 1
                yield job

    def answer(self, asked: Sequence[str], own: Iterable[str], done: Iterable[str], now: float) -> Answer:
        """Take the answer to a question: of the jobs ``asked`` for, ``own`` are leased and ``done`` are computed."""
        mine, over = set(own), set(done)
        self.over += [job for job in asked if job in mine and self.standing[job] is Standing.OVER]  # ended meanwhile
        asked = [job for job in asked if self.standing[job] is not Standing.OVER]
        answer = Answer(
            own=[job for job in asked if job in mine and job not in over],
            done=[job for job in asked if job in over],
            elsewhere=[job for job in asked if job not in mine and job not in over],
        )
        self.mark(answer.own, Standing.LEASED)
        self.mark(answer.elsewhere, Standing.ELSEWHERE)
        for job in answer.own:
            if job not in self.wanted:
                self.reserve[job] = now
        for job in answer.done:
            self.finish(job, leased=job in mine)
        for job in asked:
            self.wanted.pop(job, None)
        return answer

    def unanswered(self, asked: Iterable[str]) -> None:
        """Take note that the store did not answer: the jobs will be asked for again."""
        for job in asked:
            if self.standing[job] is Standing.ASKED:
                self.give_up(job)

    def finish(self, job: str, *, leased: bool = True) -> None:
        """Take note that nothing of a job is left to do here; its lease is given back with the next question."""
        if leased and self.standing[job] is not Standing.OVER:
            self.over.append(job)
        self.standing[job] = Standing.OVER
        self.reserve.pop(job, None)
        self.wanted.pop(job, None)

    def leave(self, jobs: Iterable[str]) -> None:
        """Leave leased jobs to others for now."""
        for job in jobs:
            self.reserve.pop(job, None)
            self.over.append(job)
            self.give_up(job)

    def give_up(self, job: str) -> None:
        self.standing[job] = Standing.FREE
        self.free[self.groups[job]].appendleft(job)

    def unused(self, now: float) -> list[str]:
        """Return leased jobs that should have started by now, or started again."""
        return [job for job, since in self.reserve.items() if now - since > UNUSED_S]

    def elsewhere(self) -> list[str]:
        return [job for job, standing in self.standing.items() if standing is Standing.ELSEWHERE]

    def leased(self) -> list[str]:
        return [job for job, standing in self.standing.items() if standing is Standing.LEASED]

    def mark(self, jobs: Iterable[str], standing: Standing) -> None:
        self.standing.update(dict.fromkeys(jobs, standing))


class Sharing:
    """Leases jobs for a driver. ``keys`` has the key of each job's lease, ``before`` what the store had of its rows."""

    def __init__(
        self,
        driver: Driver,
        store: Store,
        leases: WorkLeases,
        ledger: AttemptLedger,
        division: Division,
        keys: Mapping[str, str],
        before: Mapping[str, Row],
    ) -> None:
        self.driver = driver
        self.store = store
        self.leases = leases
        self.ledger = ledger
        self.division = division
        self.keys = keys
        self.before = before
        self.rows: dict[str, list[Row]] = {}
        """By job: the rows that another run computed."""
        self.contested: set[str] = set()
        """Jobs that run here although their leases were lost and another run has them now."""
        self.answers: dict[str, asyncio.Future[bool]] = {}
        """By job that is to start: whether it may."""
        self.silent_since: float | None = None
        """Since when the store does not answer."""
        self.alone = True
        """No other run was ever seen to compute something: while the store is silent there is nobody to wait for."""
        self.wake = asyncio.Event()

    def lease(self, job: str) -> asyncio.Future[bool] | None:
        """Return nothing if a job may start now, else a future that tells whether it may."""
        leased = self.division.start(job)
        if not leased and self.alone and self.silent_since is not None:
            self.division.answer([job], [job], (), time.monotonic())
            return None
        if self.division.due:
            self.wake.set()
        if leased:
            return None
        if job not in self.answers:
            self.answers[job] = asyncio.get_running_loop().create_future()
        return self.answers[job]

    def finish(self, job: str) -> None:
        """Give a job's lease back: its rows are stored, or nobody wants them."""
        self.division.finish(job)
        self.tell(job, may_start=False)  # a start that waits is one of an attempt that was withdrawn

    async def run(self) -> None:
        """Ask, look and renew until cancelled."""
        try:
            await self.keep_asking()
        finally:
            for job in list(self.answers):
                self.tell(job, may_start=False)

    async def keep_asking(self) -> None:
        look_at = beat_at = time.monotonic() + LOOK_EVERY_S
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.wake.wait(), max(0.01, look_at - time.monotonic()))
            self.wake.clear()
            try:
                if self.division.due:
                    await self.ask()
                if time.monotonic() >= look_at:
                    look_at = time.monotonic() + LOOK_EVERY_S
                    await self.look()
                if time.monotonic() >= beat_at:
                    beat_at = time.monotonic() + self.leases.beat_every_s
                    if not await asyncio.to_thread(self.leases.beat):
                        await self.regain(self.division.leased())
                self.silent_since = None
            except StoreError as error:
                await self.bear(error)
            except Exception as error:  # noqa: BLE001 - else jobs would wait for their leases for ever
                self.driver.complain("jobs could not be leased", error)
                await self.bear(error)

    async def ask(self) -> None:
        asked = self.division.question(time.monotonic())
        over, self.division.over = self.division.over, []
        try:
            taken, rows = await asyncio.to_thread(self.take, asked, over)
        except BaseException:
            self.division.unanswered(asked)
            self.division.over += over
            raise
        self.alone = self.alone and not taken.others
        before = self.division.leased()
        own = [job for job in asked if self.keys[job] in taken.own]
        answer = self.division.answer(asked, own, rows, time.monotonic())
        self.rows |= rows
        for job in answer.own:
            self.tell(job, may_start=True)
        self.set_aside(answer.elsewhere)
        self.take_over(answer.done)
        if taken.lost:
            await self.regain(before)
        if self.division.due:
            self.wake.set()

    def take(self, asked: Sequence[str], over: Iterable[str]) -> tuple[Taken, dict[str, list[Row]]]:
        """Lease jobs, and find those of them that need not be computed any more."""
        taken = self.leases.take([self.keys[job] for job in asked], [self.keys[job] for job in over])
        return taken, self.computed([job for job in asked if self.keys[job] in taken.own])

    def computed(self, jobs: Iterable[str]) -> dict[str, list[Row]]:
        """Return the rows of jobs that others have computed since this run began; only of jobs with all their rows."""
        keys = {job: self.ledger.rows[job] for job in jobs}
        there = self.store.find([key for row_keys in keys.values() for key in row_keys]) if keys else {}
        return {
            job: [there[key] for key in row_keys]
            for job, row_keys in keys.items()
            if all(key in there and is_news(there[key], self.before.get(key)) for key in row_keys)
        }

    async def look(self) -> None:
        """Take over what other runs have done, take back what they gave up, and leave to them what is not used."""
        states = {job: self.driver.engine.view.jobs[job].state for job in self.division.leased()}
        for job in (job for job, state in states.items() if state is JobState.QUEUED):  # taken back, or tried again
            self.division.reserve.setdefault(job, time.monotonic())
        held_up = [job for job, state in states.items() if state is JobState.HELD]
        self.division.leave({*held_up, *self.division.unused(time.monotonic())})
        if self.division.over:
            over, self.division.over = self.division.over, []
            await asyncio.to_thread(self.leases.take, (), [self.keys[job] for job in over])
        waiting = self.division.elsewhere()
        if not waiting:
            return
        held = await asyncio.to_thread(self.leases.held_by_others)
        free = [job for job in waiting if self.keys[job] not in held]
        if not free:
            return
        rows = await asyncio.to_thread(self.computed, free)
        back = [job for job in free if job not in rows]
        living = await asyncio.to_thread(self.leases.living)
        await asyncio.to_thread(self.ledger.read, [key for job in back for key in self.ledger.rows[job]], living)
        self.rows |= rows
        for job in rows:
            self.division.finish(job, leased=False)
        for job in back:
            self.division.give_up(job)
        self.take_over(rows)
        if back:
            self.driver.handle(JobsReturned({job: self.ledger.charged(self.ledger.rows[job]) for job in back}))

    async def regain(self, leased: Sequence[str]) -> None:
        """Lease again what this run had when it was not heard of for too long."""
        taken = await asyncio.to_thread(self.leases.take, [self.keys[job] for job in leased])
        lost = [job for job in leased if self.keys[job] not in taken.own]
        self.contested |= set(lost) - self.division.reserve.keys()
        ahead = [job for job in lost if job in self.division.reserve]
        self.division.leave(ahead)
        if self.contested:
            logger.warning("the store was not reached for too long; another run computes %s, too", len(self.contested))

    async def bear(self, error: Exception) -> None:
        """Wait a while for a store that does not answer, then start jobs all the same: it must not hold up workers."""
        now = time.monotonic()
        self.silent_since = self.silent_since or now
        if (self.alone or now - self.silent_since >= NOTE_WITHIN_S) and self.division.wanted:
            logger.warning("jobs start without asking whether another run computes them: %s", error)
            wanted = list(self.division.wanted)
            for job in self.division.answer(wanted, wanted, (), now).own:
                self.tell(job, may_start=True)
        await asyncio.sleep(LOOK_EVERY_S)
        if self.division.due:
            self.wake.set()

    def set_aside(self, jobs: Sequence[str]) -> None:
        if jobs:
            self.driver.attempts.forget(jobs)
            self.driver.handle(JobsElsewhere(tuple(jobs)))
        for job in jobs:
            self.tell(job, may_start=False)

    def take_over(self, jobs: Iterable[str]) -> None:
        done = tuple(jobs)
        if done:
            self.driver.attempts.forget(done)
            self.driver.handle(JobsDoneElsewhere(done))
        for job in done:
            self.tell(job, may_start=False)

    def tell(self, job: str, *, may_start: bool) -> None:
        answer = self.answers.pop(job, None)
        if answer is not None and not answer.done():
            answer.set_result(may_start)


def is_news(row: Row, before: Row | None) -> bool:
    """Return whether a row counts: it is finished, or failed after this run began."""
    return row.finished or (not row.marked and (before is None or row != before))
