"""Slurm's own programs, asked without blocking; one place knows their options, their answers and their words.

The controller serves everybody: what several callers want to know or cancel at one moment is asked in one call, and
few jobs are handed in side by side.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from scalable.cluster.base import HeldAllocation, LaunchRefused, ProviderError
from scalable.machine_hours import HeldResources
from scalable.planning.resources import Size
from scalable.quantities import Cpu, Memory

Answer = TypeVar("Answer")

ANSWER_WITHIN_S = 30.0  # a controller under load answers late, but it answers
KILLED_WITHIN_S = 2.0  # a program that did not answer
AT_ONCE = 8  # programs started side by side
SUBMISSIONS_AT_ONCE = 4  # of these sbatch; controllers limit the rate of submissions
TOGETHER_S = 0.02  # what is asked within so long is asked together
IN_ONE_CALL = 1000  # ids on one command line
CANCEL_WITHIN_S = 20.0  # or it is reported that jobs could not be cancelled
CANCEL_AGAIN_S = 0.2  # the first pause between looks at whether jobs are really going; they double

SIZES = ["sinfo", "--noheader", "--format=%P|%c|%m|%G|%f"]  # read by smallest_node
SILENT = re.compile(
    r"Unable to contact slurm controller|Socket timed out|temporarily un|Zero Bytes were transmitted|standby mode"
    r"|Communication connection failure|Connection refused|Connection reset|Transport endpoint",
    re.IGNORECASE,
)
SUBMIT_LIMIT = re.compile(
    r"\w*MaxSubmit\w*Limit|\w*GrpSubmit\w*Limit|job submit limit|temporarily unable to accept job", re.IGNORECASE
)
"""In what sbatch says when a user, an account or the cluster has as many jobs as may be."""
WRONG = re.compile(r"invalid|not available|unrecogni[sz]ed|not permitted|denied", re.IGNORECASE)
"""In what sbatch says of a job that it will not take later either."""
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"}
)


class SlurmError(ProviderError):
    """Slurm is not there or cannot do what was asked."""


class SubmitLimitError(LaunchRefused):
    """A job that Slurm takes when others have ended: the message names the limit."""


class SlurmSilent(SlurmError):  # noqa: N818 - what happened, not only that something did
    """The controller did not answer; it may have done what was asked all the same."""


class SlurmStalled(SlurmSilent):
    """A program of Slurm's that did not end in time; sbatch waits by itself while the controller has too many jobs."""


@dataclass(frozen=True, slots=True)
class SlurmState:
    state: str
    """PENDING, RUNNING, COMPLETED, OUT_OF_MEMORY, …"""
    reason: str = ""
    node: str = ""
    exit_code: str = ""
    started: float | None = None
    """When it was started, in seconds of the epoch; nothing while it waits."""
    ends: float | None = None
    """When it ended, or must end by its walltime."""
    held: HeldResources = field(default_factory=HeldResources)
    """Cores, nodes and GPUs that the job holds."""

    @property
    def over(self) -> bool:
        return self.state in ENDED

    @property
    def going(self) -> bool:
        """Return whether its processes are being ended."""
        return self.over or self.state == "COMPLETING"


