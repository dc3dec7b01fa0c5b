"""The plan of a sweep: its figures, the front, objectives and policies, and what is refused."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from functools import cache

import pytest

from scalable.errors import PlanningError
from scalable.planning.campaign import plan_all
from scalable.planning.front import OBJECTIVES, Choice, Point
from scalable.planning.history import History, MeasuredUnits, Start
from scalable.planning.plan import Plan, plan_sweep
from scalable.planning.site import Machine, Site
from scalable.quantities import Cpu, Duration, Memory, Money, percent
from tests.helpers.planning.builders import MACHINE, Change, a_site, codes, gib, with_sweep

CALIBRATION = "calibration: {factor: calibration,"
SPREAD_OUT: Change = ("run_minutes: 3.5", "run_minutes: {p50: 3.5, p95: 6}")


def plan(
    *changes: Change,
    sweep: str = "calibration",
    objective: str = "balance",
    policy: str = "safe",
    seed: int = 0,
    history: History | None = None,
) -> Plan:
    if not changes and history is None:
        return as_written(sweep, Choice(objective, policy, seed))
    return plan_sweep(a_site(*changes), sweep, Choice(objective, policy, seed), history)


@cache
def as_written(sweep: str, choice: Choice) -> Plan:
    return plan_sweep(a_site(), sweep, choice)


def deadline(text: str) -> Change:
    return (CALIBRATION, f"{CALIBRATION} deadline: {text},")


def price(point: Point) -> float:
    assert point.cost is not None
    return float(point.cost.amount)


def test_calibration_takes_five_workers_on_two_nodes() -> None:
    """They take 1050 s for EUR 0.17. Nine on three nodes would take 630 s for EUR 0.19: a node's start is paid, too."""
    found = plan()
    assert (found.rows, found.units, found.rows_per_unit) == (225, 25, 9)
    assert (found.workers_by_tag, found.nodes_peak) == ({"standard": 5}, 2)
    assert found.grid == "3 variants × 5 assets × 5 folds × 3 cost_bps"


def test_time_is_shown_with_and_without_shared_searches() -> None:
    found = plan()
    assert found.wall_s == pytest.approx(5 * 210), "25 jobs on 5 workers"
    assert found.wall_unshared_s == pytest.approx(225 / 5 * 210)


def test_cost_covers_the_start_and_the_idle_tail_of_nodes_and_is_shown_without_them_too() -> None:
    found = plan()
    assert found.cost is not None
    assert found.cost_computing is not None
    seconds = 180 + 1050 + 600
    assert float(found.cost.amount) == pytest.approx(0.1644 * 2 * seconds / 3600)
    assert float(found.cost_computing.amount) == pytest.approx(0.1644 * 2 * 1050 / 3600)
    assert found.node_hours == pytest.approx(2 * seconds / 3600)
    assert found.budget_left == Money.parse("115 EUR")


def test_the_timeline_says_when_nodes_appear_work_and_go() -> None:
    found = plan()
    assert found.ready_s == 180
    assert found.timeline == ((180, 2), (1830, 0))
    assert {(span.requested, span.paid_from, span.up, span.gone) for span in found.nodes} == {(0, 0, 180, 1830)}
    assert max(span.worked_until for span in found.nodes) == 1230
    assert found.utilisation == pytest.approx(25 * 210 * 4 / (2 * 1830 * 16)), "of all that is paid"


def test_what_workers_were_seen_to_take_after_their_node_shifts_the_whole_timeline() -> None:
    learned = History(startups={"kubernetes": (200.0, 220.0, 400.0)})
    first, later = (plan_sweep(a_site(target="cluster"), "calibration", history=past) for past in (None, learned))
    assert (first.ready_s, later.ready_s) == (180, 220)
    assert later.timeline == ((180, 2), (1830 + 40, 0))
    assert later.node_hours - first.node_hours == pytest.approx(2 * 40 / 3600, abs=1e-6)
    assert later.wall_s == first.wall_s


def test_sessions_that_found_their_nodes_there_do_not_shorten_the_wait_for_nodes() -> None:
    found = plan_sweep(a_site(target="cluster"), "calibration", history=History(startups={"kubernetes": (5.0,)}))
    assert found.timeline[0] == (180, 2)
    assert found.ready_s == 180


