"""Drivers that outlive the shell they were started from, and hand over to a successor.

On a Slurm target the driver becomes a small batch job of its own (``targets.X.driver``); elsewhere a unit of the user's
systemd, where that outlives a logout, else a process in a session of its own.

A batch job ends with its walltime. Slurm sends SIGUSR1 ``grace`` before that. The driver then hands in its successor,
which Slurm starts when this job is gone, starts nothing more, lets what runs finish while there is time, and closes.
Finished rows are kept; what had not finished is computed again by the successor, and costs no retry.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable.cluster.slurm.commands import complaint
from scalable.cluster.slurm.script import surroundings, unwritable
from scalable.engine.events import Paused
from scalable.errors import ScalableError, UsageError
from scalable.manifest.targets import SlurmTarget
from scalable.observe.drivers import PROCESS, SLURM, SYSTEMD, DriverFolder
from scalable.observe.folders import safe_name
from scalable.worker.runner.environment import python_path

if TYPE_CHECKING:
    from scalable.session.session import ScalableSession

VARIABLE = "SCALABLE_DRIVER"
"""Names the folder of a detached driver, for its own process only."""
ANSWER_WITHIN_S = 30.0
LOOK_S = 0.2
CLOSE_S = 45.0  # of the grace; closing workers, cancelling jobs and writing the report takes less
HAND_OVER = signal.SIGUSR1
ENDING_WALLTIME = "walltime"  # on whose behalf nothing more is started
KEPT = {"provider", "queue", "account", "driver"}  # of the target, for the successor
ONCE = frozenset({"--pilot", "--detach"})  # what a successor does not do again


class HandedOver(KeyboardInterrupt):
    """The walltime of this driver ends; its successor goes on."""


def command_of(arguments: Sequence[str]) -> list[str]:
    """Return the command of the driver, from that of the shell it is detached from."""
    return [sys.executable, "-P", "-m", "scalable", *(word for word in arguments if word not in ONCE)]


def detach(arguments: Sequence[str], target: object, project: str, base: Path | str | None = None) -> DriverFolder:
    """Start the driver so that it outlives this shell; raises ``ScalableError`` if that cannot be."""
    folder = DriverFolder.create(base)
    folder.write(command=command_of(arguments), cwd=str(Path.cwd()), project=project)
    try:
        if isinstance(target, SlurmTarget):
            hand_in(folder, target)
        elif outlives_logout():
            start_unit(folder)
        else:
            start_process(folder)
    except BaseException:
        folder.ended()
        raise
    return folder


# A batch job


def hand_in(folder: DriverFolder, target: SlurmTarget, after: str = "") -> None:
    """Hand the driver in as a batch job; ``after`` is the job that must be gone before it starts."""
    facts = folder.facts()
    text = driver_script(folder, target, facts["command"], facts["cwd"], facts["project"], after)
    if shutil.which("sbatch") is None:
        raise UsageError("sbatch is not installed on this machine; run this on a login node of the cluster")
    env = surroundings(text, {**os.environ, **python_path()}, {VARIABLE: str(folder.path)})
    try:
        done = subprocess.run(
            ["sbatch", "--parsable"], input=text, env=env, text=True, capture_output=True, timeout=ANSWER_WITHIN_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        text = f"sbatch did not answer within {ANSWER_WITHIN_S:g} s; squeue shows whether it took the driver"
        raise ScalableError(text) from None
    if done.returncode != 0:
        raise ScalableError(f"sbatch refused the driver: {complaint(done.stderr)}")
    kept = target.model_dump(mode="json", include=KEPT, exclude_none=True)
    folder.write(kind=SLURM, job=done.stdout.strip().split(";")[0], target=kept)


def driver_script(
    folder: DriverFolder, target: SlurmTarget, command: Sequence[str], cwd: str, project: str, after: str = ""
) -> str:
    """Write the batch script of a driver."""
    job = target.driver
    directives = {
        "job-name": f"scalable-driver-{safe_name(project, 'project')}",
        "comment": folder.id,
        "partition": job.partition or target.queue,
        "account": target.account,
        "time": job.walltime,
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(job.cpus),
        "mem": f"{-(-job.memory.bytes // 2**20)}M",
        "output": str(folder.log).replace("%", "%%"),
        "open-mode": "append",
        "chdir": cwd,
        "signal": f"B:{HAND_OVER.name.removeprefix('SIG')}@{round(job.grace.seconds)}",
        "export": "ALL",
        "dependency": f"afterany:{after}" if after else None,
    }
    for name, value in directives.items():
        if value is not None and (problem := unwritable(value)):
            raise UsageError(f"{name}: {problem}")
    lines = ["#!/usr/bin/env bash"]
    lines += [f"#SBATCH --{name}={shlex.quote(value)}" for name, value in directives.items() if value is not None]
    lines.append("#SBATCH --requeue")  # after the loss of its node it begins again, from the rows that are there
    lines += [f"#SBATCH {option}" for option in job.sbatch or ()]
    lines.append("exec " + shlex.join(command))
    return "\n".join(lines) + "\n"


# A unit, or a process of its own


def outlives_logout() -> bool:
    """Tell whether the user's systemd is there and goes on after a logout."""
    if shutil.which("systemd-run") is None or shutil.which("loginctl") is None:
        return False
    lingers = answer(["loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value"])
    return lingers == "yes" and answer(["systemctl", "--user", "is-system-running"]) in ("running", "degraded")


