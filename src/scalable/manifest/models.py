"""The typed form of ``scalable.yaml``, all sections together; names that refer to others are checked elsewhere."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Tag, field_validator

from scalable.errors import QuantityError
from scalable.manifest.alerts import Alerts
from scalable.manifest.fields import Count, CountOrNone, Flag, Importable, Section, Text, Texts, Variant
from scalable.manifest.machines import NodeType, Pool, Profile
from scalable.manifest.money import Budget
from scalable.manifest.policies import Policies
from scalable.manifest.targets import (
    AwsTarget,
    GcpTarget,
    KubernetesTarget,
    LocalTarget,
    SlurmTarget,
    Target,
    provider_of,
)
from scalable.manifest.work import Scenario, Sweep, Workload, once
from scalable.quantities import Memory
from scalable.wording import shown


class Project(Section):
    name: Text
    """Names the project in run folders and reports."""
    default_storage: Text | None = None
    """Of older manifests; not read. ``artefacts`` says where results of stages are kept."""
    local_cache: Text | None = None
    """Where workers keep the results of cached tasks; SCALABLE_CACHE_DIR on a worker overrules it."""


class Component(Section):
    """A kind of worker: its image, size and surroundings."""

    image: Text | None = None
    runtime: Text | None = None
    """Of older manifests; not read. A target's ``container_runtime`` says what starts containers."""
    cpus: Count = 1
    memory: Memory | None = None
    gpus: CountOrNone = 0
    mounts: dict[str, Text] = {}
    """Host folder: folder in the container; both absolute."""
    env: dict[str, Variant] = {}
    tags: list[Text] = []
    preload_script: Text | None = None
    larger: Text | None = None
    """The component on which a task is run again after it ran out of memory on this one."""

    @field_validator("memory")
    @classmethod
    def some(cls, memory: Memory | None) -> Memory | None:
        if memory is not None and memory.bytes == 0:
            raise QuantityError("a worker needs memory above 0", "write e.g. memory: 8GiB")
        return memory

    @field_validator("mounts")
    @classmethod
    def absolute(cls, mounts: dict[str, str]) -> dict[str, str]:
        remedy = "write two absolute paths, /host: /container"
        wrong = [(host, inside) for host, inside in mounts.items() if not (host[:1] == inside[:1] == "/")]
        QuantityError.raise_all(
            [QuantityError(f"{host}: {inside} is not a mount", remedy, (host,)) for host, inside in wrong]
        )
        return mounts


class Task(Section):
    component: Text
    run: Importable = None
    """What ``scalable run`` calls, as package.module:function; tasks without it are started by workflow scripts."""
    arguments: dict[str, Any] = {}
    """Passed to the function by name."""
    needs: list[Text] = []
    """Tasks that must have finished; their results are passed by their names."""
    cache: Flag = False
    """Called once for the same arguments; later its result is taken from the cache."""
    outputs: dict[str, Literal["file", "dir"]] = {}


Group = Annotated[Texts, AfterValidator(once)]

AnyTarget = Annotated[
    Annotated[LocalTarget, Tag("local")]
    | Annotated[SlurmTarget, Tag("slurm")]
    | Annotated[KubernetesTarget, Tag("kubernetes")]
    | Annotated[AwsTarget, Tag("aws")]
    | Annotated[GcpTarget, Tag("gcp")]
    | Annotated[Target, Tag("other")],
    Discriminator(provider_of),
]


class Manifest(Section):
    """All of a ``scalable.yaml`` after overlays and variables."""

    version: Literal[1]
    project: Project
    targets: dict[str, AnyTarget] = {}
    components: dict[str, Component] = {}
    tasks: dict[str, Task] = {}
    overlays: dict[str, dict[str, Any]] = {}
    nodes: dict[str, NodeType] = {}
    pools: dict[str, Pool] = {}
    profiles: dict[str, Profile] = {}
    groups: dict[str, Group] = {}
    sweeps: dict[str, Sweep] = {}
    workloads: dict[str, Workload] = {}
    scenarios: dict[str, Scenario] = {}
    budget: Budget | None = None
    policies: Policies = Policies()
    alerts: Alerts = Alerts()
    store: Text = "sqlite:///.scalable/results.db"
    artefacts: Text = ".scalable/artefacts"
    """Where results of stages are kept: a folder all workers see, or a URL such as s3://bucket/artefacts."""
    tracking: Text | None = None
    """The URL of an MLflow server that sweeps are logged to; MLFLOW_TRACKING_URI when not given."""

    @field_validator("version", mode="before")
    @classmethod
    def first(cls, version: object) -> object:
        if type(version) is not int or version != 1:
            raise QuantityError(f"{shown(version)} is not a version of the manifest", "write version: 1")
        return version
