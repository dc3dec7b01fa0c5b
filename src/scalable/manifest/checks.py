"""Checks that need more than one section: names that refer to others, sizes that must fit, money in one currency.

Each check yields findings with the path of what is wrong; ``load.py`` adds the lines and columns of paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from math import prod
from typing import Any

from pydantic import BaseModel

from scalable.findings import Finding, Severity
from scalable.manifest.machines import NodeType, Pool, Profile
from scalable.manifest.models import PROFILES, Manifest
from scalable.manifest.targets import (
    BUILT_IN,
    REGISTERED,
    CloudTarget,
    KubernetesTarget,
    LocalTarget,
    SlurmTarget,
    option_of,
    unpinned,
)
from scalable.manifest.task_checks import check_tasks, undefined
from scalable.manifest.work import MAX_ROWS, Sweep, Together
from scalable.quantities import Money, Price


def check(manifest: Manifest, providers: Iterable[str], target: str | None = None) -> Iterator[Finding]:
    """Yield what is wrong; of targets other than ``target``, an image that changes is no more than a warning."""
    yield from check_targets(manifest, providers, target)
    yield from check_components(manifest)
    yield from check_set_up(manifest)
    yield from check_tasks(manifest)
    yield from check_pools(manifest)
    yield from check_labels(manifest)
    yield from check_profiles(manifest)
    yield from check_sweeps(manifest)
    yield from check_workloads(manifest)
    yield from check_budget(manifest)
    yield from check_currency(manifest)


def check_components(manifest: Manifest) -> Iterator[Finding]:
    for name, part in manifest.components.items():
        path = f"components.{name}.larger"
        if part.larger is None:
            continue
        if part.larger not in manifest.components:
            yield undefined(path, "component", part.larger, manifest.components)
            continue
        above = manifest.components[part.larger].memory
        if part.memory is None or (above is not None and above <= part.memory):
            message = (
                f"{part.larger} is not larger than {name}: {above or 'no limit'} against {part.memory or 'no limit'}"
            )
            yield Finding.error("not-larger", path, message, "name a component with more memory, or give it more")


def check_set_up(manifest: Manifest) -> Iterator[Finding]:
    """Warn of a set-up that no target does."""
    if any(isinstance(target, SlurmTarget) for target in manifest.targets.values()):
        return
    for name, part in manifest.components.items():
        for key in ("modules", "conda", "setup"):
            if getattr(part, key) is not None:
                message = f"only batch jobs of a slurm target do what {key} says, and the manifest has no such target"
                yield Finding.warning("setup-ignored", f"components.{name}.{key}", message, "remove it")


def check_targets(manifest: Manifest, providers: Iterable[str], used: str | None) -> Iterator[Finding]:
    foreign = any(target.provider not in BUILT_IN for target in manifest.targets.values())
    known = [*BUILT_IN, *REGISTERED, *(providers if foreign else ())]
    for name, target in manifest.targets.items():
        path = f"targets.{name}"
        if target.provider not in known:
            yield undefined(f"{path}.provider", "provider", target.provider, known)
            continue
        for option in target.model_extra or {}:
            if target.provider in BUILT_IN:
                near = get_close_matches(option, list(type(target).model_fields), n=1)
                message = f"the provider {target.provider} has no option {option!r}; it is ignored"
                meant = SLURM_WORDS.get(option) if isinstance(target, SlurmTarget) else None
                remedy = meant or (f"write {near[0]}" if near else "remove it")
                yield Finding.warning("unknown-option", f"{path}.{option}", message, remedy)
        if isinstance(target, SlurmTarget) and target.comm_port is not None:
            message = "comm_port is no longer needed and is ignored"
            yield Finding.warning("ignored-option", f"{path}.comm_port", message, "remove it")
        if isinstance(target, SlurmTarget):
            yield from check_requeue(path, target)
        if isinstance(target, CloudTarget) and target.image is not None and (problem := unpinned(target.image)):
            severity = Severity.ERROR if name == used else Severity.WARNING
            remedy = "name a version or a digest, e.g. NAME:1.0"
            yield Finding("bad-value", severity, f"{path}.image", problem, remedy)
        if isinstance(target, KubernetesTarget | CloudTarget):
            for part in [part for part, size in manifest.components.items() if size.nodes > 1]:
                severity = Severity.ERROR if name == used else Severity.WARNING
                message = f"a worker of the provider {target.provider} has one node, and {part} wants several"
                remedy = "write nodes: 1, or run it on a target with provider: slurm"
                yield Finding("one-node-only", severity, f"components.{part}.nodes", message, remedy)
        differing = [name for name, part in manifest.components.items() if part.memory or part.env]
        if isinstance(target, LocalTarget) and not target.processes and len(manifest.components) > 1 and differing:
            message = f"all workers share one process: memory and env of {', '.join(differing)} cannot differ"
            yield Finding.warning("shared-process", f"{path}.processes", message, "write processes: true")


SLURM_WORDS = {
    **dict.fromkeys(("nodes", "num_nodes"), "write nodes_per_job, with workers_per_job or exclusive: true"),
    **dict.fromkeys(("ntasks", "tasks", "ntasks_per_node", "processes"), "write workers_per_job"),
    **dict.fromkeys(("cpus", "cores", "cpus_per_task", "cpus_per_worker"), "write cpus in the component"),
    **dict.fromkeys(("memory", "mem", "mem_per_cpu", "mem_per_worker"), "write memory in the component"),
    **dict.fromkeys(("gpus", "gres", "gpus_per_node"), "write gpus, and gpu_type, in the component"),
    **dict.fromkeys(("time", "timelimit", "time_limit"), "write walltime"),
    **dict.fromkeys(("array", "jobs", "workers", "n_workers"), "write max_workers"),
    **dict.fromkeys(("features", "feature"), "write constraint"),
    **dict.fromkeys(("extra", "options", "job_extra", "job_extra_directives"), "write sbatch: [--nice=10, …]"),
    "project": "write account",
    "module": "write modules",
    "log_directory": "write logs_location",
}
"""What people write for Slurm out of habit, from sbatch and other programs, and what it is called here."""


def check_requeue(path: str, target: SlurmTarget) -> Iterator[Finding]:
    for place, line in enumerate(target.sbatch or ()):
        if option_of(line)[0] == "--requeue":
            message = "--requeue is ignored: a lost worker is replaced by a new job, and would come back beside it"
            yield Finding.warning("ignored-option", f"{path}.sbatch[{place}]", message, "remove it")


def check_pools(manifest: Manifest) -> Iterator[Finding]:
    for name, pool in manifest.pools.items():
        path = f"pools.{name}"
        node = manifest.nodes.get(pool.node)
        if node is None:
            yield undefined(f"{path}.node", "node", pool.node, manifest.nodes)
            continue
        free = node.allocatable or node
        if pool.used and (pool.used.cpu > free.cpu or pool.used.memory > free.memory):
            remedy = f"write at most {free.cpu} CPU and {free.memory}"
            yield Finding.error("used-over-node", f"{path}.used", f"more is used than a {pool.node} has", remedy)
        if node.price is None:
            message = f"the node {pool.node} of pool {name} has no price, so its cost cannot be forecast"
            remedy = "write e.g. price: 0.1644 EUR/h"
            severity = Severity.ERROR if manifest.budget and manifest.budget.monthly else Severity.WARNING
            yield Finding("missing-price", severity, f"nodes.{pool.node}", message, remedy)


def check_labels(manifest: Manifest) -> Iterator[Finding]:
    """Yield missing labels: on Kubernetes they keep work on its pool, and off those of other services."""
    named = {sweep.pool for sweep in manifest.sweeps.values()}
    worked = [name for name, pool in manifest.pools.items() if pool.max is not None or name in named]
    for name, target in manifest.targets.items():
        if not isinstance(target, KubernetesTarget) or len(manifest.pools) < 2:
            continue
        enough = bool(target.node_selector) and len(worked) < 2
        for pool in worked:
            if not manifest.pools[pool].labels and not enough:
                message = f"nothing keeps workers of the target {name} on the pool {pool}: its nodes have no labels"
                remedy = f"write labels: {{pool: {pool}}} here, as its nodes have them"
                yield Finding.warning("pool-unlabelled", f"pools.{pool}", message, remedy)


def check_profiles(manifest: Manifest) -> Iterator[Finding]:
    nodes = [manifest.nodes[pool.node] for pool in manifest.pools.values() if pool.node in manifest.nodes]
    nodes = nodes or list(manifest.nodes.values())
    for name, profile in manifest.profiles.items():
        if profile is PROFILES.get(name):
            continue  # nobody wrote it; what uses it is checked when it is planned
        if nodes and not any(fits(profile, node) for node in nodes):
            largest = max(nodes, key=lambda node: (node.cpu, node.memory))
            message = f"the profile's limit of {profile.limit.cpu} CPU / {profile.limit.memory} fits on no node"
            remedy = f"write at most {largest.cpu} CPU and {largest.memory}, or add a larger node to a pool"
            yield Finding.error("profile-over-node", f"profiles.{name}.limit", message, remedy)


def fits(profile: Profile, node: NodeType) -> bool:
    free = node.allocatable or node
    inside = profile.request.cpu <= free.cpu and profile.request.memory <= free.memory
    return inside and all(getattr(profile.limit, size) <= getattr(node, size) for size in ("cpu", "memory", "gpus"))


def check_sweeps(manifest: Manifest) -> Iterator[Finding]:
    for name, sweep in manifest.sweeps.items():
        path = f"sweeps.{name}"
        for error in sweep.wrong:
            at = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.at)
            yield Finding.error(error.code, f"{path}{at}", error.message, error.remedy)
        for axis, over in sweep.over.items():
            if isinstance(over.values, str) and over.values not in manifest.groups:
                yield undefined(f"{path}.{sweep.where(f'over.{axis}')}", "group", over.values, manifest.groups)
        if sweep.stop != "never":
            message = "variants are never stopped early yet: every row is computed"
            yield Finding.error("not-yet", f"{path}.stop", message, "remove it")
        yield from check_settings(path, sweep)
        yield from check_size(manifest, path, sweep.profile, sweep.pool)
        axes = [over.axis(axis, manifest.groups).values for axis, over in sweep.over.items()]
        rows = prod(map(len, (*sweep.compare.values(), *axes, *sweep.average.values())))
        if rows > MAX_ROWS:
            message = f"{rows:,} rows are more than the {MAX_ROWS:,} a sweep may have"
            yield Finding.error("too-many-rows", path, message, "split it into several sweeps")


def check_settings(path: str, sweep: Sweep) -> Iterator[Finding]:
    """Yield settings that would not be read, since each row has its own value or a key of the sweep says it."""
    for setting in sweep.settings:
        message = f"{setting} is not read from the settings: "
        sides = [side for side in ("compare", "over", "average") if setting in getattr(sweep, side)]
        key = sweep.where(f"settings.{setting}")
        if sides == ["compare"]:
            message += "the sweep varies it"
            remedy = f"remove it; {sweep.where(f'compare.{setting}').partition('.')[0]} says its values"
        elif sides:
            message += "every row has its own"
            remedy = f"remove it; {sweep.where(f'{sides[0]}.{setting}')} says its values"
        elif not key.startswith("settings."):
            message, remedy = f"{message}the sweep has a key for it", f"write {key} beside settings"
        else:
            continue
        yield Finding.error("unread-setting", f"{path}.settings.{setting}", message, remedy)


def check_size(manifest: Manifest, path: str, profile: str | None, pool: str | None) -> Iterator[Finding]:
    """Yield a named profile and pool exist, and the one fits on the nodes of the other."""
    if profile is not None and profile not in manifest.profiles:
        yield undefined(f"{path}.profile", "profile", profile, manifest.profiles)
    if pool is not None and pool not in manifest.pools:
        yield undefined(f"{path}.pool", "pool", pool, manifest.pools)
    if profile in manifest.profiles and pool in manifest.pools:
        node = manifest.nodes.get(manifest.pools[pool].node)
        if node is not None and not fits(manifest.profiles[profile], node):
            message = f"a worker of profile {profile} does not fit on a node of pool {pool}"
            yield Finding.error(
                "profile-over-pool", f"{path}.profile", message, "choose a smaller profile or another pool"
            )


def check_workloads(manifest: Manifest) -> Iterator[Finding]:
    for name, workload in manifest.workloads.items():
        yield from check_size(manifest, f"workloads.{name}", workload.profile, workload.pool)
    for name, scenario in manifest.scenarios.items():
        yield from check_together(manifest, f"scenarios.{name}", scenario)


def check_together(manifest: Manifest, path: str, together: Together) -> Iterator[Finding]:
    for sweep in together.sweeps:
        if sweep not in manifest.sweeps and sweep not in manifest.profiles:
            known = [*manifest.sweeps, *manifest.profiles]
            yield undefined(f"{path}.sweeps.{sweep}", "sweep or profile", sweep, known)
    for workload in together.workloads:
        if workload not in manifest.workloads:
            yield undefined(f"{path}.workloads.{workload}", "workload", workload, manifest.workloads)


def check_budget(manifest: Manifest) -> Iterator[Finding]:
    budget = manifest.budget
    if budget is None:
        return
    for month, lines in budget.months.items():
        for scenario in lines:
            if scenario not in manifest.scenarios:
                path = f"budget.months.{month}.{scenario}"
                yield undefined(path, "scenario", scenario, manifest.scenarios)
    for name, option in budget.options.items():
        option_path = f"budget.options.{name}"
        if option.sweep not in manifest.sweeps:
            yield undefined(f"{option_path}.sweep", "sweep", option.sweep, manifest.sweeps)
        yield from check_size(manifest, option_path, None, option.pool)
    for name, question in budget.growth.items():
        option_path = f"budget.growth.{name}"
        yield from check_together(manifest, option_path, question)
        if question.assets is not None and question.assets not in manifest.groups:
            yield undefined(f"{option_path}.assets", "group", question.assets, manifest.groups)
        if question.node is not None and question.node not in manifest.nodes:
            yield undefined(f"{option_path}.node", "node", question.node, manifest.nodes)
    for name, fixed in budget.fixed.items():
        pool = manifest.pools.get(name)
        monthly = pool_month(manifest, pool) if pool else None
        if monthly is not None and monthly.currency == fixed.currency and monthly.amount != fixed.amount:
            message = f"{fixed} a month, but the pool {name} costs {monthly}"
            yield Finding.warning("fixed-differs", f"budget.fixed.{name}", message, f"write {monthly}")


def pool_month(manifest: Manifest, pool: Pool) -> Money | None:
    node = manifest.nodes.get(pool.node)
    return node.price.monthly * pool.count if pool.count and node and node.price else None


def check_currency(manifest: Manifest) -> Iterator[Finding]:
    """Check that all money is in the currency of the budget, or of the first price."""
    amounts = list(money_in(manifest))
    amounts.sort(key=lambda amount: amount[0] != "budget.monthly")
    for path, money in amounts:
        first_path, first = amounts[0]
        if money.currency != first.currency:
            message = f"{money.currency} where {first_path} is in {first.currency}"
            yield Finding.error(
                "currency-mix", path, message, f"write it in {first.currency}: amounts are not converted"
            )


def money_in(part: Any, path: str = "") -> Iterator[tuple[str, Money]]:
    """Yield every amount and price of a manifest with its path."""
    if isinstance(part, Money):
        yield path, part
    elif isinstance(part, Price):
        yield path, part.money
    elif isinstance(part, BaseModel):
        for name in type(part).model_fields:
            yield from money_in(getattr(part, name), f"{path}.{name}".lstrip("."))
    elif isinstance(part, dict):
        for name, inner in part.items():
            yield from money_in(inner, f"{path}.{name}".lstrip("."))
