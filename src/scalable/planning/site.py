"""Where work can run according to a manifest, and the models of it that the simulation needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from scalable.catalogue import profile_for
from scalable.engine import Rules
from scalable.engine.events import Job, SweepKind
from scalable.engine.events import Sweep as Submission
from scalable.errors import PlanningError
from scalable.findings import Finding
from scalable.manifest.machines import NodeType, Pool, Profile
from scalable.manifest.models import Component, Manifest
from scalable.manifest.targets import HiredTarget, KubernetesTarget, LocalTarget, SlurmTarget
from scalable.manifest.work import Retry, Sweep
from scalable.planning.expected import common
from scalable.planning.placement import Placement, PoolRoom, place
from scalable.planning.prices import charge, hired
from scalable.planning.resources import ScalePlan, Size, allocatable, equal_part, offered
from scalable.planning.rules import ladder, rules_for, tag_on
from scalable.planning.simulation import Outcome, simulate
from scalable.planning.simulation.cluster import ModelPool
from scalable.planning.simulation.durations import JobLength
from scalable.quantities import Cpu, Duration, Memory, Money, Price

if TYPE_CHECKING:
    from scalable.planning.pins import Pin

LOCAL = "this machine"
JOB = "batch job"
MOST_JOBS = 100  # workers planned for on a target that states no maximum
NO_CURRENCY = "EUR"  # shown for amounts of nothing where no price is written


@dataclass(frozen=True, slots=True)
class Machine:
    """This computer, for manifests that name no pools."""

    cpu: Cpu
    memory: Memory


@dataclass(frozen=True, slots=True)
class Home:
    """What workers of one tag are, and where they stand."""

    name: str
    """Of the profile or component."""
    size: Profile | Component
    pool: str

    @property
    def request(self) -> Size:
        return requested(self.size)


@dataclass(frozen=True, slots=True)
class PlannedSweep:
    """A sweep to simulate: jobs of equal work for a number of workers."""

    id: str
    kind: SweepKind
    profile: str
    pool: str
    workers: int
    jobs: tuple[tuple[str, str], ...]
    """Name and group of each."""
    duration: JobLength
    peak: Memory | None = None
    """What a worker usually uses, for placing it."""
    memory: Memory | None = None
    """What a job may use at most, for the memory check."""
    cores: float | None = None
    """What a job uses at most, and with what its duration is true; all CPUs of its profile's limit if nothing is said.
    """
    retry: Retry | None = None
    """How its jobs are retried where that differs from the policies."""
    startup_s: float = 0.0
    """What a worker usually takes to join once its node is up."""


@dataclass(frozen=True, slots=True)
class SimulationInput:
    """All that a simulation takes."""

    rules: Rules
    pools: dict[str, ModelPool]
    sweeps: list[Submission]
    caps: dict[str, float]
    durations: dict[str, JobLength]
    uses: dict[str, float]
    startup_s: float

    def simulate(self, seed: int = 0) -> Outcome:
        return simulate(
            self.rules,
            self.pools,
            self.sweeps,
            caps=self.caps,
            durations=self.durations,
            uses=self.uses,
            seed=seed,
            startup_s=self.startup_s,
        )


class Site:
    """The nodes, pools and bounds of a manifest for one target."""

    def __init__(
        self,
        manifest: Manifest,
        target: str | None = None,
        machine: Machine | None = None,
        pin: Pin | None = None,
        *,
        base: Mapping[str, Any] | None = None,
        code: Callable[[str | None], str] = lambda run: "",
        findings: Iterable[Finding] = (),
    ) -> None:
        self.manifest = manifest
        self.base = base or {}
        """What is locked in the store."""
        self.code = code
        """Returns the fingerprint of a workload as it is now, or nothing; it may import the workload."""
        self.findings = tuple(findings)
        """What a reader of a plan should know of these surroundings."""
        self.pin = pin
        """What a rollback holds fast; its sizes are in the manifest already."""
        self.target = manifest.targets.get(target) if target else None
        self.nodes: dict[str, NodeType] = dict(manifest.nodes)
        self.pools: dict[str, Pool] = dict(manifest.pools)
        self.local = isinstance(self.target, LocalTarget) or not (self.pools or self.target)
        """Work runs on this machine: its workers are bounded by the target, not by requests."""
        self.promises = not self.local and bool(self.pools)
        """There are pools whose margins are guaranteed; this machine and batch queues promise nothing."""
        if self.local and machine is not None:
            self.nodes = {LOCAL: NodeType(cpu=machine.cpu, memory=machine.memory)}
            self.pools = {"local": Pool(node=LOCAL, count=1, provision=Duration(0), idle=Duration(0))}
        elif not self.pools:
            self.nodes, self.pools = implied(manifest, self.worker_limit)

    def pool_for(self, named: str | None, place: str, size: Size | None = None) -> str:
        """Return the pool that work runs on: the one it names, else the first for any work with room for its size."""
        if named in self.pools:
            return named
        if usable := self.usable(size):
            return usable[0]
        raise PlanningError(
            f"{place} has nowhere to run: no pool is free of other services; add one under pools, or name one: pool: …"
        )

    def usable(self, size: Size | None = None) -> list[str]:
        """Return pools for work that names none: those that scale, else those without services; with room first."""
        scaled = [name for name, pool in self.pools.items() if pool.max is not None]
        plain = [name for name, pool in self.pools.items() if pool.used is None]
        return sorted(scaled or plain, key=lambda name: size is not None and not size.fits(self.room(name)))

    def room(self, pool: str) -> Size:
        """Return what a node of the pool has to give."""
        return allocatable(self.node(pool), self.pools[pool])

    def homes(self) -> dict[str, Home]:
        """Return all kinds of workers of the manifest by tag: its components, and the profiles its sweeps run on."""
        manifest = self.manifest
        homes = {
            tag: Home(tag, part, self.pool_for(None, tag, size_of(part))) for tag, part in manifest.components.items()
        }
        pools: dict[str, str] = {}
        for name, sweep in manifest.sweeps.items():
            pools.setdefault(profile_of(sweep, self.base), self.pool_for(sweep.pool, f"sweep {name}"))
        for step in list(pools.items()):
            while (above := self.climb(*step)) is not None:
                pools.setdefault(*above)
                step = above
        for tag, profile in manifest.profiles.items() if pools else ():
            usual = (*self.usable(Size.of(profile.request)), *pools.values())
            homes[tag] = Home(tag, profile, pools.get(tag, usual[0]))
        return homes

    def node(self, pool: str) -> NodeType:
        return self.nodes[self.pools[pool].node]

    def price(self, pool: str) -> Money | None:
        """Return what another node of the pool costs an hour; nothing where nodes are paid anyway."""
        node = self.node(pool)
        return node.price.hourly if node.price and self.pools[pool].max is not None else None

    def standing(self, pool: str) -> Money:
        """Return what the nodes of a pool that are always on cost a month."""
        price = self.node(pool).price
        return price.monthly * self.pools[pool].least if price else Money.zero(self.currency)

    @property
    def always_on(self) -> dict[str, Money]:
        """What the least nodes of pools cost a month, wherever work runs, but for pools that the budget calls fixed."""
        fixed = self.manifest.budget.fixed if self.manifest.budget else {}
        kept = {name: pool for name, pool in self.manifest.pools.items() if pool.min and name not in fixed}
        prices = {name: self.manifest.nodes[pool.node].price for name, pool in kept.items()}
        return {name: price.monthly * kept[name].min for name, price in prices.items() if price is not None}

    def offered(self, pool: str) -> Size:
        """Return what a node of the pool nominally has for work: all but what other services use of it."""
        return offered(self.node(pool), self.pools[pool])

    def tail_s(self, pool: str) -> float:
        """Return how long a node is paid without computing: its workers go with the last row, it goes later."""
        return self.pools[pool].idle.seconds

    @property
    def currency(self) -> str:
        if self.manifest.budget:
            return self.manifest.budget.monthly.currency
        prices = [node.price.money.currency for node in self.nodes.values() if node.price]
        return prices[0] if prices else NO_CURRENCY

    @property
    def provider(self) -> str:
        """Whose target it is; empty where only pools are asked about."""
        return self.target.provider if self.target else "local" if self.local else ""

    @property
    def slots(self) -> int:
        """How many jobs a worker computes at once."""
        return getattr(self.target, "threads_per_worker", 1)

    @property
    def worker_limit(self) -> int | None:
        """The most workers the target allows in all."""
        if self.target is None:
            return None
        if self.target.adaptive is not None:
            return self.target.adaptive.maximum
        if isinstance(self.target, LocalTarget | SlurmTarget | HiredTarget | KubernetesTarget):
            return self.target.max_workers
        return None

    @property
    def least_workers(self) -> int:
        """How many workers the target keeps, at least the one that work needs."""
        adaptive = self.target.adaptive if self.target is not None else None
        return max(1, adaptive.minimum if adaptive is not None else 0)

    def placement(
        self, profile: Profile, pool: str, peak: Memory | None = None, *, spread: bool = True, roomy: bool = False
    ) -> Placement:
        """Return how workers sit on the pool's nodes; ``roomy`` lets every single node keep the margins.

        Fixed pools are never spread: their nodes are there anyway, and sharing them is what was asked for.
        """
        if self.local:
            request = Size(Cpu(1), peak or profile.memory_peak)
            fit = max(1, request.times_in(allocatable(self.node(pool))))
            return Placement(request, False, request, fit, fit)
        if not self.promises:  # one batch job per worker
            return Placement(Size.of(profile.limit), False, allocatable(self.node(pool)), 1, 1)
        scales = self.pools[pool].max is not None
        return place(
            profile,
            self.node(pool),
            self.pools[pool],
            spread=spread and scales and self.manifest.policies.margins.spread,
            peak=peak,
            margins=self.manifest.policies.margins if roomy else None,
        )

    def climb(self, name: str, pool: str) -> tuple[str, str] | None:
        """Return where a job of a profile goes after an OOM: the next profile with more memory, and its pool.

        That is the same pool if the profile fits on its nodes, else another for any work on which it fits. From a
        profile that the manifest declares it goes to others that it declares, else to those that are shipped, too.
        """
        profiles, declared = self.manifest.profiles, self.manifest.declared
        usable = declared if name in declared else profiles
        more = (other for other in usable if profiles[other].limit.memory > profiles[name].limit.memory)
        for other in sorted(more, key=lambda other: (profiles[other].limit.memory, other)):
            for where in (pool, *self.usable(Size.of(profiles[other].request))):
                if self.holds(profiles[other], where):
                    return other, where
        return None

    def holds(self, profile: Profile, pool: str) -> bool:
        """Tell whether a node of the pool has room for a worker; on this machine requests do not count."""
        fits = self.local or Size.of(profile.request).fits(self.room(pool))
        return fits and profile.limit.memory <= self.node(pool).memory

    def stage(
        self,
        planned: Iterable[PlannedSweep],
        *,
        plan: ScalePlan | None = None,
        max_nodes: int | None = None,
        spread: bool = True,
        budget: Money | None = None,
    ) -> SimulationInput:
        """Return rules, pools and sweeps for a simulation of these sweeps in one session that starts with the plan.

        Without a plan it has as many workers as all sweeps together ask for.
        """
        planned = list(planned)
        if len({sweep.id for sweep in planned}) < len(planned):
            raise PlanningError("two of the sweeps to simulate have the same name")
        profiles, policies = self.manifest.profiles, self.manifest.policies
        homes, workers, peaks = self.homes(), dict[str, int](), dict[str, Memory]()
        for sweep in planned:
            tag, profile = tag_of(sweep, planned), profiles[sweep.profile]
            self.placement(profile, sweep.pool)  # raises where it does not fit
            homes[tag] = Home(sweep.profile, profile, sweep.pool)
            workers[tag] = workers.get(tag, 0) + sweep.workers
            if sweep.peak:
                peaks[sweep.profile] = max(sweep.peak, peaks.get(sweep.profile, sweep.peak))
        plan = plan or ScalePlan(workers)
        rules = rules_for(self, plan, budget=budget, homes=homes, peaks=peaks, spread=spread, max_nodes=max_nodes)
        reached = {step: homes[step] for tag in workers for step in ladder(tag, rules.kinds)}
        used = {home.pool for home in reached.values()}
        rooms = {name: room for name, room in rules.pools.items() if name in used and isinstance(room, PoolRoom)}
        sweeps = [
            Submission(
                sweep.id,
                sweep.kind,
                tuple(
                    Job(name, sweep.id, tag_of(sweep, planned), group, sweep.duration.expected, sweep.memory)
                    for name, group in sweep.jobs
                ),
                sweep.workers,
                sweep.retry and policies.retry_of(sweep.retry),
            )
            for sweep in planned
        ]
        return SimulationInput(
            rules=rules,
            pools={
                name: ModelPool(room, cpus=room.node.cpu.cores, least=min(self.pools[name].least, room.max_nodes))
                for name, room in rooms.items()
            },
            sweeps=sweeps,
            caps={tag: self.worker_cpus(home.size, home.pool).cores for tag, home in reached.items()},
            durations={sweep.id: sweep.duration for sweep in planned},
            uses={sweep.id: sweep.cores or profiles[sweep.profile].limit.cpu.cores for sweep in planned},
            startup_s=max((sweep.startup_s for sweep in planned), default=0.0),
        )

    def worker_cpus(self, size: Profile | Component, pool: str) -> Cpu:
        """Return what a worker has: its limit; on this machine an equal part of it at most, so that thread pools fit.

        A component says how many CPUs its workers have, and is believed.
        """
        if not isinstance(size, Profile):
            return Cpu.of(size.cpus)
        if not self.local:
            return size.limit.cpu
        cores = self.node(pool).cpu.cores
        return min(size.limit.cpu, Cpu.of(equal_part(cores, self.worker_limit or int(cores))))

    def hourly(self, size: Profile | Component, pool: str) -> Money | None:
        """Return what a worker costs an hour where CPUs or machines of its own are charged, not nodes."""
        if (cloud := hired(self.target)) is not None:
            memory = size.limit.memory if isinstance(size, Profile) else size.memory
            return charge(cloud, ceil(size_of(size).cpu.cores), memory).hourly
        price: Price | None = getattr(self.target, "cpu_price", None)
        return price.hourly * self.worker_cpus(size, pool).cores if price is not None else None

    def memory_allowed(self, profile: Profile, pool: str) -> Memory:
        """What a job may be expected to use: the profile's limit, or the policy's share of a node if that is less."""
        share = self.manifest.policies.preflight.memory
        return min(profile.limit.memory, Memory(int(self.node(pool).memory.bytes * share)))


def implied(manifest: Manifest, limit: int | None) -> tuple[dict[str, NodeType], dict[str, Pool]]:
    """For a target without pools, such as a batch queue: one job per worker, as large as the largest profile."""
    limits = [profile.limit for profile in manifest.profiles.values()]
    cpu, memory = max(limit.cpu for limit in limits), max(limit.memory for limit in limits)
    pool = Pool(node=JOB, max=limit or MOST_JOBS, provision=Duration(0), idle=Duration(0))
    return {JOB: NodeType(cpu=cpu, memory=memory)}, {"jobs": pool}


def tag_of(sweep: PlannedSweep, planned: Iterable[PlannedSweep]) -> str:
    """Return the tag of a sweep's workers: their profile; with the pool too where one profile serves several."""
    elsewhere = any(other.profile == sweep.profile and other.pool != sweep.pool for other in planned)
    return tag_on(sweep.profile, sweep.pool) if elsewhere else sweep.profile


def size_of(size: Profile | Component) -> Size:
    """Return what a worker may use at most."""
    if isinstance(size, Profile):
        return Size.of(size.limit)
    return Size(Cpu.of(size.cpus), size.memory or Memory(0), size.gpus)


def requested(size: Profile | Component) -> Size:
    """Return what a scheduler sets aside for a worker; a component without memory asks for none."""
    return Size.of(size.request) if isinstance(size, Profile) else size_of(size)


def profile_of(sweep: Sweep, base: Mapping[str, Any]) -> str:
    """Return the profile of a sweep's workers: as it says, else as its factor, its settings and what is locked need."""
    return sweep.profile or profile_for(sweep.factor, common(sweep, base), sweep.run)
