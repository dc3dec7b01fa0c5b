"""Months, options, growth and acceptance: the honest figures beside the printed ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from scalable.errors import PlanningError
from scalable.planning.acceptance import Criterion, Result, acceptance
from scalable.planning.history import History, PastSession
from scalable.planning.options import OptionRow, compare
from scalable.planning.scenarios import GrowthRow, Month, growth_table, months
from scalable.quantities import Money
from tests.helpers.planning.builders import Change, a_site, gib, with_few_sweeps


def month(name: str, *changes: Change) -> Month:
    return next(one for one in months(a_site(*changes)) if one.name == name)


@pytest.mark.parametrize(
    ("name", "total", "start_and_idle", "bill"),
    [("normal", 122.44, 3.56, 127.03), ("heavy", 148.20, 5.63, 155.57), ("worst", 177.80, 6.09, 186.44)],
)
def test_a_month_as_projected_and_as_billed(name: str, total: float, start_and_idle: float, bill: float) -> None:
    found = month(name)
    assert float(found.total.amount) == pytest.approx(total)
    assert float(found.start_and_idle.amount) == pytest.approx(start_and_idle, abs=0.005)
    assert float(found.bill.amount) == pytest.approx(bill, abs=0.005)
    assert found.margin == Money.parse("200 EUR") - found.total
    assert not found.over


@pytest.mark.parametrize("name", ["normal", "heavy", "worst"])
def test_the_lines_of_a_month_add_up(name: str) -> None:
    found = month(name)
    assert sum(line.cost.amount for line in found.lines) == found.total.amount
    assert [line.what for line in found.lines[:3]] == ["permanent", "database", "storage"]


@pytest.mark.parametrize("name", ["normal", "heavy", "worst"])
def test_at_list_price_the_bill_is_the_total_with_start_and_idle_time(name: str) -> None:
    found = month(name, ("  price: 0.16 EUR/h  ", "  price: 0.1644 EUR/h  "))
    assert found.bill == found.total + found.start_and_idle


def test_without_a_price_of_its_own_the_projection_uses_the_nodes() -> None:
    assert (
        month("normal", ("price: 0.16 EUR/h", "# price: 0.16 EUR/h")).total
        == month("normal", ("price: 0.16 EUR/h", "price: 0.1644 EUR/h")).total
    )


def test_a_month_whose_bill_is_over_the_budget_says_so_even_if_the_projection_is_not() -> None:
    found = month("worst", ("monthly: 200 EUR", "monthly: 180 EUR"))
    assert found.margin > Money.zero("EUR")
    assert found.over
    assert "the bill of EUR 186.44 is over the budget of EUR 180.00" in found.notes


def test_a_manifest_without_months_is_told_what_to_write() -> None:
    site = a_site()
    assert site.manifest.budget is not None
    site.manifest.budget.months.clear()
    with pytest.raises(PlanningError, match=r"write budget.months"):
        months(site)


@cache
def options() -> dict[str, OptionRow]:
    return {row.name: row for row in compare(a_site()).options}


@pytest.mark.parametrize(
    ("name", "hours", "cost", "monthly"),
    [
        ("A permanent node", 52.5 / 4.75, 0, 60),
        ("B compute pool", 2.625, 0.863, 60),
        ("B on one node", 3.365, 0.553, 60),
        ("C bigger permanent node", 52.5 / 12.55, 0, 120),
    ],
)
def test_options_show_what_they_really_take_and_cost(name: str, hours: float, cost: float, monthly: float) -> None:
    row = options()[name]
    assert row.hours == pytest.approx(hours, abs=0.01)
    assert float(row.cost.amount) == pytest.approx(cost, abs=0.0005)
    assert float(row.monthly.amount) == monthly
    assert row.hours_shared == pytest.approx(hours / 9, rel=0.01), "one search serves 9 rows"


def test_option_a_is_at_least_eleven_hours_because_two_pods_share_the_free_cores() -> None:
    row = options()["A permanent node"]
    assert row.hours >= 11
    assert "2 workers want 8 CPU and share 4.75 free cores on 1 node" in row.notes
    assert "stated are 7.9 h; it takes 11.1 h" in row.notes


def test_printed_figures_of_option_b_are_corrected() -> None:
    said = " ".join(options()["B compute pool"].notes)
    assert "stated are EUR 0.50; computing alone costs EUR 0.86" in said


def test_a_stated_cost_of_nothing_that_is_right_is_not_corrected() -> None:
    site = a_site(("stated: {hours: 7.9}", "stated: {cost: 0 EUR}"), ("    B compute pool:", "    # B compute pool:"))
    assert not [note for note in compare(site).options[0].notes if "stated" in note]


def test_idle_time_makes_the_bill_larger_than_the_cost() -> None:
    for name in ("B compute pool", "B on one node"):
        row = options()[name]
        assert row.bill > row.cost


def test_the_compute_pool_is_recommended_with_a_reason() -> None:
    comparison = compare(a_site())
    assert comparison.recommended == "B compute pool"
    assert "margins CPU 37.5 % and RAM 92.2 % as guaranteed" in comparison.reason
    assert "faster than A permanent node" in comparison.reason


def test_an_option_for_more_workers_than_its_pool_can_hold_is_impossible_and_leaves_the_others() -> None:
    comparison = compare(a_site(("pool: permanent, workers: 2", "pool: permanent, workers: 50")))
    assert (
        comparison.impossible
        == {"A permanent node": "50 workers of standard do not fit into the pool permanent"}
        == comparison.to_dict()["impossible"]
    )
    assert [row.name for row in comparison.options] == ["B compute pool", "B on one node", "C bigger permanent node"]


def test_options_of_which_none_can_be_are_refused_with_all_reasons() -> None:
    site = a_site(
        ("pool: permanent, workers: 2", "pool: permanent, workers: 50"),
        *(
            (f"    {name}:", f"    # {name}:")
            for name in ("B compute pool", "B on one node", "C bigger permanent node")
        ),
    )
    with pytest.raises(PlanningError, match="A permanent node: 50 workers of standard do not fit"):
        compare(site)


@cache
def growth() -> dict[str, GrowthRow]:
    return {row.question: row for row in growth_table(a_site())}


@pytest.mark.parametrize(
    ("question", "pods", "nodes", "node"),
    [
        ("17 assets, one sweep", 17, 5, "PRO2-M"),
        ("17 assets, two sweeps", 34, 9, "PRO2-M"),
        ("17 assets, three sweeps", 51, 13, "PRO2-M"),
        ("17 assets on PRO2-L", 17, 3, "PRO2-L"),
        ("two strategies at once", 20, 5, "PRO2-M"),
        ("always-on trading pool", 0, 2, "PRO2-M"),
    ],
)
def test_growth_is_answered_in_nodes(question: str, pods: int, nodes: int, node: str) -> None:
    row = growth()[question]
    assert (row.pods, row.nodes, row.node) == (pods, nodes, node)


def test_growth_beyond_the_pool_says_so() -> None:
    assert "needs 9 nodes, the pool has at most 6" in " ".join(growth()["17 assets, two sweeps"].notes)


def test_the_printed_14_nodes_for_17_assets_are_corrected() -> None:
    assert "stated are 14 nodes; 68 CPU on 16 each are 5" in growth()["17 assets, one sweep"].notes


def test_a_core_hour_costs_the_same_on_the_larger_node() -> None:
    said = growth()["17 assets on PRO2-L"].notes
    assert "PRO2-L is the same per core-hour: 0.01031 against 0.01028 EUR for PRO2-M" in said


@pytest.mark.parametrize("question", [name for name in growth() if name != "always-on trading pool"])
def test_growth_says_what_a_month_of_its_sessions_costs(question: str) -> None:
    row = growth()[question]
    assert row.monthly is not None
    assert row.hourly is not None
    (figures,) = [note for note in row.notes if note.startswith("a month has")]
    assert "14 sessions of " in figures, "12 normal and 2 heavy, as the first month has"
    assert 0 < row.monthly.amount < row.hourly.amount * 14 * 24


def test_growth_beyond_what_may_run_at_once_says_who_waits() -> None:
    waits = [note for note in growth()["17 assets, three sweeps"].notes if "at most 2 sweeps run at once" in note]
    assert len(waits) == 1
    assert waits[0].startswith("fold_size waits ")
    assert not any(" waits " in note for note in growth()["17 assets, two sweeps"].notes)


def test_two_nodes_that_never_stop_cost_240_a_month() -> None:
    row = growth()["always-on trading pool"]
    assert row.monthly is not None
    assert float(row.monthly.amount) == pytest.approx(240.02, abs=0.005)
    assert any(note.startswith("stated are EUR 100.00 a month") for note in row.notes)


def judged(*changes: Change, history: History | None = None) -> dict[str, Criterion]:
    if not changes and history is None:
        return as_written()
    return {
        criterion.name: criterion
        for criterion in acceptance(with_few_sweeps(a_site(*changes)), history, target="cluster")
    }


@cache
def as_written() -> dict[str, Criterion]:
    return {criterion.name: criterion for criterion in acceptance(a_site())}


def sessions(*last: PastSession, clean: int = 10) -> History:
    return History(sessions=(*[a_session(scale_up_s=170, scale_down_s=640)] * clean, *last))


def a_session(target: str = "cluster", **facts: Any) -> PastSession:
    return PastSession(target=target, provider="kubernetes", **facts)


def test_all_ten_criteria_of_the_sizing_document_are_judged() -> None:
    assert [criterion.result.value for criterion in judged().values()].count("pass") == 8
    assert list(judged()) == [
        "a normal factor in under 2 h 30",
        "heavy without OOM on 2 nodes",
        "RAM margin over 40 % everywhere",
        "sweeps and other workloads together",
        "every month under EUR 200.00",
        "scale-up under 5 min",
        "scale-down under 15 min",
        "no OOM kill in 10 sessions",
        "no permanent failure",
        "no manual profile choice",
    ]


def test_every_criterion_shows_its_figure() -> None:
    figures = {name: criterion.figure for name, criterion in judged().items()}
    assert "15 GiB" in figures["heavy without OOM on 2 nodes"]
    assert "45.3 %" in figures["RAM margin over 40 % everywhere"]
    assert "EUR 186.44" in figures["every month under EUR 200.00"]
    assert "5 of 6 nodes" in figures["sweeps and other workloads together"]
    assert all(figures.values())


def test_what_was_never_measured_is_unknown_not_passed() -> None:
    never, too_rarely, often = judged(), judged(history=sessions(clean=9)), judged(history=sessions())
    for name in ("no OOM kill in 10 sessions", "no permanent failure"):
        assert never[name].result == too_rarely[name].result == "unknown"
        assert often[name].result == "pass"


def test_one_oom_kill_in_the_last_ten_sessions_fails() -> None:
    found = judged(history=sessions(a_session(oom_kills=1)))
    assert found["no OOM kill in 10 sessions"].result == "fail"
    assert found["no permanent failure"].result == "pass"


def test_one_permanent_failure_in_the_last_ten_sessions_fails() -> None:
    assert judged(history=sessions(a_session(failures=1)))["no permanent failure"].result == "fail"


def test_what_lies_more_than_ten_sessions_back_is_forgotten() -> None:
    criteria = judged(history=History(sessions=(a_session(oom_kills=3, failures=2), *[a_session()] * 10)))
    assert criteria["no OOM kill in 10 sessions"].result == "pass"
    assert criteria["no permanent failure"].result == "pass"


def test_measured_scaling_times_replace_the_manifests() -> None:
    found = judged(history=sessions(a_session(scale_up_s=301, scale_down_s=901)))
    assert found["scale-up under 5 min"].result == "fail"
    assert found["scale-down under 15 min"].result == "fail"
    assert "measured" in found["scale-up under 5 min"].figure
    assert "manifest" in judged()["scale-up under 5 min"].figure


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (("factor: 2h30m", "factor: 5m"), "a normal factor in under 5 min"),
        (("ram: 40%", "ram: 50%"), "RAM margin over 50 % everywhere"),
        (("monthly: 200 EUR", "monthly: 180 EUR"), "every month under EUR 180.00"),
        (("provision: 3m", "provision: 6m"), "scale-up under 5 min"),
        (("idle: 10m", "idle: 20m"), "scale-down under 15 min"),
        (
            ("calibration: {factor: calibration,", "calibration: {profile: heavy, factor: calibration,"),
            "no manual profile choice",
        ),
        (("min: 0, max: 6", "min: 0, max: 4"), "sweeps and other workloads together"),
    ],
)
def test_a_criterion_fails_when_its_figure_does(change: Change, failing: str) -> None:
    assert judged(change)[failing].result == "fail"


@pytest.mark.parametrize(
    "past", [a_session("local", scale_up_s=1.7, failures=1), PastSession(scale_up_s=1.7, failures=1)]
)
def test_only_sessions_on_the_target_that_is_judged_are_evidence(past: PastSession) -> None:
    criteria = judged(history=History(sessions=(past,) * 10))
    assert criteria["no OOM kill in 10 sessions"].result is Result.UNKNOWN
    assert criteria["no permanent failure"].result is Result.UNKNOWN
    assert "(manifest)" in criteria["scale-up under 5 min"].figure


def test_a_measured_peak_over_the_heavy_limit_fails_that_sweep_and_judges_the_rest() -> None:
    criteria = judged(history=History(peaks={"n_features": gib(25)}))
    refused = criteria["n_features can be planned"]
    assert refused.result is Result.FAIL
    assert "a peak of 25 GiB" in refused.figure
    assert criteria["every month under EUR 200.00"].result is Result.PASS
