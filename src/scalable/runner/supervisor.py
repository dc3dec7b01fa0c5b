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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from scalable import proc
from scalable.runner import ends
from scalable.runner.evidence import Evidence, collect
from scalable.runner.memory import oom_kills, readable
from scalable.runner.process import Runner, Settings, Started

logger = logging.getLogger("scalable")

LOOK_EVERY_S = 0.1  # fast enough to act on memory before the machine suffers
SHORT_S = 0.02  # work shorter than this is sent ahead, so that the runner need not wait for the next piece
MOST_SENT = 16  # pieces in one runner at a time, if they are short
BUSY_SHARE = 0.05  # of one CPU; a process tree that uses less is not seen to work
OWN_SHARE = 0.02  # of the limit left to the worker beyond what it uses, since it grows a little while it serves
LONGEST_GAP_S = 5.0  # between two looks; a longer one is no silence of the run but of this machine, which was asleep
KILLED_START = 0.1  # of a failed start: one that others, or the kernel, killed says little about the start itself
FAILED_STARTS = 3  # in a row; then the runner's own start is at fault and work is no longer tried


@dataclass(frozen=True, slots=True)
class End:
    """How a piece of work ended; ``cause`` is empty if it finished."""

    key: str
    cause: str = ends.FINISHED
    value: bytes = b""
    message: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    peak: int | None = None
    evidence: Evidence | None = None
    silent_s: float = 0.0
    """For how long it had said nothing when it was found stuck."""
    done: tuple[str, ...] = ()
    """What was done about it, in sentences."""


@dataclass(slots=True, eq=False)
class Work:
    """A piece of work that was given and has not ended."""

    key: str
    content: bytes
    runner: Runner | None = None
    began: float = 0.0
    """When it began, by this machine's monotonic clock; 0 while it waits."""
    idle_s: float = 0.0
    """Since the last sign of life."""
    stamped: float = 0.0
    """When it last reported progress, as far as that was passed on."""
    cpu_before: float = 0.0
    """CPU seconds of its runner when it began."""
    cpu_s: float = 0.0
    looked: float = 0.0
    peak: int = 0
    killed_for: str = ""
    message: str = ""
    silent_s: float = 0.0
    """For how long it had said nothing when it was found stuck."""

    @property
    def reports(self) -> bool:
        """It has reported progress by itself."""
        return self.stamped > self.began


@dataclass(frozen=True, slots=True)
class Sign:
    """What can be seen of a piece of work from outside."""

    key: str
    progressed: bool
    worked: bool
    """Its processes used CPU since the last look, or wait for some."""
    waits: bool
    left_s: float | None
    """For how long no further sign is due, if a long step was declared."""
    step: float | None
    of: float | None
    note: str
    seconds: float
    idle_s: float
    memory: int
    cpu_s: float
    pid: int | None
    fork_warnings: int


@dataclass(slots=True)
class Told:
    """Whom the supervisor tells what happens."""

    ended: Callable[[End], None]
    seen: Callable[[list[Sign]], None] = lambda signs: None
    forked: Callable[[str, dict[str, Any]], None] = lambda key, facts: None


