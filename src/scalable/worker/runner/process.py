"""One runner process seen from its supervisor: how it is started, spoken to, measured and ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import secrets
import select
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from scalable import mpi, proc
from scalable.mpi import RUNNER_MARK
from scalable.observe.logs import last_lines, without_time
from scalable.worker.runner.environment import child_environment, python_path
from scalable.worker.runner.limits import MemoryGroup
from scalable.worker.runner.memory import proportional
from scalable.worker.runner.stacks import TOLD_FRAME, place_of
from scalable.worker.runner.stamp import Stamp
from scalable.worker.runner.wire import BLOCK, LARGEST_ANSWER, LINE_CLOSED, Frames, MessageKind, frame

logger = logging.getLogger("scalable")

START_WITHIN_S = 60.0  # a slow disk and a large environment; a runner is ready in a tenth of a second as a rule
EXIT_WITHIN_S = 1.0  # what atexit handlers of libraries get when a runner is no longer needed
GONE_WITHIN_S = 1.0  # a process that has hung up is about to end, as a rule
DIE_WITHIN_S = 10.0  # the kernel has to free what it used
LONGEST_FAULT = 1 << 16  # bytes of what faulthandler wrote that are searched for the place of a crash
CLOSED = "its code has closed the connection to its worker (os.closerange?), so that nothing can be heard of it"
NONSENSE = "something other than an answer came over the connection to its worker: its code wrote nonsense to it"
WORKER_MARK = "SCALABLE_WORKER_MARK"


@dataclass(frozen=True, slots=True)
class Settings:
    """How runners of a worker are to be."""

    cpus: int = 1
    """Of one slot; thread pools are sized to it."""
    memory: int | None = None
    """Bytes that the worker and all its runners may use together."""
    apart: bool = False
    """The limit is for the runs alone: their worker is a thread of the user's own process."""
    environment: Mapping[str, str] = field(default_factory=dict)
    fork: str = "deny"
    allow: tuple[str, ...] = ()
    """Modules that may fork all the same."""
    grpc: Mapping[str, str] = field(default_factory=lambda: {"GRPC_ENABLE_FORK_SUPPORT": "0"})
    mark: str = ""
    """What all processes of a worker's runners have in their environment, by which they are found and ended."""
    log: Path | None = None
    """Where what they print is read."""
    output: int | None = None
    """The open file that runners print into; the worker's own if nothing is said."""


class Started(Enum):
    WELL = "well"
    BADLY = "badly"  # it ended, or was silent for too long, before it was ready


