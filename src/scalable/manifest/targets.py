"""Targets, where a manifest may run: one model per provider. Unknown options are kept and warned about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, field_validator, model_validator

from scalable.errors import QuantityError
from scalable.manifest.fields import (
    Count,
    CountOrNone,
    Flag,
    Line,
    Modules,
    Port,
    Section,
    ShellLines,
    Text,
    Texts,
    Variant,
    Wait,
)
from scalable.manifest.machines import Toleration
from scalable.quantities import Cpu, Duration, Memory, Price, Share
from scalable.wording import shown

AMOUNT = r"(\d+(\.\d*)?|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?"  # Kubernetes' quantities
BUILT_IN = ("local", "slurm", "kubernetes", "aws", "gcp")
REGISTERED: dict[str, Callable[[], Any]] = {}
"""What makes the providers that this process registered; whoever reads a manifest knows their names."""
PROVIDER_GROUP = "scalable.providers"
"""The entry-point group under which installed packages offer providers."""


def installed_providers() -> Iterator[str]:
    """Return names of providers that other packages bring; looked up only when a manifest names an unknown one."""
    for point in entry_points(group=PROVIDER_GROUP):
        yield point.name


class Adaptive(Section):
    """Between how many workers a running session scales by itself."""

    minimum: CountOrNone = 0
    maximum: Count

    @model_validator(mode="after")
    def ordered(self) -> Adaptive:
        if self.minimum > self.maximum:
            raise QuantityError(f"minimum {self.minimum} is above maximum {self.maximum}", "swap them")
        return self


class Target(Section):
    """The base of all targets, which itself serves providers that others register."""

    model_config = ConfigDict(extra="allow")

    provider: Text
    overlay: Text | None = None
    adaptive: Adaptive | None = None


class LocalTarget(Target):
    provider: Literal["local"]
    max_workers: Count = 1
    threads_per_worker: Count = 1
    processes: Flag = False
    containers: Literal["none", "docker"] = "none"
    dashboard_address: Text | None = None
    cpu_price: Price | None = None
    """What an hour of a CPU costs, if it shall be counted."""


def clock_time(value: Any) -> Any:
    wanted = r"(?=.*[1-9])(\d+-)?\d{1,3}:[0-5]\d:[0-5]\d"  # not nothing
    if value is not None and not (isinstance(value, str) and re.fullmatch(wanted, value)):
        raise QuantityError(f"{shown(value)} is not a walltime", 'write HH:MM:SS, e.g. "04:00:00"')
    return value


Walltime = Annotated[Text | None, BeforeValidator(clock_time)]


class DriverJob(Section):
    """The batch job of a detached driver."""

    partition: Text | None = None
    """Where it runs, e.g. one for long small jobs; as workers when not given."""
    walltime: Walltime = None
    """How long a driver may run before it hands over to a successor; the partition's default when not given."""
    cpus: Count = 1
    memory: Memory = Memory.of_gib(2)
    grace: Wait = Duration(120)
    """How long before its walltime a driver begins to hand over: what runs may finish until 45 s before the end."""
    sbatch: Texts | None = None
    """Further options of sbatch, e.g. --qos=long."""

    @model_validator(mode="after")
    def in_time(self) -> DriverJob:
        if self.walltime is not None and self.grace.seconds >= Duration.of_walltime(self.walltime).seconds:
            text = f"grace {self.grace} is not shorter than the driver's walltime {self.walltime}"
            raise QuantityError(text, "write a longer walltime, or e.g. grace: 2m", ("grace",))
        return self


class BatchSettings(Section):
    """Settings of batch jobs of Slurm. Those of a component overrule the target's."""

    partition: Text | None = None
    """On Slurm: where batch jobs run. This and the next five of a component overrule the target's."""
    account: Text | None = None
    qos: Text | None = None
    """The quality of service."""
    constraint: Text | None = None
    """Features that nodes must have, as sbatch takes them: ``intel&ib``."""
    reservation: Text | None = None
    walltime: Walltime = None


