"""This machine: workers as processes with limits of their own, or as threads of this process."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import Worker

from scalable import proc
from scalable.cluster.base import (
    ClusterHandle,
    DeploymentSpec,
    Launched,
    Launcher,
    LaunchRefused,
    WorkerFate,
    WorkerTemplate,
)
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.provider import TaggedProvider
from scalable.cluster.security import Scratch, certified
from scalable.engine.events import Loss
from scalable.findings import Finding
from scalable.manifest.targets import LocalTarget
from scalable.manifest.validation import ValidationReport
from scalable.observe.files import append_private
from scalable.observe.folders import RunFolder
from scalable.observe.logs import LAST_LINES, last_lines, without_time
from scalable.planning.resources import CostEstimate, ScalePlan
from scalable.quantities import Memory
from scalable.wording import plural
from scalable.worker.crashes import CRASHES, crash_in, signal_called
from scalable.worker.main import first_cause
from scalable.worker.meter import noted_tasks
from scalable.worker.options import CANNOT_CONNECT, CANNOT_START
from scalable.worker.reaper import Reaper
from scalable.worker.runner.environment import off_the_path, python_path
from scalable.worker.runner.memory import memory_limits
from scalable.worker.runner.process import WORKER_MARK
from scalable.worker.runners import Runners


class LocalProvider(TaggedProvider):
    """Workers of this machine."""

    name = "local"
    waits = True

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        target = spec.target_as(LocalTarget)
        path = f"targets.{spec.target_name}"
        findings = []
        if target.containers != "none":
            text = f"{path}: workers of this machine do not run in containers"
            findings.append(Finding.error("unsupported", f"{path}.containers", text, "write containers: none"))
        parts = spec.components.values()
        if not target.processes and any(part.memory or part.env for part in parts):
            text = "with processes: false all workers share one process, so memory limits and env have no effect"
            findings.append(Finding.warning("shared-process", f"{path}.processes", text, "write processes: true"))
        if any(part.image for part in parts):
            text = "images have no effect on this machine; workers use the Python that runs this"
            findings.append(Finding.warning("image-ignored", path, text))
        present = gpus_present()
        for tag, wanted in [(tag, part.gpus) for tag, part in spec.components.items() if part.gpus]:
            gpus = f"components.{tag}.gpus"
            if present is not None and wanted > present:
                text = f"{tag} needs {plural(wanted, 'GPU')}, this machine has {present or 'none'}"
                remedy = f"write gpus: {present}, or use a target that has them"
                findings.append(Finding.error("too-few-gpus" if present else "no-gpus", gpus, text, remedy))
                continue
            text = "GPUs of this machine are not shared out: every worker sees all of them"
            remedy = f"write env: {{CUDA_VISIBLE_DEVICES: 0}} in {tag}, or use a slurm or kubernetes target"
            findings.append(Finding.warning("gpus-ignored", gpus, text, remedy))
        there = Memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        for tag, part in spec.components.items():
            if target.processes and part.memory and part.memory > there:
                text = f"{tag} may use {part.memory}, this machine has {there}"
                findings.append(
                    Finding.warning("over-machine", f"components.{tag}.memory", text, "lower it, or use a target")
                )
        return ValidationReport.of(findings)

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        target = spec.target_as(LocalTarget)
        scheduler: dict[str, object] = {"host": "127.0.0.1", "protocol": "tls"}  # others may be on this machine
        launcher: Launcher
        security = None
        if target.processes:
            launcher = ProcessLauncher(spec.run_folder, folder=spec.folder)
            security = certified(launcher.handout, worker_clients=spec.policies.worker_clients == "allowed")
        else:
            launcher = ThreadLauncher(spec.folder)
            scheduler = {"protocol": "inproc"}
        if target.dashboard_address:
            scheduler |= {"dashboard_address": target.dashboard_address, "dashboard": True}
        cluster = TaggedCluster(
            launcher,
            spec.components.values(),
            security=security,
            scheduler=scheduler,
            allowed_failures=spec.policies.retry.times,
            name=spec.project,
        )
        return self.handle(cluster, processes=target.processes)

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        return self.cost_by_cpu(spec.target_as(LocalTarget).cpu_price, spec, plan)


DEVICES = Path("/dev")
UNCOUNTED = ("kfd", "dxg")  # devices of AMD's driver and of WSL, which stand for any number of GPUs


def gpus_present() -> int | None:
    """Return how many GPUs this machine has; nothing where its drivers do not show that."""
    if any((DEVICES / name).exists() for name in UNCOUNTED):
        return None
    return len([device for device in DEVICES.glob("nvidia*") if device.name.removeprefix("nvidia").isdecimal()])


LOOK_EVERY_S = 0.1  # at the memory of workers that are near their limit: fast enough to act before the machine suffers
SELDOM_S = 0.5  # at those far from it
GROWTH = 4 * 2**30  # bytes a second at most that a process can take
CRASH_TOLD_WITHIN_S = 1.0  # until what a worker printed as it crashed is in its log
CLOSE_WITHIN_S = 3.0  # a worker that was asked to close and has not by then is killed


class ProcessLauncher:
    """Starts workers as processes, each with its own environment, memory limit and log."""

    remote = False  # although connections are encrypted

    def __init__(self, run_folder: str | None = None, folder: str | None = None) -> None:
        """Put logs into the folder of the run; without one they are gone when the cluster is closed."""
        self.own = Scratch()
        self.scratch = self.own.path
        self.handout = self.scratch / "handout"
        self.run = RunFolder(Path(run_folder or self.scratch))
        self.folder = folder
        self.launched = 0
        self.reaper = Reaper()
        self.run.logs.mkdir(parents=True, exist_ok=True)

    def check(self, template: WorkerTemplate) -> str:
        return ""

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        log, note = self.run.log(name), self.scratch / f"note-{self.launched}"
        mark = secrets.token_hex(8)
        self.launched += 1
        options = replace(
            template.options(name, scheduler),
            host="127.0.0.1",
            handout=str(self.handout) if self.handout.is_dir() else None,  # nothing is, without certificates
            folder=self.folder,
            scratch=str(self.scratch),
            note=str(note),
            parent=os.getpid(),
        )
        try:
            self.reaper.on_death(["rm", "-rf", str(self.scratch)])  # a driver that is killed cannot
            with os.fdopen(append_private(log), "ab") as output:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "scalable.worker", *options.arguments()],
                    env={**os.environ, **python_path(), **template.environment, WORKER_MARK: mark},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise LaunchRefused(f"{name} could not be started: {error}") from None
        return WorkerProcess(process, template.memory, log, note, mark)

    async def poll(self, launched: list[Launched]) -> float:
        pause = SELDOM_S
        for worker in launched:
            assert isinstance(worker, WorkerProcess)
            pause = min(pause, worker.look() / GROWTH)
        return max(pause, LOOK_EVERY_S)

    async def close(self) -> None:
        self.own.remove()
        self.reaper.done()


class WorkerProcess:
    waits = ""

    def __init__(
        self, process: subprocess.Popen[bytes], limit: Memory | None, log: Path, note: Path, mark: str
    ) -> None:
        self.process = process
        self.mark = mark
        """All that it starts has it in its environment."""
        self.limit = limit
        self.log = log
        self.note = note
        self.job: str | None = f"process {process.pid}"
        self.over_limit: Memory | None = None

    def look(self) -> float:
        """Kill it when it uses more memory than ``memory_limits`` allows; returns what is left of its limit."""
        if self.limit is None or self.process.poll() is not None:
            return math.inf
        pid = self.process.pid
        left = self.limit.bytes - proc.tree_resident(pid)
        if left >= 0:
            return left
        tree = [process for process in map(proc.look, proc.tree(pid)) if process is not None]
        own = sum(proc.resident(process.pid) for process in tree if process.session == pid)
        used = own + sum(proc.resident(process.pid) for process in tree if process.session != pid)
        limits = memory_limits(self.limit.bytes)
        if own > limits.worker or used > limits.together:
            self.over_limit = Memory(used)
            proc.end_tree(pid, (WORKER_MARK, self.mark))
        return 0.0

    def running(self) -> set[str] | None:
        return noted_tasks(self.note)

    @property
    def fate(self) -> WorkerFate | None:
        status = self.process.poll()
        return None if status is None else self.fate_by(status)

    def fate_by(self, status: int) -> WorkerFate:
        if self.over_limit is not None:
            detail = f"used {self.over_limit} of the {self.limit} it may use; killed"
            return WorkerFate(Loss.OUT_OF_MEMORY, detail, self.over_limit)
        if status == 0:
            return WorkerFate(Loss.PREEMPTED, "left after notice (SIGTERM)")
        if status == CANNOT_START:
            return WorkerFate(Loss.CANNOT_START, last_words(self.log))
        if status == CANNOT_CONNECT:
            return WorkerFate(Loss.WORKER_LOST, last_words(self.log))
        if status == -signal.SIGKILL:
            hint = "killed by SIGKILL, not by us: by a person, or by the kernel when memory ran out (dmesg tells)"
            return WorkerFate(Loss.WORKER_LOST, hint)
        if -status in CRASHES:
            detail = f"crashed with {signal_called(-status)}{crash_in(self.log) or ''}; its log: {self.log}"
            return WorkerFate(Loss.WORKER_CRASHED, detail)
        if status < 0:
            return WorkerFate(Loss.WORKER_LOST, f"ended by {signal_called(-status)}; its log: {self.log}")
        return WorkerFate(Loss.WORKER_LOST, f"ended with status {status}: {last_words(self.log)}")

    async def learn_fate(self, within: float) -> WorkerFate:
        fate = await self.ended(within)
        deadline = time.monotonic() + CRASH_TOLD_WITHIN_S
        while fate is not None and fate.cause is Loss.WORKER_CRASHED and time.monotonic() < deadline:
            if crash_in(self.log) is not None:
                return self.fate or fate
            await asyncio.sleep(LOOK_EVERY_S)
        return fate or WorkerFate(Loss.WORKER_LOST, "its connection broke; the process was alive")

    async def stop(self, *, gently: bool = True) -> None:
        if gently:
            await self.ended(CLOSE_WITHIN_S)
        await asyncio.to_thread(proc.end_tree, self.process.pid, (WORKER_MARK, self.mark))
        while self.process.poll() is None:
            await asyncio.sleep(0.005)

    async def ended(self, within: float) -> WorkerFate | None:
        deadline = time.monotonic() + within
        while self.process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        return self.fate


def last_words(log: Path) -> str:
    """Return the end of a worker's log, where its reason stands."""
    lines = [without_time(line) for line in last_lines(log, LAST_LINES)]
    ours = [line.removeprefix("scalable worker: ") for line in lines if line.startswith("scalable worker: ")]
    return (ours[-1:] or ["; ".join(lines[-3:])])[0] or f"nothing is in {log}"


