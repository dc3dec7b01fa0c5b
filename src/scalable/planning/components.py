"""A plan for components and tasks: how the target's workers are shared out among the kinds of workers.

Where earlier runs left durations and numbers of tasks, workers go where the work is and the time is predicted; where
they did not, workers are divided evenly and no time is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any

from scalable.engine.walltime import refusal
from scalable.errors import PlanningError
from scalable.findings import Finding
from scalable.machine_hours import HeldResources, MachineHours
from scalable.manifest.models import Manifest, Task
from scalable.planning.front import HEADROOM, POLICIES, Choice
from scalable.planning.history import History
from scalable.planning.hours import allocation_left, component_holdings, component_hours, hours_findings
from scalable.planning.plan import OOM_RISK
from scalable.planning.prices import Wanted, estimate, hired
from scalable.planning.resources import CostEstimate, Origin, ResourceRequest, ScalePlan
from scalable.planning.rules import shared_out
from scalable.planning.site import MOST_JOBS, Site
from scalable.planning.task_jobs import fanned_out, jobs_by_tag, jobs_by_task, mean_seconds, time_of
from scalable.quantities import Duration, Memory, Money, Price, percent
from scalable.wording import plural

ROUNDING = 1e-9  # of a round


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    target: str
    scale_plan: ScalePlan
    objective: str | None
    policy: str | None
    assumptions: tuple[str, ...]
    jobs: Mapping[str, int] = field(default_factory=dict)
    """How many jobs each task of the manifest has, where one of them has axes."""
    batch_jobs: int | None = None
    """Batch jobs that hold the workers; nothing on targets without any."""
    wall_s: float | None = None
    """From the first task's start to the last one's end; nothing while durations or numbers are not known."""
    cost_estimate: CostEstimate | None = None
    warnings: tuple[Finding, ...] = ()
    pinned: str = ""
    """The run whose plan this is again after a rollback."""
    origin: Origin | None = None
    """Where it may be used; nothing for a plan that no session made. Not part of ``to_dict``."""
    hours: HeldResources | None = None
    """Core-, node- and GPU-hours that the workers hold; nothing while the time is not known."""
    allocation_left: MachineHours | None = None
    """What is left of ``budget.allocation``."""

    def to_dict(self) -> dict[str, Any]:
        sizes = {tag: size.to_dict() for tag, size in self.scale_plan.resources_by_tag.items()}
        return {
            "target": self.target,
            "workers_by_tag": dict(self.scale_plan.workers_by_tag),
            "resources_by_tag": sizes,
            "objective": self.objective,
            "policy": self.policy,
            "jobs": dict(self.jobs),
            "batch_jobs": self.batch_jobs,
            "wall_s": round(self.wall_s, 3) if self.wall_s is not None else None,
            "cost": self.cost.to_dict() if self.cost is not None else None,
            "cost_estimate": asdict(self.cost_estimate) if self.cost_estimate is not None else None,
            "assumptions": list(self.assumptions),
            "warnings": [finding.advice for finding in self.warnings],
            "findings": [finding.to_dict() for finding in self.warnings],
            "pinned": self.pinned,
            "hours": self.hours.to_dict() if self.hours is not None else None,
            "allocation_left": self.allocation_left.to_dict() if self.allocation_left is not None else None,
        }

    @property
    def cost(self) -> Money | None:
        """Return what the workers cost from the first task's start to the last one's end, where both are known."""
        if self.wall_s is None or self.cost_estimate is None:
            return None
        return Money.parse(f"{self.cost_estimate.total_hourly} {self.cost_estimate.currency}") * (self.wall_s / 3600)


@dataclass(frozen=True, slots=True)
class TagLoad:
    """The work of one tag: as the manifest's axes say, else as the last run had it."""

    tasks: int
    mean_s: float
    measured: int
    slots: int
    declared: bool = False
    """The number is the manifest's."""

    def rounds(self, workers: int) -> int:
        """Return how many tasks one after the other: tasks are whole."""
        return ceil(self.tasks / (workers * self.slots))

    def wall_s(self, workers: int) -> float:
        return self.rounds(workers) * self.mean_s

    def fewest(self, within_s: float) -> int:
        """Return how many workers end in time; as many as there are tasks where one alone takes longer."""
        rounds = max(1, int(within_s / self.mean_s + ROUNDING))
        return ceil(self.tasks / (rounds * self.slots))


