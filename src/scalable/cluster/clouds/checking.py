"""What a check of a cloud's target finds without asking the cloud, and what its workers cost."""

from __future__ import annotations

from collections.abc import Iterator

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.clouds.fleet import image_problem
from scalable.errors import ScalableError
from scalable.findings import Finding
from scalable.manifest.targets import AwsTarget, GcpTarget
from scalable.manifest.validation import ValidationReport
from scalable.planning.capacity import CapacityError
from scalable.planning.prices import PriceUnknownError, Wanted, charge, estimate
from scalable.planning.resources import CostEstimate, ResourceRequest, ScalePlan
from scalable.quantities import Memory


def findings(spec: DeploymentSpec, target: AwsTarget | GcpTarget, needed: dict[str, str]) -> ValidationReport:
    """``needed`` are keys of the target without which nothing can start, with what to write."""
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
    """A kind of worker that is too large, or whose price nobody knows."""
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
