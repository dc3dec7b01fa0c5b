"""The typed form of ``scalable.yaml``, all sections together; names that refer to others are checked elsewhere.

Then what every manifest has without writing it, and the JSON Schema that editors complete by.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, PrivateAttr, Tag, field_validator

from scalable.catalogue import GROUPS
from scalable.errors import QuantityError
from scalable.manifest.fields import Count, CountOrNone, Flag, Importable, Section, Text, Texts, Variant
from scalable.manifest.machines import NodeType, Peak, Pool, Profile, Resources
from scalable.manifest.policies import Alerts, Budget, Policies
from scalable.manifest.targets import (
    BUILT_IN,
    AwsTarget,
    GcpTarget,
    KubernetesTarget,
    LocalTarget,
    SlurmTarget,
    Target,
    provider_of,
)
from scalable.manifest.work import Retry, Scenario, Sweep, Workload, once
from scalable.quantities import Cpu, Memory
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
    retry: Retry | None = None
    """What it does not say itself is as in policies.retry."""


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
    _folder: Path = PrivateAttr(default_factory=Path)
    _declared: frozenset[str] = PrivateAttr(frozenset())

    @property
    def folder(self) -> Path:
        """The folder that relative paths in it start from."""
        return self._folder

    def read_in(self, folder: Path) -> Manifest:
        """Return the same manifest with relative paths that start from ``folder``."""
        manifest = self.model_copy()
        manifest._folder = folder
        return manifest

    @property
    def declared(self) -> frozenset[str]:
        """Profiles that the manifest writes down; the others are the shipped ones."""
        return self._declared

    @field_validator("version", mode="before")
    @classmethod
    def first(cls, version: object) -> object:
        if type(version) is not int or version != 1:
            raise QuantityError(f"{shown(version)} is not a version of the manifest", "write version: 1")
        return version


def size(cpu: int, gib: int) -> Resources:
    return Resources(cpu=Cpu.of(cpu), memory=Memory.of_gib(gib))


def peak(typical: int, highest: int) -> Peak:
    return Peak(typical=Memory.of_gib(typical), highest=Memory.of_gib(highest))


PROFILES = {
    "standard": Profile(request=size(2, 2), limit=size(4, 8), peak=peak(2, 2)),
    "heavy": Profile(request=size(2, 12), limit=size(4, 24), peak=peak(12, 15), alone=True, min_nodes=2),
    "wfrb": Profile(request=size(1, 2), limit=size(2, 4), peak=peak(2, 3)),
}


def with_shipped(manifest: Manifest) -> Manifest:
    groups = {name: list(assets) for name, assets in GROUPS.items()}
    own = {name: completed(profile, PROFILES.get(name)) for name, profile in manifest.profiles.items()}
    whole = manifest.model_copy(update={"profiles": {**PROFILES, **own}, "groups": {**groups, **manifest.groups}})
    whole._declared = frozenset(manifest.profiles)
    return whole


def completed(own: Profile, shipped: Profile | None) -> Profile:
    """Return a profile with what it leaves out of the shipped one of the same name; no peak that it cannot hold."""
    if shipped is None:
        return own
    left_out = {name: getattr(shipped, name) for name in Profile.model_fields if name not in own.model_fields_set}
    if (seen := left_out.get("peak")) is not None and seen.highest > own.limit.memory:
        del left_out["peak"]
    return own.model_copy(update=left_out)


VARIABLE = {"type": "string", "pattern": r"\$\{.+\}"}
MEMORY = {"type": "string", "pattern": Memory.pattern, "examples": [Memory.written]}
NAMES = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def json_schema() -> dict[str, Any]:
    """Return the schema; fields that take a value also take ``${VAR}``, which is replaced before checking."""
    schema = Manifest.model_json_schema(mode="validation")
    parts = schema["$defs"]
    parts["Peak"] = {"anyOf": [MEMORY, parts["Peak"]]}
    parts["Minutes"] = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, parts["Minutes"]]}
    parts["Fork"] = {"anyOf": [parts["Fork"]["properties"]["policy"], parts["Fork"]]}
    for name in ("Scenario", "Growth"):
        fields = parts[name]["properties"]
        fields["workloads"] = {"anyOf": [NAMES, fields["workloads"]]}
    parts["Target"]["properties"]["provider"]["not"] = {"enum": list(BUILT_IN)}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **open_up(schema), "title": "scalable.yaml"}


def open_up(part: Any) -> Any:
    if isinstance(part, list):
        return [open_up(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = {key: open_up(value) for key, value in part.items()}
    narrow = part.get("type") == "string" and ("pattern" in part or "enum" in part)
    return {"anyOf": [part, VARIABLE]} if narrow or part.get("type") in ("integer", "number", "boolean") else part
