"""The interface of a provider: how a target becomes a cluster, and what every backend must be able to do.

``DeploymentProvider`` is the public protocol; ``get_provider`` finds one by its name. A provider built on Dask usually
writes a ``Launcher`` only, and gives it to ``TaggedCluster``, which does the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import entry_points
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from scalable import mpi
from scalable.engine.events import Loss
from scalable.errors import ScalableError, UsageError
from scalable.findings import Finding
from scalable.machine_hours import HeldResources
from scalable.manifest.models import PROFILES, Component, Manifest
from scalable.manifest.policies import Policies
from scalable.manifest.targets import PROVIDER_GROUP, REGISTERED, KubernetesTarget, LocalTarget, Target
from scalable.manifest.validation import ValidationReport
from scalable.planning.places import WorkerPlace, places
from scalable.planning.resources import CostEstimate, ScalePlan, equal_part
from scalable.quantities import Memory
from scalable.wording import not_defined
from scalable.worker.options import WorkerOptions
from scalable.worker.runner.environment import THREAD_VARIABLES

if TYPE_CHECKING:
    from scalable.cluster.client import ScalableClient


OwnTarget = TypeVar("OwnTarget", bound=Target)


class ProviderError(ScalableError):
    """A cluster that cannot be built or scaled as asked."""


class LaunchRefused(ProviderError):  # noqa: N818 - what happened, not only that something did
    """Workers that were asked for will not come; the message is the backend's own reason.

    ``definite`` if asking again would lead to the same; a quota or a limit may pass.
    """

    def __init__(self, reason: str, *, definite: bool = False) -> None:
        super().__init__(reason)
        self.definite = definite


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of a component's batch jobs beside their size. Those that are not set are the target's."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    walltime: str | None = None

    def over(self, others: BatchOptions) -> BatchOptions:
        """Return the same with what it does not say from others."""
        return BatchOptions(*(getattr(self, name) or getattr(others, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class WorkerTemplate:
    """All workers of one tag: size, surroundings, and how many tasks each takes at once."""

    tag: str
    cpus: int = 1
    """On each of its nodes."""
    memory: Memory | None = None
    gpus: int = 0
    slots: int = 1
    also: tuple[str, ...] = ()
    """Other tags whose work it takes."""
    env: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    mounts: Mapping[str, str] = field(default_factory=dict)
    preload_script: str | None = None
    modules: tuple[str, ...] = ()
    """Set-up of batch jobs on Slurm before the worker starts, with ``conda`` and ``setup``, as in the manifest."""
    conda: str | None = None
    setup: str | None = None
    program: mpi.MpiSize = mpi.ONE
    """The processes of a program that its tasks start, on several nodes perhaps; one for an ordinary worker."""
    gpu_type: str | None = None
    batch: BatchOptions = field(default_factory=BatchOptions)

    @classmethod
    def of(cls, tag: str, component: Component, slots: int = 1) -> WorkerTemplate:
        program = component.program
        slots = slots if program.ranks == 1 else 1  # a program has all there is
        return cls(
            tag=tag,
            cpus=program.cpus_per_node,
            memory=component.memory,
            gpus=component.gpus,
            slots=slots,
            also=tuple(component.tags),
            env={name: str(value) for name, value in component.env.items()},
            image=component.image,
            mounts=dict(component.mounts),
            preload_script=component.preload_script,
            modules=tuple(component.modules or ()),
            conda=component.conda,
            setup=component.setup,
            program=program,
            gpu_type=component.gpu_type,
            batch=BatchOptions(*(getattr(component, name) for name in BatchOptions.__dataclass_fields__)),
        )

    def options(self, name: str, scheduler: str) -> WorkerOptions:
        """Return the command line of one such worker; launchers add where it runs."""
        return WorkerOptions(
            scheduler=scheduler,
            name=name,
            resources=self.resources,
            threads=self.slots,
            memory=self.memory.bytes if self.memory else None,
            preload=self.preload_script,
        )

    @property
    def resources(self) -> dict[str, float]:
        """Return what Dask routes by: as many units of each tag as there are slots."""
        return {name: float(self.slots) for name in (self.tag, *self.also)}

    @property
    def environment(self) -> dict[str, str]:
        """Return thread pools sized to the CPUs of a slot, then what the component says."""
        return {**dict.fromkeys(THREAD_VARIABLES, str(self.threads)), **self.runner_environment}

    @property
    def runner_environment(self) -> dict[str, str]:
        """Return what runners have besides: how many processes a program has, and what the component says."""
        return {**self.program.variables, **self.env}

    @property
    def all_cpus(self) -> int:
        """Return the CPUs on all its nodes, which are paid for."""
        return self.cpus * self.program.nodes

    @property
    def threads(self) -> int:
        """Return the CPUs of a slot, or of one process of a program."""
        return self.program.cpus if self.program.ranks > 1 else max(1, self.cpus // self.slots)


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    """The request to a provider: one target of a manifest and the kinds of workers it shall serve."""

    project: str
    target_name: str
    target: Target
    components: Mapping[str, WorkerTemplate]
    policies: Policies = field(default_factory=Policies)
    folder: str = "."
    """Where the manifest, and with it the user's code, lies."""
    run_folder: str | None = None
    """Where logs and certificates of this run go; a folder of its own if nothing is said."""
    places: Mapping[str, WorkerPlace] = field(default_factory=dict)
    """Where workers of each kind go, for backends that place them on pools of nodes."""

    def only(self, tags: Collection[str]) -> DeploymentSpec:
        """Return it with these kinds of workers and no others: what nobody uses need not be possible here."""
        return replace(self, components={tag: part for tag, part in self.components.items() if tag in tags})

    def target_as(self, kind: type[OwnTarget]) -> OwnTarget:
        """Return the target as the type of one provider, which is asked for its own targets only."""
        assert isinstance(self.target, kind), f"{self.target_name} is no {kind.__name__}"
        return self.target

    @classmethod
    def from_manifest(
        cls,
        manifest: Manifest,
        *,
        target_name: str | None,
        folder: str = ".",
        run_folder: str | None = None,
        apart: Collection[str] = (),
    ) -> DeploymentSpec:
        """Return a target of the manifest; without any target, this machine. ``apart``: see ``ScalePlan``."""
        if target_name is None:
            workers = max(1, len(manifest.components)) if manifest.components else usable_cpus()
            target: Target = LocalTarget(provider="local", max_workers=workers)
        elif target_name in manifest.targets:
            target = manifest.targets[target_name]
        else:
            raise UsageError("; ".join(not_defined("target", target_name, manifest.targets)))
        slots = getattr(target, "threads_per_worker", 1)
        return cls(
            project=manifest.project.name,
            target_name=target_name or "local",
            target=target,
            components=templates(manifest, slots, most_cpus(target)),
            policies=manifest.policies,
            folder=folder,
            run_folder=run_folder,
            places=places(manifest, apart) if isinstance(target, KubernetesTarget) else {},
        )