THREADS_EVERY_S = 0.5  # nothing can happen to a thread that the scheduler would not notice by itself


class ThreadLauncher:
    """Starts workers as threads of this process: no start-up time, no copies of data, and no separation either."""

    def __init__(self, folder: str | None = None) -> None:
        """Make code in ``folder`` importable, as it is where workers are processes."""
        self.scratch = Scratch()
        self.path = [folder] if folder is not None and folder not in sys.path else []
        sys.path[:0] = self.path

    def check(self, template: WorkerTemplate) -> str:
        return ""

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        try:
            worker = await Worker(
                scheduler,
                name=name,
                nthreads=template.slots,
                resources=template.resources,
                memory_limit=0,
                local_directory=str(self.scratch.path),
                plugins=(Runners(),),
                preload=[template.preload_script] if template.preload_script else [],
                dashboard=False,
                dashboard_address="127.0.0.1:0",
            )
        except (Exception, SystemExit) as error:  # a preload script may raise anything
            raise LaunchRefused(f"{name} cannot start: {first_cause(error)}", definite=True) from error
        off_the_path(worker.local_directory)
        return WorkerThreads(worker)

    async def poll(self, launched: list[Launched]) -> float:
        return THREADS_EVERY_S

    async def close(self) -> None:
        self.scratch.remove()
        for folder in self.path:
            with suppress(ValueError):  # someone else took it out
                sys.path.remove(folder)


class WorkerThreads:
    waits = ""
    job: str | None = None

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.ending: asyncio.Task[Any] | None = None

    @property
    def fate(self) -> WorkerFate | None:
        return WorkerFate(Loss.WORKER_LOST, "its worker was closed") if self.worker.status.name == "closed" else None

    async def learn_fate(self, within: float) -> WorkerFate:
        return self.fate or WorkerFate(Loss.WORKER_LOST, "the scheduler lost sight of it")

    async def stop(self, *, gently: bool = True) -> None:
        if self.ending is None:  # a close that is interrupted half-way never ends
            self.ending = asyncio.ensure_future(self.worker.close(executor_wait=False))
        await asyncio.shield(self.ending)