class Runner:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sent: deque[Any] = deque()
        """Work that was sent and not answered; the first is what it is doing."""
        self.answered = 0
        self.ready = False
        self.ending = False
        """It is being ended, or has ended; nobody else need look after it."""
        self.gone = False
        """Its process has ended, or hung up."""
        self.trouble = ""
        """Why it did not start, or is not heard any more."""
        self.pace = float("inf")
        """Seconds of its last work."""
        self.resident = 0
        self.pids: list[int] = []
        """Its processes, when it was last looked at."""
        self.outside_group = 0
        """Bytes that it had before it came into its group, which does not count them."""
        self.cpu = 0.0
        self.runnable = False
        """One of its processes was running, or would have been if a CPU had been free."""
        self.stopped = False
        self.spoiled = False
        """Earlier work left something in it, or it cannot load what it is given, perhaps for that; a fresh one may."""
        self.outgrown = False
        """It holds so much memory that the next work should get another runner."""
        self.pid: int | None = None
        self.group: MemoryGroup | None = None
        self.protections: dict[str, Any] = {}
        self.mark = secrets.token_hex(8)
        self.stamp: Stamp
        self.faults = -1
        self.resources = ExitStack()
        """What is closed when it has ended."""
        self.process: subprocess.Popen[bytes] | None = None
        self.transport: asyncio.Transport | None = None
        self.conversation: RunnerProtocol
        self.line: socket.socket | None = None
        """The same line as the transport's, still open when that has closed its own."""
        self.exit: int | None = None
        """Becomes readable when the process ends; nothing on kernels before 5.3."""
        self.ended: asyncio.Task[int] | None = None

    @property
    def current(self) -> Any:
        return self.sent[0] if self.sent else None

    @property
    def has_begun(self) -> bool:
        """With its current work; else that is lost to nobody when it ends."""
        return self.stamp.begun > self.answered

    @property
    def fault_file(self) -> Path:
        """In memory: neither a full disk nor code that cleans up temporary files concerns it."""
        return Path(f"/proc/{os.getpid()}/fd/{self.faults}")

    async def start(
        self,
        on_end: Callable[[Runner, Any], None],
        on_hang_up: Callable[[Runner], None],
        on_fork: Callable[[Runner, dict[str, Any]], None],
    ) -> Started:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()

        def heard(kind: MessageKind, fact: Any) -> None:
            match kind:
                case MessageKind.ENDED if self.sent:
                    on_end(self, fact)
                case MessageKind.NOTED:
                    on_fork(self, fact)
                case MessageKind.READY if not self.ready:
                    self.protections, self.ready = fact, True
                    if not ready.done():
                        ready.set_result(Started.WELL)
                case _:
                    gone(NONSENSE)

        def gone(trouble: str = "") -> None:
            self.gone, self.trouble = True, self.trouble or trouble
            self.watch_no_more()
            if not ready.done():
                ready.set_result(Started.BADLY)
            elif self.ready:
                on_hang_up(self)

        try:
            ours, theirs = socket.socketpair()
            self.resources.enter_context(ours)
            self.line = self.resources.enter_context(ours.dup())
            with theirs:
                self.prepare()
                self.spawn(theirs)
            self.watch(gone)
            self.transport, self.conversation = await loop.create_connection(
                lambda: RunnerProtocol(heard, gone), sock=ours
            )
            return await asyncio.wait_for(asyncio.shield(ready), START_WITHIN_S)
        except TimeoutError:
            self.trouble = f"it was not ready within {START_WITHIN_S:g} s"
        except OSError as error:  # no more processes or open files, no memory
            self.trouble = str(error)
        return Started.BADLY

    def prepare(self) -> None:
        self.stamp = Stamp.create()
        self.resources.callback(self.stamp.close)
        self.faults = os.memfd_create("scalable-faults")
        self.resources.callback(os.close, self.faults)

    def watch(self, gone: Callable[[], None]) -> None:
        """What it forked may hold its line open after its end; on old kernels its supervisor has to look."""
        assert self.pid is not None
        try:
            self.exit = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return
        asyncio.get_running_loop().add_reader(self.exit, gone)

    def watch_no_more(self) -> None:
        if self.exit is not None:
            asyncio.get_running_loop().remove_reader(self.exit)
            os.close(self.exit)
            self.exit = None

    def spawn(self, line: socket.socket) -> None:
        settings = self.settings
        options = {
            "line": line.fileno(),
            "stamp": self.stamp.fd,
            "faults": self.faults,
            "parent": os.getpid(),
            "fork": settings.fork,
            "allow": settings.allow,
        }
        environment = child_environment(
            {**os.environ, **python_path()}, cpus=settings.cpus, grpc=settings.grpc, extra=settings.environment
        )
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "scalable.worker.runner", json.dumps(options)],
            env={**environment, RUNNER_MARK: self.mark, WORKER_MARK: settings.mark},
            stdin=subprocess.DEVNULL,
            stdout=settings.output,
            stderr=settings.output,
            pass_fds=(line.fileno(), self.stamp.fd, self.faults),
            start_new_session=True,
        )
        self.pid = self.process.pid

    def limit(self, room: int) -> None:
        """Have the kernel hold the limit where it lets us; else looking must do."""
        assert self.pid is not None
        self.group = MemoryGroup.make(f"scalable-{self.mark}", room)
        self.outside_group = proc.resident(self.pid)
        if self.group is not None and not self.group.add(self.pid):
            self.group.close()
            self.group = None

    def send(self, work: Any, content: bytes) -> None:
        assert self.transport is not None
        self.sent.append(work)
        if not self.transport.is_closing():  # else it is gone, and all that it has is given to another
            self.transport.write(frame(MessageKind.WORK, content))

    def look(self, *, closely: bool = False) -> None:
        """Memory and CPU of all its processes; closely, with what they share counted once."""
        if self.pid is None:
            return
        processes = [process for process in map(proc.look, proc.tree(self.pid)) if process is not None]
        measure = proportional if closely and len(processes) > 1 else proc.resident
        self.pids = [process.pid for process in processes]
        self.resident = sum(map(measure, self.pids))
        self.cpu = sum(process.cpu_s for process in processes)
        self.stopped = any(process.pid == self.pid and process.state in "Tt" for process in processes)
        self.runnable = any(process.state == "R" for process in processes)

    def counted_peak(self) -> int:
        """Return the highest memory of its current work by the kernel's own count; 0 where it keeps none."""
        counted = self.group.peak() if self.group is not None else 0
        return counted + self.outside_group if counted else 0

    async def status(self) -> int | None:
        """How it ended, once all that it had said was heard; nothing if it lives on."""
        assert self.process is not None
        for _ in range(1000):
            if self.transport is None or self.transport.is_closing() or not readable(self.line):
                break
            await asyncio.sleep(0.001)
        if self.trouble != NONSENSE:
            self.hear_the_rest()
            await self.exited(GONE_WITHIN_S)
        return self.process.poll()

    def hear_the_rest(self) -> None:
        """What it had said before it ended; the event loop gives up a line on which nobody takes what is sent."""
        assert self.line is not None
        with suppress(OSError):
            while piece := self.line.recv(BLOCK, socket.MSG_DONTWAIT):
                self.conversation.data_received(piece)

    def how_it_ended(self, status: int | None) -> str:
        if self.trouble or status in (None, LINE_CLOSED):
            return self.trouble or CLOSED
        assert status is not None
        if status < 0:
            with suppress(ValueError):
                return f"crashed with {signal.Signals(-status).name}{self.fault()}"
        return f"its process ended with status {status} without an answer (os._exit?)"

    def fault(self) -> str:
        """Where Python was when it crashed, by its own last words."""
        lines = os.pread(self.faults, LONGEST_FAULT, 0).decode(errors="replace").splitlines()
        frame = next(filter(None, map(TOLD_FRAME.search, lines)), None)
        return f" in {place_of(frame)}" if frame else ""

    async def was_killed(self) -> bool:
        """By others, before we end it."""
        if self.process is None:
            return False
        if self.gone:
            await self.exited(GONE_WITHIN_S)
        return self.process.poll() == -signal.SIGKILL

    def lives(self) -> bool:
        """It has not ended; what the kernel killed was a process that it had started."""
        return self.pid is not None and proc.alive(self.pid)

    def last_words(self) -> str:
        if self.trouble:
            return self.trouble
        if self.settings.log is None:
            return "its error is in the worker's log"
        lines = last_lines(self.settings.log, 1)
        return without_time(lines[0]) if lines else f"nothing is in {self.settings.log}"

    async def end(self) -> int:
        """End it with everything it started, and say how many processes were killed; the same for all who ask."""
        self.ending = True
        if self.ended is None:
            self.ended = asyncio.ensure_future(self._end())
        return await asyncio.shield(self.ended)

    async def _end(self) -> int:
        idle = self.ready and not self.sent
        self.hang_up()
        self.watch_no_more()
        killed = 0
        if self.process is not None:
            if idle and self.line is not None:
                with suppress(OSError):
                    self.line.shutdown(socket.SHUT_WR)  # a copy of it is open here, so closing one tells nobody
                await self.exited(EXIT_WITHIN_S)
            killed = await self.end_tree()
            await self.end_steps(idle)
            if self.process.poll() is None:  # with no file left to open nothing is seen of it
                self.process.kill()
            await self.exited(DIE_WITHIN_S)
        if self.group is not None:
            with suppress(RuntimeError):
                await asyncio.to_thread(self.group.close)
        self.resources.close()
        return killed

    def hang_up(self) -> None:
        """Hear nothing more of it, from this moment on."""
        if self.transport is not None:
            self.transport.abort()

    async def end_tree(self) -> int:
        assert self.pid is not None
        arguments = self.pid, (RUNNER_MARK, self.mark)
        try:
            try:
                return await asyncio.to_thread(proc.end_tree, *arguments)
            except RuntimeError:  # no more threads, which may be its own doing
                return proc.end_tree(*arguments)
        except Exception:  # whatever /proc or a lack of memory leads to: who waits for its end must not wait for ever
            logger.exception("processes of a runner may be left")
            return 0

    async def end_steps(self, idle: bool) -> None:
        """End what it started on the nodes of a batch job: killing the launcher here leaves that alive."""
        job = os.environ.get("SLURM_JOB_ID")
        if idle or job is None or mpi.NODES not in {**os.environ, **self.settings.environment}:
            return
        if not await asyncio.to_thread(mpi.end_steps, job, self.mark):
            logger.error("processes of a runner may be left on nodes of job %s: Slurm did not end its steps", job)

    async def exited(self, within: float) -> None:
        assert self.process is not None
        deadline = asyncio.get_running_loop().time() + within
        while self.process.poll() is None and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)