def test_each_part_of_a_start_that_was_measured_stands_where_it_belongs() -> None:
    """5 s until workers are asked for, 200 s for a node, 8 s for a worker on it, 4 s for the workers to go."""
    learned = History(starts={"kubernetes": (Start(5.0, {"compute": 200.0}, 8.0, close_s=4.0),)})
    first, later = (plan_sweep(a_site(target="cluster"), "calibration", history=past) for past in (None, learned))
    assert later.ready_s == 5 + 200 + 8
    assert later.timeline == ((205, 2), (205 + 8 + 1050 + 4 + 600, 0))
    assert {span.paid_from for span in later.nodes} == {5 + 20}, (
        "the 180 s of a machine's start are paid, a queue is not"
    )
    assert later.node_hours - first.node_hours == pytest.approx(2 * (8 + 4) / 3600, abs=1e-6)
    assert later.wall_s == first.wall_s
    said = " ".join(later.assumptions)
    assert "start-up 13 s besides the wait for nodes (median of 1 measured)" in said
    assert "a node is there after 3 min 20 s (measured) and is paid from its start" in said


def test_a_heavy_factor_gets_the_heavy_profile_and_two_nodes_by_itself() -> None:
    found = plan(sweep="n_features")
    assert found.profile == "heavy"
    assert found.nodes_peak >= 2
    assert "15 GiB" in " ".join(map(str, found.warnings)), "the highest observed peak"


@pytest.mark.parametrize("sweep", ["calibration", "timeframe", "n_features"])
@pytest.mark.parametrize("policy", ["safe", "aggressive"])
def test_no_point_of_the_front_is_both_slower_and_dearer_than_another(sweep: str, policy: str) -> None:
    points = plan(sweep=sweep, policy=policy).front
    assert len(points) > 1
    for one in points:
        assert not [p for p in points if p.wall_s <= one.wall_s and price(p) <= price(one) and p is not one]
    assert [p.workers for p in points] == sorted({p.workers for p in points})
    assert [p.chosen for p in points].count(True) == 1


def test_every_point_of_the_front_was_simulated() -> None:
    assert all(point.simulated for point in plan().front)


def test_minimizing_cost_takes_the_cheapest_point() -> None:
    found = plan(objective="minimize cost")
    assert found.cost is not None
    assert float(found.cost.amount) == min(price(point) for point in found.front)
    assert found.workers < plan().workers


def test_minimizing_cost_takes_the_fewest_workers_that_end_within_the_deadline() -> None:
    found = plan(deadline("20m"), objective="minimize cost", policy="aggressive")
    in_time = [point for point in found.front if point.wall_s <= 1200]
    assert found.workers == min(point.workers for point in in_time)
    assert found.workers > plan(objective="minimize cost", policy="aggressive").workers


def test_safe_leaves_a_fifth_of_headroom_before_the_deadline() -> None:
    found = plan(deadline("20m"), objective="minimize cost")
    assert found.wall_s * 1.2 <= 1200
    assert plan(deadline("21m"), objective="minimize cost").wall_s * 1.2 <= 1260
    assert plan(deadline("32m"), objective="minimize cost", policy="aggressive").wall_s > 32 * 60 / 1.2 - 420


def test_a_deadline_nothing_meets_plans_the_fastest_and_says_so() -> None:
    found = plan(deadline("1m"), objective="minimize cost")
    assert found.wall_s == min(point.wall_s for point in found.front)
    assert "too-late" in codes(found)


def test_a_deadline_only_met_without_the_margins_names_who_meets_it() -> None:
    written = "timeframe: {factor: timeframe,"
    change = (written, f"{written} deadline: 20m,")
    safe, tight = (plan(change, sweep="timeframe", policy=policy) for policy in ("safe", "aggressive"))
    assert safe.wall_s > 1200 >= tight.wall_s
    (late,) = [finding.message for finding in safe.warnings if finding.code == "too-late"]
    assert f"{tight.workers} workers on {tight.nodes_peak} nodes end in {Duration(tight.wall_s)}" in late
    assert f"a CPU margin of {percent(tight.cpu_margin)} instead of over 15 %" in late
    assert "--policy aggressive" in late and "no number of workers" not in late
    (never,) = [f.message for f in plan(deadline("1m")).warnings if f.code == "too-late"]
    assert "no number of workers ends within 1 min" in never


