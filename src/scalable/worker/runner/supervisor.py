"""Gives work to runner processes and answers for it: every piece of work that was given ends once, with a cause.

Lives in the event loop of a Dask worker and never blocks it. Work is taken first-in-first-out, as many at a time as the
worker has slots, each in a runner of its own that is kept for the next. Ten times a second it looks at each runner: its
memory, its stamp, the CPU its processes use. Whatever a runner dies of, only the work it was in is lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import Any

from scalable import proc
from scalable.stuck import is_stuck
from scalable.worker.printing import written
from scalable.worker.runner import ends
from scalable.worker.runner.evidence import Evidence, LoggedWork, collect, last_lines
from scalable.worker.runner.memory import memory_limits, oom_kills, readable
from scalable.worker.runner.process import Runner, Settings, Started
from scalable.worker.runner.work import End, GivenWork, Listener, verdict

logger = logging.getLogger("scalable")

LOOK_EVERY_S = 0.1  # fast enough to act on memory before the machine suffers
SHORT_S = 0.02  # after work shorter than this the next is sent ahead, so that the runner need not wait for it
MOST_SENT = 16  # pieces in one runner at a time, if they are short
LARGE = 0.5  # of the room of a slot: a runner that keeps more when it has nothing to do is replaced
LARGE_IF_SHORT = 0.8  # where a start takes longer than the work
KILLED_START = 0.1  # of a failed start: one that others, or the kernel, killed says little about the start itself
FAILED_STARTS = 3  # in a row; then the runner's own start is at fault and work is no longer tried
START_AGAIN_S = 1.0  # after a start that failed, longer each time: a machine may be short of something for a moment
LONGEST_PAUSE_S = 30.0
RAISED_FOR_MEMORY = "it raised MemoryError; nothing was killed"
WRITTEN_WITHIN_S = 5.0  # what work printed before its end is in the log a moment later, unless its disk hangs
MOST_RETURNS = 3  # runners that ended before they began with a piece of work; then it is taken for the reason


class Supervisor:
    def __init__(self, settings: Settings, slots: int, listener: Listener) -> None:
        self.settings = settings
        self.slots = slots
        self.listener = listener
        self.works: dict[str, GivenWork] = {}
        """All that was given and has not ended, in the order it came."""
        self.waiting: deque[GivenWork] = deque()
        self.runners: list[Runner] = []
        self.dropped: set[Runner] = set()
        """Those that have nothing more to do, until they have ended."""
        self.ended_runners = 0
        """How many there were and are no more."""
        self.failed_starts = 0.0
        self.sign_every_s = 1.0
        self.signed = 0.0
        self.kills = self.kills_before = oom_kills()
        """Of the kernel on this machine when memory ran out, by the last sign and by the one before."""
        self.leaving = False
        self.closed = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self.looking: asyncio.Task[None] | None = None

    # What the worker asks for

    def use(self, settings: Settings) -> None:
        """For runners from now on; a runner with others does no further work."""
        if settings != self.settings:
            self.settings = settings
            for runner in [each for each in self.runners if each.ready and not each.ending and each.current is None]:
                self.drop(runner)
            self.feed()

    def give(self, key: str, content: bytes) -> None:
        if self.closed or self.leaving:
            self.listener.ended(End(key, ends.PREEMPTED, message="its worker is leaving"))
            return
        work = self.works[key] = GivenWork(key, content)
        self.waiting.append(work)
        if self.looking is None:
            self.looking = self.keep(self.look_on())
        self.feed()

    def take_back(self, key: str, cause: str = ends.STOPPED, message: str = "taken back before it began") -> bool:
        """Give up work that has not begun; whether it had not."""
        work = self.works.get(key)
        if work is None or work.runner is not None:
            return False
        self.waiting.remove(work)
        self.end(work, End(key, cause, message=message))
        return True

    def kill(self, key: str, cause: str, message: str = "", silent_for: float | None = None) -> None:
        """End work that was given; if we judged it, after it was looked at; and only if it was silent for so long."""
        work = self.works.get(key)
        if work is None or work.killed_for:
            return
        ending = work.runner is not None and work.runner.ending
        if silent_for is not None:
            if ending:  # it died a moment ago, and its end is on its way
                return
            if not (work.runs and is_stuck(work.silence(), silent_for)):
                self.listener.seen([work.sign(alive=True)])
                return
        if self.take_back(key, cause, message):
            return
        work.killed_for, work.message = cause, message
        if work.runs and not ending:
            work.silent_s = work.silence()
            self.put_down(work, evidence=cause in (ends.STUCK, ends.TIMED_OUT))

    async def leave(self, grace: float) -> None:
        """Notice: what has not begun is given back, what runs may finish for a while and is given up then."""
        self.leaving = True
        for work in list(self.waiting):
            self.take_back(work.key, ends.PREEMPTED, "its worker had notice to leave")
        deadline = time.monotonic() + grace
        while self.works and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_EVERY_S / 2)
        for key in list(self.works):
            self.kill(key, ends.PREEMPTED, "its worker had notice and it did not finish in time")
        while self.works and not self.closed:
            await asyncio.sleep(LOOK_EVERY_S / 10)

    async def close(self) -> None:
        """End all runners; whoever closes the worker knows what becomes of the work."""
        self.closed = True
        self.works.clear()
        self.waiting.clear()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(runner.end() for runner in (*self.runners, *self.dropped)))
        self.runners.clear()
        self.dropped.clear()

    def runner_of(self, key: str | None) -> Runner | None:
        """The runner that has a piece of work; without a key the one that is busiest."""
        if key is not None:
            work = self.works.get(key)
            return work.runner if work else None
        return max(self.runners, key=lambda runner: (runner.current is not None, runner.resident), default=None)

    # Work goes in

    def feed(self) -> None:
        """Work that waits goes to runners that are free, or that will be in a moment; as many runners as slots."""
        while self.waiting and not self.closed and (runner := self.free()) is not None:
            work = self.waiting.popleft()
            work.runner = runner
            runner.send(work, work.content)
            if work.runs:
                work.begin()
        coming = sum(not runner.ready for runner in self.runners)
        for _ in range(min(len(self.waiting) - coming, self.slots - len(self.runners))):
            self.keep(self.start(self.another()))

    def free(self) -> Runner | None:
        """Return a runner for the next piece of work, or none.

        Work is sent ahead only where there is one slot: behind a long piece it would wait there while others are free.
        """
        able = [runner for runner in self.runners if runner.ready and not runner.ending and self.fit(runner)]
        for runner in able:
            short = self.slots == 1 and runner.pace < SHORT_S and not runner.outgrown
            if len(runner.sent) < (MOST_SENT if short else 1):
                return runner
        return None

    def fit(self, runner: Runner) -> bool:
        """For further work."""
        return runner.settings is self.settings and not runner.spoiled

    def another(self) -> Runner:
        runner = Runner(self.settings)
        self.runners.append(runner)
        return runner

    async def start(self, runner: Runner) -> None:
        started = await runner.start(self.heard, self.hung_up, self.told_of_fork)
        if started is Started.WELL:
            self.failed_starts = 0
            if runner.settings.memory is not None:
                runner.limit(self.room())
            if runner.gone:
                self.hung_up(runner)
            elif runner.settings is not self.settings:
                self.drop(runner)
            self.feed()
            return
        words = runner.last_words()
        self.failed_starts += KILLED_START if await runner.was_killed() else 1
        await runner.end()
        if self.failed_starts >= FAILED_STARTS and not any(
            other.ready for other in self.runners if other is not runner
        ):
            self.failed_starts = 0
            for work in list(self.waiting):
                self.take_back(work.key, ends.CANNOT_START, f"no runner process starts: {words}")
        else:
            await asyncio.sleep(min(START_AGAIN_S * self.failed_starts, LONGEST_PAUSE_S))
        self.remove(runner)

    # Ends come out

    def heard(self, runner: Runner, report: tuple[str, bytes, str, float, float, int | None, str, float]) -> None:
        """A runner answered for the work it was in; if that left something in it, it begins with nothing further."""
        cause, value, message, seconds, cpu_s, peak, left, load_s = report
        work: GivenWork = runner.sent.popleft()
        runner.answered += 1
        runner.pace = seconds
        if left:
            runner.spoiled = True
            self.return_rest(runner)
        if runner.current is not None:
            runner.current.begin()
        if cause == ends.CANNOT_START and runner.answered > 1 and not (work.returned or work.killed_for):
            runner.spoiled = True
            work.returned += 1
            work.wait_again()
            self.waiting.appendleft(work)
        else:
            counted = runner.counted_peak() if peak is not None else 0
            highest = max(work.peak, peak or 0, counted) or None
            end = End(work.key, cause, value, message, seconds, cpu_s, highest, load_s=load_s)
            if cause == ends.OUT_OF_MEMORY:
                end = replace(end, raised=True, done=(RAISED_FOR_MEMORY,))
                self.keep(self.end_with_its_lines(work, end, work.logged(runner.answered)))
            else:
                self.end(work, end)
        if not runner.ending:
            self.go_on(runner)

    def go_on(self, runner: Runner) -> None:
        """What a runner does that has come to the end of a piece of work."""
        if runner.gone:
            self.hung_up(runner)
        elif runner.current is not None:
            if runner.current.killed_for:  # it was told to die while it waited in the runner
                self.put_down(runner.current)
        elif not self.fit(runner) or self.outgrown(runner):
            self.drop(runner)
        self.feed()

    def end(self, work: GivenWork, end: End) -> None:
        del self.works[work.key]
        self.listener.ended(end)

    def told_of_fork(self, runner: Runner, facts: dict[str, Any]) -> None:
        self.listener.forked(runner.current.key if runner.current else "", facts)

    def hung_up(self, runner: Runner) -> None:
        """A runner is gone, by itself or killed by someone else; or it cannot be heard any more."""
        if not runner.ending and not self.closed:
            runner.ending = True
            self.keep(self.bury(runner))

    async def bury(self, runner: Runner) -> None:
        last = oom_kills()
        in_group = runner.group.out_of_memory() if runner.group else 0
        status = await runner.status()
        runner.hang_up()
        work: GivenWork | None = runner.current
        if in_group and runner.group and work is not None:  # between two looks
            work.peak = max(work.peak, runner.group.limit())
        begun, how, number = runner.has_begun, runner.how_it_ended(status), runner.stamp.begun
        killed = await runner.end()
        if work is not None and (begun or work.returned >= MOST_RETURNS):
            room = self.room() if self.settings.memory else None
            cause, message = verdict(how, work, status, in_group, last > self.kills_before, room)
            runner.sent.popleft()
            await self.end_with_its_lines(work, work.end(cause, message, killed), work.logged(number))
        elif work is not None:
            work.returned += 1
        self.return_rest(runner)
        self.remove(runner)

    def return_rest(self, runner: Runner) -> None:
        """What waited in a runner that is gone goes to the next one."""
        left = list(runner.sent)
        runner.sent.clear()
        for work in reversed(left):
            work.wait_again()
            self.waiting.appendleft(work)
        for work in left:
            if work.killed_for:
                self.take_back(work.key, work.killed_for, work.message)

    def put_down(self, work: GivenWork, *, evidence: bool = False) -> None:
        """End work that runs, and its runner; from this moment on nothing else is done about that runner."""
        assert work.runner is not None
        if not work.runner.ending:
            work.runner.ending = True
            self.keep(self.end_with_its_runner(work, work.runner, evidence))

    async def end_with_its_runner(self, work: GivenWork, runner: Runner, evidence: bool) -> None:
        """Look at it first if that is wanted, then kill it with everything it started."""
        collected = None
        if evidence and runner.pid is not None:
            stamped = runner.stamp.read()
            with suppress(Exception):  # whatever goes wrong with looking, it must die
                collected = await collect(
                    runner.pid,
                    fault_file=runner.fault_file,
                    log=runner.settings.log,
                    printed_by=work.logged(runner.stamp.begun),
                    fork_warnings=stamped.fork_warnings,
                )
        if not work.runs:  # it came to its end by itself meanwhile, and the next one has begun
            runner.ending = False
            self.go_on(runner)
            return
        runner.hang_up()
        number = runner.stamp.begun
        killed = await runner.end()
        runner.sent.popleft()
        end = work.end(work.killed_for, work.message, killed, collected)
        await self.end_with_its_lines(work, end, work.logged(number))
        self.return_rest(runner)
        self.remove(runner)

    async def end_with_its_lines(self, work: GivenWork, end: End, logged: LoggedWork) -> None:
        """Tell of an end with the last lines it printed, which is all there is to see of work that is gone."""
        assert work.runner is not None
        settings = work.runner.settings
        if end.cause in ends.VIOLENT and end.evidence is None and settings.log is not None:
            deadline = time.monotonic() + WRITTEN_WITHIN_S
            while not written(settings.output) and time.monotonic() < deadline:
                await asyncio.sleep(LOOK_EVERY_S / 10)
            end = replace(end, evidence=Evidence(logged.pid, time.time(), log=last_lines(settings.log, logged)))
        self.end(work, end)

    def remove(self, runner: Runner) -> None:
        self.ended_runners += 1
        with suppress(ValueError):
            self.runners.remove(runner)
        self.feed()

    def drop(self, runner: Runner) -> None:
        """A runner that has nothing to do ends; the next work gets a fresh one."""
        runner.ending = True
        self.runners.remove(runner)
        self.dropped.add(runner)
        self.keep(self.let_go(runner))

    async def let_go(self, runner: Runner) -> None:
        await runner.end()
        self.ended_runners += 1
        self.dropped.discard(runner)

    # Looking on

    async def look_on(self) -> None:
        while not self.closed:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                self.look()
            except Exception:  # a worker that no longer looks calls everything stuck
                logger.exception("looking at runs failed")

    def look(self) -> None:
        now = time.monotonic()
        for runner in self.runners:
            if runner.current is not None and not runner.ending:
                self.look_at(runner)
        if self.settings.memory is not None:
            self.hold_the_limit(self.room())
        if now - self.signed >= self.sign_every_s and self.works:
            self.signed = now
            self.kills_before, self.kills = self.kills, oom_kills()
            there = [work for work in self.works.values() if work.runner is None or not work.runner.ending]
            self.listener.seen([work.sign() for work in there])

    def look_at(self, runner: Runner) -> None:
        runner.look()
        runner.current.note_memory()
        self.compare(runner)
        ended = runner.exit is None and runner.process is not None and runner.process.poll() is not None
        if ended or (runner.stopped and not runner.has_begun):  # someone stopped it while it had nothing to do
            self.hung_up(runner)
        elif runner.group is not None and runner.group.out_of_memory() and runner.lives():
            room = readable(runner.group.limit())
            self.too_much(runner, f"a process it had started used all of the {room} that it may use")

    def room(self) -> int:
        """Bytes that all work together may use: the worker's limit without what the worker itself needs."""
        own = 0 if self.settings.apart else proc.resident(os.getpid())
        return memory_limits(self.settings.memory or 0, own, apart=self.settings.apart).jobs

    def hold_the_limit(self, room: int) -> None:
        busy = [runner for runner in self.runners if runner.current is not None and not runner.ending]
        if sum(runner.resident for runner in busy) <= room:
            return
        for runner in busy:
            runner.look(closely=True)  # pages that forked processes share were counted once for each
        used = sum(runner.resident for runner in busy)
        if used <= room:
            return
        worst = max(busy, key=lambda runner: runner.resident)
        together = f" ({len(busy)} runs of this worker together {readable(used)})" if len(busy) > 1 else ""
        self.too_much(worst, f"it used {readable(worst.resident)} of {readable(room)}{together}")

    def too_much(self, runner: Runner, message: str) -> None:
        work: GivenWork = runner.current
        work.killed_for, work.message = ends.OUT_OF_MEMORY, message
        work.peak = max(work.peak, runner.resident, runner.group.limit() if runner.group else 0)
        self.put_down(work)

    def outgrown(self, runner: Runner) -> bool:
        """Whether a runner with nothing to do is to end for its size; by the last look if its work is short."""
        if runner.pace >= SHORT_S and self.settings.memory is not None:
            runner.look()
            self.compare(runner)
        return runner.outgrown

    def compare(self, runner: Runner) -> None:
        """Whether it keeps so much memory that the next work would suffer."""
        if self.settings.memory is not None:
            share = LARGE if runner.pace >= SHORT_S else LARGE_IF_SHORT
            runner.outgrown = runner.resident > share * self.room() / self.slots

    def keep(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.forget)
        return task

    def forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("supervising runs failed", exc_info=error)
