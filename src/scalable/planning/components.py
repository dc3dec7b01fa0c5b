"""A plan for components and tasks: how the target's workers are shared out among the kinds of workers.

Nothing is known yet about how long tasks take, so this divides; it does not simulate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scalable.errors import PlanningError
from scalable.manifest.models import Manifest
from scalable.planning.front import OBJECTIVES, POLICIES, check_words
from scalable.planning.site import Site
from scalable.sizing.resources import ResourceRequest, ScalePlan


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    target: str
    scale_plan: ScalePlan
    objective: str | None
    policy: str | None
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        sizes = {tag: size.to_dict() for tag, size in self.scale_plan.resources_by_tag.items()}
        return {
            "target": self.target,
            "workers_by_tag": dict(self.scale_plan.workers_by_tag),
            "resources_by_tag": sizes,
            "objective": self.objective,
            "policy": self.policy,
            "assumptions": list(self.assumptions),
        }


def plan_components(
    site: Site, target: str | None, *, objective: str | None = None, policy: str | None = None
) -> ComponentPlan:
    """Share out the target's workers. Without an objective, or with policy "manual", all the manifest allows."""
    manifest = site.manifest
    check_words(objective or OBJECTIVES[0], policy or POLICIES[0])
    if not manifest.components:
        raise PlanningError("there is nothing to plan: the manifest has neither sweeps nor components")
    most = site.worker_limit or len(manifest.components)
    least = min(len(manifest.components), most)
    if objective is None or policy == "manual" or objective == "minimize time":
        total = most
    else:
        total = least if objective == "minimize cost" else (least + most + 1) // 2
    counts = shared_out(list(manifest.components), total)
    if most < len(manifest.components):
        short = ", ".join(tag for tag, count in counts.items() if not count)
        raise PlanningError(
            f"{len(manifest.components)} components need at least as many workers, but the target allows {most}: "
            f"nothing would serve {short}; raise max_workers"
        )
    walltime = getattr(site.target, "walltime", None)
    return ComponentPlan(
        target=target or "",
        scale_plan=ScalePlan(counts, sizes(manifest, walltime)),
        objective=objective,
        policy=policy,
        assumptions=("nothing is known yet about how long tasks take; workers are shared out evenly",),
    )


def shared_out(tags: list[str], total: int) -> dict[str, int]:
    """As even as can be; the first ones get what is left over."""
    each, over = divmod(total, len(tags))
    return {tag: each + (place < over) for place, tag in enumerate(tags)}


def sizes(manifest: Manifest, walltime: str | None) -> dict[str, ResourceRequest]:
    return {
        tag: ResourceRequest(
            cpus=component.cpus,
            memory=component.memory.exact if component.memory else None,
            walltime=walltime,
            gpus=component.gpus or None,
        )
        for tag, component in manifest.components.items()
    }
