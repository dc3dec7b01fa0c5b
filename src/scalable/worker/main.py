"""One Dask worker of one kind in a process of its own: what local processes, batch jobs and pods all start.

It ends with its scheduler, ends with a plain sentence when it cannot reach it, and on notice (SIGTERM, as batch systems
and clouds send before they kill) takes no more work, lets running tasks finish for a while and hands the rest over.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import dask
from distributed import Worker
from distributed.core import Status
from distributed.security import Security

from scalable import proc
from scalable.errors import ScalableError
from scalable.findings import Finding
from scalable.worker import crashes, printing
from scalable.worker.allocation import time_for_work
from scalable.worker.meter import TOPIC, UNREADABLE, Meter
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START, LOST_SCHEDULER, WorkerOptions
from scalable.worker.project import ProjectCode, ProjectError
from scalable.worker.rights import AT_A_WORKER, NotAClientError, Refusals, beware_of_workers, is_a_workers, limit
from scalable.worker.runner.environment import current_folder, off_the_path
from scalable.worker.runner.process import WORKER_MARK, Settings
from scalable.worker.runners import Runners

PR_SET_PDEATHSIG = 1  # see prctl(2)
POLL_S = 0.05  # between looks at whether running tasks have finished
LOOK_EVERY_S = 0.5  # at whether the worker has begun to close
HAND_OVER_WITHIN_S = 8.0  # batch systems are asked for their notice 10 s before the grace must end
CLOSE_WITHIN_S = 2.0  # for what closing takes; tasks that run longer are not waited for
LEAVING = Status.closing_gracefully.name
CONNECTION_LOST = ("worker-handle-scheduler-connection-broken", "worker-heartbeat-missing")  # Dask's words

SETTINGS = {
    # limits are kept as ``runner.memory`` says
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.comm.retry.count": 0,
    # what a worker measures all the time for Dask's own dashboard takes a twentieth of a core; runs are measured by us
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    # others may use the same machine, and nobody needs to read of our tasks in a browser; figures name no task
    "distributed.worker.http.routes": ["distributed.http.health", "scalable.worker.measures"],
}
TRY_S = 3.0  # a machine that lets connections through answers within milliseconds


def main() -> int:
    faulthandler.enable()  # into the log, where ``crashes`` reads what it was that crashed
    options = WorkerOptions.parse()
    if options.parent is not None:
        end_with(options.parent)
    sys.path.insert(0, options.folder or current_folder())  # not before what this program itself imports
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=options.scratch) as scratch:
            differences = prepare(options.handout, Path(scratch))
            with dask.config.set(SETTINGS):
                return asyncio.run(serve(options, scratch, differences))
    except ScalableError as error:
        return end(CANNOT_START, str(error))
    except KeyboardInterrupt:
        return 130


def prepare(handout: str | None, scratch: Path) -> list[str]:
    """Compare or unpack the driver's code; harmless differences are named."""
    if handout is not None and not Path(handout).is_dir():
        raise ProjectError(
            f"the run's folder {handout} is not there on this node; start the run in a folder nodes share"
        )
    project = ProjectCode.handed_out(Path(handout)) if handout else None
    return project.prepare(Path(str(handout)), scratch) if project else []


def threads_of(text: str) -> int:
    """Read the number of threads that OpenMP is given: 4, or 4,2 for loops within loops."""
    first = text.partition(",")[0].strip()
    return int(first) if first.isascii() and first.isdecimal() and int(first) else 1


