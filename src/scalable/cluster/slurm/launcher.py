"""Starts workers as batch jobs, watches all of them with one question to Slurm, and leaves none behind."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from scalable.cluster.base import Launched, LaunchRefused, WorkerTemplate
from scalable.cluster.security import KEYS
from scalable.cluster.slurm import script
from scalable.cluster.slurm.commands import Slurm, SlurmError, SlurmSilent
from scalable.cluster.slurm.jobs import BatchJob
from scalable.cluster.slurm.reasons import never
from scalable.errors import UsageError
from scalable.worker.options import WorkerOptions
from scalable.worker.reaper import Reaper
from scalable.worker.runner.path import python_path

logger = logging.getLogger("scalable")

SOON_S, OFTEN_S, SELDOM_S = 0.5, 2.0, 15.0  # between questions to Slurm; they get rarer while nothing changes
RARER = 1.4
YOUNG_S = 10.0  # jobs that have run for less than this and the time to connect may end at any moment: asked about often
SHARE = 10.0  # and are this many times rarer than an answer takes, however slow Slurm is
LOOKED_AT_WITHIN_S = 5.0  # how long the first job of a kind is watched for a reason that it can never start
OUTAGE_S = 900.0  # a controller that answered before is waited for so long when a job is handed in


class SlurmLauncher:
    def __init__(self, site: script.Site, logs: Path, name: str) -> None:
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
        self.submitting: set[asyncio.Task[Launched]] = set()
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
        options = WorkerOptions(
            scheduler=scheduler,
            name=name,
            resources=template.resources,
            threads=template.slots,
            memory=template.memory.bytes if template.memory else None,
            handout=self.site.handout,
            interface=self.site.interface,
            folder=self.site.folder,
            preload=None if shell else template.preload_script,
            connect_within=self.site.connect_within,
            grace=self.site.grace,
        )
        return script.job_script(self.site, template, options, self.job_name(template), self.logs / f"{name}.log")

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        if problem := self.check(template):
            raise LaunchRefused(f"{template.tag}: {problem}", definite=True)
        task = asyncio.ensure_future(self.start(name, template, scheduler))
        self.submitting.add(task)
        task.add_done_callback(self.submitting.discard)
        return await asyncio.shield(task)  # a job that was handed in must be known, even if the caller has gone

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
        deadline = time.monotonic() + (OUTAGE_S if self.answered else 0.0)
        while True:
            if self.closing.is_set():
                raise LaunchRefused("the cluster is closed")
            try:
                number = await self.slurm.submit(text, env)
                break
            except SlurmSilent as silence:
                if (found := await self.found(name, template)) is not None:
                    number = found
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

    async def found(self, name: str, template: WorkerTemplate) -> str | None:
        """A job whose submission got no answer may be there all the same."""
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
        """Called often, asks Slurm when it is time to."""
        jobs = [one for one in launched if isinstance(one, BatchJob) and one.fate is None]
        late = [one for one in self.jobs if one.unwanted and not one.cancelled]
        began = time.monotonic()
        if began < self.due or not (jobs or late):
            return SOON_S
        before = {one: (one.state, one.fate) for one in jobs}
        try:
            states = await self.slurm.states(one.id for one in (*jobs, *late))
            took = time.monotonic() - began
            await asyncio.gather(*(one.update(states.get(one.id)) for one in jobs), *(one.stop() for one in late))
        except SlurmError as error:
            self.trouble = str(error)
            self.due = time.monotonic() + SELDOM_S / 3
            return SOON_S
        self.trouble, self.answered = "", True
        self.jobs -= {one for one in self.jobs if one.over}
        changed = any((one.state, one.fate) != was for one, was in before.items())
        young = any(time.monotonic() - (one.ran_since or 0) < self.site.connect_within + YOUNG_S for one in jobs)
        self.pause = SOON_S if changed else min(self.pause * RARER, OFTEN_S if young else SELDOM_S)
        self.due = time.monotonic() + max(self.pause, took * SHARE)
        return SOON_S

    async def close(self) -> None:
        """Nothing of ours stays in Slurm; if it does not confirm that, the reaper goes on trying."""
        self.closing.set()
        if self.submitting:
            await asyncio.gather(*self.submitting, return_exceptions=True)
        await asyncio.gather(*(one.stop() for one in self.jobs if not one.unwanted))
        left = [one.id for one in self.jobs if not one.over]
        if left:
            logger.error("jobs %s could not be cancelled; a process that stays behind goes on trying", " ".join(left))
            self.reaper.leave()
        else:
            self.reaper.done()
