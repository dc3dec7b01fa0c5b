"""Programs of several processes inside a task: MPI models and whatever else a launcher starts on several nodes.

A component with ``nodes: 2, tasks_per_node: 8`` has workers that hold two nodes, with room for 16 processes (ranks) of
``cpus`` each. A task of it runs once, on the first node, and starts its program with the launcher that is there:

    from scalable import mpi

    def simulate(year, result):
        mpi.run(["model", "--year", str(year), "--output", result])

``command`` only returns the command line, for those who start it themselves. Inside a Slurm job the launcher is
``srun``, elsewhere ``mpirun`` or ``mpiexec``. What is started dies with the task, on all nodes.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scalable.errors import ScalableError

NODES, TASKS_PER_NODE, CPUS = "SCALABLE_MPI_NODES", "SCALABLE_MPI_TASKS_PER_NODE", "SCALABLE_MPI_CPUS"
RUNNER_MARK = "SCALABLE_RUNNER"  # in the environment of all processes of a runner
LAUNCHERS = ("mpirun", "mpiexec")
LAST_LINES = 200  # of a launcher's messages, among which the reason stands
LOOK_EVERY_S = 5.0  # at the memory of the ranks
ANSWER_WITHIN_S = 20.0
ASK_EVERY_S = 0.2  # whether steps are gone
GONE_WITHIN_S = 30.0  # Slurm signals processes on other nodes and waits for their end
RANK = re.compile(r"srun: error: (\S+): tasks? (\S+): (.+)")
OUT_OF_MEMORY = re.compile(r"oom[-_ ]kill|out of memory|exceeded (job |step )?memory limit", re.IGNORECASE)
STEP_NODE = re.compile(r"slurmstepd-(\S+): error:")
SIGKILLED = 137

highest = 0
"""Bytes that ranks of this process used on one node, at most; read and set back by ``measured``."""


class MpiError(ScalableError):
    """A program of several processes that could not be started, or of which a process failed."""


class NodeMemoryError(MpiError, MemoryError):
    """A rank that was killed because the memory of its node was used up."""


@dataclass(frozen=True, slots=True)
class MpiSize:
    """The number of processes of a program, and the CPUs of each."""

    nodes: int = 1
    tasks_per_node: int = 1
    cpus: int = 1

    @property
    def ranks(self) -> int:
        return self.nodes * self.tasks_per_node

    @property
    def cpus_per_node(self) -> int:
        return self.tasks_per_node * self.cpus

    @property
    def all_cpus(self) -> int:
        return self.nodes * self.cpus_per_node

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables that tell a task of it; none for an ordinary worker."""
        if self.ranks == 1:
            return {}
        return {NODES: str(self.nodes), TASKS_PER_NODE: str(self.tasks_per_node), CPUS: str(self.cpus)}


ONE = MpiSize()
"""The size of an ordinary program."""


def size() -> MpiSize:
    """Return the size of this task's component.

    >>> size()
    MpiSize(nodes=1, tasks_per_node=1, cpus=1)
    """
    given = (os.environ.get(name, "1") for name in (NODES, TASKS_PER_NODE, CPUS))
    return MpiSize(*(int(text) if text.isdecimal() and int(text) else 1 for text in given))


def command(arguments: Sequence[str | os.PathLike[str]], *, options: Sequence[str] = ()) -> list[str]:
    """Return a command line with the launcher before it, as many processes as the component has.

    ``options`` are further ones of the launcher, such as ``--mpi=pmix``. Raises ``MpiError`` if there is more than one
    process and no launcher.

    >>> command(["model", "--input", "a.nc"])
    ['model', '--input', 'a.nc']
    """
    if isinstance(arguments, str) or not arguments:
        raise MpiError(f"{arguments!r} is no command; write a list, e.g. mpi.command(['model', '--input', path])")
    program = [os.fspath(argument) for argument in arguments]
    wanted = size()
    if in_slurm(wanted):
        return [*srun(wanted), *options, *program]
    if wanted.ranks == 1:
        return program
    for name in LAUNCHERS:
        if shutil.which(name):
            return [name, "-n", str(wanted.ranks), *options, *program]
    raise MpiError(
        f"{program[0]} is to run as {wanted.ranks} processes, and neither srun (in a Slurm job of "
        f"{wanted.nodes} nodes) nor {' nor '.join(LAUNCHERS)} is there; install an MPI, or run it on a Slurm target"
    )


def in_slurm(wanted: MpiSize) -> bool:
    """Tell whether this process is in a Slurm job that has the nodes, and can start steps of it."""
    nodes = os.environ.get("SLURM_JOB_NUM_NODES", "")
    inside = "SLURM_JOB_ID" in os.environ and nodes.isdecimal() and int(nodes) >= wanted.nodes
    return inside and NODES in os.environ and shutil.which("srun") is not None


def srun(wanted: MpiSize) -> list[str]:
    """Return srun with the size: a step that shares what the worker holds, and ends with its first process to fail."""
    return [
        "srun",
        "--overlap",  # the worker may itself be a step of the job
        f"--nodes={wanted.nodes}",
        f"--ntasks={wanted.ranks}",
        f"--ntasks-per-node={wanted.tasks_per_node}",
        f"--cpus-per-task={wanted.cpus}",  # from Slurm 22.05 on not taken over from the job
        "--kill-on-bad-exit=1",
        f"--job-name={step_name(os.environ.get(RUNNER_MARK, ''))}",
    ]


def step_name(mark: str) -> str:
    """Return what steps of a runner are called, by which they are found and ended."""
    return f"scalable-{mark}"