def plan_components(
    site: Site,
    target: str | None,
    *,
    objective: str | None = None,
    policy: str | None = None,
    history: History | None = None,
) -> ComponentPlan:
    """Share out the target's workers. Without an objective, or with policy "manual", all the manifest allows.

    With an objective, never more than all tasks at once can use. A target that states no maximum allows as many as for
    sweeps, once the work is known.
    """
    manifest, history = site.manifest, history or History()
    Choice.of(objective, policy)  # refuses words that nobody knows
    if not manifest.components:
        raise PlanningError("there is nothing to plan: the manifest has neither sweeps nor components")
    tags = list(manifest.components)
    loads = loads_of(site, history)
    known, stated = len(loads) == len(tags), site.worker_limit
    most = stated or max(len(tags), MOST_JOBS if known else 0)
    if most < len(tags):
        short = ", ".join(tags[most:])
        raise PlanningError(
            f"{len(tags)} components need at least as many workers, but the target allows {most}: "
            f"nothing would serve {short}; raise max_workers",
            f"targets.{target}.max_workers",
        )
    refuse_long(site, history)
    walltime = site.walltime()
    deadline_s = walltime.seconds if walltime is not None else None
    allowed_s = deadline_s / HEADROOM[policy or POLICIES[0]] if deadline_s is not None else None
    least = {tag: loads[tag].fewest(allowed_s) if allowed_s and tag in loads else 1 for tag in tags}
    pin = site.pin if site.pin is not None and not site.pin.sweep else None
    if pin is not None:
        counts = pin.counts(tags, most)
    elif policy == "manual":
        counts = shared_out(tags, stated or len(tags))
    elif objective == "minimize cost" and sum(least.values()) <= most:
        counts = least
    else:
        useful = most
        if known and (objective or not stated):
            useful = min(most, sum(load.fewest(0) for load in loads.values()))
        middle = (min(sum(least.values()), useful) + useful + 1) // 2
        counts = by_load(tags, loads, middle if objective == "balance" else useful)
    cost = estimated(site, counts)
    wall_s = max(loads[tag].wall_s(counts[tag]) for tag in tags) if known else None
    tasks = fanned_out(manifest)
    means = {name: mean_seconds(name, task, history) for name, task in tasks.items()}
    if seconds := {name: mean for name, mean in means.items() if mean is not None}:
        slots = {tag: count * site.slots for tag, count in counts.items()}
        wall_s = time_of(tasks, seconds, slots) if len(seconds) == len(tasks) else None
    batch_jobs = site.batch_jobs(counts)
    used = component_hours(site, counts, wall_s) if wall_s is not None else None
    allowed = allocation_left(manifest, history)
    return ComponentPlan(
        target=target or "",
        scale_plan=ScalePlan(counts, sizes(manifest, getattr(site.target, "walltime", None))),
        objective=objective,
        policy=policy,
        assumptions=(
            *((pin.note,) if pin else ()),
            *assumptions(tags, loads, policy),
            *together(site, counts, batch_jobs),
            *priced(cost),
        ),
        jobs=jobs_by_task(tasks),
        batch_jobs=batch_jobs,
        wall_s=wall_s,
        cost_estimate=cost,
        warnings=(
            *too_late(loads, counts, deadline_s, allowed_s),
            *tight(manifest, history),
            *hours_findings(site, "components", used, allowed),
        ),
        pinned=pin.run if pin is not None else "",
        hours=used,
        allocation_left=allowed,
    )


def refuse_long(site: Site, history: History) -> None:
    """Raise an error for a task that fits into no allocation of its component."""
    for name, task in site.manifest.tasks.items():
        walltime, seconds = site.walltime(task.component), task_s(name, task, history)
        if not task.checkpoints and (problem := refusal(walltime, seconds)):
            raise PlanningError(f"tasks.{name}: {problem}", f"tasks.{name}")


def task_s(name: str, task: Task, history: History) -> float | None:
    """Return how long a task may take: as it declares, else the longest of the latest; None if nothing is known."""
    if task.run_minutes is not None:
        return task.run_minutes.p95 * 60
    return max(history.seconds.get(f"run:{name}", ()), default=None)


def together(site: Site, counts: Mapping[str, int], batch_jobs: int | None) -> Iterable[str]:
    """Yield how workers share batch jobs, where they do."""
    if batch_jobs is None or site.allocations.alone:
        return
    nodes = plural(site.allocations.nodes, "whole node" if site.allocations.exclusive else "node")
    workers = plural(sum(counts.values()), "worker")
    yield f"{workers} in {plural(batch_jobs, 'batch job')}, each with {nodes} at most"


def estimated(site: Site, counts: Mapping[str, int]) -> CostEstimate | None:
    """Return what the workers cost where the target says what a CPU does, or a cloud charges for each of them."""
    parts = site.manifest.components
    if (cloud := hired(site.target)) is not None:
        return estimate(
            cloud, {tag: Wanted(n, parts[tag].program.all_cpus, parts[tag].memory) for tag, n in counts.items()}
        )
    price: Price | None = getattr(site.target, "cpu_price", None)
    if price is None or site.target is None:
        return None
    held = component_holdings(site, counts)
    workers = {tag: (count, held[tag].cores) for tag, count in counts.items()}
    return CostEstimate.by_cpu(site.target.provider, price, workers)