def test_minimizing_time_takes_the_fastest_point() -> None:
    found = plan(objective="minimize time")
    assert found.wall_s == min(point.wall_s for point in found.front)
    assert found.workers > plan().workers


def test_balance_lies_between_the_cheapest_and_the_fastest() -> None:
    cheap, middle, fast = (plan(objective=o).wall_s for o in ("minimize cost", "balance", "minimize time"))
    assert fast < middle < cheap


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("sweep", ["calibration", "n_features"])
def test_safe_keeps_the_guarantees_whatever_the_objective(objective: str, sweep: str) -> None:
    found = plan(objective=objective, sweep=sweep)
    assert found.cpu_margin > 0.15
    assert found.ram_margin > 0.40
    assert all(point.guaranteed for point in found.front)


def test_aggressive_may_give_up_a_guarantee_for_money_and_says_so() -> None:
    found = plan(objective="minimize cost", policy="aggressive")
    assert found.cpu_margin <= 0.15
    assert "cpu-margin" in codes(found)
    safe = plan(objective="minimize cost")
    assert found.cost is not None
    assert safe.cost is not None
    assert found.cost < safe.cost


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("workers", "counted"), [("", 5), (" workers: 3,", 3), (" workers: 8,", 8)])
def test_manual_uses_exactly_the_counts_of_the_manifest(objective: str, workers: str, counted: int) -> None:
    found = plan((CALIBRATION, CALIBRATION + workers), objective=objective, policy="manual")
    assert found.workers == counted


def test_unknown_words_are_refused_by_name_with_the_known_ones() -> None:
    with pytest.raises(PlanningError, match="objective 'fast' is unknown; choose one of 'minimize cost', 'minimize"):
        Choice(objective="fast")
    with pytest.raises(PlanningError, match="policy 'bold' is unknown; choose one of 'safe', 'aggressive', 'manual'"):
        Choice(policy="bold")


def test_an_unknown_sweep_is_refused_with_those_there_are() -> None:
    with pytest.raises(PlanningError, match="no sweep is called 'calibrate'; the manifest has: calibration, timeframe"):
        plan(sweep="calibrate")


def test_the_memory_check_blocks_with_the_numbers_and_the_profile_that_would_do() -> None:
    with pytest.raises(PlanningError) as caught:
        plan((CALIBRATION, f"{CALIBRATION} samples: 2000000, features: 80,"))
    said = str(caught.value)
    assert said.startswith("sweeps.calibration: memory check: a peak of ")
    assert "2,000,000 samples × 80 features" in said
    assert "over the profile's limit of 8 GiB" in said
    assert said.endswith("use the profile heavy")


def test_the_memory_check_blocks_over_70_percent_of_the_node_even_under_the_limit() -> None:
    """A peak of 30 GiB is within a limit of 40 GiB, but not within 70 % of a node with 40 GiB."""
    heavy = ("limit: {cpu: 4, memory: 24GiB}", "limit: {cpu: 4, memory: 40GiB}")
    node = (
        "PRO2-M: {cpu: 16, memory: 64GiB, allocatable: {cpu: 15.6, memory: 60GiB}",
        "PRO2-M: {cpu: 16, memory: 40GiB",
    )
    with pytest.raises(PlanningError, match=r"a peak of 30 GiB \(measured\) is over 70 % of the node's 40 GiB"):
        plan(heavy, node, sweep="n_features", history=History(peaks={"n_features": gib(30)}))


def test_a_peak_nothing_can_hold_is_refused_with_what_to_change() -> None:
    with pytest.raises(PlanningError, match="use fewer samples or features, or a larger node"):
        plan(history=History(peaks={"calibration": gib(500)}))


def test_measured_durations_replace_the_manifests() -> None:
    found = plan(history=History(seconds={"calibration": (100.0,) * 5}), policy="manual")
    assert found.wall_s == pytest.approx(500)
    assert "1.67 min a job (mean of 5 measured)" in found.assumptions


def test_too_few_measurements_do_not() -> None:
    found = plan(history=History(seconds={"calibration": (100.0,) * 4}))
    assert found.wall_s == 1050
    assert "3.5 min a job (manifest; no history yet)" in found.assumptions


