"""Where a manifest may run: one model per provider. Options a provider does not know are kept and warned about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, field_validator, model_validator

from scalable.errors import QuantityError
from scalable.manifest.fields import Count, CountOrNone, Flag, Port, Section, Text, Texts, Variant
from scalable.manifest.machines import Toleration
from scalable.quantities import Cpu, Memory, Price, Share
from scalable.wording import shown

AMOUNT = r"(\d+(\.\d*)?|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?"  # Kubernetes' quantities
BUILT_IN = ("local", "slurm", "kubernetes", "aws", "gcp")
REGISTERED: dict[str, Callable[[], Any]] = {}
"""What makes the providers that this process registered; whoever reads a manifest knows their names."""
PROVIDER_GROUP = "scalable.providers"
"""The entry-point group under which installed packages offer providers."""


def installed_providers() -> Iterator[str]:
    """Names of providers that other packages bring; looked up only when a manifest names an unknown one."""
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
    """What every target has. The base itself serves providers that others register."""

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


class SlurmTarget(Target):
    provider: Literal["slurm"]
    queue: Text | None = None
    account: Text | None = None
    walltime: Walltime = None
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
    python: Text | None = None
    """The Python of workers; the one that runs this, or python3 inside an image, if nothing is said."""
    code: Literal["shared", "upload", "image"] = "shared"
    """How the user's code reaches workers: by a folder both see, by an upload, or it is in the image already."""
    comm_port: int | None = None
    """Accepted from older manifests and ignored."""


class CloudTarget(Target):
    region: Text | None = None
    image: Text | None = None


class Charges(Section):
    """What a cloud charges you, where that differs from the price list that comes with the package or is not in it."""

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
    """Why it is not certain what an image is; empty if it is."""
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
