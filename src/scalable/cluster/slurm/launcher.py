"""Starts workers in batch jobs, watches all of them with one question to Slurm, and leaves none behind.

Workers that are asked for at the same moment are put into jobs together, where the target says that a job holds
several. Jobs that Slurm does not take yet, because a limit of submitted jobs is reached, wait here and are handed in
when others have started or ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections import deque
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from scalable.cluster.base import BatchOptions, HeldAllocation, Launched, LaunchRefused, WorkerFate, WorkerTemplate
from scalable.cluster.remote import RemoteLauncher, begun
from scalable.cluster.security import KEYS
from scalable.cluster.slurm import script
from scalable.cluster.slurm.commands import (
    TOGETHER_S,
    Slurm,
    SlurmError,
    SlurmSilent,
    SlurmStalled,
    SubmitLimitError,
    never,
)
from scalable.cluster.slurm.jobs import BatchJob, JobWorker
from scalable.cluster.slurm.script import Step
from scalable.engine.events import Loss
from scalable.errors import UsageError
from scalable.observe.files import append_private
from scalable.planning.allocations import Allocations, BatchNode
from scalable.planning.resources import Size
from scalable.quantities import Cpu, Memory
from scalable.wording import plural
from scalable.worker.reaper import Reaper
from scalable.worker.runner.environment import python_path

logger = logging.getLogger("scalable")

SOON_S, OFTEN_S, SELDOM_S = 0.5, 2.0, 15.0  # between questions to Slurm; they get rarer while nothing changes
RARER = 1.4
YOUNG_S = 10.0  # jobs that have run for less than this and the time to connect may end at any moment: asked about often
SHARE = 10.0  # and are this many times rarer than an answer takes, however slow Slurm is
LOOKED_AT_WITHIN_S = 5.0  # how long the first job of a kind is watched for a reason that it can never start
OUTAGE_S = 900.0  # a controller that answered before is waited for so long when a job is handed in
ORDER_WITHIN_S = 15.0  # how long a job's script may take to see what it shall start
LIMIT_AGAIN_S = 30.0  # before a job is handed in again that was over a limit of submitted jobs


@dataclass(frozen=True, slots=True)
class Request:
    """A worker that somebody waits for."""

    name: str
    template: WorkerTemplate
    scheduler: str
    answer: asyncio.Future[JobWorker]


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
        self.held: deque[BatchJob] = deque()
        """Jobs that are to be handed in later, in their order."""
        self.hand_in_again = 0.0
        """When Slurm is asked again after a limit of submitted jobs was reached."""
        self.submitting = 0
        self.requests: list[Request] = []
        """Workers that are about to be put into jobs together."""
        self.refilling = asyncio.Lock()
        self.background: set[asyncio.Task[None]] = set()
        self.releasing: asyncio.Task[None] | None = None
        self.firsts: dict[Hashable, asyncio.Future[None]] = {}
        """Whether Slurm can ever run a kind of job, by what the kind asks for; sbatch alone takes some it cannot."""
        self.nodes: dict[BatchOptions, Allocations] = {}
        """The rule that fills jobs with workers, by their options; with the size of a node if it was asked for."""
        self.pause, self.due = SOON_S, 0.0
        self.answered = False
        self.closing = asyncio.Event()
        if problem := script.unwritable(str(logs)):
            raise UsageError(f"logs_location: {problem}")
        logs.mkdir(parents=True, exist_ok=True)

    def check(self, template: WorkerTemplate) -> str:
        if not re.fullmatch(r"[\w.+-]+", template.tag):
            return "a tag becomes the name of batch jobs and log files; use letters, digits, - _ . +"
        for name in template.batch.__dataclass_fields__:
            if problem := script.unwritable(getattr(template.batch, name) or ""):
                return f"{name}: {problem}"
        if template.image and self.site.container_runtime != "none" and script.is_file(template.image):
            file = Path(script.image(template.image))
            if not file.exists():
                return f"the image {file} does not exist"
        return ""

    # What is handed in

    def job_name(self, tags: Sequence[str]) -> str:
        return f"{'+'.join(dict.fromkeys(tags))}-{self.name}"

    def step(self, name: str, template: WorkerTemplate, scheduler: str, node: int = 0) -> Step:
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
        return Step(template, options, self.logs / f"{name}.log", node)

    def script(self, name: str, template: WorkerTemplate, scheduler: str) -> str:
        """Return the script of a full job of one kind, whose first worker has this name."""
        allocations = self.site.allocations
        if self.site.alone(template):
            return self.prepare([self.step(name, template, scheduler)]).text
        count = allocations.per_job(size_of(template))
        (nodes, *_) = allocations.jobs([(template.tag, size_of(template), count)])
        tag, _, number = name.rpartition("-")
        names = iter([f"{tag}-{int(number) + place}" for place in range(count)])
        steps = [self.step(next(names), template, scheduler, node) for node, _ in places(nodes)]
        return self.prepare(steps).text

    def prepare(self, steps: Sequence[Step]) -> BatchJob:
        """Return a job that is ready to be handed in."""
        first, alone = steps[0], self.site.alone(steps[0].template)
        log = first.log if alone else self.logs / f"{first.name}.job.out"
        walltime = self.site.options(first.template).walltime
        job = BatchJob(self.slurm, steps, log, walltime, alone=alone)
        job.name = self.job_name([step.template.tag for step in steps])
        job.text = script.job_script(self.site, steps, job.name, log, first.name)
        beside = python_path() if self.site.folder else {}  # nodes see what this machine sees
        job.env = script.surroundings(job.text, {**os.environ, **beside}, script.environment_of(steps))
        return job

    async def start(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        if self.site.alone(template):
            return (await self.start_job([self.step(name, template, scheduler)])).workers[0]
        if (worker := await self.fill_hole(name, template, scheduler)) is not None:
            return worker
        request = Request(name, template, scheduler, asyncio.get_running_loop().create_future())
        self.requests.append(request)
        if len(self.requests) == 1:
            begun(self.put_together(), self.background)
        return await request.answer

    async def fill_hole(self, name: str, template: WorkerTemplate, scheduler: str) -> JobWorker | None:
        """Start a worker in the place of one that died in a job that goes on; nothing if there is none."""
        async with self.refilling:  # one order to a script at a time
            holes = (job.hole(template.tag) for job in self.jobs if job.lasts)
            dead = next((worker for worker in holes if worker is not None), None)
            if dead is None or (number := dead.batch.id) is None:
                return None
            job, dead.replaced = dead.batch, True
            step = self.step(name, template, scheduler, dead.step.node)
            orders = script.orders_of(job.log)
            try:
                await asyncio.to_thread(give_order, orders, script.start_line(self.site, step, job.steps), step.log)
            except OSError:
                return None
            with suppress(SlurmError):
                deadline = time.monotonic() + (ORDER_WITHIN_S if await self.slurm.signal_script(number) else 0.0)
                while orders.exists() and time.monotonic() < deadline:
                    await asyncio.sleep(SOON_S / 2)
            if withdrawn(orders):
                return None
            worker = JobWorker(job, step)
            worker.begins_by = time.monotonic() + self.site.connect_within + YOUNG_S
            job.workers.append(worker)
            self.pause, self.due = SOON_S, 0.0
            return worker

    async def put_together(self) -> None:
        """Put workers that were asked for within a moment into jobs, those with the same wishes into the same."""
        await asyncio.sleep(TOGETHER_S)
        requests, self.requests = self.requests, []
        for options in dict.fromkeys(self.site.options(request.template) for request in requests):
            alike = [request for request in requests if self.site.options(request.template) == options]
            try:
                allocations = await self.allocations(options)
            except LaunchRefused as refusal:
                refuse(alike, refusal)
                continue
            waiting: dict[str, deque[Request]] = {}
            for request in alike:
                waiting.setdefault(request.template.tag, deque()).append(request)
            wanted = [(tag, size_of(queue[0].template), len(queue)) for tag, queue in waiting.items()]
            for nodes in allocations.jobs(wanted):
                begun(self.answer([(node, waiting[tag].popleft()) for node, tag in places(nodes)]), self.background)

    async def allocations(self, options: BatchOptions) -> Allocations:
        """Return how jobs are filled; Slurm is asked once how large the nodes of a partition are."""
        allocations = self.site.allocations
        if not allocations.fills or allocations.node is not None:
            return allocations
        if options not in self.nodes:
            try:
                node = await self.slurm.node_size(options.partition, options.constraint)
            except SlurmError as error:
                raise LaunchRefused(f"the size of a node is not known: {error}") from None
            self.nodes[options] = replace(allocations, node=node)
        return self.nodes[options]

    async def answer(self, members: Sequence[tuple[int, Request]]) -> None:
        """Hand in a job of several workers and tell those who wait for them."""
        steps = [self.step(request.name, request.template, request.scheduler, node) for node, request in members]
        try:
            job = await self.start_job(steps)
        except LaunchRefused as refusal:
            refuse([request for _, request in members], refusal)
            return
        for worker, (_, request) in zip(job.workers, members, strict=True):
            if not request.answer.done():
                request.answer.set_result(worker)

    async def start_job(self, steps: Sequence[Step]) -> BatchJob:
        """Hand a job in; the first of its kind is watched for a reason that it can never start."""
        kind = tuple(
            (step.template.tag, step.template.cpus, step.template.memory, step.template.gpus) for step in steps
        )
        if (first := self.firsts.get(kind)) is not None:
            await asyncio.shield(first)
            return await self.hand_in(self.prepare(steps))
        first = self.firsts[kind] = asyncio.get_running_loop().create_future()
        try:
            job = await self.hand_in(self.prepare(steps))
            await self.could_start(job)
            first.set_result(None)
            return job
        except BaseException as refusal:
            del self.firsts[kind]
            definite = getattr(refusal, "definite", False)
            first.set_exception(LaunchRefused(str(refusal) or "given up", definite=definite))
            first.exception()  # there may be nobody who waits for it
            raise

    async def hand_in(self, job: BatchJob) -> BatchJob:
        """Give a job to Slurm, or keep it for later where that has enough for now."""
        if self.held or self.full:
            self.hold(job, self.full or self.held[-1].held)
            return job
        try:
            await self.submit(job)
        except SubmitLimitError as limit:
            self.hold(job, over_limit(limit))
        return job

    async def submit(self, job: BatchJob) -> None:
        self.insure(job)
        for file in {job.log, *(worker.log for worker in job.workers)}:
            with suppress(OSError):  # Slurm would make it readable for all, or cannot make it either and says so
                os.close(append_private(file))
        deadline = time.monotonic() + (OUTAGE_S if self.answered else 0.0)
        self.submitting += 1
        try:
            while job.id is None:
                if self.closing.is_set():
                    raise LaunchRefused("the cluster is closed")
                try:
                    job.id = await self.slurm.submit(job.text, job.env)
                except SlurmSilent as silence:
                    job.id, answers = await self.submitted(job)
                    if job.id is None and answers and isinstance(silence, SlurmStalled):
                        raise SubmitLimitError(f"{silence}, but squeue does") from None
                    if job.id is None:
                        if time.monotonic() > deadline:
                            raise LaunchRefused(str(silence)) from None
                        self.trouble = str(silence)
                        await self.rest(SELDOM_S / 3)
        finally:
            self.submitting -= 1
        job.held = ""
        self.jobs.add(job)
        self.answered, self.pause, self.due = True, SOON_S, 0.0

    def insure(self, job: BatchJob) -> None:
        """Have it cleaned up if this process is killed, even while sbatch still runs."""
        self.reaper.on_death(["scancel", "--quiet", f"--name={job.name}", f"--user={os.getuid()}"])
        if self.site.handout:
            self.reaper.on_death(["rm", "-f", *(str(Path(self.site.handout, name)) for name in KEYS)])

    async def submitted(self, job: BatchJob) -> tuple[str | None, bool]:
        """Find a job whose submission got no answer, and that may be there all the same; and whether Slurm answers."""
        try:
            return await self.slurm.find(job.name, job.workers[0].name), True
        except SlurmError:
            return None, False

    async def could_start(self, job: BatchJob) -> None:
        """Take a job back that waiting would not help."""
        if job.id is None:
            return
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
            await asyncio.gather(*(worker.stop() for worker in job.workers))
            raise LaunchRefused(f"Slurm could never start it: {problem}", definite=True)

    # What Slurm has too much of already

    @property
    def full(self) -> str:
        """Return why no more jobs may wait in Slurm's queue; empty if they may."""
        if self.site.backlog is None:
            return ""
        waiting = sum(job.state.state == "PENDING" and not job.over for job in self.jobs) + self.submitting
        most = plural(self.site.backlog, "job")
        return f"handed in when fewer than {most} wait in Slurm (backlog)" if waiting >= self.site.backlog else ""

    def hold(self, job: BatchJob, reason: str) -> None:
        """Keep a job until Slurm takes more."""
        if not self.held:
            logger.warning("%s", f"{plural(len(job.workers), 'worker')} and all that follow are {reason}")
        job.held = reason
        self.held.append(job)

    async def release(self) -> None:
        """Hand in jobs that were kept, as far as Slurm takes them."""
        while self.held and not self.closing.is_set():
            job = self.held[0]
            if not job.unwanted and (self.full or time.monotonic() < self.hand_in_again):
                return
            self.held.popleft()
            if job.unwanted:
                continue
            try:
                await self.submit(job)
            except SubmitLimitError as limit:
                self.held.appendleft(job)
                self.hand_in_again = time.monotonic() + LIMIT_AGAIN_S
                for waiting in self.held:
                    waiting.held = over_limit(limit)
            except LaunchRefused as refusal:
                cause = Loss.CANNOT_START if refusal.definite else Loss.WORKER_LOST
                for worker in job.workers:
                    worker.fate = WorkerFate(cause, str(refusal))
            else:
                if job.unwanted:  # since then
                    await asyncio.gather(*(worker.end(gently=False) for worker in job.workers))

    async def rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.closing.wait(), seconds)

    async def poll(self, launched: list[Launched]) -> float:
        """Ask Slurm, when it is time to, about all jobs at once."""
        if self.held and (self.releasing is None or self.releasing.done()):
            self.releasing = begun(self.release(), self.background)
        living = [worker for worker in launched if isinstance(worker, JobWorker) and worker.fate is None]
        jobs = {worker.batch: worker.batch.id for worker in living if worker.batch.id is not None}
        late = [worker for job in self.jobs for worker in job.workers if worker.unwanted and not worker.ended]
        began = time.monotonic()
        if began < self.due or not (jobs or late):
            return SOON_S
        before = {worker: (worker.batch.state, worker.fate) for worker in living}
        try:
            asked = {*jobs, *(worker.batch for worker in late)}
            states = await self.slurm.states(job.id for job in asked if job.id is not None)
            took = time.monotonic() - began
            await asyncio.gather(*(job.update(states.get(job.id or "")) for job in asked))
            await asyncio.gather(*(worker.stop() for worker in late))
        except SlurmError as error:
            self.trouble = str(error)
            self.due = time.monotonic() + SELDOM_S / 3
            return SOON_S
        self.trouble, self.answered = "", True
        self.jobs -= {job for job in self.jobs if job.over}
        changed = any((worker.batch.state, worker.fate) != was for worker, was in before.items())
        young = any(time.monotonic() - (job.ran_since or 0) < self.site.connect_within + YOUNG_S for job in jobs)
        self.pause = SOON_S if changed else min(self.pause * RARER, OFTEN_S if young else SELDOM_S)
        self.due = time.monotonic() + max(self.pause, took * SHARE)
        return SOON_S

    def holdings(self) -> list[HeldAllocation]:
        """Return what the jobs of this run hold or held, as Slurm said when it was last asked."""
        return list(self.slurm.held.values())

    async def close(self) -> None:
        """Leave nothing in Slurm; if it does not confirm that, the reaper goes on trying."""
        self.closing.set()
        if unfinished := [*self.starting, *self.background]:
            await asyncio.gather(*unfinished, return_exceptions=True)
        workers = [worker for job in self.jobs for worker in job.workers]
        await asyncio.gather(*(worker.stop() for worker in workers if not worker.unwanted))
        left = [str(job.id) for job in self.jobs if not job.over]
        if left:
            logger.error("jobs %s could not be cancelled; a process that stays behind goes on trying", " ".join(left))
            self.reaper.leave()
        else:
            self.reaper.done()


def size_of(template: WorkerTemplate) -> Size:
    """Return what a worker takes of a node, as Slurm counts it."""
    return Size(Cpu.of(template.cpus), Memory(script.megabytes(template) * 2**20), template.gpus)


def places(nodes: Sequence[BatchNode]) -> list[tuple[int, str]]:
    """Return the node, by its place in the job, and the tag of every worker in a job."""
    return [(place, tag) for place, held in enumerate(nodes) for tag, count in held.items() for _ in range(count)]


def give_order(orders: Path, line: str, log: Path) -> None:
    """Write down what a job's script shall start; only its owner may write there."""
    os.close(append_private(log))
    fresh = orders.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(append_private(fresh), "w", encoding="utf-8") as file:
        file.write(f"{line}\n")
    fresh.rename(orders)


def withdrawn(orders: Path) -> bool:
    """Take an order back; tell whether the job's script had not taken it before."""
    try:
        orders.unlink()
    except FileNotFoundError:
        return False
    return True


def refuse(requests: Sequence[Request], refusal: LaunchRefused) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(LaunchRefused(str(refusal), definite=refusal.definite))


def over_limit(limit: SubmitLimitError) -> str:
    return f"handed in when Slurm takes more jobs of yours ({limit})"