def usable_cpus() -> int:
    """Return how many CPUs this process may use, which may be fewer than the machine has."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def most_cpus(target: Target) -> int | None:
    """Return what a worker can have at most; on this machine its part of it, as the planner counts."""
    if not isinstance(target, LocalTarget):
        return None
    return equal_part(usable_cpus(), target.adaptive.maximum if target.adaptive else target.max_workers)


def templates(manifest: Manifest, slots: int, most: int | None = None) -> dict[str, WorkerTemplate]:
    """Return the manifest's components and the profiles its sweeps run on, by tag.

    A component says how many CPUs its workers have, and is believed. A profile says how many a worker may use, so it
    gets no more than ``most``: thread pools of several workers that each believe to have a whole machine slow it down.
    """
    kinds = {tag: WorkerTemplate.of(tag, part, slots) for tag, part in manifest.components.items()}
    for tag, profile in manifest.profiles.items() if manifest.sweeps else ():
        cpus, limit = ceil(profile.limit.cpu.cores), profile.limit
        kinds[tag] = WorkerTemplate(tag, min(cpus, most or cpus), limit.memory, limit.gpus, slots)
    return kinds


@dataclass(frozen=True, slots=True)
class ClusterHandle:
    """A cluster that was built: the backend itself, a way to get a client for it, and facts about it."""

    backend: Any
    client_factory: Callable[[], ScalableClient]
    metadata: dict[str, Any] = field(default_factory=dict)


class DeploymentProvider(Protocol):
    """A place to run. A session builds, and in the end closes, clusters through the same object."""

    name: str

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        """Return what keeps the target from working here, and what is questionable; starts nothing."""
        ...

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        """Return a cluster without workers; for a session its ``backend`` must be a ``TaggedCluster``."""
        ...

    def scale(self, cluster: ClusterHandle, plan: ScalePlan) -> None:
        """Bring it to the plan's counts."""
        ...

    def close(self, cluster: ClusterHandle) -> None:
        """End it with all that was started for it; may be called again."""
        ...

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        """Return what the plan costs by the hour; nothing if that is not known."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerFate:
    """The reason why a worker is gone, in the engine's terms and in words."""

    cause: Loss
    detail: str = ""
    peak: Memory | None = None
    """What it used, if it died of that."""


