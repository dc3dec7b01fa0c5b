"""Starts workers as batch jobs, watches all of them with one question to Slurm, and leaves none behind.

``BatchJob`` is one worker: why it waits, what became of it, and how it is ended. Slurm's own state of a job comes
first; where that says no more than FAILED, the end of the job's log tells.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalable.cluster.base import Fate, Launched, LaunchRefused, WorkerTemplate
from scalable.cluster.local import last_words
from scalable.cluster.network import listed
from scalable.cluster.remote import RemoteLauncher, RemoteWorker
from scalable.cluster.security import KEYS
from scalable.cluster.slurm import script
from scalable.cluster.slurm.commands import Slurm, SlurmError, SlurmSilent, SlurmState, never, waits
from scalable.engine.events import Loss
from scalable.errors import UsageError
from scalable.observe.files import append_private
from scalable.observe.logs import last_lines
from scalable.quantities import Memory
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START
from scalable.worker.reaper import Reaper
from scalable.worker.runner.path import python_path

logger = logging.getLogger("scalable")

SOON_S, OFTEN_S, SELDOM_S = 0.5, 2.0, 15.0  # between questions to Slurm; they get rarer while nothing changes
RARER = 1.4
YOUNG_S = 10.0  # jobs that have run for less than this and the time to connect may end at any moment: asked about often
SHARE = 10.0  # and are this many times rarer than an answer takes, however slow Slurm is
LOOKED_AT_WITHIN_S = 5.0  # how long the first job of a kind is watched for a reason that it can never start
OUTAGE_S = 900.0  # a controller that answered before is waited for so long when a job is handed in


class SlurmLauncher(RemoteLauncher):
    """The batch jobs of one cluster."""

    def __init__(self, site: script.SlurmSite, logs: Path, name: str) -> None:
        super().__init__()
        self.site = site
        self.logs = logs
        self.name = name
        self.slurm = Slurm()
        self.reaper = Reaper()
        self.trouble = ""
        """Why Slurm does not answer, if it does not."""
        self.jobs: set[BatchJob] = set()
        """All that may still be in Slurm's hands."""
        self.firsts: dict[Any, asyncio.Future[None]] = {}
        """Whether Slurm can ever run a kind of job, by what the kind asks for; sbatch alone takes some it cannot."""
        self.pause, self.due = SOON_S, 0.0
        self.answered = False
        self.closing = asyncio.Event()
        if problem := script.unwritable(str(logs)):
            raise UsageError(f"logs_location: {problem}")
        logs.mkdir(parents=True, exist_ok=True)

    def check(self, template: WorkerTemplate) -> str:
        if not re.fullmatch(r"[\w.+-]+", template.tag):
            return "a tag becomes the name of batch jobs and log files; use letters, digits, - _ . +"
        if template.image and self.site.container_runtime != "none" and script.is_file(template.image):
            file = Path(script.image(template.image))
            if not file.exists():
                return f"the image {file} does not exist"
        return ""

    def job_name(self, template: WorkerTemplate) -> str:
        return f"{template.tag}-{self.name}"

    def script(self, name: str, template: WorkerTemplate, scheduler: str) -> str:
        shell = script.is_shell(template.preload_script)
        options = replace(
            template.options(name, scheduler),
            handout=self.site.handout,
            interface=self.site.interface,
            folder=self.site.folder,
            preload=None if shell else template.preload_script,
            connect_within=self.site.connect_within,
            grace=self.site.grace,
        )
        return script.job_script(self.site, template, options, self.job_name(template), self.logs / f"{name}.log")

    async def start(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        kind = (template.tag, template.cpus, template.memory, template.gpus)
        if (first := self.firsts.get(kind)) is not None:
            await asyncio.shield(first)
            return await self.hand_in(name, template, scheduler)
        first = self.firsts[kind] = asyncio.get_running_loop().create_future()
        try:
            job = await self.hand_in(name, template, scheduler)
            await self.could_start(job)
            first.set_result(None)
            return job
        except BaseException as refusal:
            del self.firsts[kind]
            definite = getattr(refusal, "definite", False)
            first.set_exception(LaunchRefused(str(refusal) or "given up", definite=definite))
            first.exception()  # there may be nobody who waits for it
            raise

    async def hand_in(self, name: str, template: WorkerTemplate, scheduler: str) -> BatchJob:
        text = self.script(name, template, scheduler)
        beside = python_path() if self.site.folder else {}  # nodes see what this machine sees
        env = script.surroundings(text, {**os.environ, **beside}, template.environment)
        self.insure(template)
        with suppress(OSError):  # Slurm would make it readable for all, or cannot make it either and says so
            os.close(append_private(self.logs / f"{name}.log"))
        deadline = time.monotonic() + (OUTAGE_S if self.answered else 0.0)
        while True:
            if self.closing.is_set():
                raise LaunchRefused("the cluster is closed")
            try:
                number = await self.slurm.submit(text, env)
                break
            except SlurmSilent as silence:
                if (existing := await self.submitted(name, template)) is not None:
                    number = existing
                    break
                if time.monotonic() > deadline:
                    raise LaunchRefused(str(silence)) from None
                self.trouble = str(silence)
                await self.rest(SELDOM_S / 3)
        job = BatchJob(number, self.slurm, self.logs / f"{name}.log", self.site.walltime, template.memory)
        self.jobs.add(job)
        self.answered, self.pause, self.due = True, SOON_S, 0.0
        return job

    def insure(self, template: WorkerTemplate) -> None:
        """Have it cleaned up if this process is killed, even while sbatch still runs."""
        self.reaper.on_death(["scancel", "--quiet", f"--name={self.job_name(template)}", f"--user={os.getuid()}"])
        if self.site.handout:
            self.reaper.on_death(["rm", "-f", *(str(Path(self.site.handout, name)) for name in KEYS)])

    async def submitted(self, name: str, template: WorkerTemplate) -> str | None:
        """Find a job whose submission got no answer, and that may be there all the same."""
        try:
            return await self.slurm.find(self.job_name(template), name)
        except SlurmError:
            return None

    async def could_start(self, job: BatchJob) -> None:
        """Take a job back that waiting would not help."""
        deadline = time.monotonic() + LOOKED_AT_WITHIN_S
        while time.monotonic() < deadline:
            try:
                state = (await self.slurm.states([job.id])).get(job.id)
            except SlurmError:
                return
            if state is None or state.state != "PENDING" or (state.reason not in ("", "None")):
                break
            await asyncio.sleep(SOON_S / 2)
        if state is not None and state.state == "PENDING" and (problem := never(state.reason)):
            await job.stop()
            raise LaunchRefused(f"Slurm could never start it: {problem}", definite=True)

    async def rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.closing.wait(), seconds)

    async def poll(self, launched: list[Launched]) -> float:
        """Ask Slurm, when it is time to, about all jobs at once."""
        jobs = [job for job in launched if isinstance(job, BatchJob) and job.fate is None]
        late = [job for job in self.jobs if job.unwanted and not job.ended]
        began = time.monotonic()
        if began < self.due or not (jobs or late):
            return SOON_S
        before = {job: (job.state, job.fate) for job in jobs}
        try:
            states = await self.slurm.states(job.id for job in (*jobs, *late))
            took = time.monotonic() - began
            await asyncio.gather(*(job.update(states.get(job.id)) for job in jobs), *(job.stop() for job in late))
        except SlurmError as error:
            self.trouble = str(error)
            self.due = time.monotonic() + SELDOM_S / 3
            return SOON_S
        self.trouble, self.answered = "", True
        self.jobs -= {job for job in self.jobs if job.over}
        changed = any((job.state, job.fate) != was for job, was in before.items())
        young = any(time.monotonic() - (job.ran_since or 0) < self.site.connect_within + YOUNG_S for job in jobs)
        self.pause = SOON_S if changed else min(self.pause * RARER, OFTEN_S if young else SELDOM_S)
        self.due = time.monotonic() + max(self.pause, took * SHARE)
        return SOON_S

    async def close(self) -> None:
        """Leave nothing in Slurm; if it does not confirm that, the reaper goes on trying."""
        self.closing.set()
        if self.starting:
            await asyncio.gather(*self.starting, return_exceptions=True)
        await asyncio.gather(*(job.stop() for job in self.jobs if not job.unwanted))
        left = [job.id for job in self.jobs if not job.over]
        if left:
            logger.error("jobs %s could not be cancelled; a process that stays behind goes on trying", " ".join(left))
            self.reaper.leave()
        else:
            self.reaper.done()