async def serve(options: WorkerOptions, scratch: str, differences: list[str]) -> int:
    cpus = threads_of(os.environ.get("OMP_NUM_THREADS", ""))
    mark = os.environ.get(WORKER_MARK) or token_hex(8)
    runners = Runners(Settings(cpus=cpus, memory=options.memory, mark=mark, log=printing.own_log()))
    try:
        worker = TellingWorker(
            options.scheduler,
            name=options.name,
            nthreads=options.threads,
            executor=crashes.TaskThreadPoolExecutor(options.threads, thread_name_prefix=f"{options.name}-tasks"),
            resources=options.resources,
            memory_limit=options.memory or 0,
            local_directory=scratch,
            interface=options.interface,
            host=options.host,
            preload=[options.preload] if options.preload else [],
            security=security(options.handout),
            plugins=(Meter(Path(options.note) if options.note else None), runners),
            dashboard=False,
            dashboard_address="127.0.0.1:0",
        )
    except Exception as error:  # noqa: BLE001 - a preload script may raise anything
        return end(CANNOT_START, f"cannot start: {first_cause(error)}")
    if options.handout and (certificate := Path(options.handout, "cert.pem")).exists():
        worker.is_client = not is_a_workers(certificate)
        beware_of_workers(worker.scheduler.address)
    off_the_path(worker.local_directory)
    notice = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, notice.set)
    noticed = asyncio.ensure_future(notice.wait())
    try:
        if not await connects(worker, options.connect_within, unless=noticed):
            return end(0, "had notice before it was connected")
    except (TimeoutError, OSError):
        reason = await asyncio.to_thread(why_unreachable, options.scheduler, options.connect_within)
        return end(CANNOT_CONNECT, f"cannot reach the scheduler at {options.scheduler}: {reason}")
    except Exception as error:  # noqa: BLE001 - the same, where it has a function to call
        return end(CANNOT_START, f"cannot start: {first_cause(error)}")
    say(f"connected to {options.scheduler} as {options.name}")
    if differences:
        text = f"{options.name} has other versions than the driver: {'; '.join(differences)}"
        remedy = "install the same versions if results must be the same"
        worker.tell(Finding.warning("packages-differ", options.name, text, remedy))
    finished = asyncio.ensure_future(worker.finished())
    while not (finished.done() or noticed.done() or closes(worker)):
        await asyncio.wait({finished, noticed}, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
    if not closes(worker):
        await leave(worker, runners, options.grace)
    noticed.cancel()
    await asyncio.wait({finished}, timeout=CLOSE_WITHIN_S)
    say("closed")
    status = 0
    if worker.unreadable is not None:
        problem = first_cause(worker.unreadable)
        status = end(CANNOT_READ, f"cannot read what the driver sent: {problem}; is that code in the project's folder?")
    elif worker.reason in CONNECTION_LOST:
        status = end(LOST_SCHEDULER, f"lost its connection to the scheduler at {options.scheduler}")
    end_children()
    if not finished.done():  # a task goes on although nobody wants its result
        shutil.rmtree(scratch, ignore_errors=True)
        printing.finish()
        os._exit(status)
    return status


async def connects(worker: Any, within: float, *, unless: asyncio.Future[Any]) -> bool:
    """Return whether it is connected before that; raise if it cannot be."""
    connecting = asyncio.ensure_future(asyncio.wait_for(worker, within))
    await asyncio.wait({connecting, unless}, return_when=asyncio.FIRST_COMPLETED)
    if not connecting.done():
        connecting.cancel()
        await asyncio.wait({connecting})
    if connecting.cancelled():
        return False
    connecting.result()
    return True


class TellingWorker(Worker):
    """Remembers why it closes. Dask reads tasks as they arrive, and closes a worker with one it cannot read."""

    unreadable: Exception | None = None
    reason = ""
    is_client = True
    """Its certificate lets it do what the driver may."""

    async def listen(self, *args: Any, **options: Any) -> None:
        await super().listen(*args, **options)
        limit(self.listeners[-1], AT_A_WORKER, Refusals(self.tell))

    def tell(self, finding: Finding) -> None:
        self.log_event(TOPIC, {"kind": "finding", **finding.to_record("finding")})

    def _get_client(self, timeout: float | None = None) -> Any:
        if not self.is_client:
            raise NotAClientError
        return super()._get_client(timeout)

    async def execute(self, key: Any, *, stimulus_id: str) -> Any:
        crashes.current.set(str(key))
        return await super().execute(key, stimulus_id=stimulus_id)

    async def upload_file(self, filename: str, data: Any, load: bool = True) -> dict[str, Any]:
        """Let runners find what a client uploads, too: behind everything else, so that it takes nothing's place."""
        off_the_path(self.local_directory)  # Dask puts it first while it loads the file
        answer = await super().upload_file(filename, data, load)
        sys.path.append(self.local_directory)
        return answer

    async def handle_scheduler(self, comm: Any) -> None:
        read = comm.read

        async def read_or_tell(*args: Any, **kw: Any) -> Any:
            try:
                return await read(*args, **kw)
            except OSError:  # the connection broke
                raise
            except Exception as error:
                self.unreadable = error
                self.log_event(TOPIC, {"kind": UNREADABLE, "reason": first_cause(error)})
                await asyncio.sleep(POLL_S)  # else the connection is closed before that is sent
                raise

        comm.read = read_or_tell
        await super().handle_scheduler(comm)

    async def close(  # type: ignore[override]
        self, timeout: float = 30, executor_wait: bool = True, nanny: bool = True, reason: str = "worker-close"
    ) -> str | None:
        self.reason = self.reason or reason
        return await super().close(timeout, executor_wait, nanny, reason)


def closes(worker: Any) -> bool:
    """Return whether the worker closes: it was told to, or the scheduler is gone."""
    return worker.status in (Status.closing, Status.closed)


async def leave(worker: Any, runners: Runners, grace: float) -> None:
    """Take no more work, let running tasks finish, hand over what is left, go."""
    worker.log_event(TOPIC, {"kind": "worker-leaving", "reason": "had notice (SIGTERM)"})
    worker.status = Status.closing_gracefully
    grace = await time_for_work(grace)
    say(f"had notice: running tasks may finish for {grace:g} s")
    deadline = asyncio.get_running_loop().time() + grace
    runs = asyncio.ensure_future(runners.supervisor.leave(grace))
    while worker.state.executing_count and not closes(worker) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(POLL_S)
    if closes(worker):
        return
    await runs
    handing = asyncio.wait_for(hand_over(worker), HAND_OVER_WITHIN_S)
    [problem] = await asyncio.gather(handing, return_exceptions=True)
    if closes(worker):  # the scheduler told it to meanwhile, and whatever was asked just then has failed
        return
    if problem is not None:  # the scheduler is gone, or has other troubles; it goes all the same
        say(f"could not hand its results over: {first_cause(problem)}")
    await worker.close(executor_wait=False, reason="had notice")


async def hand_over(worker: Any) -> None:
    """Give results to others. All may have had notice at once; then those that come in their place are awaited."""
    while not closes(worker):
        others = (await worker.scheduler.identity())["workers"]
        known = others.get(worker.address, {}).get("status", LEAVING) == LEAVING  # else it may not be taken out yet
        if known and (not worker.data or any(other["status"] == Status.running.name for other in others.values())):
            retired = await worker.scheduler.retire_workers(workers=[worker.address], close_workers=False, remove=True)
            if worker.address in retired:
                return
        await asyncio.sleep(LOOK_EVERY_S)


def security(folder: str | None) -> Security:
    if folder is None or not (Path(folder) / "ca.pem").exists():
        return Security()
    ca, cert, key = (str(Path(folder) / f"{name}.pem") for name in ("ca", "cert", "key"))
    return Security(
        tls_ca_file=ca, tls_worker_cert=cert, tls_worker_key=key, tls_client_cert=cert, tls_client_key=key,
        tls_scheduler_cert=cert, tls_scheduler_key=key, require_encryption=True,
    )  # fmt: skip


def end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies, even if it never looks up from its work."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before that line
        os._exit(1)


def end_children() -> None:
    """Kill the processes that tasks have started, so that none outlives the worker."""
    writer = printing.own_writer()  # its parent is the first process, which a worker in a container is itself
    for child in proc.tree(os.getpid())[1:]:
        if child == writer:
            continue
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)


def first_cause(error: BaseException) -> str:
    """Return the error itself, without those that only say that it happened."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def end(status: int, text: str) -> int:
    say(text)
    return status


def say(text: str) -> None:
    print(f"scalable worker: {text}", file=sys.stderr, flush=True)


def why_unreachable(address: str, within: float) -> str:
    """Return what is wrong with an address such as ``tls://10.0.0.1:8786`` that did not answer in time."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), TRY_S).close()
    except socket.gaierror:
        return f"the name {host} is not known on {socket.gethostname()}"
    except ConnectionRefusedError:
        return "connection refused: nothing listens there, or the scheduler has ended"
    except TimeoutError:
        return f"no answer within {within:g} s: a firewall between {socket.gethostname()} and it, or another network"
    except OSError as error:
        return str(error.strerror or error).lower()
    return f"the port is open, but no scheduler of this run answered within {within:g} s"