class RunnerProtocol(asyncio.Protocol):
    def __init__(self, heard: Callable[[MessageKind, Any], None], gone: Callable[[str], None]) -> None:
        self.heard = heard
        self.gone = gone
        self.frames = Frames(LARGEST_ANSWER)

    def data_received(self, data: bytes) -> None:
        try:
            messages = [(kind, READ[kind](content)) for kind, content in self.frames.feed(data)]
        except Exception:  # noqa: BLE001 - whatever it is, it is none of ours
            self.gone(NONSENSE)
            return
        for kind, fact in messages:
            self.heard(kind, fact)

    def connection_lost(self, error: Exception | None) -> None:
        self.gone("")


def answer(content: bytes) -> tuple[Any, ...]:
    """How a piece of work ended: its cause, value and message, what it took and what it left."""
    cause, value, message, seconds, cpu_s, peak, left, load_s = pickle.loads(content)
    return cause, value, message, seconds, cpu_s, peak, left, load_s


READ: Mapping[MessageKind, Callable[[bytes], Any]] = {
    MessageKind.READY: json.loads,
    MessageKind.NOTED: json.loads,
    MessageKind.ENDED: answer,
}


def readable(line: socket.socket | None) -> bool:
    if line is None or line.fileno() < 0:
        return False
    poll = select.poll()  # select itself knows no more than 1024 files
    poll.register(line, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(0))
