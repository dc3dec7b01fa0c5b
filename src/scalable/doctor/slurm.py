"""Checks of a Slurm target: what Slurm itself says, asked without submitting anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from scalable.cluster.base import WorkerTemplate
from scalable.cluster.slurm import script
from scalable.cluster.slurm.accounting import balance_of
from scalable.cluster.slurm.commands import SIZES, complaint, smallest_node
from scalable.cluster.slurm.launcher import SlurmLauncher
from scalable.doctor import nodes
from scalable.doctor.checks import Case, fail, ok, warn
from scalable.findings import Finding
from scalable.machine_hours import CORE_HOURS, MachineHours
from scalable.manifest.targets import SlurmTarget
from scalable.quantities import Duration
from scalable.wording import not_defined, plural

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
ANSWER_WITHIN_S = 10.0  # a controller that takes longer is a finding by itself
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class CommandResult:
    good: bool
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Queue:
    """One line of sinfo: nodes of the same size in a partition."""

    name: str
    default: bool
    up: bool
    limit: str
    nodes: str
    """Allocated/idle/other/total."""
    cpus: int
    memory_mb: int


def checks(case: Case) -> Iterator[Finding]:
    target = case.spec.target
    assert isinstance(target, SlurmTarget)
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        text = f"{', '.join(missing)} not found on this machine"
        yield fail("Slurm", text, "run this on a login node of the cluster, or load its module")
        return
    ping = ask(["scontrol", "ping"])
    if not ping.good or " UP" not in ping.out:
        text = f"the controller does not answer: {complaint(ping.err or ping.out)}"
        yield fail("Slurm", text, "try again later, or ask the site; SLURM_CONF names the settings that are used")
        return
    yield ok("Slurm", " ".join(ping.out.split()))
    queues = partitions(ask(["sinfo", "--noheader", "--format=%P|%a|%l|%F|%c|%m"]).out)
    yield from queue(target, queues)
    windows = ask(["scontrol", "--oneliner", "show", "reservation"]).out
    yield from maintenance(target, windows, datetime.now(UTC).astimezone().replace(tzinfo=None))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {tag: pool.submit(could_start, case, target, part) for tag, part in case.parts.items()}
        accounts = pool.submit(account, target)
        for tag, answer in asked.items():
            yield job(case.parts[tag], case.key(tag), answer.result(), sizes(target, queues))
        yield from accounts.result()
    yield from allocation(case, target)
    yield from containers(case, target)
    yield from nodes.checks(case, target, ask(["sinfo", "--noheader", "--Node", "--format=%N|%o"]).out)


def ask(command: list[str], text: str | None = None, env: Mapping[str, str] | None = None) -> CommandResult:
    try:
        done = subprocess.run(
            command, input=text, env=env, text=True, capture_output=True, timeout=ANSWER_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        return CommandResult(False, "", f"{command[0]} did not answer within {ANSWER_WITHIN_S:g} s")
    except OSError as error:
        return CommandResult(False, "", f"{command[0]} could not be started: {error.strerror}")
    return CommandResult(done.returncode == 0, done.stdout, done.stderr)


def partitions(out: str) -> list[Queue]:
    queues = []
    for line in out.splitlines():
        if line.count("|") == 5:
            name, up, limit, there, cpus, memory = (part.strip() for part in line.split("|"))
            size = [int(number) if (number := re.sub(r"\D", "", text)) else 0 for text in (cpus, memory)]
            queues.append(Queue(name.removesuffix("*"), name.endswith("*"), up == "up", limit, there, *size))
    return queues


def queue(target: SlurmTarget, queues: list[Queue]) -> Iterator[Finding]:
    """Check that the partition is there, is up, and allows the walltime."""
    chosen = asked_for(target, queues)
    names = dict.fromkeys(partition.name for partition in queues)
    if not chosen:
        if target.queue is None:
            yield warn("queue", "Slurm has no default queue", f"write queue: with one of {', '.join(names)}")
        else:
            yield fail("queue", *not_defined("queue", target.queue, names))
        return
    name, first = chosen[0].name, chosen[0]
    counts = [partition.nodes.split("/") for partition in chosen]
    idle, total = (sum(int(count[place]) for count in counts if len(count) == 4) for place in (1, 3))
    limit = "no time limit" if first.limit == "infinite" else f"time limit {first.limit}"
    text = f"{name}: {plural(total, 'node')}, {idle} idle, {limit}"
    yield ok("queue", text) if first.up else fail("queue", f"{text}, but it is down", "choose another queue")
    wanted, most = seconds(target.walltime or ""), seconds(first.limit)
    if wanted is not None and most is not None and wanted > most:
        text = f"{target.walltime} is longer than queue {name} allows, {first.limit}"
        yield fail("walltime", text, f'write walltime: "{Duration(most).walltime}" or less')
    elif target.walltime is None and most is not None:
        yield warn("walltime", f"none is written; jobs get the default of queue {name}", "write walltime: HH:MM:SS")


def maintenance(target: SlurmTarget, out: str, now: datetime) -> Iterator[Finding]:
    """Warn of windows in which no job runs: Slurm starts none whose walltime would reach into one.

    Slurm writes times without a zone, in that of its machines; ``now`` is in the same.
    """
    length = seconds(target.walltime or "")
    for line in out.splitlines():
        name, begins, ends = (re.search(rf"\b{key}=(\S+)", line) for key in ("ReservationName", "StartTime", "EndTime"))
        if not (name and begins and ends and re.search(r"\bFlags=\S*MAINT", line)):
            continue
        try:
            start, end = datetime.fromisoformat(begins[1]), datetime.fromisoformat(ends[1])
        except ValueError:
            continue
        if end <= now or (length is not None and now + timedelta(seconds=length) <= start):
            continue
        count = re.search(r"\bNodeCnt=(\d+)", line)
        where = f" of {plural(int(count[1]), 'node')}" if count else ""
        window = f"maintenance{where} ({name[1]}) from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
        if start <= now:
            yield warn("maintenance", f"{window}: no job starts before its end", "wait until then")
            continue
        left = int((start - now).total_seconds()) // 60 * 60
        jobs = f"jobs of {target.walltime}" if length is not None else "jobs without a walltime"
        shorter = f'write walltime: "{Duration(left).walltime}" or less to run before it'
        remedy = shorter if left else "wait until its end"
        yield warn("maintenance", f"{window}: {jobs} would reach into it and start only after it", remedy)


def asked_for(target: SlurmTarget, queues: list[Queue]) -> list[Queue]:
    return [
        partition
        for partition in queues
        if (partition.default if target.queue is None else partition.name == target.queue)
    ]


def seconds(text: str) -> int | None:
    """Read Slurm's D-HH:MM:SS, HH:MM:SS or MM:SS; None for what is no time, such as infinite."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def could_start(case: Case, target: SlurmTarget, part: WorkerTemplate) -> CommandResult:
    """Return what Slurm says to the very script a worker would be started with."""
    with tempfile.TemporaryDirectory(prefix="scalable-doctor-") as folder:
        site = script.SlurmSite.of(target, case.folder)
        if site.allocations.fills:
            options = site.options(part)
            node = smallest_node(ask(SIZES).out, options.partition, options.constraint)
            site = replace(site, allocations=replace(site.allocations, node=node))
        launcher = SlurmLauncher(site, Path(folder), "doctor")
        text = launcher.script(f"{part.tag}-0", part, "tls://127.0.0.1:8786")
        env = script.surroundings(text, os.environ, part.environment)
        return ask(["sbatch", "--test-only"], text, env)


