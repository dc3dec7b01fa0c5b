"""From what a manifest declares to what must be computed: sweeps with their jobs, scenarios as loads on nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product
from shlex import quote

from scalable.engine.events import SweepKind
from scalable.errors import PlanningError
from scalable.manifest.machines import Peak, Profile
from scalable.manifest.models import PROFILES
from scalable.manifest.work import Sweep, Together
from scalable.planning.expected import Estimate, Expected, MemoryCheck, circumstances, estimate_peak, expect, preflight
from scalable.planning.history import History, MemoryUse
from scalable.planning.margins import Load
from scalable.planning.simulation.durations import Fixed, SessionTimes
from scalable.planning.site import PlannedSweep, Site, profile_of
from scalable.quantities import Cpu
from scalable.sweeps.grid import Grid


@dataclass(frozen=True, slots=True)
class SweepLoad:
    """A sweep with everything looked up: its grid, size, place, duration and memory."""

    name: str
    sweep: Sweep
    grid: Grid
    profile_name: str
    profile: Profile
    pool: str
    cpus: Cpu
    """What a worker has, which on this machine may be less than the profile's limit."""
    slots: int
    """How many jobs it computes at once."""
    expected: Expected
    estimate: Estimate
    verdict: MemoryCheck
    times: SessionTimes
    """What a session for it usually takes to start and to end."""
    node_s: float | None
    """What a node of its pool usually takes to come, where that was measured."""
    routed: str = ""
    """Why its workers are larger than its factor alone would make them."""

    @property
    def workers(self) -> int:
        """As the manifest says, or one per value of the first repeated axis."""
        return self.sweep.workers or len(self.grid.groups)

    @property
    def jobs(self) -> int:
        """The number of jobs that serve all rows; for a workload of one's own as it was seen to share them."""
        return -(-len(self.grid) // self.rows_per_job)

    @property
    def rows_per_job(self) -> int:
        if self.grid.shared is not None:
            return self.grid.rows_per_search
        return max(1, min(self.expected.rows or 1, len(self.grid)))

    @property
    def cores(self) -> float:
        """The cores that a job uses on a worker."""
        return min(self.expected.cores, self.cpus.cores / self.slots)

    @property
    def job_s(self) -> float:
        """The seconds of a job on a worker that nobody disturbs."""
        return self.expected.length.expected * self.expected.cores / self.cores

    @property
    def kind(self) -> SweepKind:
        if self.sweep.overlap:
            return SweepKind.FREE
        return SweepKind.HEAVY if self.profile.alone else SweepKind.NORMAL

    def planned(self, workers: int, *, shared: bool = True, pool: str | None = None) -> PlannedSweep:
        jobs = tuple(jobs_of(self) if shared else rows(self))
        place, peak, memory = pool or self.pool, self.profile.memory_peak, self.estimate.peak
        return PlannedSweep(
            self.name, self.kind, self.profile_name, place, workers, jobs, self.expected.length, peak, memory,
            self.expected.cores, self.sweep.retry, self.sweep.checkpoints, self.times, self.node_s,
            self.expected.load_s,
        )  # fmt: skip


def jobs_of(load: SweepLoad) -> Iterator[tuple[str, str]]:
    """Yield the jobs, numbered, each with the group of rows whose data it needs."""
    grid = load.grid
    if grid.shared is None:
        yield from islice(rows(load), 0, None, load.rows_per_job)
        return
    turns = grid.searches // len(grid.groups)
    for number, (_, group) in enumerate(product(range(turns), grid.groups)):
        yield f"{load.name}#{number}", group


def rows(load: SweepLoad) -> Iterator[tuple[str, str]]:
    for number, cell in enumerate(load.grid):
        yield f"{load.name}#{number}", load.grid.group_of(cell)


def sweep_load(site: Site, name: str, history: History, *, pool: str | None = None) -> SweepLoad:
    way = route(site, name, history, pool)
    sweep, profile_name, where, use = site.manifest.sweeps[name], way.profile, way.pool, way.use
    profile = site.manifest.profiles[profile_name]
    if site.pin is not None and site.pin.covers(name, profile_name):
        sweep = sweep.model_copy(update={"workers": max(1, site.pin.workers[profile_name])})
    if use is not None and use.peak is not None:
        profile = profile.model_copy(update={"peak": Peak(typical=use.peak, highest=use.peak)})
    grid = Grid.of(sweep, site.manifest.groups)
    cpus = site.worker_cpus(profile, where)
    expected = expect(name, sweep, grid, history, site.provider, profile.limit.cpu, cpus, site.base)
    estimate = peak_of(site, sweep, profile_name, profile, use, history)
    policy = site.manifest.policies.preflight
    step = site.climb(profile_name, where)
    helps = step is not None and site.manifest.profiles[step[0]].limit.memory >= estimate.peak
    verdict = preflight(
        estimate,
        limit=profile.limit.memory,
        node=site.node(where).memory,
        share=policy.memory,
        larger=step[0] if step is not None and helps else None,
        forget=f"scalable admin forget peak {quote(name)}" if use is not None and use.peak is not None else "",
    )
    return SweepLoad(
        name,
        sweep,
        grid,
        profile_name,
        profile,
        where,
        cpus,
        site.slots,
        expected,
        estimate,
        verdict,
        history.session_times(site.provider, site.pools[where].provision.seconds),
        history.node_s(site.provider, where),
        way.why,
    )


@dataclass(frozen=True, slots=True)
class Route:
    """The profile that a sweep's workers have, and the pool they stand on."""

    profile: str
    pool: str
    use: MemoryUse | None
    """What the sweep was seen to use."""
    why: str = ""
    """Why it is a larger profile than the factor alone would need."""


def route(site: Site, name: str, history: History, pool: str | None = None) -> Route:
    """Return the profile a sweep names, else the one it needs: by its factor, what is locked, and what was measured.

    A measurement moves the whole factor, never single variants, to the first profile that holds it.
    """
    sweep = site.manifest.sweeps[name]
    step = first = profile_of(sweep, site.base), site.pool_for(pool or sweep.pool, f"sweep {name}")
    use = measured_use(site, sweep, *first, history)
    if use is None or sweep.profile is not None:
        return Route(*first, use)
    while is_short(site, *step, use) and (above := site.climb(*step)) is not None:
        step = above
    if step == first:
        return Route(*first, use)
    if use.peak is not None and is_short(site, *first, replace(use, short=frozenset())):
        return Route(*step, use, f"routed to {step[0]}: {use.peak} measured for this factor")
    return Route(*step, use, f"routed to {step[0]}: this factor ran out of memory on {first[0]}")


def is_short(site: Site, profile: str, pool: str, use: MemoryUse) -> bool:
    """Tell whether workers of a profile have too little memory for what was measured."""
    allowed = site.memory_allowed(site.manifest.profiles[profile], pool)
    return profile in use.short or (use.peak is not None and use.peak > allowed)


def measured_use(site: Site, sweep: Sweep, profile_name: str, where: str, history: History) -> MemoryUse | None:
    """Return what the sweep was seen to use.

    A peak that the manifest states for the profile holds instead. What would not fit counts only for the code that
    had it; the code is looked at only then, since that imports the workload.
    """
    profile = site.manifest.profiles[profile_name]
    use = history.used(circumstances(sweep, site.base, history))
    if use is None or states_peak(profile_name, profile):
        return None
    if is_short(site, profile_name, where, use) and use.code and (now := site.code(sweep.stages)) and now != use.code:
        return None
    return use


def states_peak(name: str, profile: Profile) -> bool:
    """Tell whether somebody stated this peak; a copy of the shipped profile's is only where measuring begins."""
    return profile.peak is not None and (name not in PROFILES or profile.peak != PROFILES[name].peak)


def peak_of(
    site: Site, sweep: Sweep, profile_name: str, profile: Profile, use: MemoryUse | None, history: History
) -> Estimate:
    if use is not None and use.peak is not None:
        return Estimate(use.peak, "measured", use.target)
    seen = profile.peak.highest if profile.peak is not None else None
    seen_here = sweep.plugin is not None or states_peak(profile_name, profile)  # shipped peaks are of a plug-in's work
    observed = f"{'highest observed' if seen_here else 'assumed'} with profile {profile_name}"
    features = sweep.features or most_features(sweep)
    if sweep.samples and features:
        safety, sizes = site.manifest.policies.preflight.safety, history.sizes.get(sweep.run or "", ())
        estimate = estimate_peak(sweep.samples, features, safety, sizes)
        if seen is None:
            return estimate
        if estimate.peak >= seen:
            return replace(estimate, source=f"{estimate.source}; {seen} {observed}")
        return Estimate(seen, f"{observed}; {estimate.peak} {estimate.source}")
    if seen is not None:
        return Estimate(seen, observed if seen_here else f"{observed}; nothing was measured")
    return Estimate(profile.request.memory, f"the request of profile {profile_name}; nothing was measured")


def most_features(sweep: Sweep) -> int | None:
    """Return the columns that the largest variant trains on, where the plug-in knows."""
    return sweep.plugin.features(sweep.compare) if sweep.plugin is not None else None


def loads_of(
    site: Site, where: str, together: Together, history: History, assets: str | None = None
) -> tuple[list[Load], str]:
    """Return the workers that run at the same time, and the pool they share."""
    loads: list[Load] = []
    pools: set[str] = set()
    for wanted, count in together.sweeps.items():
        for sweep in pick_sweeps(site, where, wanted, count, history):
            load = sweep_load(site, sweep, history)
            workers = len(site.manifest.groups[assets]) if assets else load.workers
            peak, profile = load.profile.memory_peak, load.profile
            highest = profile.peak.highest if profile.peak else peak
            loads.append(Load(sweep, load.profile_name, profile, workers, peak, highest, sweep=True))
            pools.add(load.pool)
    for name, count in together.workloads.items():
        workload = site.manifest.workloads[name]
        profile = site.manifest.profiles[workload.profile]
        peak = workload.peak_memory or profile.memory_peak
        highest = profile.peak.highest if profile.peak and not workload.peak_memory else peak
        loads += [Load(name, workload.profile, profile, workload.workers, peak, highest, sweep=False)] * count
        pools.add(site.pool_for(workload.pool, f"workload {name}"))
    if len(pools) > 1:
        raise PlanningError(f"{where} uses the pools {', '.join(sorted(pools))}; what runs together is about one pool")
    return loads, pools.pop()


def planned_sweeps(
    site: Site, where: str, together: Together, history: History, assets: str | None = None
) -> list[PlannedSweep]:
    """Return the same to simulate: sweeps with all their jobs, workloads as long as they last."""
    planned: list[PlannedSweep] = []
    for wanted, count in together.sweeps.items():
        for sweep in pick_sweeps(site, where, wanted, count, history):
            load = sweep_load(site, sweep, history)
            if assets:
                load = replace(load, grid=load.grid.with_group(site.manifest.groups[assets]))
            workers = len(load.grid.groups) if assets else load.workers
            alone, name = load.planned(workers), f"{len(planned)} {sweep}"
            jobs = tuple((f"{name} {job}", group) for job, group in alone.jobs)
            planned.append(replace(alone, id=name, jobs=jobs))
    for name, count in together.workloads.items():
        workload = site.manifest.workloads[name]
        pool = site.pool_for(workload.pool, f"workload {name}")
        duration = Fixed(workload.hours * 3600)
        for _ in range(count):
            id, peak = f"{len(planned)} {name}", workload.peak_memory
            jobs = tuple((f"{id} {worker}", str(worker)) for worker in range(workload.workers))
            planned.append(
                PlannedSweep(id, SweepKind.FREE, workload.profile, pool, workload.workers, jobs, duration, peak, peak)
            )
    return planned


def pick_sweeps(site: Site, where: str, wanted: str, count: int, history: History) -> list[str]:
    """Return a sweep by name, or sweeps of a profile: those with most workers first, again if too few."""
    if wanted in site.manifest.sweeps:
        return [wanted] * count
    sized = [
        (sweep.workers or len(Grid.of(sweep, site.manifest.groups).groups), name)
        for name, sweep in site.manifest.sweeps.items()
        if route(site, name, history).profile == wanted
    ]
    if not sized:
        raise PlanningError(f"{where}: no sweep uses the profile {wanted}; name a sweep or add one")
    names = [name for _, name in sorted(sized, key=lambda pair: -pair[0])]
    return [names[i % len(names)] for i in range(count)]
