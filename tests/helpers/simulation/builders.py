"""A modelled pool in a few words: so many jobs of so long on so many workers, and what may go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scalable.engine import Rules, WorkerKind
from scalable.engine.events import Event, Instruction, Job, SubmittedSweep, SweepKind, SweepSubmitted
from scalable.engine.rules import Walltime
from scalable.manifest.policies import Policies
from scalable.planning.placement import PoolRoom
from scalable.planning.resources import Size
from scalable.planning.simulation import Faults, JobFault, NextSession, NodeFault, SimulationOutcome, simulate
from scalable.planning.simulation.cluster import ModelPool
from scalable.planning.simulation.durations import Fixed, JobLength, SessionTimes
from scalable.planning.simulation.faults import FaultKind
from scalable.quantities import Cpu, Memory, Money

JOB_S = 210.0  # a job is 3.5 minutes on 4 saturated cores
CORES = 4.0


def a_cluster() -> Cluster:
    return Cluster()


@dataclass
class Cluster:
    """PRO2-M nodes with 15.6 cores to give; workers of 4 cores."""

    nodes: int = 6
    request: float = 3.9
    """By which the scheduler packs: 4 to a node with 3.9, 7 with 2."""
    provision_s: float = 180.0
    idle_s: float = 600.0
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    script: list[tuple[float, Event]] = field(default_factory=list)
    durations: dict[str, JobLength] = field(default_factory=dict)
    uses: dict[str, float] = field(default_factory=dict)
    """Cores that a sweep's jobs can use; all of their worker's if nothing is said."""
    loads: dict[str, float] = field(default_factory=dict)
    """What a sweep's first job on a worker takes longer."""
    minimum: int = 0
    walltime: Walltime | None = None
    """Of standard workers."""
    faults: Faults = field(default_factory=Faults)
    seen: list[tuple[float, Event, list[Instruction]]] = field(default_factory=list)

    def with_nodes(self, most: int, *, request: float = 3.9) -> Cluster:
        self.nodes, self.request = most, request
        return self

    def with_times(self, *, provision: float, idle: float) -> Cluster:
        self.provision_s, self.idle_s = provision, idle
        return self

    def keeping(self, minimum: int) -> Cluster:
        """Keep so many standard workers, as a session without scaling does."""
        self.minimum = minimum
        return self

    def with_policy(self, section: str, **values: Any) -> Cluster:
        self.policies[section] = values
        return self

    def with_sweep(
        self,
        name: str,
        jobs: int,
        workers: int,
        duration: JobLength | None = None,
        *,
        at: float = 0.0,
        on: str = "standard",
        checkpoints: bool = False,
    ) -> Cluster:
        """Jobs are called ``name/0``, ``name/1``, …"""
        duration = duration or Fixed(JOB_S)
        made = tuple(
            Job(f"{name}/{n}", name, on, str(n % 5), duration.expected, checkpoints=checkpoints) for n in range(jobs)
        )
        kind = SweepKind.HEAVY if on == "heavy" else SweepKind.NORMAL
        self.script.append((at, SweepSubmitted(SubmittedSweep(name, kind, made, workers))))
        self.durations[name] = duration
        return self

    def with_fault(self, job: str, kind: FaultKind, *, attempt: int = 1, **values: Any) -> Cluster:
        known = {**self.faults.jobs, (job, attempt): JobFault(kind, **values)}
        self.faults = replace(self.faults, jobs=known)
        return self

    def with_node_lost(self, at: float, nth: int = 0) -> Cluster:
        self.faults = replace(self.faults, nodes=(*self.faults.nodes, NodeFault(at, nth)))
        return self

    def with_refusals(self, count: int) -> Cluster:
        self.faults = replace(self.faults, refusals=count)
        return self

    def room(self) -> PoolRoom:
        memory = {"standard": Memory.of_gib(2), "heavy": Memory.of_gib(12)}
        return PoolRoom(
            "compute",
            Size(Cpu.of(15.6), Memory.of_gib(60)),
            self.nodes,
            {tag: Size(Cpu.of(self.request), size) for tag, size in memory.items()},
            price=Money.parse("0.1644 EUR"),
            provision_s=self.provision_s,
            idle_s=self.idle_s,
        )

    def rules(self) -> Rules:
        kinds = {
            "standard": WorkerKind(
                "standard", "compute", Memory.of_gib(8), minimum=self.minimum, larger="heavy", walltime=self.walltime
            ),
            "heavy": WorkerKind("heavy", "compute", Memory.of_gib(24), alone=True),
        }
        return Rules(kinds, {"compute": self.room()}, Policies.model_validate(self.policies))

    def run(
        self, seed: int = 0, *, times: SessionTimes | None = None, closes: bool = True, node_s: float | None = None,
        later: Sequence[SubmittedSweep] = (),
    ) -> SimulationOutcome:  # fmt: skip
        first = [event.sweep for at, event in self.script if not at and isinstance(event, SweepSubmitted)]
        later_on = [(at, event) for at, event in self.script if at or not isinstance(event, SweepSubmitted)]
        pool = ModelPool(self.room(), cpus=15.6, wait_s=node_s)
        return simulate(
            self.rules(),
            {"compute": pool},
            first,
            caps={"standard": CORES, "heavy": CORES},
            durations=self.durations,
            uses=self.uses,
            loads=self.loads,
            seed=seed,
            faults=self.faults,
            script=later_on,
            journal=lambda now, event, instructions: self.seen.append((now, event, instructions)),
            times=times,
            closes=closes,
            later=[NextSession(self.rules(), {"compute": pool}, [sweep]) for sweep in later],
        )
