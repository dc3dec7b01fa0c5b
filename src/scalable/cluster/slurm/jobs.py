"""Batch jobs and the workers they hold: why each waits, what became of it, and how it is ended.

Slurm's own state of a job comes first; where that says no more than FAILED, the end of the log tells. A worker that
shares its job with others is a step of it: the job's script notes how the step ended, because Slurm forgets steps.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from scalable.cluster.base import WorkerFate
from scalable.cluster.local import last_words
from scalable.cluster.network import listed
from scalable.cluster.remote import RemoteWorker
from scalable.cluster.slurm.commands import Slurm, SlurmError, SlurmState, never, waits
from scalable.cluster.slurm.script import Step, ending_of
from scalable.cluster.slurm.setup import failed_setup
from scalable.engine.events import NEVER, Loss
from scalable.observe.logs import last_lines
from scalable.quantities import Memory
from scalable.walltime import CLOSING_S
from scalable.worker.crashes import CRASHES, crash_in, signal_called
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START

logger = logging.getLogger("scalable")

AGAIN_S = 0.5  # between questions while it is unclear what became of a job
FORGOTTEN_AFTER = 3  # answers in a row without a job before it counts as gone
MOST_LEFT = 0.6  # of a job's time: with less of it left a worker is not worth starting in it
LOG_WITHIN_S = 5.0  # shared file systems show what a node wrote with a delay
LAST_LINES = 100  # of a log, where its reason stands
NOT_LAUNCHED = "0:53"  # exit code of a job whose log or folder could not be opened on the node
OVER_MEMORY = re.compile(r"slurmstepd\S*: error:.*(exceeded (job |step )?memory limit|oom[-_ ]kill)", re.IGNORECASE)
BY_REASON = {"OutOfMemory": "OUT_OF_MEMORY", "TimeLimit": "TIMEOUT", "NodeDown": "NODE_FAIL"}
"""Final states by the reason that Slurm gives while it clears a job away."""
STEP_ENDS = {
    "TIMEOUT": re.compile(r"CANCELLED AT .* DUE TO TIME LIMIT"),
    "PREEMPTED": re.compile(r"CANCELLED AT .* DUE TO PREEMPTION"),
    "NODE_FAIL": re.compile(r"DUE TO NODE FAILURE|Node failure on "),
    "CANCELLED": re.compile(r"CANCELLED AT "),
}
"""Lines of srun and slurmstepd in the log of a step that was ended from outside."""
BY_SIGNAL = 128  # and the number of the signal: exit code of what a signal ended
LAST_SIGNAL = 64  # of Linux


class BatchJob:
    """One job, handed in or about to be."""

    def __init__(
        self, slurm: Slurm, steps: Sequence[Step], log: Path, walltime: str | None = None, *, alone: bool = True
    ) -> None:
        self.slurm = slurm
        self.id: str | None = None
        """Slurm's number of it; nothing until it is handed in."""
        self.text = ""
        """Its script."""
        self.env: Mapping[str, str] = {}
        self.name = ""
        self.log = log
        self.walltime = walltime
        self.alone = alone
        """Its only worker is the job itself, not a step of it."""
        self.steps = tuple(steps)
        """The steps that it was submitted with."""
        self.workers = [JobWorker(self, step) for step in steps]
        self.held = ""
        """The reason why it is not submitted yet."""
        self.state = SlurmState("PENDING")
        self.ran_since: float | None = None
        self.ends_at: float | None = None
        """When Slurm ends it, as it last said while it ran; never if it has no limit."""
        self.missing = 0
        self.cancelled = False

    @property
    def title(self) -> str:
        return f"job {self.id}" if self.id is not None else "a job that is not handed in yet"

    @property
    def over(self) -> bool:
        """Return whether nothing of it is left in Slurm, or will be."""
        return self.cancelled or self.id is None or self.state.over or all(worker.over for worker in self.workers)

    @property
    def unwanted(self) -> bool:
        return all(worker.unwanted for worker in self.workers)

    @property
    def lasts(self) -> bool:
        """Return whether it runs, has a worker, and has most of its time left: a new worker is worth while in it."""
        state = self.state
        living = any(worker.fate is None and not worker.unwanted for worker in self.workers)
        if self.cancelled or state.state != "RUNNING" or state.started is None or not living:
            return False
        ends = state.ends if state.ends is not None else NEVER
        return ends - time.time() >= MOST_LEFT * (ends - state.started)

    def hole(self, tag: str) -> JobWorker | None:
        """Return a worker of a tag that died and left its place free; its end was noted, so the job's script lives."""
        dead = (worker for worker in self.workers if worker.step.template.tag == tag and worker.vacant)
        return next((worker for worker in dead if ending_of(worker.log).exists()), None)

    async def update(self, state: SlurmState | None) -> None:
        """Learn what Slurm says of it; nothing if it does not know it."""
        if self.id is None:
            return
        self.missing = 0 if state else self.missing + 1
        if state is not None:
            self.state = state
            if state.state == "RUNNING":
                self.ends_at = state.ends if state.ends is not None else NEVER
            if state.state == "RUNNING" and self.ran_since is None:
                self.ran_since = time.monotonic()
        living = [worker for worker in self.workers if worker.fate is None and not worker.unwanted]
        if not living:
            return
        if state is not None and state.state == "PENDING" and (problem := never(state.reason)):
            await asyncio.gather(*(worker.stop() for worker in living))
            for worker in living:
                worker.fate = WorkerFate(Loss.CANNOT_START, f"{self.title} can never start here: {problem}")
        elif (state is not None and state.over) or self.missing >= FORGOTTEN_AFTER:
            end = await self.slurm.epitaph(self.id) or state
            await asyncio.gather(*(worker.conclude(end) for worker in living))
        elif not self.alone and self.ran_since is not None:
            await asyncio.gather(*(worker.look() for worker in living))

    async def cancel(self) -> None:
        """Have all of it ended."""
        if self.id is not None:
            await self.slurm.cancel([self.id])
        self.cancelled = True