class Slurm:
    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(AT_ONCE)
        self.submissions = asyncio.Semaphore(SUBMISSIONS_AT_ONCE)
        self.questions = BatchedQuestion(self.ask)
        self.cancellations = BatchedQuestion(self.end)
        self.held: dict[str, HeldAllocation] = {}
        """Resources of every job that was seen running, also after its end."""

    async def submit(self, script: str, env: Mapping[str, str]) -> str:
        """Hand a script in; the id of its job, ``LaunchRefused`` with what Slurm says, or ``SlurmSilent``."""
        async with self.submissions:
            try:
                status, out, err = await self.run(["sbatch", "--parsable"], script, env)
            except SlurmSilent:
                raise
            except SlurmError as error:
                raise LaunchRefused(str(error)) from None
        if status != 0:
            if status < 0 or SILENT.search(err):
                raise SlurmSilent(f"sbatch failed: {complaint(err)}")
            if (limit := submit_limit(err)) is not None:
                raise SubmitLimitError(limit)
            raise LaunchRefused(f"sbatch refused the job: {complaint(err)}", definite=bool(WRONG.search(err)))
        return out.strip().split(";")[0]

    async def find(self, job_name: str, comment: str) -> str | None:
        """Find a living job by its name and comment, for a submission whose answer was lost."""
        command = ["squeue", "--noheader", f"--user={os.getuid()}", f"--name={job_name}", "--format=%A|%k"]
        status, out, _ = await self.run(command)
        rows = (line.partition("|") for line in out.splitlines())
        return next((job for job, _, noted in rows if noted.strip() == comment), None) if status == 0 else None

    async def node_size(self, partition: str | None, constraint: str | None) -> Size:
        """Return what every node of a partition has that a constraint allows: the least of each."""
        command = [
            "sinfo",
            "--noheader",
            "--format=%P|%c|%m|%G|%f",
            *([f"--partition={partition}"] if partition else []),
        ]
        status, out, err = await self.run(command)
        if status != 0:
            raise (SlurmSilent if SILENT.search(err) else SlurmError)(f"sinfo failed: {complaint(err)}")
        node = smallest_node(out, partition, constraint)
        if node is None:
            raise SlurmError(f"sinfo shows no node of partition {partition or '(default)'} with {constraint or 'CPUs'}")
        return node

    async def cancel_step(self, job: str, name: str) -> bool:
        """Have one step of a job ended; tell whether it is, or was not there any more."""
        command = ["squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i|%j"]
        status, out, err = await self.run(command)
        if status != 0 and "Invalid job" not in err:
            raise (SlurmSilent if SILENT.search(err) else SlurmError)(f"squeue failed: {complaint(err)}")
        steps = dict(line.strip().split("|", 1)[::-1] for line in out.splitlines() if "|" in line)
        if name not in steps:
            return bool(steps)  # else the job has just begun, and the step is to come
        status, _, err = await self.run(["scancel", "--quiet", steps[name]])
        return status == 0 or "Invalid job" in err

    async def signal_script(self, job: str) -> bool:
        """Send SIGUSR1 to the script of a job; tell whether Slurm did."""
        status, _, _ = await self.run(["scancel", "--quiet", "--batch", "--signal=USR1", job])
        return status == 0

    async def states(self, jobs: Iterable[str]) -> dict[str, SlurmState]:
        """Return how jobs are; those that Slurm has forgotten are not in the answer."""
        return await self.questions(jobs)

    async def ask(self, jobs: list[str]) -> dict[str, SlurmState]:
        who = f"--user={os.getuid()}"  # the controller then looks at this user's jobs only
        known: dict[str, SlurmState] = {}
        for part in chunks(jobs):
            command = ["squeue", "--noheader", "--states=all", who, f"--jobs={','.join(part)}"]
            status, out, err = await self.run([*command, f"--format={ASKED}"])
            if status != 0 and "Invalid job id" not in err:
                raise (SlurmSilent if SILENT.search(err) else SlurmError)(f"squeue failed: {complaint(err)}")
            known |= states(out)
        self.note(jobs, known, time.time())
        return known

    def note(self, asked: list[str], known: Mapping[str, SlurmState], now: float) -> None:
        """Remember what jobs hold, since when, and until when; one that Slurm has forgotten is gone."""
        for job in asked:
            state, before = known.get(job), self.held.get(job)
            if state is not None and state.started is not None:
                ended = state.ends if state.over and state.ends is not None else now
                first = before.until if before is not None else None
                until = first if first is not None else ended if state.going else None
                self.held[job] = HeldAllocation(job, state.held, state.started, until)
            elif before is not None and before.until is None:
                self.held[job] = replace(before, until=now)

    async def epitaph(self, job: str) -> SlurmState | None:
        """Return what is known of a job that has ended: the controller remembers a while, accounting longer."""
        status, out, _ = await self.run(["scontrol", "--oneliner", "show", "job", job])
        if status == 0 and (state := described(out)):
            return state
        for options in (["-X"], ["-c"]):  # with a database; from the completion log
            command = [
                "sacct",
                *options,
                "--noheader",
                "--parsable2",
                f"--jobs={job}",
                "--format=State,NodeList,ExitCode",
            ]
            try:
                status, out, _ = await self.run(command)
            except SlurmError:
                continue
            if status == 0 and out.count("|") >= 2:
                return recorded(out)
        return None

    async def cancel(self, jobs: Iterable[str]) -> None:
        """Return when Slurm is ending these jobs; raises ``SlurmError`` if it does not after several tries."""
        await self.cancellations(jobs)

    async def end(self, jobs: list[str]) -> None:
        left, problem, pause = jobs, "", CANCEL_AGAIN_S
        deadline = time.monotonic() + CANCEL_WITHIN_S
        while True:
            try:
                for part in chunks(left):
                    await self.run(["scancel", "--quiet", *part])
                there = await self.ask(left)
                left = [job for job in left if job in there and not there[job].going]
                problem = f"they are {', '.join(sorted({there[job].state for job in left}))}"
            except SlurmError as error:
                problem = str(error)
            if not left:
                return
            if time.monotonic() + pause > deadline:
                raise SlurmError(f"could not cancel jobs {' '.join(left)}: {problem}")
            await asyncio.sleep(pause)
            pause *= 2

    async def run(
        self, command: list[str], text: str | None = None, env: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        async with self.slots:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.PIPE if text is not None else asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=env,
                    start_new_session=True,  # Ctrl-C is meant for us, not for an sbatch that is at work
                )
            except (FileNotFoundError, PermissionError):
                raise SlurmError(f"{command[0]} is not installed here; run this on a machine of the cluster") from None
            except OSError as error:  # so many processes that this user may have no more
                raise SlurmSilent(f"{command[0]} could not be started: {error}") from None
            try:
                out, err = await asyncio.wait_for(
                    process.communicate(text.encode() if text is not None else None), ANSWER_WITHIN_S
                )
            except BaseException as error:  # also who does not wait for the answer any more leaves no program behind
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # many sites wrap Slurm's programs in scripts of their own
                with suppress(TimeoutError):  # what waits for a disk ends when the disk answers
                    await asyncio.wait_for(process.wait(), KILLED_WITHIN_S)
                if not isinstance(error, TimeoutError):
                    raise
                raise SlurmStalled(f"{command[0]} did not answer within {ANSWER_WITHIN_S:g} s") from None
            assert process.returncode is not None
            return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