def answer(command: list[str]) -> str:
    try:
        done = subprocess.run(command, text=True, capture_output=True, timeout=3.0, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def start_unit(folder: DriverFolder) -> None:
    unit = f"scalable-{folder.id}"
    env = {**os.environ, **python_path(), VARIABLE: str(folder.path)}
    try:
        done = subprocess.run(
            unit_command(folder, unit, env), env=env, text=True, capture_output=True, timeout=ANSWER_WITHIN_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ScalableError(f"systemd-run could not start the driver: {error}") from None
    if done.returncode != 0:
        raise ScalableError(f"systemd-run refused the driver: {done.stderr.strip() or 'no reason given'}")
    folder.write(kind=SYSTEMD, unit=unit)


def unit_command(folder: DriverFolder, unit: str, env: Mapping[str, str]) -> list[str]:
    """Return what starts the driver as a unit; variables are named, so that their values are in no command line."""
    facts = folder.facts()
    variables = [f"--setenv={name}" for name in env]
    output = [f"--property=Standard{stream}=append:{folder.log}" for stream in ("Output", "Error")]
    place = [f"--unit={unit}", f"--working-directory={facts['cwd']}"]
    return ["systemd-run", "--user", "--collect", "--quiet", *place, *output, *variables, "--", *facts["command"]]


def start_process(folder: DriverFolder) -> None:
    """Start the driver in a session of its own, which no terminal ends."""
    facts = folder.facts()
    with folder.log.open("ab") as log:
        process = subprocess.Popen(
            facts["command"], cwd=facts["cwd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, **python_path(), VARIABLE: str(folder.path)}, start_new_session=True,
        )  # fmt: skip
    folder.write(kind=PROCESS)
    folder.began(process.pid)
    process.returncode = 0  # it is meant to outlive this process, which is no reason for a warning


# In the driver itself


def own_folder() -> DriverFolder | None:
    """Return the folder of this process, if it is a detached driver; nothing that it starts is taken for one."""
    path = os.environ.pop(VARIABLE, "")
    if not path or not Path(path).is_dir():
        return None
    folder = DriverFolder(Path(path))
    folder.began()
    return folder


@contextmanager
def driving(folder: DriverFolder | None, session: ScalableSession, tell: Callable[[str], None]) -> Iterator[None]:
    """Be a detached driver: hand over when the walltime ends, and note the end."""
    if folder is None:
        yield
        return
    session.detached = folder
    change = HandOver(folder, session, tell)
    before = signal.signal(HAND_OVER, change.heard)
    failed = ""
    try:
        yield
    except HandedOver:
        raise
    except BaseException as error:
        failed = str(error) or type(error).__name__
        raise
    finally:
        signal.signal(HAND_OVER, before)
        change.close()
        folder.ended(failed)


class HandOver:
    """Waits in a thread of its own for Slurm's signal: a signal\'s handler must not do more than set a flag."""

    def __init__(self, folder: DriverFolder, session: ScalableSession, tell: Callable[[str], None]) -> None:
        self.folder = folder
        self.session = session
        self.tell = tell
        self.asked = threading.Event()
        self.closed = self.ready = False
        self.successor = ""
        threading.Thread(target=self.wait, name="hand-over", daemon=True).start()

    def heard(self, signum: int, frame: object) -> None:
        """Begin with the first signal; end the run with the second, which the thread sends."""
        if self.ready:
            raise HandedOver(f"its walltime ends; {self.successor or 'no successor'} goes on")
        self.asked.set()

    def close(self) -> None:
        self.closed = True
        self.asked.set()

    def wait(self) -> None:
        self.asked.wait()
        if self.closed:
            return
        facts = self.folder.facts()
        target = SlurmTarget.model_validate(facts["target"]) if facts.get("kind") == SLURM else None
        until = time.monotonic() + max(0.0, (target.driver.grace.seconds if target else 0.0) - CLOSE_S)
        if target is not None:
            self.succeed(target)
        self.drain(until)
        self.ready = True
        if not self.closed:
            os.kill(os.getpid(), HAND_OVER)

    def succeed(self, target: SlurmTarget) -> None:
        """Hand in the successor, which begins when this job is gone."""
        facts = self.folder.facts()
        following = DriverFolder.create_in(self.folder.path.parent)
        command = [word for word in facts["command"] if word not in ONCE]
        following.write(command=command, cwd=facts["cwd"], project=facts["project"], before=self.folder.id)
        try:
            hand_in(following, target, after=str(facts["job"]))
        except (ScalableError, OSError) as error:
            following.ended()
            self.tell(f"no successor: {error}; scalable run --detach  goes on from the rows that are there")
            return
        self.successor = following.id
        self.folder.write(successor=following.id)
        self.tell(f"the walltime of this driver ends: job {following.job} ({following.id}) goes on")

    def drain(self, until: float) -> None:
        """Start nothing more, and wait for what runs."""
        driver = self.session.driver
        if driver is None or driver.cluster.loop is None:
            return
        reason = "the walltime of the driver ends"
        driver.cluster.loop.add_callback(driver.halt, ENDING_WALLTIME, Paused(reason))
        time.sleep(LOOK_S)  # what was just given out is among what runs
        while time.monotonic() < until and not self.closed and self.busy(driver):
            time.sleep(LOOK_S)

    @staticmethod
    def busy(driver: Any) -> bool:
        with suppress(RuntimeError):  # the loop changes them while they are looked at
            return bool(driver.attempts.serving() or driver.control.tasks())
        return True
