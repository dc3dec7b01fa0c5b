"""The batch script of a job, as it is handed to sbatch, and the environment it is handed in with.

A job of one worker becomes that worker. A job of several starts each as a step of its own with ``srun``, so that the
death of one leaves the others alone, and stays until the last has ended. On SIGUSR1 it starts others in their place.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scalable.cluster.base import BatchOptions, WorkerTemplate
from scalable.cluster.slurm import setup
from scalable.errors import UsageError
from scalable.manifest.targets import SlurmTarget, option_of
from scalable.planning.allocations import Allocations
from scalable.walltime import CLOSING_S
from scalable.worker.options import CONNECT_WITHIN_S, GRACE_S, WorkerOptions


@dataclass(frozen=True, slots=True)
class SlurmSite:
    """What all jobs of a cluster have in common."""

    queue: str | None = None
    account: str | None = None
    walltime: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    interface: str | None = None
    container_runtime: str = "apptainer"
    python: str | None = None
    sbatch: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    """Modules that every job loads before its worker starts; ``conda`` and ``setup`` are as in the manifest."""
    conda: str | None = None
    setup: str | None = None
    folder: str | None = None
    handout: str | None = None
    """A folder that nodes see, with certificates and what their code should be."""
    connect_within: float = CONNECT_WITHIN_S
    """A worker that has not reached the scheduler after so many seconds ends."""
    grace: float = GRACE_S
    """How long running tasks may go on after notice, which comes so long before the walltime ends."""
    allocations: Allocations = field(default_factory=Allocations)
    """How many workers a job holds, on how many nodes."""
    backlog: int | None = None
    """Jobs that may wait in Slurm's queue at a time."""

    @classmethod
    def of(cls, target: SlurmTarget, folder: Path) -> SlurmSite:
        """Return what a target says; ``folder`` holds the user's code."""
        return cls(
            queue=target.queue,
            account=target.account,
            walltime=target.walltime,
            qos=target.qos,
            constraint=target.constraint,
            reservation=target.reservation,
            interface=target.interface,
            container_runtime=target.container_runtime,
            python=target.python,
            sbatch=tuple(target.sbatch or ()),
            modules=tuple(target.modules or ()),
            conda=target.conda,
            setup=target.setup,
            folder=str(folder) if target.code == "shared" else None,
            allocations=Allocations.of(target),
            backlog=target.backlog,
        )

    def __post_init__(self) -> None:
        for name in ("queue", "account", "walltime", "qos", "constraint", "reservation", "folder", "handout"):
            if problem := unwritable(getattr(self, name) or ""):
                raise UsageError(f"{name}: {problem}")
        for line in self.sbatch:
            if "\n" in line or not line.startswith("-"):
                raise UsageError(f"sbatch: {line!r} is no option of sbatch; write e.g. --nice=10, one in a line")

    def options(self, template: WorkerTemplate) -> BatchOptions:
        """Return what is asked for a kind of worker: its own words, else those of the target."""
        common = BatchOptions(self.queue, self.account, self.qos, self.constraint, self.reservation, self.walltime)
        return template.batch.over(common)

    def alone(self, template: WorkerTemplate) -> bool:
        """Tell whether a worker is a batch job of its own; one of several nodes always is."""
        return self.allocations.alone or template.program.ranks > 1


@dataclass(frozen=True, slots=True)
class Step:
    """One worker of a batch job."""

    template: WorkerTemplate
    options: WorkerOptions
    log: Path
    node: int = 0
    """Its place among the nodes of the job, from 0."""

    @property
    def name(self) -> str:
        return self.options.name


def ending_of(log: Path) -> Path:
    """Return the file in which a job of several workers notes how one of them ended, and on which node."""
    return log.with_suffix(".end")


def orders_of(log: Path) -> Path:
    """Return the file in which a job of several workers, by its log, finds whom to start in the place of a dead one."""
    return log.with_suffix(".start")


