"""The places where work can run according to a manifest, and the models of them that the simulation needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any

from scalable.engine import Rules
from scalable.engine.events import Job, SweepKind
from scalable.engine.events import SubmittedSweep as Submission
from scalable.engine.rules import Walltime
from scalable.errors import PlanningError
from scalable.findings import Finding
from scalable.machine_hours import MachineHours
from scalable.manifest.machines import NodeType, Pool, Profile
from scalable.manifest.models import Component, Manifest
from scalable.manifest.targets import HiredTarget, KubernetesTarget, LocalTarget, SlurmTarget
from scalable.manifest.work import Retry, Sweep
from scalable.planning.allocations import Allocations
from scalable.planning.expected import is_heavy
from scalable.planning.history import PARTS
from scalable.planning.hours import in_job, is_program, size_of, worker_holding
from scalable.planning.placement import Placement, PoolRoom, place
from scalable.planning.prices import charge, hired
from scalable.planning.resources import ScalePlan, Size, allocatable, equal_part, offered
from scalable.planning.rules import ladder, rules_for, tag_on
from scalable.planning.simulation import Faults, NextSession, SimulationOutcome, simulate
from scalable.planning.simulation.cluster import ModelPool
from scalable.planning.simulation.durations import JobLength, SessionTimes
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
    """The workers of one tag, and where they stand."""

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
    checkpoints: bool = False
    """Its jobs go on where they stopped when their worker ends."""
    times: SessionTimes = field(default_factory=SessionTimes)
    """What a session for it usually takes to start and to end."""
    node_s: float | None = None
    """What a node of its pool usually takes to come, where that was measured."""
    load_s: float = 0.0
    """What the first job on a worker takes longer: its code is loaded then."""


@dataclass(frozen=True, slots=True)
class SimulationInput:
    """All that a simulation takes."""

    rules: Rules
    pools: dict[str, ModelPool]
    sweeps: list[Submission]
    caps: dict[str, float]
    durations: dict[str, JobLength]
    uses: dict[str, float]
    loads: dict[str, float]
    times: SessionTimes

    def simulate(
        self, seed: int = 0, faults: Faults | None = None, later: Sequence[SimulationInput] = ()
    ) -> SimulationOutcome:
        """Simulate its session, and others ``later`` that start when the one before has closed."""
        together = (self, *later)
        return simulate(
            self.rules,
            {name: pool for stage in together for name, pool in stage.pools.items()},
            self.sweeps,
            caps={tag: cpus for stage in together for tag, cpus in stage.caps.items()},
            durations={name: length for stage in together for name, length in stage.durations.items()},
            uses={name: cores for stage in together for name, cores in stage.uses.items()},
            loads={name: seconds for stage in together for name, seconds in stage.loads.items()},
            seed=seed,
            faults=faults,
            times=self.times,
            later=[NextSession(stage.rules, stage.pools, stage.sweeps) for stage in later],
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
        batch_node: Size | None = None,
        balance: MachineHours | None = None,
    ) -> None:
        self.manifest = manifest
        self.balance = balance
        """What the account has left by the cluster's own accounting, if that says so."""
        self.base = base or {}
        """What is locked in the store."""
        self.code = code
        """Returns the fingerprint of a workload as it is now, or nothing; it may import the workload."""
        self.findings = tuple(findings)
        """What a reader of a plan should know of these surroundings."""
        self.pin = pin
        """What a rollback holds fast; its sizes are in the manifest already."""
        self.target = manifest.targets.get(target) if target else None
        self.target_name = target or ""
        self.allocations = Allocations.of(self.target, batch_node)
        """What one batch job holds; ``batch_node`` is what the nodes of the queue have, where that is known."""
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
            self.nodes, self.pools = self.implied()

    def implied(self) -> tuple[dict[str, NodeType], dict[str, Pool]]:
        """Return a pool for a target without any, such as a batch queue: a node is a job that holds the most."""
        limits = [size_of(profile) * self.per_job(profile) for profile in self.manifest.profiles.values()]
        cpu, memory = max(limit.cpu for limit in limits), max(limit.memory for limit in limits)
        pool = Pool(node=JOB, max=self.worker_limit or MOST_JOBS, provision=Duration(0), idle=Duration(0))
        return {JOB: NodeType(cpu=cpu, memory=memory)}, {"jobs": pool}

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

    @property
    def allocation(self) -> MachineHours | None:
        """The hours of machines that the manifest budgets."""
        return self.manifest.budget.allocation if self.manifest.budget else None

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
        """The monthly cost of the least nodes of pools, wherever work runs, without pools of fixed cost."""
        fixed = self.manifest.budget.fixed if self.manifest.budget else {}
        kept = {name: pool for name, pool in self.manifest.pools.items() if pool.min and name not in fixed}
        prices = {name: self.manifest.nodes[pool.node].price for name, pool in kept.items()}
        return {name: price.monthly * kept[name].min for name, price in prices.items() if price is not None}

    def offered(self, pool: str) -> Size:
        """Return what a node of the pool nominally has for work: all but what other services use of it."""
        return offered(self.node(pool), self.pools[pool])

    def unused_s(self, pool: str) -> float:
        """Return how long a node is paid without computing: while it starts, and until it goes after its workers."""
        return self.pools[pool].provision.seconds + self.pools[pool].idle.seconds

    @property
    def currency(self) -> str:
        if self.manifest.budget and self.manifest.budget.monthly:
            return self.manifest.budget.monthly.currency
        prices = [node.price.money.currency for node in self.nodes.values() if node.price]
        return prices[0] if prices else NO_CURRENCY

    @property
    def provider(self) -> str:
        """The provider of the target; empty where only pools are asked about."""
        return self.target.provider if self.target else "local" if self.local else ""

    @property
    def slots(self) -> int:
        """The number of jobs that a worker computes at once."""
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

    def walltime(self, tag: str = "") -> Walltime | None:
        """Return how long the allocation of a worker lasts, and which key says so; None where workers do not end."""
        part = self.manifest.components.get(tag)
        if part is not None and part.walltime is not None:
            return Walltime(Duration.of_walltime(part.walltime).seconds, f"components.{tag}.walltime")
        text = getattr(self.target, "walltime", None)
        return Walltime(Duration.of_walltime(text).seconds, f"targets.{self.target_name}.walltime") if text else None

    @property
    def least_workers(self) -> int:
        """The number of workers that the target keeps, at least the one that work needs."""
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
        if not self.promises:
            count = self.per_job(profile)
            return Placement(Size.of(profile.limit), False, self.part_of_job(profile, pool), count, count)
        scales = self.pools[pool].max is not None
        return place(
            profile,
            self.node(pool),
            self.pools[pool],
            spread=spread and scales and self.manifest.policies.margins.spread,
            peak=peak,
            margins=self.manifest.policies.margins if roomy else None,
        )

    def per_job(self, size: Profile | Component) -> int:
        """Return how many workers one batch job holds; a program on several nodes has a job to itself."""
        if is_program(size):
            return 1
        return self.allocations.per_job(in_job(size))

    def batch_jobs(self, counts: Mapping[str, int]) -> int | None:
        """Return in how many batch jobs so many workers of each tag come; nothing where there are no such jobs."""
        if not isinstance(self.target, SlurmTarget):
            return None
        homes = {tag: home.size for tag, home in self.homes().items()}
        programs = sum(count for tag, count in counts.items() if is_program(homes[tag]))
        workers = [(tag, in_job(homes[tag]), count) for tag, count in counts.items() if not is_program(homes[tag])]
        return programs + len(self.allocations.jobs(workers))

    def part_of_job(self, size: Profile | Component, pool: str) -> Size:
        """Return the part of a batch job, which stands for a node, that one worker takes."""
        job, count = allocatable(self.node(pool)), self.per_job(size)
        return Size(Cpu(job.cpu.millis // count), Memory(job.memory.bytes // count), job.gpus // count)

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
        allocation: MachineHours | None = None,
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
        rules = rules_for(
            self, plan, budget=budget, allocation=allocation, homes=homes, peaks=peaks, spread=spread,
            max_nodes=max_nodes,
        )  # fmt: skip
        reached = {step: homes[step] for tag in workers for step in ladder(tag, rules.kinds)}
        used = {home.pool for home in reached.values()}
        rooms = {name: room for name, room in rules.pools.items() if name in used and isinstance(room, PoolRoom)}
        waits = {sweep.pool: sweep.node_s for sweep in planned if sweep.node_s is not None}
        sweeps = [
            Submission(
                sweep.id,
                sweep.kind,
                tuple(
                    Job(
                        name,
                        sweep.id,
                        tag_of(sweep, planned),
                        group,
                        sweep.duration.expected,
                        sweep.memory,
                        checkpoints=sweep.checkpoints,
                    )
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
                name: ModelPool(room, room.node.cpu.cores, min(self.pools[name].least, room.max_nodes), waits.get(name))
                for name, room in rooms.items()
            },
            sweeps=sweeps,
            caps={tag: self.worker_cpus(home.size, home.pool).cores for tag, home in reached.items()},
            durations={sweep.id: sweep.duration for sweep in planned},
            uses={sweep.id: sweep.cores or profiles[sweep.profile].limit.cpu.cores for sweep in planned},
            loads={sweep.id: sweep.load_s for sweep in planned},
            times=longest([sweep.times for sweep in planned]),
        )

    def worker_cpus(self, size: Profile | Component, pool: str) -> Cpu:
        """Return what a worker has: its limit; on this machine an equal part of it at most, so that thread pools fit.

        A component says how many CPUs its workers have, and is believed.
        """
        if not isinstance(size, Profile):
            return Cpu.of(size.program.all_cpus)
        if not self.local:
            return size.limit.cpu
        cores = self.node(pool).cpu.cores
        return min(size.limit.cpu, Cpu.of(equal_part(cores, self.worker_limit or int(cores))))

    def hourly(self, size: Profile | Component, pool: str, count: int | None = None) -> Money | None:
        """Return what one of ``count`` workers costs an hour where CPUs or machines of its own are charged, not nodes.

        Without a count its batch job is as full as it can be.
        """
        if (cloud := hired(self.target)) is not None:
            memory = size.limit.memory if isinstance(size, Profile) else size.memory
            return charge(cloud, ceil(size_of(size).cpu.cores), memory).hourly
        price: Price | None = getattr(self.target, "cpu_price", None)
        return price.hourly * worker_holding(self, size, pool, count).cores if price is not None else None

    def memory_allowed(self, profile: Profile, pool: str) -> Memory:
        """Return what a job may be expected to use: the profile's limit, or the policy's share of a node if less."""
        share = self.manifest.policies.preflight.memory
        return min(profile.limit.memory, Memory(int(self.node(pool).memory.bytes * share)))


def longest(times: Sequence[SessionTimes]) -> SessionTimes:
    """Return what one session takes for several sweeps: of each part what the slowest of them takes."""
    parts = {name: max((getattr(each, name) for each in times), default=0.0) for name in PARTS}
    return SessionTimes(**parts)


def tag_of(sweep: PlannedSweep, planned: Iterable[PlannedSweep]) -> str:
    """Return the tag of a sweep's workers: their profile; with the pool too where one profile serves several."""
    elsewhere = any(other.profile == sweep.profile and other.pool != sweep.pool for other in planned)
    return tag_on(sweep.profile, sweep.pool) if elsewhere else sweep.profile


def requested(size: Profile | Component) -> Size:
    """Return what a scheduler sets aside for a worker; a component without memory asks for none."""
    return Size.of(size.request) if isinstance(size, Profile) else size_of(size)


def needed_tags(manifest: Manifest, base: Mapping[str, Any]) -> set[str]:
    """Return the kinds of workers that work of the manifest needs: its components, and profiles that sweeps run on."""
    return {*manifest.components, *(profile_of(sweep, base) for sweep in manifest.sweeps.values())}


def profile_of(sweep: Sweep, base: Mapping[str, Any]) -> str:
    """Return the profile of a sweep's workers: as it says, else as what it varies, its settings and locks need.

    Planner, forecast and executor all ask this. Routing is per sweep, never per variant.
    """
    if sweep.profile is not None:
        return sweep.profile
    if is_heavy(sweep, base):
        return "heavy"
    return sweep.plugin.profiles.get(sweep.run or "", "standard") if sweep.plugin is not None else "standard"