def priced(cost: CostEstimate | None) -> Iterable[str]:
    """Yield what is hired for each kind of worker, why it is more than was asked for, and where its price is from."""
    for line in cost.line_items if cost is not None else ():
        if "source" in line:
            rounded = f": {line['rounded']}" if line["rounded"] else ""
            yield f"{line['what']}{rounded} (price: {line['source']})"


def loads_of(site: Site, history: History) -> dict[str, TagLoad]:
    """Return the work of each tag whose durations and number of tasks are known."""
    loads = {}
    declared = jobs_by_tag(fanned_out(site.manifest))
    for tag in site.manifest.components:
        durations, tasks = history.seconds.get(f"tag:{tag}"), declared[tag] or history.tasks.get(f"tag:{tag}")
        if durations and tasks:
            mean = sum(durations) / len(durations)
            loads[tag] = TagLoad(tasks, mean, len(durations), site.slots, declared=bool(declared[tag]))
    return loads


def by_load(tags: list[str], loads: Mapping[str, TagLoad], total: int) -> dict[str, int]:
    """Share workers out so that the last tag ends as early as can be; evenly if any tag's work is not known."""
    if len(loads) < len(tags):
        return shared_out(tags, total)
    counts = dict.fromkeys(tags, 1)

    def slowest(tag: str) -> tuple[bool, float]:
        """Rank a tag by its rounds: one round takes as long however many more workers there are."""
        return loads[tag].rounds(counts[tag]) > 1, loads[tag].wall_s(counts[tag])

    for _ in range(total - len(tags)):
        counts[max(tags, key=slowest)] += 1
    return counts


def assumptions(tags: Iterable[str], loads: Mapping[str, TagLoad], policy: str | None) -> Iterable[str]:
    if not loads:
        yield "nothing is known yet about how long tasks take; workers are shared out evenly"
        return
    for tag, load in loads.items():
        mean = f"{Duration(load.mean_s)} each (mean of {load.measured} measured)"
        at_once = f", {load.slots} at once on a worker" if load.slots > 1 else ""
        source = "of the manifest" if load.declared else "as in the last run"
        yield f"{tag}: {plural(load.tasks, 'task')} {source}, {mean}{at_once}"
    unknown = [tag for tag in tags if tag not in loads]
    if unknown:
        yield f"nothing is known yet about the tasks of {', '.join(unknown)}; no time is predicted"
    elif len(loads) > 1:
        yield "tasks of all kinds run side by side"
    if policy == "manual":
        yield "workers are shared out evenly"


def too_late(
    loads: Mapping[str, TagLoad], counts: Mapping[str, int], deadline_s: float | None, allowed_s: float | None
) -> Iterable[Finding]:
    """Yield what will not end within the walltime, or only without the headroom of the policy."""
    for tag, load in loads.items():
        takes = load.wall_s(counts[tag])
        if deadline_s is None or allowed_s is None or takes <= allowed_s:
            continue
        path, allowed = f"components.{tag}", Duration(deadline_s)
        fact = f"{tag} takes {Duration(takes)} with {plural(counts[tag], 'worker')}"
        if takes > deadline_s:
            text = f"{fact}, longer than the walltime of {allowed}"
            yield Finding.warning("too-late", path, text, "raise the walltime or max_workers")
        else:
            spare = percent(deadline_s / allowed_s - 1)
            text = f"{fact}: within the walltime of {allowed}, but without {spare} to spare"
            yield Finding.warning("little-headroom", path, text)


def tight(manifest: Manifest, history: History) -> Iterable[Finding]:
    """Yield which components came near the end of their memory."""
    for tag, component in manifest.components.items():
        peak = history.peaks.get(f"tag:{tag}")
        if peak is None or component.memory is None or peak.bytes <= OOM_RISK * component.memory.bytes:
            continue
        share = percent(round(peak.bytes / component.memory.bytes, 3))
        enough = Memory.to_ask_for(peak)
        assert enough is not None, "the peak is known"
        text = f"{tag} used up to {peak} of its {component.memory} ({share})"
        yield Finding.warning("memory-near-limit", f"components.{tag}", text, f"write memory: {enough.exact}")


def sizes(manifest: Manifest, walltime: str | None) -> dict[str, ResourceRequest]:
    return {
        tag: ResourceRequest(
            cpus=component.program.all_cpus,
            memory=component.memory.exact if component.memory else None,
            walltime=component.walltime or walltime,
            gpus=component.gpus or None,
        )
        for tag, component in manifest.components.items()
    }