def job_script(site: SlurmSite, steps: Sequence[Step], job_name: str, log: Path, comment: str) -> str:
    """Write the script of a job. Environment variables travel in sbatch's own environment, not in this text."""
    first = steps[0].template
    program, alone, asked = first.program, site.alone(first), site.options(first)
    nodes = [[step.template for step in steps if step.node == node] for node in range(max(s.node for s in steps) + 1)]
    memory = max(sum(megabytes(template) for template in held) for held in nodes)
    bounded = all(step.template.memory for step in steps)
    directives: dict[str, str | None] = {
        "job-name": job_name,
        "comment": comment,
        "partition": asked.partition,
        "account": asked.account,
        "qos": asked.qos,
        "constraint": asked.constraint,
        "reservation": asked.reservation,
        "time": asked.walltime,
        "nodes": str(len(nodes)),
        "ntasks": str(len(nodes)),
        "ntasks-per-node": None if alone else "1",
        "cpus-per-task": str(max(sum(template.cpus for template in held) for held in nodes)),
        "mem": f"{memory}M" if bounded else None,
        "gres": max((graphics(held) for held in nodes), key=len) or None,
        "output": str(log).replace("%", "%%"),
        "open-mode": "append",
        "chdir": site.folder,
        "signal": f"{'B:' if alone else ''}TERM@{int(site.grace) + CLOSING_S}" if asked.walltime else None,
        "export": "ALL",
    }
    if program.ranks > 1:
        directives |= {"nodes": str(program.nodes), "ntasks": str(program.ranks)}
        directives |= {"ntasks-per-node": str(program.tasks_per_node), "cpus-per-task": str(program.cpus)}
    lines = ["#!/usr/bin/env bash"]
    lines += [f"#SBATCH --{name}={shlex.quote(value)}" for name, value in directives.items() if value is not None]
    lines += ["#SBATCH --exclusive"] if site.allocations.exclusive else []
    lines += ["#SBATCH --no-kill"] if len(nodes) > 1 else []  # a lost node takes its own workers only
    lines += [f"#SBATCH {option}" for option in site.sbatch if option_of(option)[0] != "--requeue"]
    lines.append("#SBATCH --no-requeue")  # lost workers are replaced; their job would come back beside the new one
    if alone:
        (step,) = steps
        python, *rest = command(site, step.template, step.options)
        chosen = '"$SCALABLE_PYTHON"' if python == CHOSEN else shlex.quote(python)
        lines += [*prepared(site, step.template), f"exec {chosen} {shlex.join(rest)}"]
    else:
        lines += several(site, steps, orders_of(log))
    return "\n".join(lines) + "\n"


WORKERS = """\
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
trap : TERM
start() {
  local kind=$1 node=${nodes[$2]} log=$3
  shift 3
  (
    "$kind"
    set -- "${@/#@scalable-python@/${SCALABLE_PYTHON:-}}"
    exec srun --nodes=1 --ntasks=1 --exact --input=none --open-mode=append --output="${log//%/%%}" \\
      --nodelist="$node" "$@"
  ) >>"$log" 2>&1
  echo "$? $node" >"$log.new" && mv "$log.new" "${log%.log}.end"
}
start_more() {
  local try
  for try in {1..20}; do
    if mv "$orders" "$orders.taken" 2>/dev/null; then source "$orders.taken"; rm -f "$orders.taken"; return; fi
    sleep 0.5
  done
}
trap start_more USR1\
"""
"""Bash that starts a worker as a step: what its kind needs first, the place of its node, its log, and srun's words.

How it ended is noted beside its log, because Slurm forgets steps. SIGTERM is for the workers, who get it from Slurm:
the script only has to outlive them. After SIGUSR1 a file has more to start; shared file systems show it with a delay.
"""


def several(site: SlurmSite, steps: Sequence[Step], orders: Path) -> Iterator[str]:
    """Yield what starts several workers, waits for all, and notes how each ended."""
    yield f"orders={shlex.quote(str(orders))}"
    yield WORKERS
    own, kinds = variables_of(steps), {step.template.tag: step.template for step in steps}
    for tag, template in kinds.items():
        yield f"{function_of(tag, steps)}() {{"
        yield from (f'  export {name}="${variable}"' for name, variable in own.get(tag, {}).items())
        yield from (f"  {line}" for line in prepared(site, template))
        yield "  :\n}"
    yield from (start_line(site, step, steps) for step in steps)
    yield "until wait; do :; done"