class BatchedQuestion(Generic[Answer]):
    """Collects what callers ask for within a moment, asks once, and gives all of them the answer."""

    def __init__(self, ask: Callable[[list[str]], Awaitable[Answer]]) -> None:
        self.ask = ask
        self.wanted: set[str] = set()
        self.next: asyncio.Task[Answer] | None = None

    async def __call__(self, wanted: Iterable[str]) -> Answer:
        self.wanted |= set(wanted)
        if self.next is None:
            self.next = asyncio.ensure_future(self.gather())
            self.next.add_done_callback(lambda task: task.cancelled() or task.exception())  # all callers may be gone
        return await asyncio.shield(self.next)

    async def gather(self) -> Answer:
        await asyncio.sleep(TOGETHER_S)
        wanted, self.wanted, self.next = self.wanted, set(), None
        return await self.ask(sorted(wanted))


def chunks(jobs: list[str]) -> Iterable[list[str]]:
    return (jobs[start : start + IN_ONE_CALL] for start in range(0, len(jobs), IN_ONE_CALL))


ASKED = "%A|%T|%N|%S|%e|%C|%D|%b|%r"  # id, state, nodes, start, end, CPUs, number of nodes, GPUs of each, reason


def states(out: str) -> dict[str, SlurmState]:
    """Return what squeue says in lines of ``ASKED``; the reason may be any text."""
    known = {}
    for line in out.splitlines():
        if line.count("|") < 8:
            continue
        job, state, node, start, end, cpus, nodes, cards, reason = line.split("|", 8)
        waits = state == "PENDING"  # the times are then what Slurm expects, and change
        held = HeldResources(float(digits(cpus)), float(digits(nodes)), float(gpus_in(cards) * digits(nodes)))
        known[job] = SlurmState(
            state,
            reason.strip(),
            node,
            started=None if waits else moment(start),
            ends=None if waits else moment(end),
            held=HeldResources() if waits else held,
        )
    return known