AGAIN_S = 0.5  # between questions while it is unclear what became of a job
FORGOTTEN_AFTER = 3  # answers in a row without a job before it counts as gone
LOG_WITHIN_S = 5.0  # shared file systems show what a node wrote with a delay
LAST_LINES = 100  # of a log, where its reason stands
NOT_LAUNCHED = "0:53"  # exit code of a job whose log or folder could not be opened on the node
OVER_MEMORY = re.compile(r"slurmstepd\S*: error:.*(exceeded (job |step )?memory limit|oom[-_ ]kill)", re.IGNORECASE)
BY_REASON = {"OutOfMemory": "OUT_OF_MEMORY", "TimeLimit": "TIMEOUT", "NodeDown": "NODE_FAIL"}
"""What a job that is still being cleared away will have ended as."""


class BatchJob(RemoteWorker):
    """One worker as a batch job."""

    def __init__(
        self, job: str, slurm: Slurm, log: Path, walltime: str | None = None, memory: Memory | None = None
    ) -> None:
        super().__init__()
        self.id = job
        self.job: str | None = f"job {job}"
        self.slurm = slurm
        self.log = log
        self.walltime = walltime
        self.memory = memory
        self.state = SlurmState("PENDING")
        self.ran_since: float | None = None
        self.missing = 0

    @property
    def waits(self) -> str:
        return waits(self.state.reason) if self.state.state == "PENDING" else ""

    async def update(self, state: SlurmState | None) -> None:
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

    async def end(self, *, gently: bool) -> None:
        """Have it cancelled. If Slurm does not do it now, the launcher tries again, and the reaper in the end."""
        try:
            await self.slurm.cancel([self.id])
            self.ended = True
        except SlurmError as error:
            logger.error("%s", error)

    @property
    def over(self) -> bool:
        """Return whether nothing of it is left in Slurm, or will be."""
        return self.ended or (self.fate is not None and not self.unwanted)

    async def judged(self, end: SlurmState | None) -> Fate:
        """Wait a while for the reason that a failed worker wrote down; a slow disk must not hold up others."""
        deadline = time.monotonic() + LOG_WITHIN_S
        known = end is None or end.state != "FAILED" or end.exit_code == NOT_LAUNCHED
        while not known and time.monotonic() < deadline and not (await asyncio.to_thread(text_of, self.log)).strip():
            await asyncio.sleep(AGAIN_S)
        return await asyncio.to_thread(judge, str(self.job), self.log, end, self.walltime, self.memory)


def judge(
    job: str, log: Path, end: SlurmState | None, walltime: str | None = None, memory: Memory | None = None
) -> Fate:
    """Return why a job ended, in the engine's terms."""
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
    words = last_words(log)
    code = end.exit_code.split(":")[0] if end else ""
    if code == str(CANNOT_CONNECT):
        return Fate(Loss.WORKER_LOST, f"{where}: {words}; interfaces of this machine: {listed()}")
    if code in (str(CANNOT_START), str(CANNOT_READ)) or re.search(r"ModuleNotFoundError|No such file|not found", words):
        return Fate(Loss.CANNOT_START, f"{where}: {words}")
    if state == "UNKNOWN":
        return Fate(Loss.WORKER_LOST, f"Slurm has forgotten {job}; its log says: {words}")
    return Fate(Loss.WORKER_LOST, f"{where} ended {state}{f' with exit code {end.exit_code}' if end else ''}: {words}")


def text_of(log: Path) -> str:
    """Return the end of a log; empty if there is none yet."""
    return "\n".join(last_lines(log, LAST_LINES))