class Supervisor:
    def __init__(self, settings: Settings, slots: int, told: Told) -> None:
        self.settings = settings
        self.slots = slots
        self.told = told
        self.works: dict[str, Work] = {}
        """All that was given and has not ended, in the order it came."""
        self.waiting: deque[Work] = deque()
        self.runners: list[Runner] = []
        self.failed_starts = 0.0
        self.sign_every_s = 1.0
        self.signed = 0.0
        self.kills = self.kills_before = oom_kills()
        """Of the kernel on this machine when memory ran out, by the last sign and by the one before."""
        self.closed = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self.looking: asyncio.Task[None] | None = None

    # What the worker asks for

    def give(self, key: str, content: bytes) -> None:
        work = self.works[key] = Work(key, content)
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
        """End work that was given; stuck work after it was looked at, and only if it has been silent for so long."""
        work = self.works.get(key)
        if work is None or work.killed_for:
            return
        runner = work.runner
        if runner is not None and runner.ending:  # it has died by itself a moment ago, and its end is on its way
            return
        begun = runner is not None and work is runner.current
        if silent_for is not None and (not begun or self.silence(work) < silent_for):
            self.told.seen([self.sign(work, alive=True)])
            return
        if self.take_back(key, cause, message):
            return
        assert runner is not None
        work.killed_for, work.message = cause, message
        if begun:
            work.silent_s = self.silence(work)
            self.keep(self.put_down(runner, evidence=cause == ends.STUCK))

    def silence(self, work: Work) -> float:
        """For how long it gave no sign, by what can be seen here now; whoever asked may have been told late."""
        assert work.runner is not None
        now, stamped = time.monotonic(), work.runner.stamp.read()
        if (stamped.until or 0.0) > now:
            return 0.0
        latest = max(stamped.at or 0.0, work.stamped)
        return now - latest if latest > work.began else work.idle_s + min(now - work.looked, LONGEST_GAP_S)

    @property
    def busy(self) -> bool:
        return bool(self.works)

    async def leave(self, grace: float) -> None:
        """Notice: what has not begun is given back, what runs may finish for a while and is given up then."""
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
        for task in self.tasks:
            task.cancel()
        self.works.clear()
        self.waiting.clear()
        await asyncio.gather(*(runner.end() for runner in self.runners))
        self.runners.clear()

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
            if runner.current is None:
                self.begin(work)
            runner.send(work, work.content)
        ready = sum(runner.ready for runner in self.runners)
        coming = len(self.runners) - ready
        for _ in range(min(len(self.waiting) - coming, self.slots - len(self.runners))):
            self.keep(self.start(self.another()))

    def free(self) -> Runner | None:
        for runner in self.runners:
            if runner.ready and not runner.ending and runner.current is None:
                return runner
        for runner in self.runners:
            short = runner.ready and not runner.ending and runner.pace < SHORT_S
            if short and runner.current is not None and len(runner.sent) < MOST_SENT:
                return runner
        return None

    def begin(self, work: Work) -> None:
        assert work.runner is not None
        work.began = work.looked = work.stamped = time.monotonic()
        work.cpu_before = work.runner.cpu

    def another(self) -> Runner:
        runner = Runner(self.settings)
        self.runners.append(runner)
        return runner

    async def start(self, runner: Runner) -> None:
        started = await runner.start(self.heard, self.hung_up, self.told_of_fork)
        if started is Started.WELL:
            self.failed_starts = 0
            if self.settings.memory is not None:
                runner.limit(self.room())
            self.feed()
            return
        words = runner.last_words()
        self.failed_starts += KILLED_START if runner.was_killed() else 1
        await runner.end()
        if self.failed_starts >= FAILED_STARTS:
            self.failed_starts = 0
            for work in list(self.waiting):
                self.take_back(work.key, ends.CANNOT_START, f"no runner process starts: {words}")
        self.remove(runner)

    # Ends come out

    def heard(self, runner: Runner, told: tuple[str, bytes, str, float, float, int | None]) -> None:
        """A runner answered for the work it was in."""
        cause, value, message, seconds, cpu_s, peak = told
        work: Work = runner.sent.popleft()
        runner.pace = seconds
        highest = max(work.peak, peak or 0) or None
        self.end(work, End(work.key, cause, value, message, seconds, cpu_s, highest))
        if runner.current is not None:
            self.begin(runner.current)
            if runner.current.killed_for:  # it was told to die while it waited in the runner
                self.keep(self.put_down(runner, evidence=False))
        elif self.outgrown(runner):
            self.drop(runner)
        self.feed()

    def end(self, work: Work, end: End) -> None:
        del self.works[work.key]
        self.told.ended(end)

    def told_of_fork(self, runner: Runner, facts: dict[str, Any]) -> None:
        self.told.forked(runner.current.key if runner.current else "", facts)

    def hung_up(self, runner: Runner) -> None:
        """A runner is gone, by itself or killed by someone else."""
        if not runner.ending and not self.closed:
            self.keep(self.bury(runner))

    async def bury(self, runner: Runner) -> None:
        runner.ending = True
        last = oom_kills()
        in_group = runner.group.out_of_memory() if runner.group else 0
        if in_group and runner.group and runner.current is not None:  # between two looks
            runner.current.peak = max(runner.current.peak, runner.group.limit())
        status = await runner.status()
        how = runner.how_it_ended(status)
        killed = await runner.end()
        work = runner.current
        if work is not None:
            cause, message = self.verdict(how, work, status, in_group, last > self.kills_before)
            self.lost(runner, work, cause, message, None, killed)
        self.remove(runner)

    def verdict(self, how: str, work: Work, status: int, in_group: int, on_machine: bool) -> tuple[str, str]:
        of = f" of {readable(self.room())}" if self.settings.memory else ""
        used = f"; it used {readable(work.peak)}{of}" if work.peak else ""
        if in_group:
            return ends.OUT_OF_MEMORY, f"it used all of{of.removeprefix(' of')} that it may use; the kernel killed it"
        if status == -9 and on_machine:
            return ends.OUT_OF_MEMORY, f"this machine ran out of memory and the kernel killed it{used}"
        if status == -9:
            return ends.KILLED, f"killed by SIGKILL, not by us: by a person or another program{used}"
        return ends.CRASHED, f"{how}{used}"

    def lost(
        self, runner: Runner, work: Work, cause: str, message: str, evidence: Evidence | None, killed: int
    ) -> None:
        """The runner is gone: its work is lost, what waited in it goes to the next one."""
        now = time.monotonic()
        runner.sent.popleft()
        for other in reversed(runner.sent):
            other.runner, other.began = None, 0.0
            self.waiting.appendleft(other)
        left = list(runner.sent)
        runner.sent.clear()
        done = [f"its process tree was ended ({killed} killed, none left)"]
        if evidence is not None:
            done.insert(0, f"stacks of {len(evidence.processes)} processes saved")
        end = End(
            work.key,
            cause,
            message=message,
            seconds=now - work.began,
            cpu_s=work.cpu_s,
            peak=work.peak or None,
            evidence=evidence,
            silent_s=work.silent_s,
            done=tuple(done),
        )
        self.end(work, end)
        for other in left:
            if other.killed_for:
                self.take_back(other.key, other.killed_for, other.message)

    async def put_down(self, runner: Runner, *, evidence: bool) -> None:
        """Look at it first if that is wanted, then kill it with everything it started."""
        if runner.ending:
            return
        runner.ending = True
        work = runner.current
        found = None
        if evidence and runner.pid is not None:
            stamped = runner.stamp.read()
            with suppress(Exception):  # whatever goes wrong with looking, it must die
                found = await collect(
                    runner.pid,
                    fault_file=runner.fault_file,
                    log=self.settings.log,
                    fork_warnings=stamped.fork_warnings,
                )
        killed = await runner.end()
        if work is not None and work is runner.current:
            self.lost(runner, work, work.killed_for, work.message, found, killed)
        self.remove(runner)

    def remove(self, runner: Runner) -> None:
        with suppress(ValueError):
            self.runners.remove(runner)
        self.feed()

    def drop(self, runner: Runner) -> None:
        """A runner that has nothing to do ends; the next work gets a fresh one."""
        runner.ending = True
        self.runners.remove(runner)
        self.keep(runner.end())

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
                runner.look()
                runner.current.peak = max(runner.current.peak, runner.resident)
                if (
                    runner.group is not None and runner.group.out_of_memory()
                ):  # it lives, but a process it needs does not
                    room = readable(runner.group.limit())
                    self.too_much(runner, f"a process it had started used all of the {room} that it may use")
        if self.settings.memory is not None:
            self.hold_the_limit(self.room())
        if now - self.signed >= self.sign_every_s and self.works:
            self.signed = now
            self.kills_before, self.kills = self.kills, oom_kills()
            there = [work for work in self.works.values() if work.runner is None or not work.runner.ending]
            self.told.seen([self.sign(work) for work in there])

    def room(self) -> int:
        """What all runs together may use: the worker's limit without what the worker itself needs."""
        limit = self.settings.memory or 0
        return limit if self.settings.apart else int(limit * (1 - OWN_SHARE)) - proc.resident(os.getpid())

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
        work = runner.current
        assert work is not None
        work.killed_for, work.message = ends.OUT_OF_MEMORY, message
        work.peak = max(work.peak, runner.resident, runner.group.limit() if runner.group else 0)
        self.keep(self.put_down(runner, evidence=False))

    def outgrown(self, runner: Runner) -> bool:
        """Whether a runner with nothing to do keeps so much memory that the next work would suffer."""
        if self.settings.memory is None or runner.pace < SHORT_S:
            return False
        runner.look()
        return runner.resident > self.room() / self.slots / 2

    def sign(self, work: Work, *, alive: bool = False) -> Sign:
        """What has changed since the last look; ``alive`` if it is known not to be stuck."""
        now = time.monotonic()
        runner = work.runner
        if runner is None or work is not runner.current:
            return Sign(work.key, False, False, True, None, None, None, "", 0.0, 0.0, 0, 0.0, None, 0)
        stamped = runner.stamp.read()
        runner.look()
        cpu_s = runner.cpu - work.cpu_before
        worked = alive or runner.runnable or cpu_s - work.cpu_s >= BUSY_SHARE * (now - work.looked)
        progressed = alive and work.reports
        if (stamped.at or 0.0) > work.stamped:
            progressed, work.stamped = True, stamped.at or now
        silent = not (progressed or (worked and not work.reports))
        work.idle_s = work.idle_s + min(now - work.looked, LONGEST_GAP_S) if silent else 0.0
        work.cpu_s, work.looked = cpu_s, now
        left = stamped.until - now if stamped.until is not None and stamped.until > now else None
        return Sign(
            key=work.key,
            progressed=progressed,
            worked=worked,
            waits=False,
            left_s=left,
            step=stamped.step,
            of=stamped.of,
            note=stamped.note,
            seconds=now - work.began,
            idle_s=work.idle_s,
            memory=runner.resident,
            cpu_s=cpu_s,
            pid=runner.pid,
            fork_warnings=stamped.fork_warnings,
        )

    def keep(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.forget)
        return task

    def forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("supervising runs failed", exc_info=error)


__all__ = ["End", "Settings", "Sign", "Supervisor", "Told"]
