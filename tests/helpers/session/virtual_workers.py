"""Workers of a virtual world: what is given to them is called in this thread, and ends as the called code wants."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scalable.cluster.base import WorkerFate, WorkerTemplate
from scalable.engine.events import Loss
from scalable.worker.runner import child, ends, notes, stamp
from scalable.worker.runners import ENDING, OP

if TYPE_CHECKING:
    from tests.helpers.session.virtual import World
    from tests.helpers.session.virtual_tasks import VirtualTask

NUMBERS = itertools.count(4001)
STOP_S = 0.1  # between telling a worker to go and its being gone
MESSAGE_S = 0.001  # between driver and worker
LEAST_S = 0.01  # that any call takes
_current: list[Script] = []
"""What the code that is called now has done."""


class DiedError(BaseException):
    """Ends the called code where its process would die."""


@dataclass
class Script:
    """What a call did while virtual time passed for it alone; stands for the page that real runs write to."""

    seconds: float = LEAST_S
    """How long it has taken so far."""
    marks: list[tuple[float, float, float | None, str]] = field(default_factory=list)
    """Progress: after how many seconds, the step, of how many, with what note."""
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Long steps that were declared: from when to when."""
    busy: list[tuple[float, float]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    peak: int | None = None
    """Bytes that it used at most."""
    death: tuple[str, str] | None = None
    """Cause and message of a violent end."""

    def mark(self, step: float, of: float | None, note: str) -> None:
        self.marks.append((self.seconds, step, of, note))

    def declare(self, seconds: float) -> tuple[float, float]:
        self.spans.append((self.seconds, self.seconds + seconds))
        return self.spans[-1]

    def withdraw(self, declared: tuple[float, float]) -> None:
        self.spans[self.spans.index(declared)] = (declared[0], self.seconds)


def compute(seconds: float) -> None:
    """Called by the user's code: uses a CPU for so long and says nothing."""
    script = _current[-1]
    script.busy.append((script.seconds, script.seconds + seconds))
    script.seconds += seconds


def use_memory(peak: int) -> None:
    """Called by the user's code: uses so many bytes at most."""
    _current[-1].peak = peak


def die(cause: str = ends.CRASHED, message: str = "") -> None:
    """Called by the user's code: its process ends here, for this cause."""
    _current[-1].death = cause, message
    raise DiedError


@dataclass(eq=False)
class Call:
    """A run that was given to a worker."""

    key: str
    content: bytes
    began: float | None = None
    script: Script = field(default_factory=Script)
    cause: str = ""
    value: bytes = b""
    message: str = ""
    looked: float = 0.0
    heard: float = 0.0
    """When it gave its last sign of life."""
    timer: asyncio.TimerHandle | None = None

    def sign(self, now: float, *, alive: bool = False) -> dict[str, Any]:
        """What its worker tells of it, as ``scalable.worker.runner.work.Sign``."""
        if self.began is None:
            return dict.fromkeys(SIGN) | {"key": self.key, "waits": True, "progressed": False, "seconds": 0.0}
        age, script = now - self.began, self.script
        reports = any(at <= age for at, *_ in script.marks)
        words = [at for at, *_ in script.marks if at <= age]
        words += [at for span in script.spans for at in span if at <= age]
        progressed = (alive and reports) or any(self.began + at > self.heard for at in words)
        worked = alive or any(begin < age and end > self.looked - self.began for begin, end in script.busy)
        self.looked = now
        if progressed or (worked and not reports):
            self.heard = now
        last = next((mark for mark in reversed(script.marks) if mark[0] <= age), (0.0, None, None, ""))
        left = next((end - age for begin, end in script.spans if begin <= age < end), None)
        return {
            "key": self.key, "progressed": progressed, "worked": worked, "waits": False, "left_s": left,
            "step": last[1], "of": last[2], "note": last[3], "seconds": age, "idle_s": now - self.heard,
            "memory": 0, "cpu_s": 0.0, "pid": None, "fork_warnings": 0, "reports": reports,
        }  # fmt: skip


SIGN = ("left_s", "step", "of", "note", "idle_s", "memory", "cpu_s", "pid", "fork_warnings", "worked", "reports")


class VirtualWorker:
    """A worker as its backend sees it (``Launched``), as the scheduler sees it, and what supervises its runs."""

    def __init__(self, name: str, template: WorkerTemplate, world: World) -> None:
        self.name, self.template, self.world = name, template, world
        self.cluster = world.cluster
        number = next(NUMBERS)
        self.address, self.pid = f"tcp://127.0.0.1:{number}", number
        self.job: str | None = f"process {number}"
        self.host = "127.0.0.1"
        self.waits = ""
        self.fate: WorkerFate | None = None
        self.resources = template.resources
        self.nthreads, self.memory_limit = template.slots, 0
        self.processing: dict[VirtualTask, float] = {}
        self.has_what: dict[VirtualTask, None] = {}
        self.metrics: dict[str, Any] = {}
        self.services: dict[str, Any] = {}
        self.last_seen = 0.0
        self.calls: dict[str, Call] = {}
        self.waiting: deque[Call] = deque()
        self.sign_every_s = 1.0
        self.settings: dict[str, Any] = {}

    @property
    def nbytes(self) -> int:
        return len(self.has_what)

    # For the cluster

    def join(self) -> None:
        if self.fate is not None:
            return
        if reason := self.world.die_at_start(self.name):
            self.fate = WorkerFate(Loss.CANNOT_START, reason)  # the cluster sees it when it asks
        else:
            self.cluster.scheduler.add_worker(self)

    async def learn_fate(self, within: float) -> WorkerFate:
        return self.fate or WorkerFate(Loss.WORKER_LOST, "the scheduler lost sight of it")

    async def stop(self, *, gently: bool = True) -> None:
        if self.fate is None:
            await asyncio.sleep(STOP_S)
        self.end(WorkerFate(Loss.STOPPED))

    def die(self, fate: WorkerFate) -> None:
        """Without having been told to."""
        self.end(fate)
        self.cluster.losses.parted(self.address)

    def end(self, fate: WorkerFate) -> None:
        self.fate = self.fate or fate
        for call in self.calls.values():
            if call.timer is not None:
                call.timer.cancel()
        self.calls.clear()
        self.waiting.clear()
        self.cluster.scheduler.drop(self)

    # For the driver

    def send(self, message: dict[str, Any]) -> None:
        self.world.loop.call_later(MESSAGE_S, self.heard, message)

    def heard(self, message: dict[str, Any]) -> None:
        if self.fate is not None:
            return
        if (settings := message.get("settings")) is not None:
            self.settings, self.sign_every_s = settings, settings["sign_every_s"]
            self.world.loop.call_later(self.sign_every_s, self.tell_signs)
        for key, content in message.get("give", ()):
            self.calls[key] = call = Call(key, content)
            self.waiting.append(call)
        for key in message.get("take_back", ()):
            if (unwanted := self.calls.get(key)) is not None and unwanted.began is None:
                self.over(unwanted, ends.STOPPED, "taken back before it began")
        for key, cause, text, silent_for in message.get("kill", ()):
            self.kill(key, cause, text, silent_for)
        for number, question, arguments in message.get("ask", ()):
            answer = {"ok": True, "question": question, **arguments}
            self.report(answers=((number, answer),))
        self.begin_next()

    def report(self, **report: Any) -> None:
        self.cluster.scheduler.stream_handlers[OP](worker=self.address, **report)

    def kill(self, key: str, cause: str, text: str, silent_for: float | None) -> None:
        if (call := self.calls.get(key)) is None:
            return
        now = self.world.loop.time()
        sign = call.sign(now)
        if silent_for is not None and (call.began is None or sign["idle_s"] < silent_for):
            self.report(signs=(call.sign(now, alive=True),))
            return
        self.over(call, cause, text, silent_s=sign["idle_s"] or 0.0)

    def begin_next(self) -> None:
        while self.waiting and sum(call.began is not None for call in self.calls.values()) < self.nthreads:
            call = self.waiting.popleft()
            call.began = call.looked = call.heard = self.world.loop.time()
            self.execute(call)
            call.timer = self.world.loop.call_later(call.script.seconds, self.finish, call)

    def execute(self, call: Call) -> None:
        """Everything happens now, and is told when its time has come."""
        told = stamp._attached, notes._tell
        stamp.use(call.script)  # type: ignore[arg-type]
        notes.use(call.script.notes.append)
        _current.append(call.script)
        try:
            with self.world.executing(call.script):
                call.cause, call.value, call.message = child.carry_out(call.content, os.getpid())
        finally:
            _current.pop()
            stamp.use(told[0])
            notes.use(told[1])

    def finish(self, call: Call) -> None:
        forks = tuple((call.key, facts) for facts in call.script.notes)
        if forks:
            self.report(forks=forks)
        cause, message = call.script.death or (call.cause, call.message)
        self.over(call, cause, message, value=b"" if cause else call.value)
        self.begin_next()

    def over(self, call: Call, cause: str, message: str, *, silent_s: float = 0.0, value: bytes = b"") -> None:
        del self.calls[call.key]
        if call in self.waiting:
            self.waiting.remove(call)
        if call.timer is not None:
            call.timer.cancel()
        age = self.world.loop.time() - call.began if call.began is not None else 0.0
        end = {
            "key": call.key, "cause": cause, "value": value, "message": message, "seconds": age, "cpu_s": 0.0,
            "peak": call.script.peak, "load_s": 0.0, "silent_s": silent_s, "done": (),
            "raised": cause == ends.OUT_OF_MEMORY and call.script.death is None,
        }  # fmt: skip
        assert set(end) == set(ENDING)
        self.report(ends=({**end, "evidence": None},))

    def tell_signs(self) -> None:
        if self.fate is not None:
            return
        self.last_seen = now = self.world.clock.time()
        if self.calls:
            self.report(signs=tuple(call.sign(self.world.loop.time()) for call in self.calls.values()))
        self.last_seen = now
        self.world.loop.call_later(self.sign_every_s, self.tell_signs)
