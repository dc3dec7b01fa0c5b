"""Questions a plan once answered wrongly: what cannot finish, what is paid anyway, what is really the cheapest."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scalable.errors import PlanningError
from scalable.manifest import ManifestError, load_text
from scalable.planning.acceptance import Result, acceptance
from scalable.planning.campaign import plan_all
from scalable.planning.expected import Estimate
from scalable.planning.front import Choice, find_front
from scalable.planning.history import History
from scalable.planning.loads import planned_sweeps, sweep_load
from scalable.planning.margins import MarginRow, MarginStatus
from scalable.planning.options import OptionRow, compare
from scalable.planning.plan import Plan, plan_sweep
from scalable.planning.scenarios import Month, growth_table, margin_table, months
from scalable.planning.simulation.outcome import SimulationOutcome
from scalable.planning.site import Site
from scalable.quantities import Memory, Money
from tests.helpers.planning.builders import MACHINE, Change, a_site, codes, gib, with_sweep

CALIBRATION = "calibration: {factor: calibration,"
TIMEFRAME = "timeframe: {factor: timeframe,"
POOL = "min: 0, max: 6"
LIMIT = "limit: {cpu: 4, memory: 8GiB}, peak: 2GiB"
MANUAL = Choice(policy="manual")


def calibration(text: str) -> Change:
    """More keys for the sweep of that name."""
    return (CALIBRATION, f"{CALIBRATION} {text},")


def pool(bounds: str) -> Change:
    return (POOL, bounds)


def plan(*changes: Change, sweep: str = "calibration", choice: Choice | None = None) -> Plan:
    return plan_sweep(a_site(*changes), sweep, choice)


def options(*changes: Change) -> dict[str, OptionRow]:
    return {row.name: row for row in compare(a_site(*changes)).options}


def margins(*changes: Change) -> dict[str, MarginRow]:
    return {row.scenario: row for row in margin_table(a_site(*changes))}


def first_month(*changes: Change) -> Month:
    return months(a_site(*changes))[0]


def amount(money: Money | None) -> float:
    assert money is not None
    return float(money.amount)


# What cannot finish


def test_runs_that_could_not_finish_are_refused_with_the_reason() -> None:
    site = a_site()
    load = replace(sweep_load(site, "calibration", History()), estimate=Estimate(gib(500), "measured"))
    with pytest.raises(PlanningError, match=r"sweeps.calibration would not finish with \d+ workers: .*500 GiB.*8 GiB"):
        find_front(site, load, Choice(), None)


def test_a_limit_for_silent_runs_does_not_end_those_that_report() -> None:
    silent = ("stuck: {after: 300s}", "stuck: {after: 300s, walltime: 60s}")
    assert plan(silent).to_dict() == plan().to_dict()


# Names and values that nearly clash


@pytest.mark.parametrize(
    "differing",
    ["variants: [x], costs_bps: [10.0000001, 10.0000002]", "variants: [1, '1'], costs_bps: [1]"],
    ids=["costs", "variants"],
)
def test_cells_that_differ_by_little_are_cells_of_their_own(differing: str) -> None:
    own = with_sweep(f"own: {{factor: mine, {differing}, assets: [A], folds: 1, run_minutes: 3}}")
    found = plan(own, sweep="own", choice=MANUAL)
    assert (found.rows, found.units, found.wall_s) == (2, 2, 360)


def test_a_group_with_an_asset_twice_never_reaches_a_plan() -> None:
    with pytest.raises(ManifestError, match="OPUSDC is listed twice"):
        a_site(("ARBUSDC, OPUSDC]", "ARBUSDC, OPUSDC, OPUSDC]"))


def test_a_scenario_that_names_a_sweep_and_its_profile_simulates_both() -> None:
    both = ("ftf-normal: {sweeps: {standard: 2}}", "ftf-normal: {sweeps: {calibration: 1, standard: 1}}")
    site = a_site(both)
    planned = planned_sweeps(site, "ftf-normal", site.manifest.scenarios["ftf-normal"], History())
    assert {sweep.id.split()[1] for sweep in planned} == {"calibration"}, "the same sweep by either name"
    assert len({sweep.id for sweep in planned}) == len(planned) == 2
    assert len({job for sweep in planned for job, _ in sweep.jobs}) == 50
    outcome = site.stage(planned).simulate()
    assert outcome.complete
    assert sum(outcome.states.values()) == 50


# Where it runs


def test_a_sweep_that_names_a_pool_can_be_planned_for_this_machine() -> None:
    named = calibration("pool: compute")
    found = plan_sweep(a_site(named, target="local"), "calibration")
    assert (found.pool, found.cost) == ("local", None)
    assert found.to_dict() == plan_sweep(a_site(target="local"), "calibration").to_dict()
    assert plan(named).pool == "compute"


BATCH = """version: 1
project: {name: batch}
targets: {hpc: {provider: slurm, queue: q, walltime: "00:30:00", max_workers: 4}}
sweeps:
  short: {factor: timeframe, assets: defi_top5, run_minutes: 3.5}
  long: {factor: n_features, assets: defi_top5, run_minutes: 45}
