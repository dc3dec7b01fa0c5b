"""Checks that need more than one section: names that refer to others, sizes that must fit, money in one currency.

Each check yields findings with the path of what is wrong; ``load.py`` adds the lines and columns of paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from scalable.catalogue import FACTORS
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
    unpinned,
)
from scalable.manifest.work import Together
from scalable.quantities import Money, Price
from scalable.wording import not_defined, shown

OWN_KEYS = {
    "asset": "assets", "fold": "folds", "cost_bps": "costs_bps",
    "folds": "folds", "trials": "trials", "seed": "seed",
}  # fmt: skip
"""Settings that a sweep has keys of its own for, which always win."""
MAX_ROWS = 1_000_000  # what a sweep may expand to; planning that many unshared runs takes a minute or two


def check(manifest: Manifest, providers: Iterable[str], target: str | None = None) -> Iterator[Finding]:
    """Yield what is wrong; of targets other than ``target``, an image that changes is no more than a warning."""
    yield from check_targets(manifest, providers, target)
    yield from check_components(manifest)
    yield from check_tasks(manifest)
    yield from check_pools(manifest)
    yield from check_labels(manifest)
    yield from check_profiles(manifest)
    yield from check_sweeps(manifest)
    yield from check_workloads(manifest)
    yield from check_budget(manifest)
    yield from check_currency(manifest)


def undefined(path: str, noun: str, name: str, known: Iterable[str]) -> Finding:
    """Return a name that nothing has: lists the ones there are and proposes the nearest."""
    message, remedy = not_defined(noun, name, known)
    return Finding.error(f"undefined-{noun}", path, message, remedy)


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


def check_tasks(manifest: Manifest) -> Iterator[Finding]:
    for name, task in manifest.tasks.items():
        path = f"tasks.{name}"
        if task.component not in manifest.components:
            yield undefined(f"{path}.component", "component", task.component, manifest.components)
        for place, need in enumerate(task.needs):
            if need not in manifest.tasks:
                yield undefined(f"{path}.needs[{place}]", "task", need, manifest.tasks)
            elif need in task.arguments:
                message = f"{need!r} is both an argument and a task it needs"
                yield Finding.error("two-values", f"{path}.arguments.{need}", message, "rename one of them")
    left = {name: set(task.needs) & set(manifest.tasks) for name, task in manifest.tasks.items()}
    while ready := [name for name, needs in left.items() if not needs]:
        for name in ready:
            del left[name]
        for needs in left.values():
            needs.difference_update(ready)
    while after := [name for name in left if not any(name in needs for needs in left.values())]:
        for name in after:  # it only waits for those who need each other
            del left[name]
    for name in left:
        message, remedy = f"{name} waits for itself", "remove it"
        if len(left) > 1:
            message, remedy = f"{message}: {' and '.join(sorted(left))} need each other", "remove one of them"
        yield Finding.error("circular-needs", f"tasks.{name}.needs", message, remedy)
        break


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
                remedy = f"write {near[0]}" if near else "remove it"
                yield Finding.warning("unknown-option", f"{path}.{option}", message, remedy)
        if isinstance(target, SlurmTarget) and target.comm_port is not None:
            message = "comm_port is no longer needed and is ignored"
            yield Finding.warning("ignored-option", f"{path}.comm_port", message, "remove it")
        if isinstance(target, CloudTarget) and target.image is not None and (problem := unpinned(target.image)):
            severity = Severity.ERROR if name == used else Severity.WARNING
            remedy = "name a version or a digest, e.g. NAME:1.0"
            yield Finding("bad-value", severity, f"{path}.image", problem, remedy)
        differing = [name for name, part in manifest.components.items() if part.memory or part.env]
        if isinstance(target, LocalTarget) and not target.processes and len(manifest.components) > 1 and differing:
            message = f"all workers share one process: memory and env of {', '.join(differing)} cannot differ"
            yield Finding.warning("shared-process", f"{path}.processes", message, "write processes: true")


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
            severity = Severity.WARNING if manifest.budget is None else Severity.ERROR
            yield Finding("missing-price", severity, f"nodes.{pool.node}", message, remedy)


def check_labels(manifest: Manifest) -> Iterator[Finding]:
    """On Kubernetes it is labels that keep work on the pool it was planned for, and off those of other services."""
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
        if isinstance(sweep.assets, str) and sweep.assets not in manifest.groups:
            yield undefined(f"{path}.assets", "group", sweep.assets, manifest.groups)
        factor = FACTORS.get(sweep.factor)
        if factor is None and sweep.variants is None:
            near = undefined(f"{path}.factor", "factor", sweep.factor, FACTORS)
            yield replace(near, remedy=f"{near.remedy}, or give your own factor its variants")
        if factor is not None and not factor.free and sweep.run is None:
            for index, variant in enumerate(sweep.variants or []):
                if variant not in factor.variants:
                    known = ", ".join(str(v) for v in factor.variants)
                    message = f"{shown(variant)} is not a variant of {factor.name}"
                    yield Finding.error(
                        "unknown-variant", f"{path}.variants[{index}]", message, f"choose one of {known}"
                    )
        for setting in sweep.settings:
            if setting in OWN_KEYS or setting == sweep.factor:
                message = f"{setting} is not read from the settings: "
                if setting == sweep.factor:
                    message, remedy = f"{message}the sweep varies it", "remove it; the sweep's variants say its values"
                else:
                    message, remedy = (
                        f"{message}the sweep has a key for it",
                        f"write {OWN_KEYS[setting]} beside settings",
                    )
                yield Finding.error("unread-setting", f"{path}.settings.{setting}", message, remedy)
        yield from check_size(manifest, path, sweep.profile, sweep.pool)
        assets = manifest.groups.get(sweep.assets, ()) if isinstance(sweep.assets, str) else sweep.assets
        variants = sweep.variants or (factor.variants if factor else ())
        rows = len(variants) * len(assets) * sweep.folds * len(sweep.costs_bps)
        if rows > MAX_ROWS:
            message = f"{rows:,} rows are more than the {MAX_ROWS:,} a sweep may have"
            yield Finding.error("too-many-rows", path, message, "split it into several sweeps")


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
