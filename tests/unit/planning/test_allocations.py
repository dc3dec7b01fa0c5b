"""How workers are put into batch jobs, by rules that the plan and the launcher share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.engine.events import SweepKind
from scalable.manifest import load_text
from scalable.manifest.targets import LocalTarget, SlurmTarget
from scalable.planning.allocations import Allocations
from scalable.planning.components import estimated, plan_components
from scalable.planning.front import Choice
from scalable.planning.hours import component_hours
from scalable.planning.plan import plan_sweep
from scalable.planning.resources import ScalePlan, Size
from scalable.planning.rules import rules_for
from scalable.planning.simulation import simulate
from scalable.planning.simulation.durations import Fixed
from scalable.planning.simulation.faults import Faults, NodeFault
from scalable.planning.site import PlannedSweep, Site
from scalable.quantities import Cpu, Memory


def size(cpus: float, gib: float = 1) -> Size:
    return Size(Cpu.of(cpus), Memory(int(gib * 2**30)))


NODE = size(16, 64)


def test_a_worker_is_a_job_of_its_own_unless_a_target_says_otherwise() -> None:
    for target in (LocalTarget(provider="local"), SlurmTarget(provider="slurm"), None):
        allocations = Allocations.of(target)
        assert allocations.alone
        assert allocations.jobs([("a", size(1), 3)]) == [({"a": 1},)] * 3
    assert not Allocations.of(SlurmTarget(provider="slurm", exclusive=True)).alone
    assert not Allocations.of(SlurmTarget(provider="slurm", workers_per_job=2)).alone


def test_workers_of_one_kind_fill_jobs_and_the_last_job_holds_the_rest() -> None:
    allocations = Allocations(workers=4)
    assert allocations.jobs([("a", size(1), 10), ("b", size(2), 1)]) == [
        ({"a": 4},), ({"a": 4},), ({"a": 2},), ({"b": 1},)
    ]  # fmt: skip
    assert allocations.per_job(size(1)) == 4


def test_workers_are_spread_over_the_nodes_of_a_job_and_few_need_fewer_nodes() -> None:
    allocations = Allocations(workers=24, nodes=2)
    assert allocations.jobs([("a", size(1), 48)]) == [({"a": 12}, {"a": 12})] * 2
    assert allocations.jobs([("a", size(1), 13)]) == [({"a": 7}, {"a": 6})]
    assert allocations.jobs([("a", size(1), 5)]) == [({"a": 5},)]


def test_whole_nodes_are_filled_with_workers_of_several_kinds() -> None:
    allocations = Allocations(exclusive=True, node=NODE)
    assert allocations.per_job(size(4, 8)) == 4
    assert allocations.per_job(size(1, 32)) == 2
    (job,) = allocations.jobs([("wide", size(4, 8), 3), ("small", size(1, 2), 4)])
    assert job == ({"wide": 3, "small": 4},)
    two = Allocations(exclusive=True, nodes=2, node=NODE)
    assert two.per_job(size(4, 8)) == 8
    assert [len(nodes) for nodes in two.jobs([("wide", size(4, 8), 12)])] == [2, 1]


def test_a_worker_larger_than_any_node_is_asked_for_all_the_same() -> None:
    allocations = Allocations(exclusive=True, node=NODE)
    assert allocations.jobs([("huge", size(32), 2)]) == [({"huge": 1},), ({"huge": 1},)]
    assert allocations.per_job(size(32)) == 1


def test_without_the_size_of_a_node_a_worker_has_one_to_itself() -> None:
    allocations = Allocations(exclusive=True)
    assert allocations.per_job(size(1)) == 1
    assert allocations.jobs([("a", size(1), 2)]) == [({"a": 1},), ({"a": 1},)]


def test_jobs_on_whole_nodes_hold_all_that_these_have_however_many_workers_they_have() -> None:
    assert Allocations(workers=4).held([("a", size(2, 4), 4)]) == (8, 1)
    assert Allocations(exclusive=True, node=NODE).held([("a", size(3, 4), 5)]) == (16, 1)
    assert Allocations(exclusive=True, node=NODE).held([("a", size(3, 4), 6)]) == (32, 2)
    assert Allocations(exclusive=True, node=NODE).held([("a", size(4, 8), 3), ("b", size(1, 2), 1)]) == (16, 1)
    assert Allocations(workers=2, exclusive=True, node=NODE).held([("a", size(1), 3)]) == (32, 2)
    assert Allocations(exclusive=True, node=NODE).held([("huge", size(32), 1)]) == (32, 1)


@pytest.mark.parametrize(
    ("counts", "cores", "nodes"),
    [({"wide": 4}, 16, 1), ({"wide": 1}, 16, 1), ({"wide": 3, "small": 4}, 16, 1), ({"wide": 5, "small": 1}, 32, 2)],
)
def test_hours_and_money_of_components_are_those_of_the_whole_nodes_that_they_hold(
    counts: dict[str, int], cores: float, nodes: float
) -> None:
    site = a_site("exclusive: true")
    held = component_hours(site, counts, 3600.0)
    assert held.cores == pytest.approx(cores)
    assert held.nodes == pytest.approx(nodes)
    cost = estimated(site, counts)
    assert cost is not None and cost.total_hourly == pytest.approx(0.1 * cores)


def test_the_cost_of_a_plan_is_the_price_of_its_core_hours() -> None:
    plan = plan_sweep(a_site("exclusive: true, max_workers: 5"), "s", Choice(objective="minimize time"))
    assert plan.workers == 5 and plan.hours is not None and plan.cost is not None
    assert float(plan.cost.amount) == pytest.approx(0.1 * plan.hours.cores)
    assert plan.hours.cores == pytest.approx(16 * plan.wall_s / 3600, rel=0.02), "5 workers hold a whole node of 16"


@given(
    st.integers(1, 8), st.integers(1, 4), st.booleans(), st.booleans(),
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 80), st.integers(0, 30)), min_size=1, max_size=3),
)  # fmt: skip
def test_every_worker_is_in_exactly_one_job_and_no_node_is_overfull(
    workers: int, nodes: int, exclusive: bool, fill: bool, kinds: list[tuple[int, int, int]]
) -> None:
    fills = exclusive and fill
    allocations = Allocations(None if fills else max(workers, nodes), nodes, exclusive, NODE)
    sizes = {f"k{place}": size(cpus, gib) for place, (cpus, gib, _) in enumerate(kinds)}
    wanted = {f"k{place}": count for place, (_, _, count) in enumerate(kinds)}
    jobs = allocations.jobs([(tag, sizes[tag], count) for tag, count in wanted.items()])
    held = {tag: sum(node.get(tag, 0) for job in jobs for node in job) for tag in wanted}
    assert held == wanted
    assert all(1 <= len(job) <= nodes for job in jobs)
    for job in jobs:
        for node in job:
            assert node and all(count > 0 for count in node.values())
            if fills and sum(node.values()) > 1:
                total = sum((sizes[tag] * count for tag, count in node.items()), size(0, 0))
                assert total.fits(NODE)
            if not fills:
                assert len(node) == 1 and sum(sum(n.values()) for n in job) <= max(workers, nodes)


MANIFEST = """
version: 1
project: {name: batches}
targets: {hpc: {provider: slurm, queue: main, cpu_price: 0.1 EUR/h, %s}}
profiles: {standard: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 1GiB}}}
components: {wide: {cpus: 4, memory: 4GiB}, small: {cpus: 1, memory: 1GiB}}
sweeps:
  s: {factor: own, variants: [1, 2, 3, 4], assets: [A, B, C, D], folds: 6, costs_bps: [1], run: "m:f", run_minutes: 10}
