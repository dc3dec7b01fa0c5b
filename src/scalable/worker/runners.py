"""The supervisor in its worker: hears from the driver over the worker's own connection and reports back over it.

Messages that come together are answered together: what ends in one turn of the event loop goes out as one report.
Settings come with the first message; without a driver (a cluster by hand) the worker's own size holds.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from distributed.diagnostics.plugin import WorkerPlugin

from scalable import proc
from scalable.errors import ScalableError
from scalable.observe.files import append_private
from scalable.observe.redact import KNOWN, redact_text
from scalable.stuck import STUCK_AFTER_S, is_stuck
from scalable.worker.printing import LogPipe
from scalable.worker.reaper import Reaper
from scalable.worker.runner import ends
from scalable.worker.runner.evidence import collect
from scalable.worker.runner.process import WORKER_MARK, Settings
from scalable.worker.runner.stacks import flame_graph
from scalable.worker.runner.supervisor import Supervisor
from scalable.worker.runner.work import End, Listener, Sign

if TYPE_CHECKING:
    from distributed import Worker

OP = "scalable-runner"
"""Under which driver and workers talk about runs."""
NAME = "scalable-runners"
METER = "scalable-meter"
"""The plugin that reports the memory peaks of tasks."""
CANCELLED = "nobody waits for its task any longer"


class Runners(WorkerPlugin):
    name = NAME

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings(mark=token_hex(8))
        self.reaper = Reaper()
        self.printing: LogPipe | None = None
        """Where runners print if their worker is a thread, whose process has an output of its own."""

    def setup(self, worker: Worker) -> None:
        self.worker = worker
        self.supervisor = Supervisor(self.settings, worker.state.nthreads, Listener(self.ended, self.seen, self.forked))
        self.stuck_after_s = STUCK_AFTER_S
        self.waiting: dict[str, asyncio.Future[End]] = {}
        """Work that a task of this worker waits for."""
        self.tasks: dict[Any, str] = {}
        """The work of each such task, by the task's key."""
        self.signs: dict[str, Sign] = {}
        """The latest of what is there."""
        self.report: dict[str, list[Any]] = {}
        self.asked: set[asyncio.Task[None]] = set()
        worker.stream_handlers[OP] = self.heard

    async def teardown(self, worker: Worker) -> None:
        worker.stream_handlers.pop(OP, None)
        for task in self.asked:
            task.cancel()
        await self.supervisor.close()
        if self.printing is not None:
            await asyncio.to_thread(self.printing.close)
        self.reaper.done()
        for waiter in self.waiting.values():
            waiter.cancel()

    def heard(self, **message: Any) -> None:
        """Take what the driver wants, in the order it was written."""
        if (settings := message.get("settings")) is not None:
            self.supervisor.sign_every_s, self.stuck_after_s = (
                settings.pop("sign_every_s"),
                settings.pop("stuck_after_s"),
            )
            log = settings.pop("log")
            settings["memory"] = lesser(self.settings.memory, settings.get("memory"))
            if log and self.printing is None:
                self.printing = LogPipe(log_file(Path(log)), settings["environment"])
            output = self.printing.writing if self.printing else None
            self.settings = replace(
                self.settings, **settings, log=Path(log) if log else self.settings.log, output=output
            )
            self.supervisor.use(self.settings)
            KNOWN.add(self.settings.environment)
        for key, content in message.get("give", ()):
            self.give(key, content)
        for key in message.get("take_back", ()):
            self.supervisor.take_back(key)
        for key, cause, text, silent_for in message.get("kill", ()):
            self.supervisor.kill(key, cause, text, silent_for)
        for number, question, arguments in message.get("ask", ()):
            task = asyncio.ensure_future(self.answer(number, question, arguments))
            self.asked.add(task)
            task.add_done_callback(self.asked.discard)

    def give(self, key: str, content: bytes) -> None:
        """Give work to a runner. If this worker is killed, another process ends what its runners have started."""
        with suppress(OSError):  # no more processes: then no runner starts either, and that is told
            self.reaper.on_death([sys.executable, "-I", "-S", proc.__file__, WORKER_MARK, self.settings.mark])
        self.supervisor.give(key, content)

    # What goes back

    def ended(self, end: End) -> None:
        facts = {name: getattr(end, name) for name in ENDING} | {"message": redact_text(end.message)}
        facts["evidence"] = end.evidence.to_dict() if end.evidence else None
        if (waiter := self.waiting.pop(end.key, None)) is None:
            self.tell("ends", facts)
            return
        if end.cause in ends.VIOLENT:
            self.tell("incidents", facts)
        if not waiter.done():
            waiter.set_result(end)

    def seen(self, signs: list[Sign]) -> None:
        there = self.supervisor.works
        self.signs = {key: sign for key, sign in self.signs.items() if key in there} | {
            sign.key: sign for sign in signs
        }
        for sign in signs:
            self.tell("signs", asdict(sign))
            if sign.key in self.waiting and sign.left_s is None and is_stuck(sign.idle_s, self.stuck_after_s):
                text = f"no sign of life for {sign.idle_s:.0f} s"
                self.supervisor.kill(sign.key, ends.STUCK, text, self.stuck_after_s)

    def forked(self, key: str, facts: dict[str, Any]) -> None:
        self.tell("forks", (key, facts))

    def tell(self, kind: str, fact: Any) -> None:
        if not self.report:
            asyncio.get_running_loop().call_soon(self.send)
        self.report.setdefault(kind, []).append(fact)

    def send(self) -> None:
        report, self.report = self.report, {}
        with suppress(Exception):  # the connection is gone, and with it whoever wanted to know
            self.worker.batched_send({"op": OP, **report})

    @property
    def idle_s(self) -> float:
        """The longest silence among its work; nothing if none of it should give signs."""
        there = self.supervisor.works
        silent = (sign.idle_s for key, sign in self.signs.items() if key in there and sign.left_s is None)
        return max(silent, default=0.0)

    # Questions of operators

    async def answer(self, number: int, question: str, arguments: dict[str, Any]) -> None:
        try:
            answer = {"ok": True, **await QUESTIONS[question](self, **arguments)}
        except ScalableError as error:
            answer = {"ok": False, "error": str(error)}
        except Exception as error:  # noqa: BLE001 - the asker must hear of it, whatever it is
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        self.tell("answers", (number, answer))

    async def dump(self, run: str | None = None) -> dict[str, Any]:
        pid, warnings, work = os.getpid(), 0, None
        if (runner := self.supervisor.runner_of(run)) is not None and runner.pid is not None:
            pid, warnings = runner.pid, runner.stamp.read().fork_warnings
            work = runner.current.logged(runner.stamp.begun) if runner.current is not None else None
        fault_file = runner.fault_file if runner else None
        evidence = await collect(
            pid, fault_file=fault_file, log=self.settings.log, printed_by=work, fork_warnings=warnings
        )
        return {"text": evidence.text(), "evidence": evidence.to_dict()}

    async def profile(self, seconds: float, run: str | None = None) -> dict[str, Any]:
        runner = self.supervisor.runner_of(run)
        pid = runner.pid if runner is not None and runner.pid is not None else os.getpid()
        return {"svg": await flame_graph(pid, seconds)}

    async def protections(self) -> dict[str, Any]:
        """Return what protects runs here. A runner is started to ask it, if there is none."""
        supervisor = self.supervisor
        if not supervisor.runners:
            await supervisor.keep(supervisor.start(supervisor.another()))
        runner = supervisor.runner_of(None)
        settings = supervisor.settings
        return {
            "runner": runner.protections if runner else {},
            "memory": settings.memory,
            "memory_by": "the kernel" if runner and runner.group else "looking ten times a second",
            "cpus": settings.cpus,
            "slots": supervisor.slots,
            "runners": len(supervisor.runners),
        }

    # Work of plain tasks

    async def run(self, task: Any, content: bytes) -> End:
        """Run it until it has ended; again if its task was cancelled and then wanted again after all."""
        while True:
            key = str(task) if str(task) not in self.supervisor.works else f"{task} {token_hex(2)}"
            waiter: asyncio.Future[End] = asyncio.get_running_loop().create_future()
            self.waiting[key] = waiter
            self.tasks[task] = key
            self.give(key, content)
            try:
                end = await waiter
            finally:
                del self.tasks[task]
            meter: Any = self.worker.plugins.get(METER)
            if meter is not None and end.peak and task in meter.running:
                meter.measured[task] = end.peak
            if end.message != CANCELLED or not self.wanted(task):
                return end

    def wanted(self, task: Any) -> bool:
        known = self.worker.state.tasks.get(task)
        return known is not None and known.state == "executing"

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """End what runs here when Dask lets go of its task, because its future was cancelled."""
        if start == "executing" and finish == "released" and key in self.tasks:
            self.supervisor.kill(self.tasks[key], ends.STOPPED, CANCELLED)


# what is told of an end
ENDING = ("key", "cause", "value", "message", "seconds", "cpu_s", "peak", "load_s", "silent_s", "raised", "done")
QUESTIONS: dict[str, Callable[..., Any]] = {
    "dump": Runners.dump,
    "profile": Runners.profile,
    "protections": Runners.protections,
}


def log_file(path: Path) -> int:
    """Open a log; where that is not possible, what is printed is lost and work goes on."""
    try:
        return append_private(path)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def lesser(own: int | None, other: int | None) -> int | None:
    """Return the smaller limit: a worker may be told to use less than its whole limit, since others share it."""
    return min((limit for limit in (own, other) if limit is not None), default=None)