class SlurmTarget(BatchSettings, Target):
    provider: Literal["slurm"]
    queue: Text | None = None
    """The same as ``partition``."""
    workers_per_job: Count | None = None
    """Workers of one kind that a batch job holds; one if nothing is said, with ``exclusive`` as many as fit."""
    nodes_per_job: Count = 1
    """Nodes that a batch job holds; its workers are spread over them evenly."""
    exclusive: Flag = False
    """Jobs have whole nodes, filled with workers, of several components where that fits."""
    backlog: Count | None = None
    """Batch jobs that may wait in Slurm's queue at a time; more are handed in as these start."""
    interface: Text | None = None
    logs_location: Text | None = None
    container_runtime: Literal["apptainer", "none"] = "apptainer"
    max_workers: Count | None = None
    cpu_price: Price | None = None
    """What an hour of a CPU is charged."""
    sbatch: Texts | None = None
    """Further options of sbatch that a site wants, e.g. --qos=high."""
    port: Port | None = None
    """Of the scheduler, where a firewall lets only some through; any free one if nothing is said."""
    contact_address: Text | None = None
    """How workers reach the scheduler if that differs from what this machine calls itself."""
    driver: DriverJob = DriverJob()
    """The batch job that ``scalable run --detach`` becomes."""
    python: Text | None = None
    """The Python of workers; if nothing is said, that of the environment which the set-up activates, else the one that
    runs this, or python3 inside an image."""
    modules: Modules | None = None
    """Environment modules that every batch job loads before its worker starts; those of a component come after them."""
    conda: Line | None = None
    """A conda environment, by name or folder, that every batch job activates; its Python starts the worker."""
    setup: ShellLines | None = None
    """Shell lines that every batch job runs before its worker starts; one that fails ends the job and is named."""
    code: Literal["shared", "upload", "image"] = "shared"
    """How the user's code reaches workers: by a folder both see, by an upload, or it is in the image already."""
    comm_port: int | None = None
    """Accepted from older manifests and ignored."""

    @model_validator(mode="before")
    @classmethod
    def one_partition(cls, given: Any) -> Any:
        """Let ``partition`` be another name of ``queue``."""
        if not isinstance(given, dict) or not isinstance(given.get("partition"), str):
            return given
        if given.get("queue") not in (None, given["partition"]):
            fact = f"queue is {shown(given['queue'])} and partition is {shown(given['partition'])}"
            raise QuantityError(f"{fact}; both name the partition", "write one of them", ("partition",))
        return {**given, "queue": given["partition"]}

    @field_validator("sbatch")
    @classmethod
    def only_further_options(cls, options: list[str] | None) -> list[str] | None:
        problems = [(place, problem) for place, line in enumerate(options or ()) if (problem := not_further(line))]
        QuantityError.raise_all([QuantityError(*problem, (place,)) for place, problem in problems])
        return options

    @model_validator(mode="after")
    def enough_workers(self) -> SlurmTarget:
        if self.nodes_per_job > 1 and self.workers_per_job is None and not self.exclusive:
            fact = f"nodes_per_job is {self.nodes_per_job}, but a job holds one worker, which uses one node"
            remedy = f"write workers_per_job: {2 * self.nodes_per_job} as well, or exclusive: true"
            raise QuantityError(fact, remedy, ("nodes_per_job",))
        if self.workers_per_job is not None and self.workers_per_job < self.nodes_per_job:
            fact = f"{self.workers_per_job} workers cannot use {self.nodes_per_job} nodes"
            raise QuantityError(fact, f"write at least {self.nodes_per_job}", ("workers_per_job",))
        return self


OWN_OPTIONS = {
    ("--array", "-a"): "write max_workers: every worker is a job or a step of its own",
    ("--nodes", "-N"): "write nodes_per_job, with workers_per_job or exclusive: true",
    ("--ntasks", "-n", "--ntasks-per-node", "--ntasks-per-core", "--ntasks-per-socket"): "write workers_per_job",
    ("--cpus-per-task", "-c", "--mincpus"): "write cpus in the component",
    ("--mem", "--mem-per-cpu", "--mem-per-gpu"): "write memory in the component",
    ("--gpus", "-G", "--gpus-per-node", "--gpus-per-task"): "write gpus, and gpu_type, in the component",
    ("--job-name", "-J", "--comment"): "remove it: jobs are found again by their names",
    ("--output", "-o", "--error", "-e"): "write logs_location",
    ("--wait", "-W", "--wrap", "--test-only", "--parsable"): "remove it",
}
"""Options of sbatch that are decided by other keys; a second value would break what was planned."""
HARMLESS = frozenset({("--nodes", "1"), ("-N", "1"), ("--ntasks", "1"), ("-n", "1"), ("--ntasks-per-node", "1")})