def test_measurements_of_another_factor_do_not() -> None:
    assert plan(history=History(seconds={"timeframe": (100.0,) * 9})).wall_s == 1050


def test_measured_peaks_replace_the_observed_ones() -> None:
    found = plan(history=History(peaks={"calibration": gib(3)}), policy="manual")
    assert "memory peak 3 GiB (measured)" in found.assumptions
    assert found.ram_margin == pytest.approx(1 - 5 * 3 / 128)


def test_a_peak_measured_with_other_settings_refuses_nothing() -> None:
    own = (CALIBRATION, f"{CALIBRATION} settings: {{timeframe: 4h}},")
    assert plan(own, history=History(peaks={"calibration": gib(500)})).peak == gib(2)
    assert plan(own, history=History(peaks={"calibration timeframe=4h": gib(3)})).peak == gib(3)


def test_a_measured_peak_close_to_the_limit_is_a_warning() -> None:
    found = plan(history=History(peaks={"calibration": gib(7)}))
    assert "memory-near-limit" in codes(found)


def test_a_plan_over_what_is_left_of_the_month_is_flagged() -> None:
    found = plan(history=History(spent_this_month=Money.parse("114.9 EUR")))
    assert found.over_budget
    assert found.budget_left == Money.parse("0.1 EUR")
    (warning,) = [finding for finding in found.warnings if finding.code == "over-budget"]
    assert "EUR 0.10 left" in warning.message
    assert f"of {found.units} runs" in warning.message and f"after {found.units} of" not in warning.message
    assert not plan().over_budget


def test_request_packing_that_would_break_the_promise_is_a_warning_with_its_cure() -> None:
    (warning,) = plan().warnings
    assert (warning.code, warning.path) == ("packed-tighter", "sweeps.calibration")
    assert "would put 5 workers on 1 node (20 CPU of burst on 16)" in warning.message
    assert "the generated pods ask for 3.9 CPU each, so it takes 2" in warning.message
    assert "spread: off" in warning.remedy


def test_a_plan_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        plan().workers = 9  # type: ignore[misc]


@pytest.mark.parametrize("changes", [(), (SPREAD_OUT,)], ids=["fixed", "log-normal"])
def test_the_same_seed_gives_the_same_json_to_the_byte(changes: tuple[Change, ...]) -> None:
    choice = Choice(seed=7)
    first, second = (json.dumps(plan_sweep(a_site(*changes), "calibration", choice).to_dict()) for _ in range(2))
    assert first == second
    assert json.loads(first)["sweep"] == "calibration"


def test_another_seed_gives_another_plan_when_durations_vary() -> None:
    assert plan(SPREAD_OUT, seed=1).wall_s != plan(SPREAD_OUT, seed=2).wall_s


def test_durations_that_vary_give_a_range() -> None:
    found = plan(SPREAD_OUT, policy="manual")
    assert found.wall_range_s is not None
    low, high = found.wall_range_s
    assert 1050 < low < high, "the mean of a log-normal is over its median"
    assert plan().wall_range_s is None


def test_a_sweep_with_code_of_its_own_shares_nothing() -> None:
    mine = (
        "mine: {factor: mine, variants: [a, b], assets: [X, Y], folds: 2, costs_bps: [1, 2], run: m:f, run_minutes: 1}"
    )
    found = plan(with_sweep(mine), sweep="mine")
    assert (found.rows, found.units, found.rows_per_unit) == (16, 16, 1)
    assert found.wall_unshared_s == found.wall_s
    assert found.profile == "standard"


def test_a_sweep_of_unknown_length_is_planned_with_a_guess_that_says_what_to_write() -> None:
    mine = "mine: {factor: mine, variants: [a, b], assets: [X, Y], folds: 1, run: m:f, workers: 2}"
    found = plan(with_sweep(mine), sweep="mine", policy="manual")
    assert found.wall_s == pytest.approx(2 * 60)
    assert "1 min a job (a guess: nothing is known yet)" in found.assumptions
    (guess,) = [finding for finding in found.warnings if finding.code == "guessed-time"]
    assert "1 min" in guess.message and "--pilot" in guess.remedy


