"""``CloudProvider``: what targets on all clouds have in common, from the check of a target to its cost.

``CloudCluster`` is the run: a scheduler here, workers on hired capacity that connect with the run's own certificates.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from distributed.utils import get_ip

from scalable.cluster.base import ClusterHandle, DeploymentSpec, WorkerTemplate
from scalable.cluster.clouds.fleet import CloudError, Fleet, image_problem
from scalable.cluster.clouds.launcher import CloudLauncher
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.network import contact, no_such_port
from scalable.cluster.provider import TaggedProvider
from scalable.cluster.security import certified, forget
from scalable.errors import ScalableError, UsageError
from scalable.findings import Finding
from scalable.manifest.targets import AwsTarget, GcpTarget
from scalable.manifest.validation import ValidationReport
from scalable.planning.capacity import CapacityError
from scalable.planning.prices import PriceUnknownError, Wanted, charge, estimate
from scalable.planning.resources import CostEstimate, ResourceRequest, ScalePlan
from scalable.quantities import Memory
from scalable.worker.project import ProjectCode


class CloudProvider(TaggedProvider):
    """One cloud adds its name, what it can check, and its fleet."""

    name: str

    @abstractmethod
    def fleet(self, spec: DeploymentSpec, run: str) -> Fleet:
        """Return what hires workers for one run."""

    @abstractmethod
    def place(self, spec: DeploymentSpec) -> Mapping[str, str | None]:
        """Return where the workers are, in the cloud's own words."""

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        run = uuid.uuid4().hex[:8]
        try:
            fleet = self.fleet(spec, run)
        except CloudError as error:
            raise UsageError(str(error)) from None
        cluster = build(fleet, target_of(spec), spec, run)
        return self.handle(cluster, **self.place(spec), run=run)

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        return cost(spec, target_of(spec), plan)


def target_of(spec: DeploymentSpec) -> AwsTarget | GcpTarget:
    assert isinstance(spec.target, AwsTarget | GcpTarget), "a cloud's provider is asked for its own targets only"
    return spec.target


class CloudCluster(TaggedCluster):
    """All workers of one run. ``close`` removes everything that it had the cloud make."""

    def __init__(
        self,
        fleet: Fleet,
        target: AwsTarget | GcpTarget,
        home: Path,
        folder: Path,
        templates: Iterable[WorkerTemplate],
        *,
        name: str,
        allowed_failures: int = 1,
        worker_clients: bool = False,
    ) -> None:
        if problem := no_such_port(target.port or 0):
            raise UsageError(f"port: {problem}")
        try:
            fleet.open()
        except CloudError as error:
            raise UsageError(str(error)) from None
        self.handout = home / "handout"
        environment = {key: str(value) for key, value in target.environment.items()}
        host = {} if target.contact_address else {"host": get_ip()}
        security = certified(self.handout, worker_clients=worker_clients)
        try:
            ProjectCode.of_folder(folder, target.code).hand_out(self.handout)
            super().__init__(
                CloudLauncher(fleet, self.handout, environment),
                templates,
                security=security,
                scheduler={"protocol": "tls", "port": target.port or 0, **host},
                allowed_failures=allowed_failures,
                name=name,
            )
        except BaseException:
            forget(self.handout)
            raise
        if target.contact_address:
            self.scheduler.contact_address = contact(target.contact_address, self.scheduler.address)

    async def _end(self) -> None:
        try:
            await super()._end()
        finally:
            forget(self.handout)


def build(fleet: Fleet, target: AwsTarget | GcpTarget, spec: DeploymentSpec, run: str) -> CloudCluster:
    home = Path(spec.run_folder) if spec.run_folder is not None else Path(".scalable") / target.provider / run
    return CloudCluster(
        fleet,
        target,
        home.resolve(),
        Path(spec.folder).expanduser().resolve(),
        spec.components.values(),
        name=spec.project,
        allowed_failures=spec.policies.retry.times,
        worker_clients=spec.policies.worker_clients == "allowed",
    )


def target_findings(spec: DeploymentSpec, target: AwsTarget | GcpTarget, needed: dict[str, str]) -> ValidationReport:
    """Check a target without asking the cloud. ``needed`` are keys it must have, with what to write."""
    path = f"targets.{spec.target_name}"
    findings = []
    for key, remedy in needed.items():
        if getattr(target, key) is None:
            findings.append(Finding.error(f"no-{key}", f"{path}.{key}", f"{target.provider} needs {key}", remedy))
    for tag, part in spec.components.items():
        where = f"components.{tag}"
        if problem := image_problem(part.image or target.image):
            findings.append(Finding.error("image", f"{where}.image", problem.split("; ")[0], problem.split("; ")[1]))
        if part.mounts:
            text = "workers in a cloud have no folders of this machine"
            findings.append(
                Finding.error("mounts", f"{where}.mounts", text, "remove it, or put the files into the image")
            )
        findings += list(unaffordable(where, path, part, target))
    if target.spot and not (target.prices and target.prices.spot is not None):
        text = "spot capacity is counted at the usual price"
        findings.append(
            Finding.warning("spot-price", f"{path}.spot", text, "write what part of it you pay: prices: {spot: 40%}")
        )
    return ValidationReport.of(findings)


def unaffordable(where: str, path: str, part: WorkerTemplate, target: AwsTarget | GcpTarget) -> Iterator[Finding]:
    """Find a kind of worker that is too large, or whose price nobody knows."""
    try:
        charge(target, part.cpus, part.memory)
    except (CapacityError, PriceUnknownError) as problem:
        message, _, remedy = str(problem).rpartition("; ")
        code = "no-price" if isinstance(problem, PriceUnknownError) else "too-large"
        yield Finding.error(code, where if code == "too-large" else path, message or remedy, remedy if message else "")


def cost(spec: DeploymentSpec, target: AwsTarget | GcpTarget, plan: ScalePlan) -> CostEstimate:
    unknown = [tag for tag in plan.workers_by_tag if tag not in spec.components]
    if unknown:
        raise ScalableError(f"the plan has workers of {', '.join(unknown)}, which the manifest does not define")
    sizes = {tag: plan.resources_by_tag.get(tag) or spec.components[tag] for tag in plan.workers_by_tag}
    return estimate(target, {tag: wanted(count, sizes[tag]) for tag, count in plan.workers_by_tag.items()})


def wanted(count: int, size: ResourceRequest | WorkerTemplate) -> Wanted:
    memory = Memory.parse(size.memory) if isinstance(size.memory, str) else size.memory
    return Wanted(count, float(size.cpus), memory)
