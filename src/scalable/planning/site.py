"""Where work can run according to a manifest, and the models of it that the simulation needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from scalable.engine import Rules, WorkerKind
from scalable.engine.events import Run, Sweep, SweepKind
from scalable.errors import PlanningError
from scalable.manifest.machines import NodeType, Pool, Profile
from scalable.manifest.models import Manifest
from scalable.manifest.targets import HiredTarget, KubernetesTarget, LocalTarget, SlurmTarget
from scalable.planning.placement import Placement, PoolRoom, place
from scalable.planning.prices import charge, hired
from scalable.planning.resources import Size, allocatable, equal_part, offered
from scalable.planning.simulation import Outcome, simulate
from scalable.planning.simulation.cluster import ModelPool
from scalable.planning.simulation.durations import RunLength
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
class Job:
    """Something to simulate: units of equal work for a number of workers."""

    id: str
    kind: SweepKind
    profile: str
    pool: str
    workers: int
    units: tuple[tuple[str, str], ...]
    """Name and group of each."""
    duration: RunLength
    peak: Memory | None = None
    """What a worker usually uses, for placing it."""
    memory: Memory | None = None
    """What a run may use at most, for the memory check."""
    cores: float | None = None
    """What a run uses at most, and with what its duration is true; all CPUs of its profile's limit if nothing is said.
    """


@dataclass(frozen=True, slots=True)
class Stage:
    """All that a simulation takes."""

    rules: Rules
    pools: dict[str, ModelPool]
    sweeps: list[Sweep]
    caps: dict[str, float]
    durations: dict[str, RunLength]
    uses: dict[str, float]

    def simulate(self, seed: int = 0) -> Outcome:
        return simulate(
            self.rules, self.pools, self.sweeps, caps=self.caps, durations=self.durations, uses=self.uses, seed=seed
        )


class Site:
    """The nodes, pools and bounds of a manifest for one target."""

    def __init__(
        self, manifest: Manifest, target: str | None = None, machine: Machine | None = None, pin: Pin | None = None
    ) -> None:
        self.manifest = manifest
        self.pin = pin
        """What a rollback holds fast; its sizes and numbers are in the manifest already."""
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

    def pool_for(self, named: str | None, place: str) -> str:
        """The pool work runs on: the one it names, else the first that scales, else the only one without services."""
        if named in self.pools:
            return named
        scaled = [name for name, pool in self.pools.items() if pool.max is not None]
        plain = [name for name, pool in self.pools.items() if pool.used is None]
        if scaled or plain:
            return (scaled or plain)[0]
        raise PlanningError(
            f"{place} has nowhere to run: no pool is free of other services; add one under pools, or name one: pool: …"
        )

    def node(self, pool: str) -> NodeType:
        return self.nodes[self.pools[pool].node]

    def price(self, pool: str) -> Money | None:
        """What another node of the pool costs an hour; nothing where nodes are paid anyway."""
        node = self.node(pool)
        return node.price.hourly if node.price and self.pools[pool].max is not None else None

    def standing(self, pool: str) -> Money:
        """What the nodes of a pool that are always on cost a month."""
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
        """What a node of the pool nominally has for work: all but what other services use of it."""
        return offered(self.node(pool), self.pools[pool])

    def tail_s(self, pool: str) -> float:
        """How long a node is paid without computing: while it starts, while its workers idle, and before it goes."""
        written = self.pools[pool]
        return written.provision.seconds + self.manifest.policies.scaling.idle.seconds + written.idle.seconds

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
        """How many units a worker computes at once."""
        return self.target.threads_per_worker if isinstance(self.target, LocalTarget) else 1

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

    def placement(
        self, profile: Profile, pool: str, peak: Memory | None = None, *, spread: bool = True, roomy: bool = False
    ) -> Placement:
        """How workers sit on the pool's nodes; ``roomy`` lets every single node keep the margins.

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

    def larger(self, name: str, pool: str) -> str | None:
        """The next profile with more memory that fits on the pool's nodes: where a run goes after an OOM."""
        profiles = self.manifest.profiles
        room = allocatable(self.node(pool), self.pools[pool])
        bigger = [
            other
            for other, profile in profiles.items()
            if profile.limit.memory > profiles[name].limit.memory
            and profile.limit.memory <= self.node(pool).memory
            and profile.request.cpu <= room.cpu
            and profile.request.memory <= room.memory
        ]
        return min(bigger, key=lambda other: (profiles[other].limit.memory, other), default=None)

    def stage(
        self, jobs: Iterable[Job], *, max_nodes: int | None = None, spread: bool = True, apart: Collection[str] = ()
    ) -> Stage:
        """Rules, pools and sweeps for a simulation of these jobs; profiles ``apart`` stand as a ``ScalePlan`` says."""
        jobs = list(jobs)
        if len({job.id for job in jobs}) < len(jobs):
            raise PlanningError("two of the things to simulate have the same name")
        profiles = self.manifest.profiles
        tags: dict[str, tuple[str, str]] = {}  # tag: profile and pool
        for job in jobs:
            name: str | None = job.profile
            while name is not None and tag_of(name, job.pool, jobs) not in tags:
                tags[tag_of(name, job.pool, jobs)] = (name, job.pool)
                name = self.larger(name, job.pool)
        kinds: dict[str, WorkerKind] = {}
        placements: dict[str, Placement] = {}
        for tag, (profile, pool) in tags.items():
            above = self.larger(profile, pool)
            peak = max((job.peak for job in jobs if job.profile == profile and job.peak), default=None)
            placements[tag] = self.placement(profiles[profile], pool, peak, spread=spread, roomy=profile in apart)
            kinds[tag] = WorkerKind(
                tag,
                pool,
                self.memory_allowed(profiles[profile], pool),
                alone=profiles[profile].alone,
                slots=self.slots,
                larger=tag_of(above, pool, jobs) if above else None,
            )
        rooms = {pool: self.room(pool, tags, placements, max_nodes) for pool in {job.pool: None for job in jobs}}
        sweeps = [
            Sweep(
                job.id,
                job.kind,
                tuple(
                    Run(name, job.id, tag_of(job.profile, job.pool, jobs), group, job.duration.expected, job.memory)
                    for name, group in job.units
                ),
                job.workers,
            )
            for job in jobs
        ]
        return Stage(
            rules=Rules(kinds, rooms, self.manifest.policies, most_workers=self.worker_limit),
            pools={
                name: ModelPool(room, cpus=room.node.cpu.cores, least=min(self.pools[name].least, room.max_nodes))
                for name, room in rooms.items()
            },
            sweeps=sweeps,
            caps={tag: self.worker_cpus(profiles[profile], pool).cores for tag, (profile, pool) in tags.items()},
            durations={job.id: job.duration for job in jobs},
            uses={job.id: job.cores or profiles[job.profile].limit.cpu.cores for job in jobs},
        )

    def worker_cpus(self, profile: Profile, pool: str) -> Cpu:
        """What a worker has: its limit; on this machine an equal part of it at most, so that thread pools fit."""
        if not self.local:
            return profile.limit.cpu
        cores = self.node(pool).cpu.cores
        return min(profile.limit.cpu, Cpu.of(equal_part(cores, self.worker_limit or int(cores))))

    def hourly(self, profile: Profile, pool: str) -> Money | None:
        """What a worker costs an hour where CPUs or machines of its own are charged, not nodes."""
        if (cloud := hired(self.target)) is not None:
            return charge(cloud, ceil(profile.limit.cpu.cores), profile.limit.memory).hourly
        price: Price | None = getattr(self.target, "cpu_price", None)
        return price.hourly * self.worker_cpus(profile, pool).cores if price is not None else None

    def memory_allowed(self, profile: Profile, pool: str) -> Memory:
        """What a run may be expected to use: the profile's limit, or the policy's share of a node if that is less."""
        share = self.manifest.policies.preflight.memory
        return min(profile.limit.memory, Memory(int(self.node(pool).memory.bytes * share)))

    def room(
        self,
        pool: str,
        tags: Mapping[str, tuple[str, str]],
        placements: Mapping[str, Placement],
        max_nodes: int | None,
    ) -> PoolRoom:
        here = [tag for tag, (_, other) in tags.items() if other == pool]
        profiles = self.manifest.profiles
        written = self.pools[pool]
        return PoolRoom(
            name=pool,
            node=allocatable(self.node(pool), written),
            max_nodes=min(written.most, max_nodes) if max_nodes else written.most,
            requests={tag: placements[tag].footprint for tag in here},
            spread_over={
                tag: min(profiles[tags[tag][0]].min_nodes, written.most)
                for tag in here
                if profiles[tags[tag][0]].min_nodes > 1 and not max_nodes
            },
            price=self.price(pool),
            provision_s=written.provision.seconds,
            idle_s=written.idle.seconds,
        )


def implied(manifest: Manifest, limit: int | None) -> tuple[dict[str, NodeType], dict[str, Pool]]:
    """For a target without pools, such as a batch queue: one job per worker, as large as the largest profile."""
    limits = [profile.limit for profile in manifest.profiles.values()]
    cpu, memory = max(limit.cpu for limit in limits), max(limit.memory for limit in limits)
    pool = Pool(node=JOB, max=limit or MOST_JOBS, provision=Duration(0), idle=Duration(0))
    return {JOB: NodeType(cpu=cpu, memory=memory)}, {"jobs": pool}


def tag_of(profile: str, pool: str, jobs: Iterable[Job]) -> str:
    """Workers are tagged with their profile; with the pool too where one profile serves several."""
    elsewhere = any(job.profile == profile and job.pool != pool for job in jobs)
    return f"{profile}@{pool}" if elsewhere else profile
