"""The rules of the engine: how many workers there may be, where, what they cost, and where runs go after an OOM."""

from __future__ import annotations

import pytest

from scalable.engine import AdaptiveScaler, Rules
from scalable.engine.rules import Walltime
from scalable.errors import PlanningError
from scalable.manifest import load_text
from scalable.planning.components import plan_components
from scalable.planning.front import Choice
from scalable.planning.history import History
from scalable.planning.placement import UNLIMITED
from scalable.planning.plan import plan_sweep
from scalable.planning.resources import ScalePlan
from scalable.planning.rules import LADDER_WORKERS, rules_for
from scalable.planning.site import Machine, Site
from scalable.quantities import Cpu, Money
from tests.helpers.planning.builders import MACHINE, a_site, gib

PARTS = """
version: 1
project: {name: parts}
targets:
  local: {provider: local, max_workers: 2, processes: true}
  queue: {provider: slurm, queue: batch}
  priced: {provider: slurm, queue: batch, cpu_price: 0.10 EUR/h}
  fargate: {provider: aws, region: eu-west-1, prices: {vcpu: 0.04 EUR/h, gb: 0.01 EUR/h}}
  limited: {provider: slurm, queue: batch, walltime: "04:00:00", max_workers: 6}
  bounded: {provider: slurm, queue: batch, adaptive: {minimum: 3, maximum: 8}}
components:
  model: {cpus: 2, memory: 4GiB, larger: big}
  big: {cpus: 4, memory: 16GiB}
"""
PLAN = ScalePlan({"model": 5})


def parts(target: str, more: str = "") -> Site:
    return Site(load_text(PARTS + more, env={}, target=target).manifest, target, MACHINE)


def bounds(rules: Rules) -> dict[str, tuple[int, int | None]]:
    return {tag: (kind.minimum, kind.maximum) for tag, kind in rules.kinds.items()}


def most(rules: Rules, tag: str) -> int:
    return rules.pools[rules.kinds[tag].pool].most(tag, {})


def test_workers_of_a_target_with_a_walltime_end_and_are_no_more_than_it_allows_meanwhile() -> None:
    rules = rules_for(parts("limited"), PLAN)
    assert rules.kinds["model"].walltime == Walltime(4 * 3600.0, "targets.limited.walltime")
    assert rules.most_at_once == 6
    endless = rules_for(parts("local"), PLAN)
    assert (endless.kinds["model"].walltime, endless.most_at_once) == (None, None)


TASK = "tasks: {t: {component: model, run: 'm:f', run_minutes: 300%s}}"


def test_a_task_that_fits_no_walltime_is_refused_in_the_plan_unless_it_goes_on_from_checkpoints() -> None:
    told = (
        "tasks.t: a job of 18000 s does not fit a walltime of 14400 s; raise targets.limited.walltime to at least 06:16"
    )
    with pytest.raises(PlanningError, match=told) as refused:
        plan_components(parts("limited", TASK % ""), "limited")
    assert refused.value.path == "tasks.t"
    assert plan_components(parts("limited", TASK % ", checkpoints: true"), "limited").scale_plan.workers_by_tag
    assert plan_components(parts("queue", TASK % ""), "queue").scale_plan.workers_by_tag


def test_what_a_task_took_before_counts_if_it_does_not_say_how_long_it_takes() -> None:
    site = parts("limited", "tasks: {t: {component: model, run: 'm:f'}}")
    plan_components(site, "limited", history=History(seconds={"run:t": (9000.0, 12_000.0)}))
    with pytest.raises(PlanningError, match="a job of 15000 s does not fit"):
        plan_components(site, "limited", history=History(seconds={"run:t": (9000.0, 15_000.0)}))


@pytest.mark.parametrize("target", ["local", "queue"])
def test_without_pools_the_backend_alone_says_how_many_workers_there_may_be(target: str) -> None:
    rules = rules_for(parts(target), ScalePlan({"model": 500}))
    assert most(rules, "model") == UNLIMITED
    assert bounds(rules)["model"] == (500, 500)
    assert rules.most_workers is None
    assert rules.kinds["big"].within == {"local": 2, "queue": None}[target], "what climbs takes a place of the others"


def test_as_many_workers_as_planned_and_some_for_runs_that_climb() -> None:
    assert bounds(rules_for(parts("queue"), PLAN)) == {"model": (5, 5), "big": (0, LADDER_WORKERS)}
    assert bounds(rules_for(parts("queue"), ScalePlan({"model": 5, "big": 2}))) == {"model": (5, 5), "big": (2, 2)}