class JobWorker(RemoteWorker):
    """One worker of a batch job."""

    def __init__(self, batch: BatchJob, step: Step) -> None:
        super().__init__()
        self.batch = batch
        self.step = step
        self.name = step.name
        self.log = step.log
        self.replaced = False
        """Another was started in its place."""
        self.begins_by = NEVER
        """When, by the monotonic clock, its log must have begun if its job's script was asked to start it."""
        self.memory = step.template.memory

    @property
    def job(self) -> str | None:
        return self.batch.title if self.batch.id is not None else None

    @property
    def allocation(self) -> str:
        """Return the job that it shares with others; empty if it is alone in it."""
        return self.batch.title if not self.batch.alone and self.batch.id is not None else ""

    @property
    def waits(self) -> str:
        if self.batch.held:
            return self.batch.held
        return waits(self.batch.state.reason) if self.batch.state.state == "PENDING" else ""

    @property
    def work_ends_at(self) -> float | None:
        """Return when work on it must be over, so that it can hand over and close before Slurm kills it."""
        return self.batch.ends_at - CLOSING_S if self.batch.ends_at is not None else None

    @property
    def late(self) -> bool:
        return self.begins_by != NEVER

    @property
    def vacant(self) -> bool:
        """Return whether it ended by itself and nobody has its place; who was sent away is not wanted there."""
        return self.fate is not None and not self.unwanted and not self.replaced

    @property
    def over(self) -> bool:
        """Return whether nothing of it is left in Slurm, or will be."""
        return self.ended or (self.fate is not None and not self.unwanted)

    async def learn_fate(self, within: float) -> WorkerFate:
        deadline = time.monotonic() + within
        batch = self.batch
        while self.fate is None and not self.unwanted and batch.id is not None and time.monotonic() < deadline:
            try:
                await batch.update((await batch.slurm.states([batch.id])).get(batch.id))
            except SlurmError:
                break
            if self.fate is None:
                await asyncio.sleep(AGAIN_S)
        if self.fate is None and batch.id is not None and batch.state.state == "COMPLETING":
            with suppress(SlurmError):  # Slurm takes its time; it knows more than it says
                await self.conclude(await batch.slurm.epitaph(batch.id) or batch.state)
        return self.fate or WorkerFate(Loss.WORKER_LOST, f"its connection broke; {batch.title} is {batch.state.state}")

    async def look(self) -> None:
        """Find out whether it has ended while its job goes on."""
        if (end := await asyncio.to_thread(step_end, self.log)) is not None and self.fate is None:
            self.fate = await self.judged(end)
        elif time.monotonic() > self.begins_by and not await asyncio.to_thread(self.wrote):
            text = f"{self.batch.title} did not start it in the place of a dead worker"
            self.fate = WorkerFate(Loss.WORKER_LOST, text)

    async def conclude(self, end: SlurmState | None) -> None:
        """Judge it by the end of its job, if it did not end before that."""
        own = None if self.batch.alone else await asyncio.to_thread(step_end, self.log)
        if self.fate is None:
            vague = own is None or (own.state == "FAILED" and end is not None and end.state != "COMPLETED")
            self.fate = await self.judged(end if vague else own)

    async def end(self, *, gently: bool) -> None:
        """Have it ended: its step, or the whole job if no other worker in it is wanted or alive.

        If Slurm does not do it now, the launcher tries again, and the reaper in the end.
        """
        batch = self.batch
        try:
            if batch.id is None or batch.cancelled:
                self.ended = True
            elif all(worker.unwanted or worker.fate is not None for worker in batch.workers):
                await batch.cancel()
                for worker in batch.workers:
                    worker.ended = worker.ended or worker.unwanted
            elif batch.ran_since is not None:
                self.ended = await batch.slurm.cancel_step(batch.id, self.name)
        except SlurmError as error:
            logger.error("%s", error)

    async def judged(self, end: SlurmState | None) -> WorkerFate:
        """Wait a while for the reason that a failed worker wrote down; a slow disk must not hold up others."""
        deadline = time.monotonic() + LOG_WITHIN_S
        known = end is None or end.state != "FAILED" or end.exit_code == NOT_LAUNCHED
        while not known and time.monotonic() < deadline and not (await asyncio.to_thread(self.wrote)):
            await asyncio.sleep(AGAIN_S)
        log = self.log if await asyncio.to_thread(self.wrote) else self.batch.log
        return await asyncio.to_thread(judge, self.batch.title, log, end, self.batch.walltime, self.memory)

    def wrote(self) -> bool:
        return bool(text_of(self.log).strip())


