"""What a plan says besides its figures: what they rest on, and findings to know before paying."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from scalable.findings import Finding
from scalable.planning.front import Point
from scalable.planning.history import History
from scalable.planning.loads import SweepLoad
from scalable.planning.placement import Placement, margin
from scalable.planning.site import Site
from scalable.quantities import Cpu, Duration, percent
from scalable.wording import plural

OOM_RISK = 0.8  # part of the memory limit above which a peak is worth a warning (as in the alert rules)


def assumptions(site: Site, load: SweepLoad, history: History) -> list[str]:
    pool = site.pools[load.pool]
    node = site.node(load.pool)
    lines = [load.expected.source, f"memory peak {load.estimate.peak} ({load.estimate.source})"]
    if load.rows_per_job > 1:
        lines.append("one search serves all rows that differ only after it; what follows a search is under 1 % of it")
    if known := history.startups.get(site.provider):
        lines.append(f"start-up {Duration(median(known))} (median of {len(known)} measured)")
    if node.price:
        lines.append(f"{pool.node} costs {node.price} (manifest)")
    if pool.max is not None and site.promises:
        lines.append(f"a node is there after {pool.provision} and is paid until {pool.idle} after its last worker")
    if pool.max is not None and pool.least:
        always = f"{plural(pool.least, 'node')} of {load.pool} always on"
        lines.append(f"not counted in the cost: {always}, {site.standing(load.pool)} a month")
    if site.target is not None and site.target.adaptive is not None and site.target.adaptive.minimum:
        warm = plural(site.target.adaptive.minimum, "worker")
        lines.append(f"not counted before and after the sweep: {warm} kept warm while a session is open")
    return lines


def find_warnings(site: Site, load: SweepLoad, chosen: Point, placement: Placement) -> Iterator[Finding]:
    """Yield what a reader of the plan should know before paying."""
    path, policy, node = f"sweeps.{load.name}", site.manifest.policies.margins, site.node(load.pool)
    least = load.profile.min_nodes
    if least > site.pools[load.pool].most:
        text = f"{load.profile_name} workers need {least} nodes, the pool {load.pool} has {chosen.nodes}"
        yield Finding.warning("pool-too-small", path, text)
    written = -(-chosen.workers // placement.per_node_written)
    if written < chosen.nodes and site.promises and site.pools[load.pool].max is not None:
        yield packed_tighter(path, load, chosen, placement, written, node.cpu * written)
    if load.expected.warning is not None:
        yield load.expected.warning
    if site.local and load.cpus * chosen.workers > node.cpu:
        times = load.cpus.millis * chosen.workers / node.cpu.millis
        share = f"{plural(chosen.workers, 'worker')} of {load.cpus} CPU on {node.cpu}"
        text = f"{share}: runs take {times:.2g} × as long as with a machine to themselves"
        yield Finding.warning("cpus-shared", path, text)
    elif site.local and load.expected.cores > load.cpus.cores:
        times = load.expected.cores / load.cpus.cores
        share = f"a worker has {load.cpus} of the {node.cpu} CPU here"
        text = f"{share}: runs take {times:.2g} × as long as on {load.expected.cores:g} CPU"
        yield Finding.warning("cpus-few", path, text)
    elif site.promises and chosen.cpu_margin <= policy.cpu:
        text = f"CPU margin {percent(chosen.cpu_margin)} is not over the guaranteed {policy.cpu}"
        yield Finding.warning("cpu-margin", path, text)
    if site.promises and chosen.ram_margin <= policy.ram:
        text = f"RAM margin {percent(chosen.ram_margin)} is not over the guaranteed {policy.ram}"
        yield Finding.warning("ram-margin", path, text)
    elif chosen.ram_margin <= 0:
        used = f"{plural(chosen.workers, 'worker')} with a peak of {load.profile.memory_peak} each"
        text = f"{used} leave nothing of the {site.offered(load.pool).memory * max(1, chosen.nodes)} there is"
        yield Finding.warning("no-memory-left", path, text)
    room = (node.allocatable or node).memory.bytes * max(1, chosen.nodes)
    worst = margin(load.estimate.peak.bytes * chosen.workers, room)
    if site.promises and worst <= policy.ram < chosen.ram_margin:
        at_peak = f"at a peak of {load.estimate.peak} per worker the RAM margin is {percent(worst)}"
        text = f"{at_peak} of what pods can have, under the guaranteed {policy.ram}"
        yield Finding.warning("ram-margin-at-peak", path, text)
    if load.estimate.peak.bytes > OOM_RISK * load.profile.limit.memory.bytes:
        text = f"a peak of {load.estimate.peak} is close to the limit of {load.profile.limit.memory}"
        yield Finding.warning("memory-near-limit", path, text)


def packed_tighter(
    path: str, load: SweepLoad, chosen: Point, placement: Placement, written: int, capacity: Cpu
) -> Finding:
    """Say that by the requests of the manifest fewer nodes would come than were promised, and what is done about it."""
    burst = load.profile.limit.cpu * chosen.workers
    fact = (
        f"by their requests the scheduler would put {plural(chosen.workers, 'worker')} on "
        f"{plural(written, 'node')} ({burst} CPU of burst on {capacity})"
    )
    if not placement.raised:
        text = f"{fact}; a spread constraint in the generated pods makes it {chosen.nodes}"
        return Finding.warning("packed-tighter", path, text)
    asked = placement.request
    more = f"{asked.cpu} CPU" if asked.cpu > load.profile.request.cpu else f"{asked.memory}"
    text = f"{fact}; the generated pods ask for {more} each, so it takes {chosen.nodes}"
    return Finding.warning("packed-tighter", path, text, f"write policies.margins.spread: off to keep {written}")