def sizes(target: SlurmTarget, queues: list[Queue]) -> str:
    chosen = asked_for(target, queues)
    cpus, memory = (
        max((getattr(partition, name) for partition in chosen), default=0) for name in ("cpus", "memory_mb")
    )
    return f"; the largest nodes have {cpus} CPUs and {memory} MB" if chosen else ""


def job(part: WorkerTemplate, key: str, answer: CommandResult, largest: str) -> Finding:
    size = f"{plural(part.cpus, 'CPU')}{f', {part.memory}' if part.memory else ''}"
    if answer.good:
        when = re.search(r"to start at (\S+)", answer.err)
        return ok("job", f"Slurm would take it ({size}){f', expected at {when[1]}' if when else ''}", key)
    reason = complaint(answer.err)
    remedy = "correct queue, account, walltime or sbatch of the target"
    if "configuration" in reason or "CPU" in reason or "emory" in reason:
        remedy = f"lower {key}.{'cpu' if key.startswith('profiles') else 'cpus'} or memory{largest}"
    return fail("job", f"Slurm would refuse it ({size}): {reason}", remedy, key)


def account(target: SlurmTarget) -> list[Finding]:
    """Return whether the account is one of this user's; nothing where no accounting says so."""
    if target.account is None or shutil.which("sacctmgr") is None:
        return []
    command = ["sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={os.getuid()}"]
    answer = ask([*command, "format=account"])
    mine = sorted(set(answer.out.split()))
    if not answer.good or not mine:
        return []
    if target.account.lower() not in mine:
        return [fail("account", *not_defined("account", target.account, mine))]
    return [ok("account", target.account)]


def allocation(case: Case, target: SlurmTarget) -> Iterator[Finding]:
    """Check what the account has left against what the plans need, where accounting says so."""
    budget = case.manifest.budget.allocation if case.manifest.budget else None
    unit = budget.unit if budget is not None else CORE_HOURS
    balance = balance_of(target.account, unit)
    if balance is None:
        if budget is not None:
            text = f"Slurm's accounting does not say what the account has left; the budget of {budget} counts alone"
            yield ok("allocation", text)
        return
    needed = MachineHours(case.hours.of(unit), unit)
    text = f"{balance} left of the account"
    if needed > balance:
        yield warn("allocation", f"{text}, and the plans need {needed}", "ask your centre for more, or plan less")
    else:
        yield ok("allocation", f"{text}; the plans need {needed}")


def containers(case: Case, target: SlurmTarget) -> Iterator[Finding]:
    images = {tag: part.image for tag, part in case.spec.components.items() if part.image}
    if not images or target.container_runtime == "none":
        return
    place = shutil.which(target.container_runtime)
    if place is None:
        text = f"{target.container_runtime} is not on this machine; compute nodes may have it"
        yield warn("container", text, "load its module in a preload_script (NAME.sh), or ask the site")
    else:
        yield ok("container", place)
    for tag, name in images.items():
        if script.is_file(name):
            yield image(f"components.{tag}.image", Path(script.image(name)))


def image(path: str, file: Path) -> Finding:
    if file.is_dir():
        return ok("image", f"{file}, a folder", path)
    try:
        with file.open("rb") as opened:
            head = opened.read(64)
    except OSError as error:
        text = f"{file} cannot be read: {error.strerror}"
        return fail("image", text, f"build it, or correct {path}", path)
    if file.suffix == ".sif" and b"SIF_MAGIC" not in head:
        return fail("image", f"{file} is no SIF image", "build it again; a copy may have been cut off", path)
    return ok("image", str(file), path)