@pytest.mark.parametrize(("sweep", "minutes"), [("calibration", 3.5), ("n_features", 9.0)])
@pytest.mark.parametrize("trials", [30, 15])
def test_a_shipped_factor_without_run_minutes_takes_what_it_usually_does(
    sweep: str, minutes: float, trials: int
) -> None:
    written = f"{sweep}: {{factor: {sweep}, assets: defi_top5, folds: 5, costs_bps: [10, 20, 30], "
    found = plan(
        (f"{written}trials: 30, run_minutes: {minutes:g}}}", f"{written}trials: {trials}}}"),
        sweep=sweep,
        policy="manual",
    )
    assert found.wall_s == pytest.approx(found.units / 5 * minutes * 60 * trials / 30)
    assert f"(usual for {trials} trials; no history yet)" in found.assumptions[0]
    assert "guessed-time" not in codes(found)


def test_all_sweeps_together_are_1350_rows_and_400_searches() -> None:
    campaign = plan_all(a_site())
    assert (campaign.rows, campaign.units) == (1350, 400)
    assert [found.rows for found in campaign.plans] == [225, 300, 300, 300, 225]
    assert [found.units for found in campaign.plans] == [25, 100, 100, 100, 75]
    assert "stated are 1,425 rows; the sweeps listed have 1,350" in campaign.notes
    assert "78.8 h at 3.5 min a row" in " ".join(campaign.notes)
    own = plan_all(a_site((", run_minutes: 3.5}    # it", "}    # it")))
    assert "106.2 h" in " ".join(own.notes), "a row of the heavy factor takes 9 min"


def test_together_the_heavy_sweep_runs_alone_and_the_others_two_by_two() -> None:
    campaign = plan_all(a_site(target="cluster"))
    walls = {found.sweep: found.wall_s for found in campaign.plans}
    heavy = walls.pop("n_features")
    assert heavy + sum(walls.values()) / 2 <= campaign.wall_s < heavy + sum(walls.values())
    assert campaign.nodes_peak <= 6


def test_together_a_sweep_stands_as_far_apart_as_it_was_planned() -> None:
    """15 heavy workers take 5 nodes by themselves, 3 on each; packed as tightly as they fit they would take 4."""
    site = a_site()
    alone = site.manifest.model_copy(update={"sweeps": {"n_features": site.manifest.sweeps["n_features"]}})
    campaign = plan_all(Site(alone, None, MACHINE))
    assert campaign.plans[0].roomy
    assert (campaign.nodes_peak, campaign.cost) == (campaign.plans[0].nodes_peak, campaign.plans[0].cost)


def test_together_sweeps_cost_what_their_workers_do_where_cpus_are_charged() -> None:
    priced = ("max_workers: 2, processes: true", "max_workers: 2, processes: true, cpu_price: 10 EUR/h")
    campaign = plan_all(a_site(priced, target="local"))
    costs = [found.cost for found in campaign.plans if found.cost is not None]
    assert campaign.cost is not None
    assert campaign.cost.amount == sum(cost.amount for cost in costs)
    assert campaign.over_budget, "the same rule as for one sweep"


def test_in_turn_every_sweep_has_a_session_of_its_own_on_nodes_that_are_still_there() -> None:
    learned = History(starts={"kubernetes": (Start(5.0, {"compute": 180.0}, 8.0, close_s=4.0),)})
    site = a_site(target="cluster")
    two = {name: site.manifest.sweeps[name] for name in ("calibration", "timeframe")}
    site = Site(site.manifest.model_copy(update={"sweeps": two}), "cluster", MACHINE)
    campaign = plan_all(site, Choice(policy="manual"), learned)
    first, second = campaign.plans
    turns = campaign.in_turn
    assert turns is not None
    assert turns.ready_s == first.ready_s
    assert turns.total_s == pytest.approx(first.total_s + 4 + 5 + 8 + second.wall_s), "no node has to come again"
    assert turns.over_s == pytest.approx(turns.total_s + 4 + 600)
    assert first.cost and second.cost and turns.cost
    assert turns.cost < first.cost + second.cost
    assert (
        plan_all(Site(site.manifest.model_copy(update={"sweeps": {"timeframe": two["timeframe"]}}), "cluster")).in_turn
        is None
    )


def test_one_sweep_at_a_time_takes_longer() -> None:
    one = plan_all(a_site(("concurrency: {normal: 2}", "concurrency: {normal: 1}")))
    assert one.wall_s > plan_all(a_site()).wall_s
    assert one.wall_s >= sum(found.wall_s for found in one.plans)


