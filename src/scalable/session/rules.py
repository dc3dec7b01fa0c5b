"""What a live session tells the engine: its kinds of workers and how many of each there may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scalable.cluster.base import DeploymentSpec
from scalable.engine import AdaptiveScaler, Rules, WorkerKind
from scalable.engine.rules import ANY_MEMORY
from scalable.planning.components import shared_out
from scalable.planning.placement import PoolRoom
from scalable.planning.resources import ScalePlan, Size
from scalable.quantities import Cpu, Memory, Money

POOL = "workers"
UNLIMITED = 1_000_000
LADDER_WORKERS = 1  # of a larger kind than was planned, for runs that ran out of memory; without one they wait for ever


@dataclass(frozen=True)
class OpenRoom(PoolRoom):
    """Where the backend, not we, knows how much room there is."""

    def most(self, tag: str, counts: Mapping[str, int]) -> int:
        return UNLIMITED

    def commitment(self, tag: str, count: int, busy_s: float = 0.0, *, idle_nodes: bool = False) -> Money | None:
        return None


def rules(
    spec: DeploymentSpec, plan: ScalePlan, adaptive: bool | AdaptiveScaler | None, budget: Money | None = None
) -> Rules:
    """As many workers as planned; where scaling is asked for, between the target's bounds instead."""
    bounds = spec.target.adaptive
    tags = list(spec.components)
    most: int | None = None
    limits: dict[str, tuple[int, int | None]]
    if isinstance(adaptive, AdaptiveScaler):
        limits = {
            tag: (adaptive.min_workers.get(tag, plan.workers_by_tag.get(tag, 0)), adaptive.max_workers.get(tag))
            for tag in tags
        }
        most = bounds.maximum if bounds else None  # what a target allows holds whoever decides
    elif adaptive or (adaptive is None and bounds is not None):
        planned = [tag for tag in tags if tag in plan.workers_by_tag]
        least = shared_out(planned, bounds.minimum) if bounds else {}
        limits = {tag: (least.get(tag, 0), None) for tag in tags}
        most = bounds.maximum if bounds else sum(plan.workers_by_tag.values())
    else:
        climbs = above(spec, {tag for tag, count in plan.workers_by_tag.items() if count})
        limits = {tag: (plan.workers_by_tag.get(tag, 0),) * 2 for tag in tags}
        limits |= {tag: (0, LADDER_WORKERS) for tag in climbs if not plan.workers_by_tag.get(tag)}
    kinds = {
        tag: WorkerKind(
            tag,
            POOL,
            template.memory or ANY_MEMORY,
            slots=template.slots,
            minimum=limits[tag][0],
            maximum=limits[tag][1],
            larger=template.larger,
            alone=template.alone,
        )
        for tag, template in spec.components.items()
    }
    nothing = Size(Cpu(0), Memory(0))
    room = OpenRoom(POOL, nothing, 1, dict.fromkeys(tags, nothing))
    return Rules(kinds, {POOL: room}, spec.policies, budget, most_workers=most)


def above(spec: DeploymentSpec, tags: set[str]) -> set[str]:
    """Kinds of workers that runs of these may have to go to when they run out of memory."""
    found: set[str] = set()
    for tag in tags:
        step = spec.components[tag].larger if tag in spec.components else None
        while step is not None and step not in found and step in spec.components:
            found.add(step)
            step = spec.components[step].larger
    return found
