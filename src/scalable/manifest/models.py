"""The typed form of ``scalable.yaml``, all sections together; names that refer to others are checked elsewhere.

Then what every manifest has without writing it, and the JSON Schema that editors complete by.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, PrivateAttr, Tag, field_validator, model_validator

from scalable import mpi
from scalable.axes import fields_in
from scalable.errors import QuantityError
from scalable.manifest.fields import (
    AxisValues,
    Count,
    CountOrNone,
    Flag,
    Importable,
    Line,
    Modules,
    Section,
    ShellLines,
    Text,
    Texts,
    Variant,
)
from scalable.manifest.machines import NodeType, Peak, Pool, Profile, Resources
from scalable.manifest.policies import Alerts, Budget, Policies
from scalable.manifest.targets import (
    BUILT_IN,
    AwsTarget,
    BatchSettings,
    GcpTarget,
    KubernetesTarget,
    LocalTarget,
    SlurmTarget,
    Target,
    provider_of,
)
from scalable.manifest.work import Minutes, Retry, Scenario, Sweep, WorkloadShape, once
from scalable.plugins import installed
from scalable.quantities import Cpu, Memory
from scalable.wording import shown


class Project(Section):
    name: Text
    """Names the project in run folders and reports."""
    default_storage: Text | None = None
    """Of older manifests; not read. ``artefacts`` says where results of stages are kept."""
    local_cache: Text | None = None
    """Where workers keep the results of cached tasks; SCALABLE_CACHE_DIR on a worker overrules it."""


class Component(BatchSettings):
    """A kind of worker: its image, size and surroundings, and on Slurm the settings of its batch jobs."""

    image: Text | None = None
    runtime: Text | None = None
    """Of older manifests; not read. A target's ``container_runtime`` says what starts containers."""
    cpus: Count = 1
    """Of a worker; with ``tasks_per_node``, of each of its processes."""
    memory: Memory | None = None
    """Of a worker, on each of its nodes."""
    nodes: Count = 1
    """Nodes that one worker holds, for a program that runs on several at once (MPI), started by scalable.mpi."""
    tasks_per_node: Count = 1
    """Processes of that program on each node."""
    gpus: CountOrNone = 0
    gpu_type: Text | None = None
    """On Slurm: the type of GPU, as the site calls it in its ``gres``: a100."""
    mounts: dict[str, Text] = {}
    """Host folder: folder in the container; both absolute."""
    env: dict[str, Variant] = {}
    tags: list[Text] = []
    preload_script: Text | None = None
    modules: Modules | None = None
    """On Slurm: environment modules that its batch jobs load before the worker starts, after those of the target."""
    conda: Line | None = None
    """On Slurm: the conda environment that its batch jobs activate, instead of the target's; its Python starts the
    worker."""
    setup: ShellLines | None = None
    """On Slurm: shell lines that its batch jobs run before the worker starts, after those of the target."""
    larger: Text | None = None
    """The component on which a task is run again after it ran out of memory on this one."""

    @property
    def program(self) -> mpi.MpiSize:
        """The processes of a program that its tasks start; one for an ordinary worker."""
        return mpi.MpiSize(self.nodes, self.tasks_per_node, self.cpus)

    @field_validator("memory")
    @classmethod
    def some(cls, memory: Memory | None) -> Memory | None:
        if memory is not None and memory.bytes == 0:
            raise QuantityError("a worker needs memory above 0", "write e.g. memory: 8GiB")
        return memory

    @model_validator(mode="after")
    def typed(self) -> Component:
        if self.gpu_type is not None and not self.gpus:
            raise QuantityError("gpu_type says of which type the GPUs are", "write gpus: 1 as well", ("gpu_type",))
        return self

    @field_validator("mounts")
    @classmethod
    def absolute(cls, mounts: dict[str, str]) -> dict[str, str]:
        remedy = "write two absolute paths, /host: /container"
        wrong = [(host, inside) for host, inside in mounts.items() if not (host[:1] == inside[:1] == "/")]
        QuantityError.raise_all(
            [QuantityError(f"{host}: {inside} is not a mount", remedy, (host,)) for host, inside in wrong]
        )
        return mounts


RETURNED = ("file", "dir")  # outputs whose paths the function returns


class Task(Section):
    component: Text
    run: Importable = None
    """What ``scalable run`` calls, as package.module:function; tasks without it are started by workflow scripts."""
    over: AxisValues = {}
    """Axes: the task is called once for each combination of their values, which it gets by name. A list, a range
    2025..2060 (both ends included) or a number n for 0 … n-1."""
    arguments: dict[str, Any] = {}
    """Passed to the function by name."""
    needs: list[Text] = []
    """Tasks that must have finished; their results are passed by their names. Of a task with an axis of this one, the
    result at the same value; with an axis that this one has not, the results at all its values, as a mapping."""
    cache: Flag = False
    """Called once for the same arguments; later its result is taken from the cache. True when not given, if there is an
    ``over``, so that a second run computes only what is missing."""
    outputs: dict[str, Text] = {}
    """By name: the path of a file, or of a folder with / at its end, with axes in braces (out/{scenario}-{year}.nc),
    which the function gets by this name if it takes it; or file or dir if the function returns the path."""
    run_minutes: Minutes | None = None
    """How long a call takes, where that was not measured or will be different; what fits no walltime is refused."""
    checkpoints: Flag = False
    """It keeps half-done work in ``scalable.scratch()`` and goes on from there, so it may outlast a walltime."""
    retry: Retry | None = None
    """What it does not say itself is as in policies.retry."""

    @model_validator(mode="before")
    @classmethod
    def resumed(cls, value: Any) -> Any:
        """Keep the results of a task with axes unless it says otherwise."""
        return {"cache": True, **value} if isinstance(value, dict) and value.get("over") is not None else value

    @field_validator("outputs")
    @classmethod
    def paths(cls, outputs: dict[str, str]) -> dict[str, str]:
        remedy = "write file, dir or a path, e.g. out/{scenario}.nc"
        wrong = []
        for name, written in outputs.items():
            try:
                good = written in RETURNED or (bool(re.search(r"[/.{]", written)) and "" not in fields_in(written))
            except ValueError:
                good = False
            if not good:
                wrong.append(QuantityError(f"{shown(written)} is not an output", remedy, (name,)))
        QuantityError.raise_all(wrong)
        return outputs


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
    workloads: dict[str, WorkloadShape] = {}
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
    groups = {name: list(values) for plugin in installed().values() for name, values in plugin.groups.items()}
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
    for plugin in installed().values():
        if plugin.short_form is not None:
            parts["Sweep"]["properties"] |= plugin.short_form.model_json_schema(mode="validation")["properties"]
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