def not_further(line: str) -> tuple[str, str] | None:
    """Return why an option cannot be added to a job, and what to write instead; nothing if it can."""
    if "\n" in line or not line.startswith("-"):
        return f"{shown(line)} is no option of sbatch", "write e.g. --nice=10, one in a line"
    option, value = option_of(line)
    for names, remedy in OWN_OPTIONS.items():
        if option in names and (option, value) not in HARMLESS:
            return f"{option} is not yours to add: it is decided by another key", remedy
    return None


def option_of(line: str) -> tuple[str, str]:
    """Return name and value of an option: ``--nodes=2``, ``--nodes 2``, ``-N 2`` and ``-N2`` are one."""
    name, _, value = re.sub(r"[\s=]+", " ", line.strip(), count=1).partition(" ")
    if not name.startswith("--") and len(name) > 2:
        name, value = name[:2], name[2:] + value
    return name, value.strip()


class CloudTarget(Target):
    region: Text | None = None
    image: Text | None = None


class Charges(Section):
    """Prices of a cloud that differ from the price list of the package or are not in it."""

    vcpu: Price | None = None
    """An hour of one vCPU, where CPUs and memory are charged apart."""
    gb: Price | None = None
    """An hour of one GB of memory, where CPUs and memory are charged apart."""
    machine: Price | None = None
    """An hour of a whole machine of the type that is used."""
    spot: Share | None = None
    """What spot capacity costs of the usual price; all of it if nothing is said, as it changes by the hour."""

    @model_validator(mode="after")
    def whole(self) -> Charges:
        if (self.vcpu is None) != (self.gb is None):
            missing = "gb" if self.gb is None else "vcpu"
            raise QuantityError("vcpu and gb are charged together", f"write {missing} as well", (missing,))
        if self.machine is not None and self.vcpu is not None:
            raise QuantityError("a machine has one price", "write machine, or vcpu and gb", ("machine",))
        return self


class HiredTarget(CloudTarget):
    """Workers on capacity that is hired for each of them; the driver is somewhere they can reach."""

    spot: Flag = False
    """Capacity that costs less and may be taken back with a short notice."""
    max_workers: Count | None = None
    contact_address: Text | None = None
    """How workers reach this machine, if it is not in the same network as they are."""
    port: Port | None = None
    """Of the scheduler, where a firewall lets only some through; any free one if nothing is said."""
    python: Text = "python3"
    """The Python inside the image."""
    code: Literal["image", "upload"] = "image"
    """How the user's code reaches workers: it is in the image already, or a copy (small) is handed out."""
    environment: dict[str, Variant] = {}
    """Of all workers; it reaches them as a secret, like the env of a component."""
    prices: Charges | None = None


def unpinned(image: str) -> str:
    """Return why it is not certain what an image is; empty if it is."""
    name, _, digest = image.partition("@")
    if digest:
        return "" if re.fullmatch(r"[a-z0-9]+:[0-9a-f]{32,}", digest) else f"the image {image} has no valid digest"
    tag = name.rpartition("/")[2].partition(":")[2]  # a colon before the last slash is a port
    return "" if tag not in ("", "latest") else f"the image {image} changes under you"


class AwsTarget(HiredTarget):
    provider: Literal["aws"]
    cluster_type: Literal["fargate", "ec2"] = "fargate"
    instance_type: Text | None = None
    """With ec2; the smallest known one that a kind of worker fits on if nothing is said."""
    ami: Text | None = None
    """With ec2: a machine image with Docker; Amazon's for containers if nothing is said."""
    instance_profile: Text | None = None
    """With ec2: what instances may do, such as reading the run's certificates."""
    worker_cpu: Count | None = None
    """With fargate: the least a worker gets, in ECS's units; 1024 are a vCPU."""
    worker_mem: Count | None = None
    """With fargate: the least a worker gets, in MiB."""
    vpc: Text | None = None
    subnets: Texts | None = None
    security_groups: Texts | None = None
    execution_role_arn: Text | None = None
    """With fargate: what ECS may do to start a worker, such as reading the run's certificates."""
    task_role_arn: Text | None = None
    """With fargate: what the work itself may do."""
    tags: dict[str, Text] = {}