def test_on_this_machine_nothing_is_paid_and_the_target_bounds_the_workers() -> None:
    found = plan_sweep(a_site(target="local"), "calibration")
    assert found.workers == 2
    assert found.cost is None
    assert found.pool == "local"
    assert found.guarantees is None
    assert found.wall_s == pytest.approx(13 * 210), "two at once, each with 4 of 16 cores"


def test_workers_of_this_machine_share_its_cpus_so_time_follows_cpu() -> None:
    found = plan_sweep(a_site(target="local", machine=Machine(Cpu.of(2), Memory.of_gib(16))), "calibration")
    assert (found.workers, found.resources.cpus) == (2, 1)
    assert found.wall_s == pytest.approx(13 * 210 * 4), "one core does the work of four"
    (slower,) = [finding for finding in found.warnings if finding.code == "cpus-few"]
    assert "1 of the 2 CPU" in slower.message and "4 × as long as on 4 CPU" in slower.message


@pytest.mark.parametrize(("cores", "workers", "cpus"), [(2, 2, 1), (2, 1, 2), (1, 2, 1), (16, 2, 4), (8, 3, 2)])
def test_a_worker_of_this_machine_has_an_equal_part_of_it_up_to_its_limit(cores: int, workers: int, cpus: int) -> None:
    change = ("local: {provider: local, max_workers: 2", f"local: {{provider: local, max_workers: {workers}")
    site = a_site(change, target="local", machine=Machine(Cpu.of(cores), Memory.of_gib(64)))
    assert plan_sweep(site, "calibration", Choice(policy="manual")).resources.cpus == cpus


def test_a_worker_that_computes_two_units_at_once_needs_half_the_rounds() -> None:
    """On 16 cores two workers have 4 CPUs each, so two units at once have 2 each: no faster, no slower."""
    twice = ("max_workers: 2, processes: true", "max_workers: 2, threads_per_worker: 2, processes: true")
    found = plan_sweep(a_site(twice, target="local"), "calibration", Choice(policy="manual"))
    assert found.wall_s == pytest.approx(7 * 2 * 210)
    small = History(
        units={"calibration": (MeasuredUnits((4.0,) * 25, trials=30, provider="local", cpus=4, cores=1.0),)}
    )
    quick = plan_sweep(a_site(twice, target="local"), "calibration", Choice(policy="manual"), small)
    assert quick.wall_s == pytest.approx(7 * 4.0), "a unit of one core finds one"


def test_a_machine_that_promises_nothing_is_not_said_to_break_a_promise() -> None:
    small = Machine(Cpu.of(8), gib(6))
    found = plan_sweep(
        a_site(("max_workers: 2", "max_workers: 4"), target="local", machine=small),
        "calibration",
        Choice(policy="manual"),
    )
    assert found.guarantees is None
    (full,) = [finding for finding in found.warnings if finding.code == "no-memory-left"]
    assert "3 workers with a peak of 2 GiB" in full.message and "6 GiB" in full.message
    assert not codes(found) & {"cpu-margin", "ram-margin", "ram-margin-at-peak"}


def test_where_cpus_are_charged_the_plan_says_what_they_cost() -> None:
    priced = ("max_workers: 2, processes: true", "max_workers: 2, processes: true, cpu_price: 0.10 EUR/h")
    found = plan_sweep(a_site(priced, target="local"), "calibration", Choice(policy="manual"))
    assert found.cost is not None
    assert float(found.cost.amount) == pytest.approx(0.10 * 2 * 4 * found.wall_s / 3600, rel=1e-3)


def test_a_plan_names_workers_and_their_size_for_providers() -> None:
    scale = plan().scale_plan
    assert scale.workers_by_tag == {"standard": 5}
    assert (scale.resources_by_tag["standard"].cpus, scale.resources_by_tag["standard"].memory) == (4, "8GiB")


def test_a_plan_for_machines_has_the_shape_of_the_interface() -> None:
    record = plan().to_dict()
    assert {
        *("sweep", "rows", "units", "workers_by_tag", "nodes_peak", "wall_s", "wall_unshared_s"),
        *("cost", "front", "assumptions", "warnings"),
    } <= set(record)
    assert record["cost"] == {"amount": 0.1671, "currency": "EUR"}