"""


def batch() -> Site:
    return Site(load_text(BATCH, env={}).manifest, "hpc", MACHINE)


def test_jobs_of_a_batch_queue_carry_the_walltime_and_promise_nothing() -> None:
    found = plan_sweep(batch(), "short")
    assert found.resources.walltime == "00:30:00"
    assert found.scale_plan.resources_by_tag["standard"].walltime == "00:30:00"
    assert found.workers == 4
    assert found.guarantees is None


def test_a_batch_queue_gets_no_advice_for_kubernetes() -> None:
    found = plan_sweep(batch(), "short")
    said = " ".join((*map(str, found.warnings), *found.assumptions))
    assert said
    for word in ("pod", "scheduler", "spread", "guaranteed", "node"):
        assert word not in said


def test_a_run_longer_than_the_walltime_is_refused() -> None:
    told = r"a job of 2700 s does not fit a walltime of 1800 s; raise targets.hpc.walltime to at least 00:57:00 or"
    with pytest.raises(PlanningError, match=told):
        plan_sweep(batch(), "long")


def test_a_run_longer_than_the_walltime_is_planned_if_it_declares_checkpoints() -> None:
    text = BATCH.replace("run_minutes: 45}", "run_minutes: 45, checkpoints: true, folds: 1}")
    found = plan_sweep(Site(load_text(text, env={}).manifest, "hpc", MACHINE), "long")
    assert found.wall_s > 2700
    assert found.units == 20
    assert found.worker_starts in range(31, 36), "20 runs of 45 min fill 30 allocations of 30 min, without their ends"
    assert any("worker starts, each for a walltime of 00:30:00" in line for line in found.assumptions)


def test_a_plan_counts_the_workers_that_are_started_one_after_the_other() -> None:
    text = BATCH.replace('"00:30:00"', '"00:05:00"')
    found = plan_sweep(Site(load_text(text, env={}).manifest, "hpc", MACHINE), "short")
    assert found.worker_starts is not None
    assert found.worker_starts == found.units, "a run of 3.5 min leaves no room for a second in 5 min"


# Requests that take more nodes than the burst

FULL = ("standard: {request: {cpu: 2, memory: 2GiB}", "standard: {request: {cpu: 4, memory: 2GiB}")


def test_requests_that_take_more_nodes_than_the_burst_are_a_warning() -> None:
    row = margins(FULL)["ftf-normal"]
    assert (row.nodes, row.nodes_by_request, row.nodes_paid) == (3, 4, 4), "3 of 4 CPU fit on 15.6, 4 on 16"
    assert row.status is MarginStatus.WARN
    assert "by requests the scheduler takes 4 nodes where the burst needs 3: they are paid" in row.notes[0]


@pytest.mark.parametrize(("most", "status"), [(3, MarginStatus.FAIL), (4, MarginStatus.WARN)])
def test_a_pool_must_hold_what_the_requests_take(most: int, status: MarginStatus) -> None:
    row = margins(FULL, pool(f"min: 0, max: {most}"))["ftf-normal"]
    assert row.status is status
    assert any("needs 4 nodes, the pool has at most 3" in note for note in row.notes) == (most == 3)


def test_a_month_bills_the_nodes_that_requests_take() -> None:
    (line,) = [line for line in first_month(FULL).lines if line.what == "ftf-normal"]
    assert line.nodes == 4
    assert amount(line.cost) == pytest.approx(12 * 4 * 4 * 0.16)


# What is paid anyway


def test_an_option_on_nodes_of_its_own_carries_their_monthly_price() -> None:
    rows = options(
        ("\nprofiles:", "  own: {node: PRO2-L, count: 3}\n\nprofiles:"),
        ("B on one node: {sweep: calibration, pool: compute,", "B on one node: {sweep: calibration, pool: own,"),
    )
    assert amount(rows["B on one node"].monthly) == pytest.approx(60 + 3 * 0.33 * 730)
    assert amount(rows["B compute pool"].monthly) == 60


STANDING = 0.1644 * 730


def test_nodes_that_are_always_on_count_as_nodes_but_not_as_cost() -> None:
    one, none = plan(pool("min: 1, max: 6"), choice=MANUAL), plan(choice=MANUAL)
    assert one.nodes_peak == none.nodes_peak == 2
    assert one.timeline[0] == (180, 1), "one more is scaled up"
    assert sum(span.permanent for span in one.nodes) == 1
    assert amount(one.cost) == pytest.approx(amount(none.cost) / 2)


def test_nodes_beyond_those_always_on_are_added_to_them() -> None:
    found = plan(pool("min: 3, max: 6"), choice=Choice("minimize time"))
    scaled = max(count for _, count in found.timeline)
    assert scaled >= 1
    assert found.nodes_peak == 3 + scaled


def test_what_is_always_on_is_named_with_its_price() -> None:
    said = " ".join(plan(pool("min: 3, max: 6")).assumptions)
    assert f"not counted in the cost: 3 nodes of compute always on, EUR {3 * STANDING:.2f} a month" in said
    assert "always on" not in " ".join(plan().assumptions)


def test_a_month_has_a_line_for_what_is_always_on() -> None:
    (line,) = [line for line in first_month(pool("min: 3, max: 6")).lines if "always on" in line.what]
    assert (line.what, line.nodes) == ("compute, always on", 3)
    assert amount(line.cost) == pytest.approx(3 * STANDING)
    assert not [line for line in first_month().lines if "always on" in line.what]


def test_what_is_always_on_is_not_left_of_the_budget() -> None:
    left = plan(pool("min: 1, max: 6"), ("monthly: 200 EUR", "monthly: 300 EUR")).budget_left
    assert amount(left) == pytest.approx(300 - 85 - STANDING), "as the month counts it"
    listed = plan(pool("min: 1, max: 6"), ("fixed: {permanent: 60 EUR,", "fixed: {compute: 40 EUR, permanent: 60 EUR,"))
    assert listed.budget_left == Money.parse("75 EUR"), "fixed says what the pool costs"
    assert plan(pool("min: 1, max: 6")).over_budget, "120 EUR of 115"
    here = plan_sweep(a_site(pool("min: 1, max: 6"), target="local"), "calibration", MANUAL)
    assert amount(here.budget_left) == pytest.approx(115 - STANDING), "paid wherever work runs"


def test_a_month_does_not_bill_by_the_hour_what_is_always_on() -> None:
    lines = {line.what: line for line in first_month(pool("min: 2, max: 6")).lines}
    assert lines["ftf-normal"].nodes == 1, "two of its three nodes are there anyway"
    assert lines["wfrb"].cost.amount == 0


def test_an_option_for_one_node_keeps_to_it_where_more_are_always_on() -> None:
    rows, as_written = options(pool("min: 3, max: 6")), options()
    assert rows["B on one node"].nodes == 1
    assert rows["B on one node"].hours == pytest.approx(as_written["B on one node"].hours)
    assert rows["B compute pool"].nodes == 3
    assert rows["B compute pool"].hours < rows["B on one node"].hours


# Bounds and margins


@pytest.mark.parametrize("maximum", [3, 6])
def test_the_target_bounds_the_workers_of_all_sweeps_together(maximum: int) -> None:
    site = a_site(("maximum: 24", f"maximum: {maximum}"), target="cluster")
    campaign = plan_all(site)
    assert max(found.workers for found in campaign.plans) <= maximum
    planned = [sweep_load(site, found.sweep, History()).planned(found.workers) for found in campaign.plans]
    outcome = site.stage(planned).simulate()
    assert outcome.complete
    assert outcome.wall_s == campaign.wall_s, "this is what was planned"
    assert max(count for _, count in outcome.worker_steps) == maximum
    assert max(outcome.peak_workers.values()) <= maximum


def test_margins_leave_out_what_other_services_use_in_plans_and_in_options() -> None:
    found = plan(calibration("pool: permanent, workers: 2"), choice=MANUAL)
    option = options()["A permanent node"]
    assert found.cpu_margin == option.cpu_margin == pytest.approx(1 - 8 / (8 - 3.05))
    assert found.ram_margin == option.ram_margin == pytest.approx(1 - 4 / (32 - 8.2))


def test_an_option_must_keep_the_ram_margin_too() -> None:
    """Two nodes leave 37.5 % of the CPU either way; 5 × 7 GiB leave 42 % of 60 GiB, but 37.5 % of 56 GiB."""

    def row(gib: int) -> OptionRow:
        node = "PRO2-M: {cpu: 16, memory: %s, allocatable: {cpu: 15.6, memory: %s}"
        smaller = (node % ("64GiB", "60GiB"), node % (f"{gib}GiB", f"{gib - 1}GiB"))
        return options(smaller, (LIMIT, LIMIT.replace("2GiB", "7GiB")))["B compute pool"]

    assert (row(30).cpu_margin, row(28).cpu_margin) == (0.375, 0.375)
    assert row(30).ram_margin == pytest.approx(1 - 35 / 60)
    assert row(28).ram_margin == pytest.approx(1 - 35 / 56)
    assert row(30).guaranteed
    assert not row(28).guaranteed


# Idle time

ONE_SESSION = (
    "      ftf-normal: {sessions: 12, hours: 4}\n"
    "      ftf-heavy: {sessions: 2, hours: 10}\n"
    "      discovery: {sessions: 20, hours: 1}\n"
    "      wfrb: {sessions: 20, hours: 0.5}\n",
    "      discovery: {sessions: 1, hours: 1}\n",
)
IDLE = ("\npolicies:", "\npolicies:\n  scaling: {idle: 30m}")


def session(*changes: Change) -> SimulationOutcome:
    """The only session of the month, simulated."""
    site = a_site(*changes)
    return site.stage(planned_sweeps(site, "discovery", site.manifest.scenarios["discovery"], History())).simulate()


@pytest.mark.parametrize("changes", [(), (IDLE,)], ids=["at once", "kept for 30 min"])
def test_idle_time_of_a_month_is_that_of_the_simulation(changes: tuple[Change, ...]) -> None:
    found, outcome = first_month(ONE_SESSION, *changes), session(ONE_SESSION, *changes)
    hours = sum(outcome.node_hours().values()) - sum(outcome.node_hours(computing_only=True).values())
    assert outcome.peak_nodes == 2
    assert hours == pytest.approx(2 * (180 + 600) / 3600), "a node's start is paid; workers go with the last row"
    assert amount(found.start_and_idle) == pytest.approx(0.1644 * hours)
    assert amount(found.bill) == pytest.approx(85 + 0.1644 * (2 * 1 + hours))


def test_workers_that_may_idle_go_with_the_last_row_all_the_same() -> None:
    kept, gone = plan(IDLE, choice=MANUAL), plan(choice=MANUAL)
    assert (kept.cost, kept.over_s) == (gone.cost, gone.over_s)
    assert first_month(ONE_SESSION, IDLE).bill == first_month(ONE_SESSION).bill


# Deadlines


@cache
def by_hand(workers: int) -> Plan:
    return plan((TIMEFRAME, f"{TIMEFRAME} workers: {workers},"), sweep="timeframe", choice=MANUAL)


def test_minimizing_cost_finds_the_cheapest_of_all_worker_counts_in_time() -> None:
    deadline = (TIMEFRAME, f"{TIMEFRAME} deadline: 30m,")
    found = plan(deadline, sweep="timeframe", choice=Choice("minimize cost", "aggressive"))
    in_time = [tried for tried in map(by_hand, range(1, 25)) if tried.wall_s <= 1800]
    assert 1 < len(in_time) < 24, "the deadline rules some out"
    assert found.wall_s <= 1800
    assert amount(found.cost) <= min(amount(tried.cost) for tried in in_time)


@pytest.mark.parametrize(
    ("keys", "choice", "said"),
    [
        ("deadline: 1m", Choice(), "no number of workers ends within 1 min; the fastest is planned"),
        (
            "deadline: 8m",
            Choice(),
            "the fastest takes 7 min: within the 8 min allowed, but without the 20% to spare of safe",
        ),
        (
            "workers: 2, deadline: 30m",
            MANUAL,
            "with 2 workers as written it takes 46 min, longer than the 30 min allowed",
        ),
    ],
    ids=["impossible", "no headroom", "by hand"],
)
def test_a_missed_deadline_says_how_it_is_missed(keys: str, choice: Choice, said: str) -> None:
    (late,) = [finding for finding in plan(calibration(keys), choice=choice).warnings if finding.code == "too-late"]
    assert late.message == said


def test_a_deadline_that_is_met_is_not_mentioned() -> None:
    found = plan(calibration("deadline: 8m"), choice=Choice("minimize time", "aggressive"))
    assert found.wall_s <= 480
    assert "too-late" not in codes(found)


def test_workers_written_by_hand_that_do_not_fit_are_said() -> None:
    found = plan(calibration("workers: 500"), choice=MANUAL)
    assert found.workers == 24
    (cut,) = [finding for finding in found.warnings if finding.code == "workers-cut"]
    assert "500 workers are written" in cut.message and "24" in cut.message


def test_a_pool_smaller_than_the_nodes_a_profile_wants_is_said() -> None:
    found = plan(pool("min: 0, max: 1"), sweep="n_features")
    assert found.nodes_peak == 1
    assert "pool-too-small" in codes(found)
    assert "pool-too-small" not in codes(plan(sweep="n_features"))


# One impossible question among others


def test_an_impossible_growth_question_keeps_the_other_answers() -> None:
    small = (
        "PRO2-S: {cpu: 8, memory: 32GiB, allocatable: {cpu: 7.8, memory: 29GiB}",
        "PRO2-S: {cpu: 8, memory: 32GiB, allocatable: {cpu: 4, memory: 9GiB}",
    )
    odd = ("{sweeps: {standard: 1}, assets: defi_full, node: PRO2-L}", "{sweeps: {heavy: 1}, node: PRO2-S}")
    rows, as_written = growth_table(a_site(small, odd)), growth_table(a_site())
    assert [row.question for row in rows] == [row.question for row in as_written]
    changed = [row for row, before in zip(rows, as_written, strict=True) if row != before]
    assert [(row.question, row.nodes) for row in changed] == [("17 assets on PRO2-L", 0)]
    assert changed[0].notes == ("a worker of 2 CPU / 12 GiB does not fit on a node with 4 CPU / 9 GiB",)


IMPOSSIBLE = ("  wfrb: {workloads: [wfrb]}", "  wfrb: {sweeps: {wfrb: 1}}")
NO_SWEEP = "wfrb: no sweep uses the profile wfrb; name a sweep or add one"


def test_an_impossible_scenario_fails_with_its_reason_and_keeps_the_other_rows() -> None:
    rows, as_written = margins(IMPOSSIBLE), margins()
    assert list(rows) == list(as_written)
    assert (rows["wfrb"].status, rows["wfrb"].notes) == (MarginStatus.FAIL, (NO_SWEEP,))
    assert [name for name in rows if rows[name] != as_written[name]] == ["wfrb"]


def criteria(*changes: Change) -> dict[str, tuple[Result, str]]:
    return {criterion.name: (criterion.result, criterion.figure) for criterion in acceptance(a_site(*changes))}


def test_an_impossible_scenario_keeps_the_other_criteria() -> None:
    found = criteria(IMPOSSIBLE)
    assert list(found) == list(criteria())
    assert found["every month under EUR 200.00"] == (Result.FAIL, NO_SWEEP)
    assert found["a normal factor in under 2 h 30"][0] is Result.PASS


def test_an_impossible_sweep_keeps_the_other_criteria() -> None:
    found = criteria(calibration("samples: 2000000, features: 80"))
    result, figure = found.pop("calibration can be planned")
    assert result is Result.FAIL
    assert "over the profile's limit of 8 GiB" in figure
    assert list(found) == list(criteria())
    assert "timeframe takes" in found["a normal factor in under 2 h 30"][1]


# Sizes for machines


def test_memory_is_handed_to_providers_exactly() -> None:
    found = plan((LIMIT, LIMIT.replace("8GiB", "7500MiB")))
    assert found.resources.memory == "7500MiB"
    assert found.to_dict()["resources"]["memory"] == "7500MiB"


@given(st.one_of(st.integers(0, 10**18), st.builds(lambda n, u: n * u, st.integers(0, 10**5), st.just(1024**2))))
@example(7500 * 1024**2)
@example(1500 * 10**6)
@example(0)
def test_an_exact_size_reads_back_to_the_same_bytes(number: int) -> None:
    assert Memory.parse(Memory(number).exact) == Memory(number)
