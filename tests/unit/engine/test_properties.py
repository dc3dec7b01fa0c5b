"""The engine under thousands of generated worlds: sweeps of all kinds, faults of all kinds, pauses, budgets."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from scalable.engine import Rules, WorkerKind
from scalable.engine.events import (
    BoundsSet,
    Event,
    Job,
    JobCancelled,
    OutsideWork,
    Paused,
    Resumed,
    SubmittedSweep,
    SweepCancelled,
    SweepKind,
    SweepSubmitted,
)
from scalable.engine.queues import AHEAD_S
from scalable.engine.rules import Walltime
from scalable.manifest.policies import Concurrency, Policies, Scaling, Stuck
from scalable.manifest.work import Retry
from scalable.planning.placement import PoolRoom
from scalable.planning.resources import Size
from scalable.planning.simulation import Faults, NodeFault, World
from scalable.planning.simulation.cluster import ModelPool
from scalable.planning.simulation.durations import Fixed, LogNormal
from scalable.planning.simulation.faults import FaultKind
from scalable.quantities import Cpu, Duration, Memory, Money
from tests.helpers.engine.invariants import Invariants

OUTSIDE_UNTIL_S = 3000.0
LENGTHS = [0.001, 0.02, 0.1, 0.25, 1.0, 40.0, 210.0, 900.0]
MANY = 60  # short jobs in a sweep
WALLTIMES = [120.0, 600.0, 1800.0, 3600.0]
RATES = {FaultKind.CANNOT_START: (0.0, 0.0, 0.05)}  # one refuses the whole sweep
TRACES = int(os.environ.get("SCALABLE_TRACES", "300"))
PARTS = 4  # of the traces, so that several processes share them
BATCH, MOST_BATCHES = 50, 10  # of worlds in which every kind of end must have been seen; as a rule one suffices


@dataclass(frozen=True)
class Trace:
    """One generated world with everything that happens in it."""

    rules: Rules
    pools: dict[str, ModelPool]
    sweeps: tuple[tuple[float, SubmittedSweep], ...]
    durations: dict[str, Fixed | LogNormal]
    faults: Faults
    script: tuple[tuple[float, Event], ...]
    seed: int


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    slots = draw(st.integers(1, 2))
    nodes = draw(st.integers(2, 4))
    sizes = {"small": Size(Cpu.of(1), Memory.of_gib(1)), "heavy": Size(Cpu.of(2), Memory.of_gib(8))}
    sizes["other"] = Size(Cpu.of(draw(st.integers(1, 3))), Memory.of_gib(2))
    priced = draw(st.booleans())
    room = PoolRoom(
        "compute",
        Size(Cpu.of(4), Memory.of_gib(16)),
        nodes,
        sizes,
        spread_over={"heavy": draw(st.integers(1, 2))},
        price=Money.parse("1 EUR") if priced else None,
        provision_s=draw(st.sampled_from([0.0, 30.0, 180.0])),
        idle_s=draw(st.sampled_from([0.0, 60.0, 600.0])),
    )
    maximum = draw(st.one_of(st.none(), st.integers(1, 6)))
    memory = Memory.of_gib(8)
    lasts = {tag: draw(st.sampled_from([None, None, *WALLTIMES])) for tag in sizes}
    ends = {tag: Walltime(seconds) if seconds else None for tag, seconds in lasts.items()}
    kinds = {
        "small": WorkerKind(
            "small", "compute", memory, slots=slots, maximum=maximum, larger="heavy", walltime=ends["small"]
        ),
        "heavy": WorkerKind("heavy", "compute", Memory.of_gib(16), alone=True, walltime=ends["heavy"]),
        "other": WorkerKind("other", "compute", memory, larger="heavy", walltime=ends["other"]),
    }
    policies = Policies(
        retry=Retry(times=draw(st.integers(0, 2)), delay=Duration(draw(st.sampled_from([0.0, 60.0])))),
        stuck=Stuck(after=Duration(300)),
        scaling=Scaling(
            cooldown=Duration(draw(st.sampled_from([0.0, 30.0, 120.0]))),
            idle=Duration(draw(st.sampled_from([0.0, 60.0]))),
        ),
        concurrency=Concurrency(normal=draw(st.integers(1, 2))),
    )
    budget = Money.parse(f"{draw(st.integers(1, 60)) / 20} EUR") if priced and draw(st.booleans()) else None
    sweeps, durations = [], {}
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(SweepKind))
        tag = {SweepKind.NORMAL: "small", SweepKind.HEAVY: "heavy", SweepKind.FREE: "other"}[kind]
        name = f"s{number}"
        length = draw(st.sampled_from(LENGTHS))
        count = draw(st.integers(0, 12 if length > AHEAD_S else MANY))
        told = draw(st.sampled_from([length, length, None]))
        goes_on = draw(st.sampled_from([False, False, True]))
        jobs = tuple(
            Job(f"{name}/{i}", name, tag, group=str(i % 3), expected_s=told, checkpoints=goes_on) for i in range(count)
        )
        sweeps.append(
            (
                draw(st.sampled_from([0.0, 0.0, 100.0, 1500.0])),
                SubmittedSweep(name, kind, jobs, draw(st.integers(1, 6))),
            )
        )
        spread = draw(st.sampled_from([1.0, 3.0, 3.0, 100.0 if length <= AHEAD_S else 3.0]))
        durations[name] = Fixed(length) if spread == 1.0 else LogNormal(length, length * spread)
    script: list[tuple[float, Event]] = []
    moments = st.one_of(st.floats(0, 3000), st.floats(0.0, 2.0).map(lambda after: room.provision_s + after))
    if draw(st.booleans()):
        pause = draw(moments)
        script += [(pause, Paused("too dear", draw(st.booleans()))), (pause + draw(st.floats(1, 3000)), Resumed())]
    for sweep in draw(st.sets(st.integers(0, 4), max_size=1)):
        script.append((draw(moments), SweepCancelled(f"s{sweep}")))
    for _ in range(draw(st.sampled_from([0, 0, 2, 5]))):
        name = f"s{draw(st.integers(0, 4))}/{draw(st.integers(0, 20))}"  # some are called so
        script.append((draw(moments), JobCancelled(name, draw(st.sampled_from(["", "wrong data"])))))
    script += draw(outside_events(kinds))
    faults = Faults(
        nodes=tuple(NodeFault(at, nth) for nth, at in enumerate(draw(st.lists(st.floats(0, 4000), max_size=3)))),
        rates={kind: draw(st.sampled_from(RATES.get(kind, (0.0, 0.0, 0.0, 0.05, 0.15)))) for kind in FaultKind},
        latency_s=draw(st.sampled_from([0.0, 0.0, 0.004, 0.5])),
        refusals=draw(st.sampled_from([0, 0, 0, 1, 2, 5])),
    )
    return Trace(
        rules=Rules(
            kinds,
            {"compute": room},
            policies,
            budget,
            draw(st.sampled_from([None, None, 2, 5])),
            most_at_once=draw(st.sampled_from([None, None, 4])),
        ),
        pools={"compute": ModelPool(room, cpus=draw(st.sampled_from([4.0, 3.0])))},
        sweeps=tuple(sweeps),
        durations=durations,
        faults=faults,
        script=tuple(script),
        seed=draw(st.integers(0, 2**32)),
    )


@st.composite
def outside_events(draw: st.DrawFn, kinds: dict[str, WorkerKind]) -> list[tuple[float, Event]]:
    """Work that others hand out and bounds that others set, for a while: at the end all is as it was."""
    events: list[tuple[float, Event]] = []
    for tag in sorted(draw(st.sets(st.sampled_from(sorted(kinds))))):  # the order of a set differs between processes
        names = [f"{tag}-{number}" for number in range(1, 7)]  # as the world names its workers
        some = st.frozensets(st.sampled_from(names))
        for when in draw(st.lists(st.floats(0, OUTSIDE_UNTIL_S), min_size=1, max_size=4)):
            events.append((when, OutsideWork(tag, draw(st.integers(0, 5)), draw(some), draw(some))))
        events.append((OUTSIDE_UNTIL_S, OutsideWork(tag, 0)))
    for tag in sorted(draw(st.sets(st.sampled_from(sorted(kinds))))):
        for when in draw(st.lists(st.floats(0, OUTSIDE_UNTIL_S), min_size=1, max_size=3)):
            low = draw(st.integers(0, 3))
            high = draw(st.sampled_from([None, low, low, low + 2]))
            events.append((when, BoundsSet(tag, low, high)))
        events.append((OUTSIDE_UNTIL_S, BoundsSet(tag, 0, kinds[tag].maximum)))
    return events


def play(trace: Trace) -> Invariants:
    watch = Invariants(trace.rules)
    caps = {"small": 1.0, "heavy": 2.0, "other": 1.0}
    world = World(trace.rules, trace.pools, caps, trace.durations, trace.seed, trace.faults, watch)
    for when, sweep in trace.sweeps:
        world.at(when, world.deliver, SweepSubmitted(sweep))
    for when, event in trace.script:
        world.at(when, world.deliver, event)
    outcome = world.run()
    prices = {name: room.price for name, room in trace.rules.pools.items() if room.price}
    watch.at_the_end(outcome.cost(prices, "EUR"), world.engine)
    return watch


@pytest.mark.parametrize("part", range(PARTS))
def test_no_trace_breaks_an_invariant(part: int) -> None:
    @seed(part)
    @settings(max_examples=TRACES // PARTS, suppress_health_check=list(HealthCheck))
    @given(traces())
    def check(trace: Trace) -> None:
        play(trace)

    check()


def test_the_generated_worlds_reach_every_kind_of_end() -> None:
    """The property test would prove little if its worlds were tame; these are how wild they are at least."""
    wanted: set[object] = {"finished", "failed", "stopped", "refused", "retried", *SweepKind}
    wanted |= {"outside work", "asked for outside work", "raised to the minimum", "over the maximum", "made room"}
    wanted |= {"given ahead", "taken back", "came back", "killed before it began"}
    wanted |= {"killed by operator", "verdict withdrawn", "refused sweep"}
    wanted |= {"cut off", "tried on a new worker", "went on", "drained", "replaced ahead"}
    seen: set[object] = set()

    def look(trace: Trace) -> None:
        if wanted <= seen:
            return
        watch = play(trace)
        seen.update(getattr(end, "value", end) for end in watch.final.values())
        seen.update(attempt > 1 and "retried" for attempt in watch.starts.values())
        seen.update(kind for sweep, kind in watch.admitted.items() if sweep in watch.ended)
        seen.update(watch.seen)

    for batch in range(MOST_BATCHES):
        few = settings(
            max_examples=BATCH, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
        )
        seed(batch)(few(given(traces())(look)))()
        if wanted <= seen:
            break
    assert wanted <= seen, wanted - seen