class Launched(Protocol):
    """One worker that was asked for: a process, a batch job, a pod."""

    @property
    def job(self) -> str | None:
        """Return what the backend calls it, for people."""
        ...

    @property
    def waits(self) -> str:
        """Return why it does not run yet, in the backend's words; empty once it runs."""
        ...

    @property
    def fate(self) -> WorkerFate | None:
        """Return why it is gone; nothing while it is there, as far as is known."""
        ...

    async def learn_fate(self, within: float) -> WorkerFate:
        """Find out why it is gone; asks the backend again instead of waiting for its next report."""
        ...

    async def stop(self, *, gently: bool = True) -> None:
        """End it. Returns when it is gone or the backend has promised to end it."""
        ...


@runtime_checkable
class Witness(Protocol):
    """A worker whose tasks can be known after its death."""

    def running(self) -> set[str] | None:
        """Return keys of tasks that it was doing; nothing if that is not known."""
        ...


@runtime_checkable
class Warned(Protocol):
    """A worker whose backend says why it had notice."""

    @property
    def notice(self) -> str:
        """Return the notice in the backend's words; empty if it has none."""
        ...


@runtime_checkable
class Finite(Protocol):
    """A worker whose allocation ends."""

    @property
    def work_ends_at(self) -> float | None:
        """Return when work on it must be over, in seconds since the epoch.

        Nothing while that is not known, infinity if it does not end.
        """
        ...


@runtime_checkable
class Successor(Protocol):
    """A worker that may have been started in the place of another, in an allocation that had run for a while."""

    @property
    def late(self) -> bool: ...


@runtime_checkable
class Grouped(Protocol):
    """A worker that may share an allocation, such as a batch job, with others; it is given back as a whole."""

    @property
    def allocation(self) -> str:
        """Return the name of what it shares; empty if it shares nothing."""
        ...


