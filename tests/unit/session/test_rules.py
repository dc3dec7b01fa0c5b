"""The engine gets the same rules in the simulated world and in the real one."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from scalable.cluster.base import DeploymentSpec, get_provider
from scalable.engine import Rules
from scalable.manifest import load_file, load_text
from scalable.planning.campaign import plan_all
from scalable.planning.components import plan_components
from scalable.planning.history import History
from scalable.planning.loads import sweep_load
from scalable.planning.placement import OpenRoom
from scalable.planning.resources import ScalePlan
from scalable.planning.rules import rules_for
from scalable.planning.site import Site
from scalable.quantities import Money
from scalable.session.driver.records import AnyPlan
from scalable.session.money.tariffs import hourly_prices
from tests.helpers.paths import ROOT
from tests.helpers.planning.builders import MACHINE

MANIFESTS = [*ROOT.glob("examples/*/scalable.yaml"), *ROOT.glob("src/scalable/cli/templates/*.yaml")]
BUDGET = Money.parse("50 EUR")


def targets(path: Path) -> list[str]:
    return list(load_file(path, env={}).manifest.targets)


CASES = [
    pytest.param(path, name, id=f"{path.parent.name}-{path.stem}-{name}")
    for path in MANIFESTS
    for name in targets(path)
]


def a_site(path: Path, target: str) -> Site:
    return Site(load_file(path, env={}, target=target).manifest, target, MACHINE)


@pytest.mark.parametrize(("path", "target"), CASES)
def test_the_forecast_simulates_a_plan_with_the_rules_of_a_session_that_starts_with_it(
    path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = a_site(path, target)
    simulated: list[Rules] = []
    monkeypatch.setattr(
        "scalable.planning.site.rules_for", lambda *given, **options: note(simulated, rules_for(*given, **options))
    )
    if site.manifest.components:  # nothing is simulated for them; a forecast would get these
        plan: AnyPlan = plan_components(site, target)
        site.stage([], plan=plan.scale_plan)
    else:
        plan = plan_all(site)
    assert rules_for(site, plan.scale_plan) in simulated
    for each in getattr(plan, "plans", ()):
        assert rules_for(site, each.scale_plan) in simulated


def note(seen: list[Rules], rules: Rules) -> Rules:
    seen.append(rules)
    return rules


@pytest.mark.parametrize(("path", "target"), CASES)
def test_both_worlds_have_the_same_rules_within_a_budget(path: Path, target: str) -> None:
    site = a_site(path, target)
    planned = [sweep_load(site, name, History()).planned(2) for name in site.manifest.sweeps]
    plan = ScalePlan(dict.fromkeys(site.homes(), 2))
    run = rules_for(site, plan, budget=BUDGET)
    assert site.stage(planned, plan=plan, budget=BUDGET).rules == run
    assert {kind.pool for kind in run.kinds.values()} <= set(site.pools)


PRICED = """
version: 1
project: {name: priced}
targets:
  queue: {provider: slurm, queue: batch, cpu_price: 0.0123456789 EUR/h}
  fargate: {provider: aws, region: eu-west-1, cluster_type: fargate}
  machines: {provider: gcp, region: europe-west1, project_id: p}
  here: {provider: local, max_workers: 2, cpu_price: 0.01 EUR/h}
components:
  model: {cpus: 3, memory: 7GiB}
  big: {cpus: 4, memory: 16GiB}
"""


@pytest.mark.parametrize("target", ["queue", "fargate", "machines", "here"])
def test_the_meter_counts_with_the_prices_of_the_rules(target: str) -> None:
    manifest = load_text(PRICED, env={}, target=target).manifest
    site, plan = Site(manifest, target, MACHINE), ScalePlan({"model": 1, "big": 1})
    rooms = rules_for(site, plan).pools.values()
    prices = {tag: price for room in rooms if isinstance(room, OpenRoom) for tag, price in room.prices.items()}
    spec = DeploymentSpec.from_manifest(manifest, target_name=target)
    metered = hourly_prices(get_provider(spec.target.provider), spec, plan, site)
    assert set(metered) == {"model", "big"}
    assert metered == prices


def test_a_worker_of_several_nodes_costs_all_its_cpus_everywhere() -> None:
    ocean = "  ocean: {nodes: 2, tasks_per_node: 3, cpus: 2, memory: 2GiB}\n"
    manifest = load_text(PRICED + ocean, env={}, target="queue").manifest
    site, plan = Site(manifest, "queue", MACHINE), ScalePlan({"ocean": 1})
    spec = DeploymentSpec.from_manifest(manifest, target_name="queue")
    provider = get_provider("slurm")
    metered = hourly_prices(provider, spec, plan, site)["ocean"]
    assert metered.amount == pytest.approx(Decimal("0.0123456789") * 12)
    estimate = provider.estimate_cost(spec, plan)
    assert estimate is not None and estimate.total_hourly == pytest.approx(float(metered.amount))
    assert plan_components(site, "queue").scale_plan.resources_by_tag["ocean"].cpus == 12
    assert rules_for(site, plan).kinds["ocean"].slots == 1
