"""A piece of work of a supervisor: what is known of it while it waits and runs, its signs of life, how it ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scalable.stuck import LONGEST_GAP_S
from scalable.wording import plural
from scalable.worker.runner import ends
from scalable.worker.runner.evidence import Evidence, LoggedWork
from scalable.worker.runner.memory import TreePeak, readable
from scalable.worker.runner.process import Runner
from scalable.worker.runner.stamp import Progress

BUSY_SHARE = 0.05  # of one CPU; a process tree that uses less is not seen to work


@dataclass(frozen=True, slots=True)
class End:
    """The end of a piece of work; ``cause`` is empty if it finished."""

    key: str
    cause: str = ends.FINISHED
    value: bytes = b""
    message: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    peak: int | None = None
    load_s: float = 0.0
    """What of ``seconds`` went into loading its code: imports, in the first work of a process."""
    evidence: Evidence | None = None
    silent_s: float = 0.0
    """For how long it had said nothing when it was found stuck."""
    raised: bool = False
    """Its own code raised an error for the lack of memory; nothing was killed."""
    done: tuple[str, ...] = ()
    """What was done about it, in sentences."""


@dataclass(frozen=True, slots=True)
class Sign:
    """The signs of life of a piece of work, as seen from outside."""

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
    reports: bool = False
    """Whether it ever reported progress; one that only declared long steps is judged by its CPU use between them."""


@dataclass(slots=True)
class Listener:
    """Whom the supervisor tells what happens."""

    ended: Callable[[End], None]
    seen: Callable[[list[Sign]], None] = lambda signs: None
    forked: Callable[[str, dict[str, Any]], None] = lambda key, facts: None


@dataclass(slots=True, eq=False)
class GivenWork:
    """A piece of work that was given and has not ended."""

    key: str
    content: bytes
    runner: Runner | None = None
    began: float = 0.0
    """When it began, by this machine's monotonic clock; 0 while it waits."""
    idle_s: float = 0.0
    """Since the last sign of life."""
    stamped: float = 0.0
    """When it last gave a sign by itself, as far as that was passed on; 0 as long as it has not."""
    reports: bool = False
    """It has reported progress by itself."""
    cpu_before: float = 0.0
    """CPU seconds of its runner when it began."""
    cpu_s: float = 0.0
    looked: float = 0.0
    peak: int = 0
    tree: TreePeak = field(default_factory=TreePeak)
    """What its processes were seen to use together."""
    killed_for: str = ""
    message: str = ""
    silent_s: float = 0.0
    """For how long it had said nothing when it was found stuck."""
    returned: int = 0
    """How many runners ended before they began with it."""

    @property
    def runs(self) -> bool:
        """It is what its runner does, as far as is known here."""
        return self.runner is not None and self.runner.current is self

    def begin(self) -> None:
        assert self.runner is not None
        self.began = self.looked = time.monotonic()
        self.stamped, self.reports = 0.0, False
        self.idle_s = self.cpu_s = 0.0
        self.cpu_before = self.runner.cpu
        if self.runner.group is not None:
            self.runner.group.begin_peak()

    def note_memory(self) -> None:
        """Take what its processes use now, as its runner has just seen it."""
        assert self.runner is not None
        self.peak = max(self.peak, self.tree.note(self.runner.resident, self.runner.pids))

    def logged(self, number: int) -> LoggedWork:
        """Return what its lines in the log are known by, if it was the n-th of its runner."""
        assert self.runner is not None
        ago = time.monotonic() - self.began
        return LoggedWork(self.runner.pid or 0, number, time.time() - ago)

    def wait_again(self) -> None:
        """Wait again: its runner ended and had not come to it."""
        self.runner, self.began = None, 0.0

    def silence(self) -> float:
        """Return for how long it gave no sign, by what can be seen here now; whoever asked may have heard late."""
        assert self.runner is not None
        now, stamped = time.monotonic(), self.runner.stamp.read()
        if (stamped.until or 0.0) > now:
            return 0.0
        latest = max(self.last_word(stamped), self.stamped)
        if self.reports or (latest and stamped.count):
            return now - latest
        idle_s = self.idle_s + min(now - self.looked, LONGEST_GAP_S)
        return min(idle_s, now - latest) if latest else idle_s

    def last_word(self, stamped: Progress) -> float:
        """Return when it last reported. The page is its own once it has begun, which may be before we know."""
        assert self.runner is not None
        return stamped.at or 0.0 if self.runner.has_begun else 0.0

    def sign(self, *, alive: bool = False) -> Sign:
        """Return what has changed since the last look; ``alive`` if it is known not to be stuck."""
        now = time.monotonic()
        runner = self.runner
        if runner is None or not self.runs:
            return Sign(self.key, False, False, True, None, None, None, "", 0.0, 0.0, 0, 0.0, None, 0)
        stamped = runner.stamp.read()
        runner.look()
        cpu_s = runner.cpu - self.cpu_before
        worked = alive or runner.runnable or cpu_s - self.cpu_s >= BUSY_SHARE * (now - self.looked)
        progressed = alive and self.reports
        if (word := self.last_word(stamped)) > self.stamped:
            progressed, self.stamped = True, word
            self.reports = self.reports or stamped.count > 0
        silent = not (progressed or (worked and not self.reports))
        self.idle_s = self.idle_s + min(now - self.looked, LONGEST_GAP_S) if silent else 0.0
        self.cpu_s, self.looked = cpu_s, now
        left = stamped.until - now if stamped.until is not None and stamped.until > now else None
        return Sign(
            key=self.key,
            progressed=progressed,
            worked=worked,
            waits=False,
            left_s=left,
            step=stamped.step,
            of=stamped.of,
            note=stamped.note,
            seconds=now - self.began,
            idle_s=self.idle_s,
            memory=runner.resident,
            cpu_s=cpu_s,
            pid=runner.pid,
            fork_warnings=stamped.fork_warnings,
            reports=self.reports,
        )

    def end(self, cause: str, message: str, killed: int, evidence: Evidence | None = None) -> End:
        """Return its end with its runner, of which so many processes were killed."""
        done = [f"{plural(killed, 'process')} killed, none left" if killed else "nothing of it was left to end"]
        if evidence is not None and evidence.processes:
            done.insert(0, f"stacks of {plural(len(evidence.processes), 'process')} saved")
        return End(
            self.key,
            cause,
            message=message,
            seconds=time.monotonic() - self.began,
            cpu_s=self.cpu_s,
            peak=self.peak or None,
            evidence=evidence,
            silent_s=self.silent_s,
            done=tuple(done),
        )


def verdict(
    how: str, work: GivenWork, status: int | None, in_group: int, on_machine: bool, room: int | None
) -> tuple[str, str]:
    """Return what a runner died of that we did not kill, and a sentence about it."""
    of = f" of {readable(room)}" if room is not None else ""
    used = f"; it used {readable(work.peak)}{of}" if work.peak else ""
    if in_group:
        return ends.OUT_OF_MEMORY, f"it used all of{of.removeprefix(' of')} that it may use; the kernel killed it"
    if status == -signal.SIGKILL and on_machine:
        return ends.OUT_OF_MEMORY, f"this machine ran out of memory and the kernel killed it{used}"
    if status == -signal.SIGKILL:
        return ends.KILLED, f"killed by SIGKILL, not by us: by a person or another program{used}"
    return ends.CRASHED, f"{how}{used}"
