"""The batch script of a worker, as it is handed to sbatch, and the environment it is handed in with."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scalable.cluster.base import WorkerTemplate
from scalable.errors import UsageError
from scalable.worker.options import CANNOT_START, CONNECT_WITHIN_S, GRACE_S, WorkerOptions

CLOSING_S = 10  # what a worker needs to hand over and close, after the tasks it runs had their time


@dataclass(frozen=True, slots=True)
class SlurmSite:
    """What all jobs of a cluster have in common."""

    queue: str | None = None
    account: str | None = None
    walltime: str | None = None
    interface: str | None = None
    container_runtime: str = "apptainer"
    python: str | None = None
    sbatch: tuple[str, ...] = ()
    folder: str | None = None
    handout: str | None = None
    """A folder that nodes see, with certificates and what their code should be."""
    connect_within: float = CONNECT_WITHIN_S
    """A worker that has not reached the scheduler after so many seconds ends."""
    grace: float = GRACE_S
    """How long running tasks may go on after notice, which comes so long before the walltime ends."""

    def __post_init__(self) -> None:
        for name in ("queue", "account", "walltime", "folder", "handout"):
            if problem := unwritable(getattr(self, name) or ""):
                raise UsageError(f"{name}: {problem}")
        for line in self.sbatch:
            if "\n" in line or not line.startswith("-"):
                raise UsageError(f"sbatch: {line!r} is no option of sbatch; write e.g. --qos=high, one in a line")


def job_script(site: SlurmSite, template: WorkerTemplate, options: WorkerOptions, job_name: str, log: Path) -> str:
    """Write the script of a worker. Environment variables travel in sbatch's own environment, not in this text."""
    directives = {
        "job-name": job_name,
        "comment": options.name,
        "partition": site.queue,
        "account": site.account,
        "time": site.walltime,
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(template.cpus),
        "mem": f"{-(-template.memory.bytes // 2**20)}M" if template.memory else None,
        "gres": f"gpu:{template.gpus}" if template.gpus else None,
        "output": str(log).replace("%", "%%"),
        "open-mode": "append",
        "chdir": site.folder,
        "signal": f"B:TERM@{int(site.grace) + CLOSING_S}" if site.walltime else None,
        "export": "ALL",
    }
    lines = ["#!/usr/bin/env bash"]
    lines += [f"#SBATCH --{name}={shlex.quote(value)}" for name, value in directives.items() if value is not None]
    lines.append("#SBATCH --no-requeue")
    lines += [f"#SBATCH {option}" for option in site.sbatch]
    if is_shell(template.preload_script):
        lines += sourced(str(template.preload_script))
    lines.append("exec " + shlex.join(command(site, template, options)))
    return "\n".join(lines) + "\n"


def sourced(file: str) -> list[str]:
    """Source a script; Bash alone would go on without one that is not there."""
    missing = f"scalable worker: cannot start: the preload script {file} is not there on this node"
    name = shlex.quote(file)
    return [
        f"[ -r {name} ] || {{ echo {shlex.quote(missing)} >&2; exit {CANNOT_START}; }}",
        f"source {name}",
    ]


def command(site: SlurmSite, template: WorkerTemplate, options: WorkerOptions) -> list[str]:
    """Return the command of a worker, inside its image if it has one."""
    inside = template.image is not None and site.container_runtime != "none"
    python = site.python or ("python3" if inside else sys.executable)
    worker = [python, "-P", "-m", "scalable.worker", *options.arguments()]
    if not inside:
        return worker
    shared = {folder: folder for folder in (site.folder, site.handout) if folder}
    mounts = [part for host, place in {**shared, **template.mounts}.items() for part in mount(host, place)]
    gpus = ["--nv"] if template.gpus else []
    return [site.container_runtime, "exec", *gpus, *mounts, image(str(template.image)), *worker]


def mount(host: str, place: str) -> tuple[str, str]:
    """Write a mount as people do; in the longer form where a path has a mark of the short one."""
    if not any(mark in host + place for mark in ":,"):
        return "--bind", f"{host}:{place}"
    source, target = (f'"{name}={path}"'.replace('"', '""')[1:-1] for name, path in (("src", host), ("dst", place)))
    return "--mount", f"type=bind,{source},{target}"


def surroundings(script: str, own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return what sbatch gets as its environment and the worker inherits: this process's, and what the component says.

    Variables of sbatch override the script, so those that contradict it are left out, and so are the ones in which
    Slurm describes the job that this process may itself run in.
    """
    contradicting = {f"SBATCH_{name}" for option in options_in(script) for name in variables(option)}
    inside = "SLURM_JOB_ID" in own
    kept = {
        name: value
        for name, value in own.items()
        if name not in contradicting and not (inside and name.startswith("SLURM_") and name not in SETTINGS)
    }
    return {**kept, **given}


SETTINGS = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CONF_SERVER")
OTHER_NAMES = {
    "time": ("TIMELIMIT",),
    "mem": ("MEM_PER_NODE", "MEM_PER_CPU", "MEM_PER_GPU"),
    "gres": ("GRES", "GPUS", "GPUS_PER_NODE", "GPUS_PER_TASK"),
    "no-requeue": ("REQUEUE", "NO_REQUEUE"),
    "nodes": ("NODES", "ARRAY_INX", "WAIT"),  # one job of one node, and nobody waits for its end
}


def options_in(script: str) -> Iterator[str]:
    return (option[1] for option in re.finditer(r"^#SBATCH --([a-z-]+)", script, re.MULTILINE))


def variables(option: str) -> tuple[str, ...]:
    return OTHER_NAMES.get(option, (option.upper().replace("-", "_"),))


def image(name: str) -> str:
    """Return a file or URL as it is; a bare name comes from a registry."""
    local = name.endswith((".sif", ".img")) or name.startswith((".", "/", "~"))
    return str(Path(name).expanduser()) if local else name if "://" in name else f"docker://{name}"


def is_file(name: str) -> bool:
    return "://" not in image(name)


def is_shell(script: str | None) -> bool:
    return script is not None and script.endswith((".sh", ".bash"))


def unwritable(value: str) -> str:
    """Return why Slurm cannot have a text in its options; empty if it can."""
    if any(character in value for character in "\\\n\r\0"):
        return f"Slurm's options cannot hold a backslash or a line break, as in {value!r}"
    return ""