"""


def a_site(options: str) -> Site:
    wanted = options if "max_workers" in options else f"max_workers: 48, {options}"
    manifest = load_text(MANIFEST % wanted, env={}, target="hpc").manifest
    return Site(manifest, "hpc", batch_node=NODE)


@pytest.mark.parametrize(
    ("options", "jobs", "cost"),
    [
        ("", 48, "EUR 1.60"),
        ("workers_per_job: 24", 2, "EUR 1.60"),
        ("workers_per_job: 24, nodes_per_job: 2", 2, "EUR 1.60"),
        ("exclusive: true", 3, "EUR 1.60"),
        ("exclusive: true, workers_per_job: 8", 6, "EUR 3.20"),
    ],
)
def test_a_plan_counts_jobs_as_they_will_be_handed_in_and_what_they_cost_as_a_whole(
    options: str, jobs: int, cost: str
) -> None:
    plan = plan_sweep(a_site(options), "s", Choice(objective="minimize time"))
    assert (plan.workers, plan.wall_s) == (48, 1200.0)
    assert (plan.to_dict()["batch_jobs"], str(plan.cost)) == (jobs, cost)


def test_rules_ask_for_whole_jobs_of_each_kind() -> None:
    rules = rules_for(a_site("exclusive: true"), ScalePlan({"wide": 4, "small": 16}))
    (room,) = rules.pools.values()
    assert (room.together("wide"), room.together("small")) == (4, 16)
    alone = rules_for(a_site("backlog: 5"), ScalePlan({"wide": 4}))
    assert next(iter(alone.pools.values())).together("wide") == 1


def test_components_are_planned_in_jobs_that_they_share() -> None:
    site = a_site("exclusive: true")
    assert site.batch_jobs({"wide": 3, "small": 4}) == 1
    assert site.batch_jobs({"wide": 4, "small": 1}) == 2
    assert a_site("workers_per_job: 4").batch_jobs({"wide": 3, "small": 4}) == 2
    assert a_site("workers_per_job: 1").batch_jobs({"wide": 3, "small": 4}) == 7
    plan = plan_components(site, "hpc")
    assert plan.to_dict()["batch_jobs"] == site.batch_jobs(plan.scale_plan.workers_by_tag)
    assert any("batch jobs, each with 1 whole node at most" in line for line in plan.assumptions)


def test_a_simulated_node_that_is_lost_takes_only_the_job_that_it_stands_for() -> None:
    stage = a_site("workers_per_job: 24").stage([planned_sweep()])
    outcome = simulate(
        stage.rules, stage.pools, stage.sweeps, caps=stage.caps, durations=stage.durations, uses=stage.uses,
        faults=Faults(nodes=(NodeFault(300.0, 0),)),
    )  # fmt: skip
    assert outcome.complete and outcome.retries == 24
    assert len(outcome.nodes) == 3, "two jobs, and one in place of the lost"


def planned_sweep() -> PlannedSweep:
    jobs = tuple((f"s/{number}", "") for number in range(96))
    return PlannedSweep("s", SweepKind.NORMAL, "standard", "jobs", 48, jobs, Fixed(600.0))
