"""One worker as a batch job: why it waits, what became of it, and how it is ended.

Slurm's own state of a job comes first; where that says no more than FAILED, the end of the job's log tells.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from scalable.cluster.base import Fate
from scalable.cluster.local import last_words
from scalable.cluster.network import listed
from scalable.cluster.slurm.commands import JobState, Slurm, SlurmError
from scalable.cluster.slurm.reasons import never, waits
from scalable.engine.events import Loss
from scalable.quantities import Memory
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START

logger = logging.getLogger("scalable")

AGAIN_S = 0.5  # between questions while it is unclear what became of a job
FORGOTTEN_AFTER = 3  # answers in a row without a job before it counts as gone
LOG_WITHIN_S = 5.0  # shared file systems show what a node wrote with a delay
PROMPT_S = 2.0  # how long Slurm may take to cancel a job that is dead anyway before others go on
LAST_BYTES = 8000  # of a log, where its reason stands
NOT_LAUNCHED = "0:53"  # exit code of a job whose log or folder could not be opened on the node
OVER_MEMORY = re.compile(r"slurmstepd\S*: error:.*(exceeded (job |step )?memory limit|oom[-_ ]kill)", re.IGNORECASE)
BY_REASON = {"OutOfMemory": "OUT_OF_MEMORY", "TimeLimit": "TIMEOUT", "NodeDown": "NODE_FAIL"}
"""What a job that is still being cleared away will have ended as."""


class BatchJob:
    def __init__(
        self, job: str, slurm: Slurm, log: Path, walltime: str | None = None, memory: Memory | None = None
    ) -> None:
        self.id = job
        self.job: str | None = f"job {job}"
        self.slurm = slurm
        self.log = log
        self.walltime = walltime
        self.memory = memory
        self.state = JobState("PENDING")
        self.fate: Fate | None = None
        self.unwanted = False
        """It was told to go."""
        self.cancelled = False
        """Slurm has confirmed that it goes."""
        self.ending: asyncio.Task[None] | None = None
        self.ran_since: float | None = None
        self.missing = 0

    @property
    def waits(self) -> str:
        return waits(self.state.reason) if self.state.state == "PENDING" else ""

    async def update(self, state: JobState | None) -> None:
        self.missing = 0 if state else self.missing + 1
        if state is not None:
            self.state = state
            if state.state == "RUNNING" and self.ran_since is None:
                self.ran_since = time.monotonic()
        if self.fate is not None or self.unwanted:
            return
        if state is not None and state.state == "PENDING" and (problem := never(state.reason)):
            await self.stop()
            self.fate = Fate(Loss.CANNOT_START, f"{self.job} can never start here: {problem}")
        elif (state is not None and state.over) or self.missing >= FORGOTTEN_AFTER:
            self.fate = await self.judged(await self.slurm.epitaph(self.id) or state)

    async def learn_fate(self, within: float) -> Fate:
        deadline = time.monotonic() + within
        while self.fate is None and not self.unwanted and time.monotonic() < deadline:
            try:
                await self.update((await self.slurm.states([self.id])).get(self.id))
            except SlurmError:
                break
            if self.fate is None:
                await asyncio.sleep(AGAIN_S)
        if self.fate is None and self.state.state == "COMPLETING":  # Slurm takes its time; it knows more than it says
            with suppress(SlurmError):
                self.fate = await self.judged(await self.slurm.epitaph(self.id) or self.state)
        return self.fate or Fate(Loss.WORKER_LOST, f"its connection broke; {self.job} is {self.state.state}")

    async def stop(self, *, gently: bool = True) -> None:
        """Have it cancelled. If Slurm does not do it now, the launcher tries again, and the reaper in the end.

        Without ``gently`` the caller is not kept waiting for a Slurm that does not answer.
        """
        if self.over:
            return
        self.unwanted = True
        if self.ending is None or self.ending.done():
            self.ending = asyncio.ensure_future(self.cancel())
        await asyncio.wait({self.ending}, timeout=None if gently else PROMPT_S)

    async def cancel(self) -> None:
        try:
            await self.slurm.cancel([self.id])
            self.cancelled = True
        except SlurmError as error:
            logger.error("%s", error)

    @property
    def over(self) -> bool:
        """Nothing of it is left in Slurm, or will be."""
        return self.cancelled or (self.fate is not None and not self.unwanted)

    async def judged(self, end: JobState | None) -> Fate:
        """Waits a while for the reason that a failed worker has written down. A slow disk must not hold up others."""
        deadline = time.monotonic() + LOG_WITHIN_S
        known = end is None or end.state != "FAILED" or end.exit_code == NOT_LAUNCHED
        while not known and time.monotonic() < deadline and not (await asyncio.to_thread(text_of, self.log)).strip():
            await asyncio.sleep(AGAIN_S)
        return await asyncio.to_thread(judge, str(self.job), self.log, end, self.walltime, self.memory)


def judge(job: str, log: Path, end: JobState | None, walltime: str | None = None, memory: Memory | None = None) -> Fate:
    """A job's end in the engine's terms."""
    state = end.state if end else "UNKNOWN"
    if end and state == "COMPLETING":
        state = BY_REASON.get(end.reason, state)
    where = f"{job} on {end.node}" if end and end.node else job
    hungry = f"{where} used more memory than it asked for{f' ({memory})' if memory else ''}"
    match state:
        case "OUT_OF_MEMORY":
            return Fate(Loss.OUT_OF_MEMORY, hungry)
        case "TIMEOUT" | "DEADLINE":
            return Fate(Loss.WALLTIME, f"{where} reached its walltime{f' of {walltime}' if walltime else ''}")
        case "NODE_FAIL" | "BOOT_FAIL":
            return Fate(Loss.NODE_LOST, f"{where}: the node failed")
        case "PREEMPTED":
            return Fate(Loss.PREEMPTED, f"{where} was preempted")
        case "CANCELLED" | "REVOKED":
            return Fate(Loss.PREEMPTED, f"{where} was cancelled")
        case "COMPLETED":
            return Fate(Loss.PREEMPTED, f"{where} left after notice")
    if OVER_MEMORY.search(text_of(log)):
        return Fate(Loss.OUT_OF_MEMORY, hungry)
    if end and end.exit_code == NOT_LAUNCHED:
        text = f"{where} could not be launched: the node cannot write {log}; is that folder there on compute nodes?"
        return Fate(Loss.CANNOT_START, text)
    said = last_words(log)
    code = end.exit_code.split(":")[0] if end else ""
    if code == str(CANNOT_CONNECT):
        return Fate(Loss.WORKER_LOST, f"{where}: {said}; interfaces of this machine: {listed()}")
    if code in (str(CANNOT_START), str(CANNOT_READ)) or re.search(r"ModuleNotFoundError|No such file|not found", said):
        return Fate(Loss.CANNOT_START, f"{where}: {said}")
    if state == "UNKNOWN":
        return Fate(Loss.WORKER_LOST, f"Slurm has forgotten {job}; its log says: {said}")
    return Fate(Loss.WORKER_LOST, f"{where} ended {state}{f' with exit code {end.exit_code}' if end else ''}: {said}")


def text_of(log: Path) -> str:
    """The end of a log; empty if there is none yet."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