def run(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    options: Sequence[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a program with the launcher, and return when all its processes have ended well.

    What it prints goes to the worker's log. Raises ``NodeMemoryError``, a ``MemoryError``, if memory was not enough on
    a node, and ``MpiError`` for any other failure; both name the rank and its node where the launcher does. The memory
    of the ranks is measured where Slurm tells it.

    >>> run(["true"])
    """
    global highest
    line = command(arguments, options=options)
    try:
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=cwd, env=env)
    except OSError as error:
        raise MpiError(f"{line[0]} cannot be started: {error.strerror}") from None
    lines: deque[str] = deque(maxlen=LAST_LINES)
    assert process.stderr is not None
    meter = StepMeter() if line[0] == "srun" else None
    with process.stderr as messages:
        text, ended = b"", False
        while not ended:
            ready, _, _ = select.select([messages], [], [], LOOK_EVERY_S)
            if ready:
                piece = os.read(messages.fileno(), 1 << 16)
                sys.stderr.write(piece.decode(errors="replace"))
                sys.stderr.flush()
                *whole, text = (text + piece).split(b"\n")
                lines.extend(each.decode(errors="replace") for each in whole)
                ended = not piece
            if meter is not None:
                highest = max(highest, meter.look())
    if status := process.wait():
        problem = failure(Path(arguments[0]).name, status, list(lines))
        if isinstance(problem, NodeMemoryError):
            highest = max(highest, node_memory())
        raise problem


def failure(program: str, status: int, lines: Sequence[str]) -> MpiError:
    """Return what became of a program, by its exit status and what the launcher said."""
    ranks = [match.groups() for match in map(RANK.match, lines) if match]
    short = next((line for line in lines if OUT_OF_MEMORY.search(line)), "")
    if short and (step := STEP_NODE.search(short)):
        node = step[1]
        rank = next((task for where, task, _ in ranks if where == node), "")
    elif short and (match := RANK.match(short)):
        node, rank = match[1], match[2]
    elif status in (SIGKILLED, -9) and ranks and ranks[0][2] == "Killed":
        node, rank, _ = ranks[0]
    else:
        if ranks:
            node, rank, what = ranks[0]
            return MpiError(f"{program}: rank {rank} on {node}: {what[:1].lower()}{what[1:]}")
        return MpiError(f"{program} ended with exit status {status}{f': {lines[-1]}' if lines else ''}")
    who = f"rank {rank} on {node}" if rank else f"a rank on {node}"
    of = f" of {node_memory() >> 20} MiB" if node_memory() else ""
    why = "" if short else " (it was killed by signal 9, which is what the system does then)"
    return NodeMemoryError(f"{program}: {who} ran out of the node's memory{of}{why}")


def node_memory() -> int:
    """Return the bytes that the job has on each node; 0 if Slurm does not say."""
    limit = os.environ.get("SLURM_MEM_PER_NODE", "")
    return int(limit) << 20 if limit.isdecimal() else 0


# Steps of a Slurm job


class StepMeter:
    """The memory that ranks of this runner use on a node, as far as Slurm measures it."""

    def __init__(self) -> None:
        self.due = time.monotonic() + LOOK_EVERY_S

    def look(self) -> int:
        """Return the highest use of a node in bytes; 0 while it is not known or not time to ask again."""
        if time.monotonic() < self.due:
            return 0
        self.due = time.monotonic() + LOOK_EVERY_S
        steps = steps_of(os.environ.get("SLURM_JOB_ID", ""), step_name(os.environ.get(RUNNER_MARK, "")))
        if not steps:
            return 0
        asked = ["sstat", "--noheader", "--parsable2", f"--jobs={','.join(steps)}", "--format=MaxRSS,AveRSS,NTasks"]
        rows = (answer(asked) or "").splitlines()
        return max((on_a_node(row, size().tasks_per_node) for row in rows), default=0)


def on_a_node(row: str, per_node: int) -> int:
    """Return what the node with the largest rank uses, by sstat's ``MaxRSS|AveRSS|NTasks``: the others are alike.

    >>> on_a_node("3072K|1536K|4", 2)
    4194304
    """
    largest, mean, tasks = (kibibytes(part) for part in (*row.split("|"), "", "", "")[:3])
    if tasks <= 1:
        return int(largest * 1024)
    return int(largest + (per_node - 1) * max(0.0, mean * tasks - largest) / (tasks - 1)) * 1024


def kibibytes(text: str) -> float:
    """Return an amount as sstat writes it, in KiB; plain numbers stay as they are."""
    match = re.fullmatch(r"([\d.]+)([KMGT]?)", text.strip())
    return float(match[1]) * 1024 ** "KMGT".index(match[2]) if match and match[2] else float(match[1]) if match else 0.0


def measured() -> int:
    """Return the highest memory that ranks used on a node since this was last asked."""
    global highest
    seen, highest = highest, 0
    return seen


def steps_of(job: str, name: str) -> list[str] | None:
    """Return the steps of a job that have a name, as ``12.3``; nothing if Slurm does not answer."""
    listing = answer(["squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i|%j"])
    if listing is None:
        return None
    rows = (line.strip().partition("|") for line in listing.splitlines())
    return [step for step, _, called in rows if called == name]


def end_steps(job: str, mark: str) -> bool:
    """End all that a runner started in a Slurm job, on all its nodes; tell whether nothing of it is left."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while (steps := steps_of(job, step_name(mark))) != []:
        if steps:
            answer(["scancel", "--quiet", "--signal=KILL", *steps])
        if time.monotonic() > deadline:
            return False
        time.sleep(ASK_EVERY_S)
    return True


def answer(program: list[str]) -> str | None:
    """Return what a program of Slurm prints; nothing if it fails."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(program, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False)
        return done.stdout if done.returncode == 0 else None
    return None