def function_of(tag: str, steps: Sequence[Step]) -> str:
    """Return the name of the shell function that prepares workers of a tag in a job of these."""
    return f"kind_{list(dict.fromkeys(step.template.tag for step in steps)).index(tag)}"


def start_line(site: SlurmSite, step: Step, steps: Sequence[Step]) -> str:
    """Return the shell line that starts a worker in a job that was handed in with ``steps``."""
    template = step.template
    words = [f"--job-name={step.name}", f"--cpus-per-task={template.cpus}"]
    words.append(f"--mem={megabytes(template)}M" if template.memory else "--mem=0")
    words += [f"--gres={graphics([template]) or 'none'}"] if any(other.template.gpus for other in steps) else []
    words += command(site, template, step.options)
    line = ["start", function_of(template.tag, steps), str(step.node), str(step.log), *words]
    return f"{shlex.join(line)} &"


CHOSEN = "@scalable-python@"
"""Stands in a command for the Python that the set-up has chosen, which is known on the node only."""


def prepared(site: SlurmSite, template: WorkerTemplate) -> list[str]:
    """Return what a shell does on the node before a worker starts."""
    return setup.lines(set_up(site, template), None if fixed_python(site, template) else sys.executable)


def set_up(site: SlurmSite, template: WorkerTemplate) -> list[setup.SetupStep]:
    """Return what is done before a worker starts: what the target says, then what its component says."""
    return setup.steps(
        modules=list(dict.fromkeys((*site.modules, *template.modules))),
        conda=template.conda or site.conda,
        setup=[text for text in (site.setup, template.setup) if text],
        preload=template.preload_script if is_shell(template.preload_script) else None,
    )


def fixed_python(site: SlurmSite, template: WorkerTemplate) -> bool:
    """Tell whether no environment that a set-up activates changes the Python of the worker."""
    return site.python is not None or inside_image(site, template)


def inside_image(site: SlurmSite, template: WorkerTemplate) -> bool:
    return template.image is not None and site.container_runtime != "none"


def megabytes(template: WorkerTemplate) -> int:
    """Return a worker's memory as Slurm counts it, rounded up; 0 if it has no limit."""
    return -(-template.memory.bytes // 2**20) if template.memory else 0


def graphics(templates: Sequence[WorkerTemplate]) -> str:
    """Return the GPUs of workers as Slurm's ``gres``, by type; empty if there are none."""
    cards: dict[str, int] = {}
    for template in templates:
        if template.gpus:
            kind = f"gpu:{template.gpu_type}" if template.gpu_type else "gpu"
            cards[kind] = cards.get(kind, 0) + template.gpus
    return ",".join(f"{kind}:{count}" for kind, count in cards.items())


def variables_of(steps: Sequence[Step]) -> dict[str, dict[str, str]]:
    """Return, by tag and variable, under which other name a value travels; none where all workers are of one kind.

    Workers of several kinds share the environment of one sbatch, and differ in it.
    """
    templates = {step.template.tag: step.template for step in steps}
    if len(templates) == 1:
        return {}
    return {
        tag: {name: f"SCALABLE_{place}_{name}" for name in template.environment if name.isidentifier()}
        for place, (tag, template) in enumerate(templates.items())
    }


def environment_of(steps: Sequence[Step]) -> dict[str, str]:
    """Return the variables that the workers of a job need, as sbatch gets them."""
    own = variables_of(steps)
    given: dict[str, str] = {}
    for step in steps:
        names = own.get(step.template.tag, {})
        given |= {names.get(name, name): value for name, value in step.template.environment.items()}
    return given


def command(site: SlurmSite, template: WorkerTemplate, options: WorkerOptions) -> list[str]:
    """Return the command of a worker, inside its image if it has one."""
    inside = inside_image(site, template)
    python = site.python or ("python3" if inside else sys.executable)
    if set_up(site, template) and not fixed_python(site, template):
        python = CHOSEN
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
    "nodes": ("NODES", "ARRAY_INX", "WAIT"),  # what a job holds is written, and nobody waits for its end
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