def step_end(log: Path) -> SlurmState | None:
    """Return how a step ended, as its job's script noted it; nothing while it runs."""
    try:
        code, _, node = ending_of(log).read_text(encoding="utf-8", errors="replace").strip().partition(" ")
    except OSError:
        return None
    if not code.isdigit():
        return None
    text, number = text_of(log), int(code)
    killed = number > BY_SIGNAL
    exit_code = f"0:{number - BY_SIGNAL}" if killed else f"{number}:0"
    if OVER_MEMORY.search(text):
        return SlurmState("OUT_OF_MEMORY", "", node, exit_code)
    signs = STEP_ENDS if number else {"NODE_FAIL": STEP_ENDS["NODE_FAIL"]}  # srun ends with 0 when it lost the node
    usual = "FAILED" if number else "COMPLETED"
    state = next((state for state, words in signs.items() if words.search(text)), usual)
    return SlurmState(state, "", node, exit_code)


def judge(
    job: str, log: Path, end: SlurmState | None, walltime: str | None = None, memory: Memory | None = None
) -> WorkerFate:
    """Return why a job ended, in the engine's terms."""
    state = end.state if end else "UNKNOWN"
    if end and state == "COMPLETING":
        state = BY_REASON.get(end.reason, state)
    where = f"{job} on {end.node}" if end and end.node else job
    hungry = f"{where} used more memory than it asked for{f' ({memory})' if memory else ''}"
    match state:
        case "OUT_OF_MEMORY":
            return WorkerFate(Loss.OUT_OF_MEMORY, hungry)
        case "TIMEOUT" | "DEADLINE":
            return WorkerFate(Loss.WALLTIME, f"{where} reached its walltime{f' of {walltime}' if walltime else ''}")
        case "NODE_FAIL" | "BOOT_FAIL":
            return WorkerFate(Loss.NODE_LOST, f"{where}: the node failed")
        case "PREEMPTED":
            return WorkerFate(Loss.PREEMPTED, f"{where} was preempted")
        case "CANCELLED" | "REVOKED":
            return WorkerFate(Loss.PREEMPTED, f"{where} was cancelled")
        case "COMPLETED":
            return WorkerFate(Loss.PREEMPTED, f"{where} left after notice")
    number = ended_by(end.exit_code) if end else 0
    if number in CRASHES:
        return WorkerFate(Loss.WORKER_CRASHED, f"{where} crashed with {signal_called(number)}{crash_in(log) or ''}")
    if OVER_MEMORY.search(text_of(log)):
        return WorkerFate(Loss.OUT_OF_MEMORY, hungry)
    if end and end.exit_code == NOT_LAUNCHED:
        text = f"{where} could not be launched: the node cannot write {log}; is that folder there on compute nodes?"
        return WorkerFate(Loss.CANNOT_START, text)
    words = failed_setup(log) or last_words(log)
    code = end.exit_code.split(":")[0] if end else ""
    if code == str(CANNOT_CONNECT):
        return WorkerFate(Loss.WORKER_LOST, f"{where}: {words}; interfaces of this machine: {listed()}")
    if code in (str(CANNOT_START), str(CANNOT_READ)) or re.search(r"ModuleNotFoundError|No such file|not found", words):
        return WorkerFate(Loss.CANNOT_START, f"{where}: {words}")
    if state == "UNKNOWN":
        return WorkerFate(Loss.WORKER_LOST, f"Slurm has forgotten {job}; its log says: {words}")
    if number:
        return WorkerFate(Loss.WORKER_LOST, f"{where} was ended by {signal_called(number)}; its log ends: {words}")
    return WorkerFate(
        Loss.WORKER_LOST, f"{where} ended {state}{f' with exit code {end.exit_code}' if end else ''}: {words}"
    )


def ended_by(exit_code: str) -> int:
    """Return the number of the signal that ended a job, by Slurm's ``status:signal``; 0 if none did."""
    status, _, number = exit_code.partition(":")
    if number.isdecimal() and 0 < int(number) <= LAST_SIGNAL:
        return int(number)
    if status.isdecimal() and BY_SIGNAL < int(status) <= BY_SIGNAL + LAST_SIGNAL:
        return int(status) - BY_SIGNAL
    return 0


def text_of(log: Path) -> str:
    """Return the end of a log; empty if there is none yet."""
    return "\n".join(last_lines(log, LAST_LINES))
