"""Talking to a private Slurm through its own commands: submit, look, wait, cancel."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.tools.errors import ToolError
from tests.tools.slurm.settings import Paths
from tests.tools.system import search_path

POLL_S = 0.1
ANSWER_S = 30.0  # a command that takes longer hangs
WAIT_S = 60.0
OWN_VARIABLES = ("SLURM", "SBATCH", "SRUN", "SQUEUE", "SINFO")  # settings of another Slurm, which must not leak in
LIVING = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "REQUEUED", "RESIZING"}
JOB = re.compile(
    r"^JobId=(?P<id>\d+) .*?JobName=(?P<name>.*?) UserId=.* JobState=(?P<state>\S+) Reason=(?P<reason>\S+) "
    r".*?ExitCode=(?P<exit>\d+):(?P<signal>\d+) .* NodeList=(?P<node>\S*)"
)


@dataclass(frozen=True, slots=True)
class Job:
    """One job as the controller knows it; an ended one is known for an hour."""

    id: int
    name: str
    state: str
    reason: str
    node: str
    exit_code: int
    exit_signal: int

    @property
    def ended(self) -> bool:
        return self.state not in LIVING


class SlurmClient:
    """Slurm's commands, run against one configuration."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths

    @property
    def env(self) -> dict[str, str]:
        """What a process needs in its environment to use this Slurm."""
        return {"SLURM_CONF": str(self.paths.conf)}

    @property
    def full_env(self) -> dict[str, str]:
        """This process's environment without any other Slurm in it."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
        return {**inherited, "PATH": search_path(), **self.env}

    def run(self, *command: str, stdin: str = "", timeout_s: float = ANSWER_S) -> str:
        """What a command prints; its error text is the exception's if it fails."""
        try:
            done = subprocess.run(
                command, env=self.full_env, input=stdin, text=True, capture_output=True, timeout=timeout_s
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"{' '.join(command)} did not answer within {timeout_s:.0f} s") from error
        if done.returncode:
            raise ToolError(f"{' '.join(command)} failed with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, script: str, *options: str) -> int:
        """Hand in a shell script with sbatch's options; the job's id."""
        text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
        return int(self.run("sbatch", "--parsable", *options, stdin=text).split(";")[0])

    def jobs(self) -> list[Job]:
        return [job_from(line) for line in self.run("scontrol", "show", "job", "-o").splitlines() if "JobId=" in line]

    def job(self, number: int) -> Job:
        return job_from(self.run("scontrol", "show", "job", "-o", str(number)))

    def wait(self, number: int, state: str = "", timeout_s: float = WAIT_S) -> Job:
        """Wait until a job is in ``state``, or has ended if none is given; ending in another state is an error."""

        def arrived() -> bool:
            job = self.job(number)
            if state and job.ended and job.state != state:
                raise ToolError(f"job {number} ended {job.state} ({job.reason}) and will not be {state}")
            return job.state == state if state else job.ended

        wait_until(arrived, lambda: f"job {number} to be {state or 'ended'}: it is {self.job(number)}", timeout_s)
        return self.job(number)

    def expire(self, number: int, after_s: int = 2) -> None:
        """Let a running job reach its walltime; it takes some ten seconds, for Slurm looks at limits now and then.

        The shortest walltime a job can ask for is a minute.
        """
        self.run("scontrol", "update", f"jobid={number}", f"EndTime=now+{after_s}")

    def living(self) -> list[Job]:
        """The jobs that wait, run, or are about to vanish from their node."""
        return [job for job in self.jobs() if not job.ended]

    def cancel_all(self, timeout_s: float = WAIT_S) -> None:
        """Cancel every job and wait until none is left on a node."""
        if living := self.living():
            self.run("scancel", *(str(job.id) for job in living))
        wait_until(lambda: not self.living(), lambda: f"all jobs to be gone: {self.living()}", timeout_s)

    def nodes(self) -> dict[str, str]:
        """The state of each node, e.g. idle, mixed, allocated, down, drained; ``*`` is added to one that is silent."""
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %T").splitlines()
        return dict(line.split() for line in lines if line.strip())


def job_from(line: str) -> Job:
    match = JOB.match(line.strip())
    if match is None:
        raise ToolError(f"scontrol describes a job in an unknown way: {line}")
    return Job(
        id=int(match["id"]),
        name=match["name"],
        state=match["state"],
        reason=match["reason"],
        node="" if match["node"] == "(null)" else match["node"],
        exit_code=int(match["exit"]),
        exit_signal=int(match["signal"]),
    )


def wait_until(ready: Callable[[], bool], what: Callable[[], str], timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > until:
            raise ToolError(f"waited {timeout_s:.0f} s in vain for {what()}")
        time.sleep(POLL_S)