class GcpTarget(HiredTarget):
    provider: Literal["gcp"]
    project_id: Text | None = None
    zone: Text | None = None
    machine_type: Text | None = None
    """The smallest known one that a kind of worker fits on if nothing is said."""
    network: Text | None = None
    """The subnetwork of workers, in the zone's region."""
    service_account: Text | None = None
    """What workers may do, such as reading the run's certificates."""


class SecretKey(Section):
    """A value that stays in a Secret of the namespace and is only named here."""

    secret: Text
    key: Text


def plain_or_secret(value: Any) -> Any:
    """Give one message for what is neither, instead of one for each thing it could have been."""
    secret = isinstance(value, SecretKey) or (isinstance(value, dict) and value.keys() == {"secret", "key"})
    if not secret and not isinstance(value, str | int | float):
        raise QuantityError(f"{shown(value)} is no variable's value", "write a text, or {secret: NAME, key: KEY}")
    return value


Value = Annotated[Variant | SecretKey, BeforeValidator(plain_or_secret)]


class Amounts(Section):
    """Resources of a worker's container beside those that its profile or component states, in Kubernetes' words."""

    requests: dict[Text, str | int | float] = {}
    limits: dict[Text, str | int | float] = {}

    @field_validator("requests", "limits")
    @classmethod
    def amounts(cls, given: dict[str, str | int | float]) -> dict[str, str | int | float]:
        remedy = "write an amount as Kubernetes does, e.g. memory: 8Gi or cpu: 500m"
        wrong = [name for name, value in given.items() if not re.fullmatch(AMOUNT, str(value))]
        QuantityError.raise_all(
            [QuantityError(f"{shown(given[name])} is no amount of {name}", remedy, (name,)) for name in wrong]
        )
        return given


class KubernetesTarget(CloudTarget):
    provider: Literal["kubernetes"]
    namespace: Text = "default"
    context: Text | None = None
    """Of the kubeconfig; its current one when not given."""
    kubeconfig: Text | None = None
    """The file that says how to reach the cluster; KUBECONFIG or ~/.kube/config when not given, and inside the cluster
    the pod's own service account."""
    max_workers: Count | None = None
    contact_address: Text | None = None
    """How pods reach this machine, if they can; else they are reached through the cluster's API."""
    worker_service_account: Text | None = None
    resources: Amounts = Amounts()
    env: dict[str, Value] = {}
    """A value, or {secret: NAME, key: KEY} for one that a Secret holds."""
    tolerations: list[Toleration] = []
    """For all workers; a pool may have its own besides."""
    node_selector: dict[str, Text] = {}
    """Labels of the nodes that workers may run on; those of a worker's pool come on top."""
    scheduler_cpu: Cpu | None = None
    """Of the pod that connects this machine with the workers, and of the driver's own when it runs in the cluster."""
    scheduler_memory: Memory | None = None
    python: Text = "python3"
    """The Python of the image."""
    code: Literal["image", "upload"] = "image"
    """How the user's code reaches workers: it is in the image already, or a small project is uploaded."""
    walltime: Walltime = None
    """After this a worker is ended, whatever happens to the driver."""
    claim: Text | None = None
    """A PersistentVolumeClaim for the driver's folder .scalable when it runs in the cluster, where a store may lie."""
    egress: list[Text] = []
    """What else pods connect to, as host:port; a deployed namespace lets nothing else through."""

    @field_validator("namespace")
    @classmethod
    def namespace_name(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
            remedy = "use up to 63 lower-case letters, digits and dashes"
            raise QuantityError(f"{shown(name)} cannot be the name of a namespace", remedy)
        return name

    @field_validator("env")
    @classmethod
    def variables(cls, env: dict[str, Value]) -> dict[str, Value]:
        wrong = [name for name in env if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
        remedy = "use letters, digits and underscores"
        QuantityError.raise_all(
            [QuantityError(f"{shown(name)} cannot be the name of a variable", remedy, (name,)) for name in wrong]
        )
        return env


def provider_of(value: Any) -> str:
    """Return which model reads a target; a provider registered by others is read by the base."""
    provider = value.get("provider") if isinstance(value, dict) else getattr(value, "provider", None)
    return provider if provider in BUILT_IN else "other"