def moment(text: str) -> float | None:
    """Return a time that Slurm prints, in this machine's own zone, in seconds of the epoch; nothing for N/A."""
    try:
        return time.mktime(time.strptime(text.strip(), "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def digits(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0


def gpus_in(gres: str) -> int:
    """Return how many GPUs a node of a job has, in Slurm's words: ``gres/gpu:a100:2``, ``gpu:1`` or N/A."""
    return sum(int(count or 1) for count in re.findall(r"\bgpu(?::[A-Za-z][\w.-]*)?(?::(\d+))?", gres))


def smallest_node(out: str, partition: str | None, constraint: str | None) -> Size | None:
    """Return the least that nodes have by ``sinfo``, in lines ``partition|cpus|MB|gres|features``."""
    needed = set(re.findall(r"[\w.-]+", constraint or "")) if not re.search(r"[|\[!]", constraint or "") else set()
    sizes = []
    for line in out.splitlines():
        if line.count("|") < 4:
            continue
        name, cpus, memory, gres, features = (part.strip() for part in line.split("|", 4))
        asked = name.rstrip("*") == partition if partition else name.endswith("*")
        if asked and needed <= set(features.split(",")):
            cards = sum(int(count) for count in re.findall(r"gpu:(?:[^:,(]+:)?(\d+)", gres))
            sizes.append((int(re.sub(r"\D", "", cpus) or 0), int(re.sub(r"\D", "", memory) or 0), cards))
    if not sizes:
        return None
    cpus_least, memory_least, cards_least = (min(column) for column in zip(*sizes, strict=True))
    return Size(Cpu.of(cpus_least), Memory(memory_least * 2**20), cards_least)


def submit_limit(err: str) -> str | None:
    """Return the limit of submitted jobs that sbatch met; nothing if it refused the job for something else."""
    words = {match[0] for match in re.finditer(r"\b(?:Assoc|QOS)\w+", err)}
    if words & set(NEVER):
        return None  # a size that no waiting makes smaller
    limit = SUBMIT_LIMIT.search(err)
    return limit[0] if limit else None


def described(out: str) -> SlurmState | None:
    """Return what scontrol says of a job in one line."""
    state = re.search(r" JobState=(\S+) Reason=(\S+) ", out)
    if state is None:
        return None
    code, node = re.search(r" ExitCode=(\S+) ", out), re.search(r" NodeList=(\S+) ", out)
    place = node[1] if node and node[1] != "(null)" else ""
    return SlurmState(state[1], state[2], place, code[1] if code else "")


def recorded(out: str) -> SlurmState:
    """Return what sacct says of a job in its first line, ``state|node|exit code``."""
    state, node, code = out.splitlines()[0].split("|")[:3]
    return SlurmState(state.split()[0], "", "" if node in ("(null)", "None assigned") else node, code)


def complaint(err: str) -> str:
    """Return Slurm's complaint without the name of the program."""
    lines = [re.sub(r"^(\w+: )?(error: )?", "", line.strip()) for line in err.splitlines() if line.strip()]
    return "; ".join(lines) or "no reason given"


WAITS = {
    "Resources": "waits for free nodes",
    "Priority": "others come first",
    "BeginTime": "may not start yet",
    "Dependency": "waits for another job",
    "JobHeldUser": "is held by its owner; scontrol release lets it go",
    "JobHeldAdmin": "is held by an administrator",
    "Licenses": "waits for licences",
    "Reservation": "waits for its reservation",
    "ReservationDeleted": "its reservation is gone",
    "ReqNodeNotAvail": "the nodes it needs are down or reserved",
    "Nodes required for job are DOWN": "the nodes it needs are down or reserved",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is closed",
    "NodeDown": "its node is down",
    "MaxCpuPerAccount": "the account's limit of CPUs is used up",
    "QOSMaxCpuPerUserLimit": "your limit of CPUs at once is used up",
    "QOSMaxJobsPerUserLimit": "your limit of jobs at once is used up",
    "QOSGrpCpuLimit": "the limit of CPUs of this quality of service is used up",
    "AssocGrpCpuLimit": "the account's limit of CPUs is used up",
    "AssocGrpCPUMinutesLimit": "the account's CPU time is used up",
    "AssocMaxJobsLimit": "the account's limit of jobs at once is used up",
}

NEVER = {
    "PartitionConfig": "it asks for more than any node of the partition has",
    "PartitionNodeLimit": "it asks for more nodes than the partition allows",
    "PartitionTimeLimit": "its walltime is longer than the partition allows",
    "BadConstraints": "no node is what it asks for",
    "InvalidAccount": "the account is not known",
    "InvalidQOS": "the quality of service is not known",
    "AccountNotAllowed": "the account may not use the partition",
    "QOSNotAllowed": "the quality of service may not be used in the partition",
    "AssocMaxCpuPerJobLimit": "it asks for more CPUs than the account may use in a job",
    "AssocMaxMemPerJob": "it asks for more memory than the account may use in a job",
    "AssocMaxWallDurationPerJobLimit": "its walltime is longer than the account may use",
    "QOSMaxCpuPerJobLimit": "it asks for more CPUs than a job may have here",
    "QOSMaxMemoryPerJob": "it asks for more memory than a job may have here",
    "QOSMaxWallDurationPerJobLimit": "its walltime is longer than a job may have here",
}
"""Reasons that waiting does not cure."""


def waits(reason: str) -> str:
    """Return why a pending job waits."""
    key = reason.split(",")[0]
    if key in ("", "None"):
        return "Slurm has not looked at it yet"
    words = WAITS.get(key) or NEVER.get(key)
    return f"{words} ({reason})" if words else reason


def never(reason: str) -> str:
    """Return why a pending job can never start; empty if it can."""
    key = reason.split(",")[0]
    return f"{NEVER[key]} ({key})" if key in NEVER else ""