def test_with_scaling_the_bounds_are_the_targets_or_the_plans_counts() -> None:
    bounded = rules_for(parts("bounded"), PLAN)
    assert bounds(bounded) == {"model": (3, None), "big": (0, None)}
    assert bounded.most_workers == 8
    planned = rules_for(parts("queue"), PLAN, adaptive=True)
    assert bounds(planned) == {"model": (0, None), "big": (0, None)}
    assert planned.most_workers == 5
    assert bounds(rules_for(parts("bounded"), PLAN, adaptive=False))["model"] == (5, 5)


def test_a_scaler_of_the_users_sets_the_bounds_within_the_targets() -> None:
    scaler = AdaptiveScaler(min_workers={"model": 1}, max_workers={"model": 20})
    rules = rules_for(parts("bounded"), PLAN, adaptive=scaler)
    assert bounds(rules) == {"model": (1, 20), "big": (0, None)}
    assert rules.most_workers == 8


def test_workers_that_are_paid_by_the_hour_are_promised_money() -> None:
    rules = rules_for(parts("priced"), PLAN)
    assert rules.pools["jobs"].commitment("model", 3, 3600) == Money.parse("0.60 EUR")
    hired = rules_for(parts("fargate"), PLAN).pools["jobs"].commitment("model", 60)
    assert hired is not None and float(hired.amount) == pytest.approx(0.12), "a minute is paid at least"
    assert rules_for(parts("queue"), PLAN).pools["jobs"].commitment("model", 1, 3600) is None


def test_prices_in_other_money_than_the_budgets_promise_nothing() -> None:
    rules = rules_for(parts("fargate"), PLAN, budget=Money.parse("5 USD"))
    assert rules.pools["jobs"].commitment("model", 1, 3600) is None
    pools = rules_for(a_site(), ScalePlan(), budget=Money.parse("5 USD")).pools
    assert pools["compute"].price is None


def test_a_pool_holds_what_its_nodes_hold() -> None:
    rules = rules_for(a_site(target="cluster"), ScalePlan({"standard": 5}))
    assert (most(rules, "standard"), most(rules, "heavy")) == (24, 24)
    assert rules.pools["compute"].price == Money.parse("0.1644 EUR")


@pytest.mark.parametrize(
    ("memory", "climbs"), [(64, {"wfrb": "standard", "standard": "heavy"}), (16, {"wfrb": "standard"})]
)
def test_a_run_out_of_memory_climbs_only_to_what_this_machine_can_hold(memory: float, climbs: dict[str, str]) -> None:
    site = a_site(target="local", machine=Machine(Cpu.of(4), gib(memory)))
    kinds = rules_for(site, ScalePlan({"standard": 1})).kinds
    assert {tag: kind.larger for tag, kind in kinds.items() if kind.larger} == climbs


def test_a_run_climbs_to_another_pool_where_its_own_has_no_node_for_the_larger_size() -> None:
    small = ("pools:  ", "pools:\n  small: {node: PRO2-S, count: 1}\n#")
    where = ("trials: 30, run_minutes: 3.5}", "trials: 30, run_minutes: 3.5, pool: small}")
    larger = ("limit: {cpu: 4, memory: 24GiB}", "limit: {cpu: 4, memory: 40GiB}")
    alone = ("n_features: {factor: n_features", "n_features: {profile: standard, pool: small, factor: n_features")
    site = a_site(small, where, larger, alone)
    assert site.climb("standard", "small") == ("heavy", "compute")
    kinds = rules_for(site, ScalePlan({"standard": 1})).kinds
    assert (kinds["standard"].pool, kinds["standard"].larger, kinds["heavy"].pool) == ("small", "heavy", "compute")


def test_a_size_that_fits_on_no_node_is_asked_for_so_that_the_backend_says_why_it_does_not_come() -> None:
    pools = "nodes:\n  small: {cpu: 4, memory: 8GiB}\npools:\n  work: {node: small, min: 0, max: 3}\n"
    rules = rules_for(parts("queue", pools), PLAN)
    assert (most(rules, "model"), most(rules, "big")) == (6, 3)


def test_a_forecast_keeps_the_workers_that_the_target_keeps() -> None:
    kept = ("adaptive: {minimum: 0, maximum: 24}", "adaptive: {minimum: 7, maximum: 24}")
    site = a_site(kept, target="cluster")
    assert site.least_workers == 7
    assert bounds(rules_for(site, ScalePlan({"standard": 9}), adaptive=True))["standard"] == (7, None)
    assert plan_sweep(site, "calibration", Choice("minimize cost")).workers >= 7
