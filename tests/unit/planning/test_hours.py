"""Hours of an allocation in plans: what a plan needs, what is left, and how far a sweep gets with less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalable.engine.events import JobState
from scalable.findings import Finding
from scalable.machine_hours import CORE_HOURS, GPU_HOURS, NODE_HOURS, HeldResources, MachineHours
from scalable.manifest import ManifestError, load_text
from scalable.planning.components import ComponentPlan, plan_components
from scalable.planning.front import scale_plan
from scalable.planning.history import History
from scalable.planning.hours import allocation_left
from scalable.planning.loads import sweep_load
from scalable.planning.plan import Plan, plan_sweep
from scalable.planning.resources import ScalePlan
from scalable.planning.rules import rules_for
from scalable.planning.site import Site
from tests.helpers.planning.builders import MACHINE

HEAD = """
version: 1
project: {name: hours}
targets: {hpc: {provider: slurm, queue: q, walltime: "04:00:00", max_workers: 4}}
"""
SWEEP = (
    HEAD
    + """
profiles: {plain: {request: {cpu: 4, memory: 4GiB}, limit: {cpu: 4, memory: 4GiB}}}
sweeps: {calibration: {factor: calibration, assets: [A, B], folds: 2, costs_bps: [10], profile: plain}}
"""
)
PARTS = HEAD + "components: {model: {cpus: 8, memory: 4GiB, gpus: 2}}\n"


def a_site(text: str, budget: str = "", balance: str | None = None) -> Site:
    manifest = load_text(f"{text}{budget}\n", env={}, target="hpc").manifest
    return Site(manifest, "hpc", MACHINE, balance=MachineHours.parse(balance) if balance else None)


def codes(plan: Plan | ComponentPlan) -> list[str]:
    return [finding.code for finding in plan.warnings]


def used(cores: float, day: str = "2026-11-01") -> History:
    return History(hours={day: HeldResources(cores=cores, nodes=1)})


def test_a_plan_needs_the_cores_of_its_workers_for_as_long_as_they_are_there() -> None:
    plan = plan_sweep(a_site(SWEEP), "calibration")
    held_s = plan.workers * 4 * plan.over_s
    assert plan.hours.cores == pytest.approx(held_s / 3600, rel=0.01), "workers of a session stay until its end"
    assert plan.to_dict()["hours"][CORE_HOURS] == pytest.approx(plan.hours.cores, abs=1e-5)
    assert plan.allocation_left is None
    assert not plan.over_budget


def test_a_plan_over_the_allocation_is_over_budget_and_says_by_how_much() -> None:
    site = a_site(SWEEP, "budget: {allocation: 100 core-hours}")
    assert not plan_sweep(site, "calibration").over_budget
    plan = plan_sweep(site, "calibration", history=used(99.9))
    assert plan.over_budget
    assert "over-allocation" in codes(plan)
    assert "0.1 core-hours" in plan.over_budget_text
    assert plan.allocation_left == MachineHours.parse("0.1 core-hours")


def test_a_balance_below_the_plan_is_a_warning() -> None:
    budget = "budget: {allocation: 5000 core-hours}"
    assert "balance-low" in codes(plan_sweep(a_site(SWEEP, budget, "0.1 core-hours"), "calibration"))
    assert "balance-low" not in codes(plan_sweep(a_site(SWEEP, budget, "4000 core-hours"), "calibration"))


def test_the_brake_stops_a_simulated_sweep_where_the_hours_end() -> None:
    site = a_site(SWEEP)
    load = sweep_load(site, "calibration", History())
    plan = plan_sweep(site, "calibration")
    chosen = next(point for point in plan.front if point.chosen)
    stage = site.stage([load.planned(chosen.workers)], plan=scale_plan(load, chosen))
    assert stage.simulate().complete
    half = MachineHours.parse(f"{plan.hours.cores / 2:.4f} core-hours")
    short = site.stage([load.planned(chosen.workers)], plan=scale_plan(load, chosen), allocation=half).simulate()
    assert short.states[JobState.STOPPED] >= 1
    assert HeldResources(4).for_seconds(short.worker_s["plain"]).cores <= float(half.amount)
    assert "core-hours" in short.unfinished


@pytest.mark.parametrize(("unit", "held"), [(CORE_HOURS, 8), (NODE_HOURS, 1), (GPU_HOURS, 2)])
def test_the_rules_know_what_a_worker_holds_in_the_unit_of_the_budget(unit: str, held: int) -> None:
    rules = rules_for(a_site(PARTS), ScalePlan({"model": 2}), allocation=MachineHours.parse(f"10 {unit}"))
    assert rules.kinds["model"].held == held
    assert rules.allocation == MachineHours.parse(f"10 {unit}")
    assert rules_for(a_site(PARTS), ScalePlan({"model": 2})).kinds["model"].held == 0


def test_components_need_hours_as_soon_as_their_time_is_known() -> None:
    site = a_site(PARTS, "budget: {allocation: 20 gpu-hours}")
    assert plan_components(site, "hpc").hours is None
    history = History(seconds={"tag:model": (3600.0,)}, tasks={"tag:model": 8})
    plan = plan_components(site, "hpc", history=history)
    assert plan.hours is not None
    assert plan.hours.to_dict() == {CORE_HOURS: 64.0, NODE_HOURS: 8.0, GPU_HOURS: 16.0}
    assert "over-allocation" in codes(plan_components(site, "hpc", history=replace(history, hours=used_gpus(5).hours)))


def used_gpus(hours: float) -> History:
    return History(hours={"2026-11-01": HeldResources(gpus=hours)})


def test_only_runs_since_the_first_day_count() -> None:
    history = History(hours={"2026-09-30": HeldResources(cores=70), "2026-10-01": HeldResources(cores=20)})
    whole = a_site(PARTS, "budget: {allocation: 100 core-hours}").manifest
    since = a_site(PARTS, "budget: {allocation: 100 core-hours, allocation_since: 2026-10-01}").manifest
    assert allocation_left(whole, history) == MachineHours.parse("10 core-hours")
    assert allocation_left(since, history) == MachineHours.parse("80 core-hours")


def test_node_hours_of_shared_nodes_are_warned_about() -> None:
    plan = plan_components(a_site(PARTS, "budget: {allocation: 100 node-hours}"), "hpc")
    assert "node-hours-shared" in codes(plan)


def findings(budget: str) -> tuple[Finding, ...]:
    with pytest.raises(ManifestError) as refused:
        load_text(f"{PARTS}budget: {budget}\n", env={}, target="hpc")
    return tuple(refused.value.report.errors)


@pytest.mark.parametrize(
    ("budget", "path", "remedy"),
    [
        ("{allocation: 500 cpu-hours}", "budget.allocation", "core-hours, node-hours or gpu-hours"),
        ("{allocation: 500}", "budget.allocation", "50000 core-hours"),
        ("{allocation: 500 core-hours, allocation_since: soon}", "budget.allocation_since", "2026-10-01"),
        ("{}", "budget", "allocation: 50000 core-hours"),
        ("{monthly: 5 EUR, allocation_since: 2026-10-01}", "budget.allocation_since", "allocation: 50000"),
    ],
)
def test_wrong_input_is_answered_with_what_to_write(budget: str, path: str, remedy: str) -> None:
    (finding,) = findings(budget)
    assert finding.path == path
    assert remedy in finding.remedy