class Launcher(Protocol):
    """Starts workers of one backend and knows how they are."""

    def check(self, template: WorkerTemplate) -> str:
        """Return why a worker of this kind can never be had here; empty if it can."""
        ...

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        """Ask for one worker; raises ``LaunchRefused`` with the backend's reason."""
        ...

    async def poll(self, launched: list[Launched]) -> float:
        """Bring ``waits`` and ``fate`` of these up to date; says after how many seconds to ask again."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Node:
    """A machine that workers of this run are or were on, as the backend sees it."""

    name: str
    pool: str
    since: float
    """When it appeared, in seconds since the epoch; also long before the run."""
    until: float | None = None
    """When it went; nothing while it is there."""
    awaited: bool = True
    """It may have been started for this run; one that a worker found ready, and whose age is not known, was not."""


@runtime_checkable
class Landlord(Protocol):
    """A launcher whose machines are paid for whole, whoever is on them. Both answers are from memory: nothing waits."""

    def nodes(self) -> Sequence[Node]:
        """Return machines that had a worker of this run, those that are gone, too."""
        ...

    def node_of(self, worker: str) -> str | None:
        """Return the name of the machine that a worker is or was on; nothing while it has none."""
        ...


@dataclass(frozen=True, slots=True)
class HeldAllocation:
    """The resources that one batch job holds, and from when to when."""

    name: str
    held: HeldResources
    since: float
    """When the batch system started it, in seconds of the epoch."""
    until: float | None = None
    """When it ended; nothing while it is there."""

    def used(self, now: float) -> HeldResources:
        """Return the hours it has used by now."""
        return self.held.for_seconds(max(0.0, (now if self.until is None else self.until) - self.since))


@runtime_checkable
class Tenant(Protocol):
    """A launcher whose workers are in allocations of a batch system. The answer is from memory: nothing waits."""

    def holdings(self) -> Sequence[HeldAllocation]:
        """Return all allocations that this run holds or held."""
        ...


BUILT_IN = {
    "local": ("scalable.cluster.local", "LocalProvider"),
    "slurm": ("scalable.cluster.slurm.provider", "SlurmProvider"),
    "kubernetes": ("scalable.cluster.kubernetes.provider", "KubernetesProvider"),
    "aws": ("scalable.cluster.aws.provider", "AwsProvider"),
    "gcp": ("scalable.cluster.gcp.provider", "GcpProvider"),
}


def register_provider(name: str, factory: Callable[[], DeploymentProvider]) -> None:
    """Make a provider known by a name; the last one registered wins, also over one that comes with the package."""
    if not isinstance(name, str) or not name or name != name.strip() or not callable(factory):
        raise UsageError(
            "register_provider takes a name, without blanks around it, and something to call that gives the provider"
        )
    REGISTERED[name] = factory


def ask_provider(manifest: Manifest, spec: DeploymentSpec, known: Iterable[Finding]) -> ValidationReport:
    """Return what the target's provider says of it, at the paths of the manifest.

    Left out are warnings that the manifest's own checks gave, and those about a profile that nobody wrote.
    """
    report = get_provider(spec.target.provider).validate(spec)
    warned = {(finding.path, finding.code) for finding in known}
    new = [finding for finding in report.warnings if (finding.path, finding.code) not in warned]
    shipped = {tag for tag, profile in manifest.profiles.items() if profile is PROFILES.get(tag)}
    new = [finding for finding in new if profile_in(finding.path, manifest) not in shipped]
    return ValidationReport.of(about_profile(finding, manifest, spec) for finding in (*report.errors, *new))


def profile_in(path: str, manifest: Manifest) -> str:
    """Return the profile that a provider's path is about; empty if it is about something else.

    Providers know kinds of workers, and call all of them components.
    """
    section, _, rest = path.partition(".")
    tag = next((tag for tag in manifest.profiles if rest == tag or rest.startswith(f"{tag}.")), "")
    return tag if section == "components" and tag not in manifest.components else ""


def about_profile(finding: Finding, manifest: Manifest, spec: DeploymentSpec) -> Finding:
    """Return a finding at the profile it is about; the image of a profile's workers is the target's."""
    profile = profile_in(finding.path, manifest)
    if not profile:
        return finding
    image = finding.path == f"components.{profile}.image"
    path = f"targets.{spec.target_name}.image" if image else f"profiles.{finding.path.partition('.')[2]}"
    return replace(finding, path=path)


def get_provider(name: str) -> DeploymentProvider:
    """Return the provider of this name: registered, of this package, or of another that is installed."""
    if name in REGISTERED:
        made: DeploymentProvider = REGISTERED[name]()
        return made
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name]
        provider: DeploymentProvider = getattr(import_module(module), attribute)()
        return provider
    offered = {point.name: point for point in entry_points(group=PROVIDER_GROUP)}
    if name in offered:
        foreign: DeploymentProvider = offered[name].load()()
        return foreign
    raise UsageError("; ".join(not_defined("provider", name, {*REGISTERED, *BUILT_IN, *offered})))
