"""What earlier runs measured: how it is read, and what it changes in a plan of components."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.errors import PlanningError
from scalable.manifest import load_text
from scalable.planning.components import ComponentPlan, plan_components
from scalable.planning.history import History
from scalable.planning.site import Site
from scalable.quantities import Memory
from tests.helpers.planning.builders import MACHINE, gib

MANIFEST = """version: 1
project: {name: lab}
targets:
  local: {provider: local, max_workers: 8, threads_per_worker: 2, processes: true}
  hpc: {provider: slurm, walltime: "01:00:00", max_workers: 16}
  wide: {provider: slurm, walltime: "01:00:00", max_workers: 64}
  open: {provider: slurm, walltime: "01:00:00"}
components:
  model: {cpus: 2, memory: 8GiB}
  report: {cpus: 1, memory: 1GiB}
"""
EVENLY = "nothing is known yet about how long tasks take; workers are shared out evenly"


def known(*, model: int = 100, model_s: float = 60.0, report: int = 10, report_s: float = 6.0) -> History:
    return History(
        seconds={"tag:model": (model_s,) * 5, "tag:report": (report_s,) * 5},
        tasks={"tag:model": model, "tag:report": report},
    )


def plan(history: History | None = None, target: str = "hpc", **choice: str) -> ComponentPlan:
    site = Site(load_text(MANIFEST, env={}, target=target).manifest, target, MACHINE)
    return plan_components(site, target, history=history, **choice)


def workers(history: History | None = None, target: str = "hpc", **choice: str) -> tuple[int, int]:
    counts = plan(history, target, **choice).scale_plan.workers_by_tag
    return counts["model"], counts["report"]


# Reading


def test_files_of_before_are_read_as_before() -> None:
    old = {"seconds": {"calibration": [100.0]}, "peaks": {"calibration": "3 GiB"}, "spent_this_month": "5 EUR"}
    history = History.from_dict(old)
    assert history.seconds == {"calibration": (100.0,)}
    assert str(history.spent_this_month) == "EUR 5.00"
    assert history.tasks == {}


@pytest.mark.parametrize(
    ("month", "counts"), [("2026-04", True), ("2026-05", False), ("2025-04", False), (None, False)]
)
def test_money_with_its_month_counts_in_that_month_only(month: str | None, counts: bool) -> None:
    spent = {"spent_this_month": {"month": "2026-04", "amount": "12.5 EUR"}}
    assert (History.from_dict(spent, month=month).spent_this_month is not None) is counts


@pytest.mark.parametrize(
    "data",
    [
        {"tasks": {"tag:x": -1}},
        {"tasks": {"tag:x": 1.5}},
        {"tasks": {"tag:x": True}},
        {"tasks": {"tag:x": 10**400}},
        {"tasks": [1]},
        {"spent_this_month": {"month": "2026-04"}},
        {"spent_this_month": {"amount": "5 EUR"}},
        {"spent_this_month": {"month": "April", "amount": "5 EUR"}},
        {"spent_this_month": {"month": "2026-04", "amount": 5}},
        {"spent_this_month": [1]},
    ],
    ids=str,
)
def test_a_history_that_makes_no_sense_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(PlanningError, match=r"the history cannot be read: .*; move it away to plan without it"):
        History.from_dict(data, month="2026-04")


# Time


def test_without_history_nothing_is_predicted_and_workers_are_shared_out_evenly() -> None:
    found = plan()
    assert found.wall_s is None
    assert found.assumptions == (EVENLY,)
    assert workers() == (8, 8)


def test_the_time_is_as_many_tasks_one_after_the_other_as_the_busiest_worker_gets() -> None:
    found = plan(known(model=100, model_s=60, report=100, report_s=60), policy="manual")
    assert found.scale_plan.workers_by_tag == {"model": 8, "report": 8}
    assert found.wall_s == 13 * 60, "100 tasks on 8 workers: some get 13"
    assert "model: 100 tasks as in the last run, 1 min each (mean of 5 measured)" in found.assumptions


def test_a_worker_that_takes_two_tasks_at_once_needs_half_the_time() -> None:
    found = plan(known(model=100, model_s=60, report=100, report_s=60), target="local", policy="manual")
    assert found.wall_s == 13 * 60
    assert "2 at once on a worker" in found.assumptions[0]


def test_however_many_workers_there_are_it_takes_as_long_as_one_task() -> None:
    assert plan(known(model=2, report=1)).wall_s == 60


def test_workers_go_where_the_work_is() -> None:
    assert workers(known()) == (15, 1)
    assert workers(known(report=100, report_s=60)) == (8, 8)
    assert plan(known()).wall_s == 7 * 60


def test_the_manual_policy_shares_out_as_written_whatever_is_known() -> None:
    assert workers(known(), policy="manual") == (8, 8)


def test_a_tag_that_never_ran_leaves_the_time_unknown() -> None:
    partly = History(seconds={"tag:model": (60.0,)}, tasks={"tag:model": 100})
    found = plan(partly)
    assert found.wall_s is None
    assert "nothing is known yet about the tasks of report; no time is predicted" in found.assumptions
    assert workers(partly) == (8, 8)


def test_durations_without_a_number_of_tasks_predict_nothing() -> None:
    assert plan(History(seconds={"tag:model": (60.0,), "tag:report": (1.0,)})).wall_s is None


# The fewest workers that end in time


def test_the_cheapest_plan_has_the_fewest_workers_that_end_within_the_walltime() -> None:
    history = known(model=120, model_s=60)
    assert workers(history, objective="minimize cost", policy="aggressive") == (2, 1)
    found = plan(history, objective="minimize cost", policy="aggressive")
    assert found.wall_s == 3600
    assert found.warnings == ()


def test_the_safe_policy_leaves_a_fifth_to_spare() -> None:
    history = known(model=120, model_s=60)
    assert workers(history, objective="minimize cost", policy="safe") == (3, 1)
    assert workers(history, objective="minimize cost") == (3, 1)
    assert workers(known(model=100, model_s=60), objective="minimize cost", policy="safe") == (2, 1)


def test_the_fewest_workers_in_time_are_counted_in_whole_tasks() -> None:
    """Two workers would end three tasks of 35 min within the hour only if a task could be cut in two."""
    assert workers(known(model=3, model_s=2100), objective="minimize cost", policy="aggressive") == (3, 1)


def test_without_a_walltime_or_a_history_the_cheapest_is_one_worker_of_each() -> None:
    assert workers(known(), target="local", objective="minimize cost") == (1, 1)
    assert workers(objective="minimize cost") == (1, 1)


def test_what_cannot_end_in_time_gets_all_workers_and_a_warning() -> None:
    history = known(model=2000, model_s=60)
    found = plan(history, objective="minimize cost")
    assert workers(history, objective="minimize cost") == (15, 1)
    (warning,) = found.warnings
    assert (warning.code, warning.path) == ("too-late", "components.model")
    assert "2 h 14 with 15 workers" in warning.message and "max_workers" in warning.remedy


def test_a_plan_that_ends_in_time_without_headroom_says_so() -> None:
    (warning,) = plan(known(model=850, model_s=60), objective="minimize time").warnings
    assert warning.code == "little-headroom"
    assert "57 min with 15 workers" in warning.message and "20 %" in warning.message


def test_balance_lies_between_the_cheapest_and_the_fastest() -> None:
    cheap, balance, fast = (
        sum(workers(known(model=300), objective=words)) for words in ("minimize cost", "balance", "minimize time")
    )
    assert cheap < balance < fast == 16


def test_no_objective_plans_more_workers_than_there_are_tasks() -> None:
    history = known(model=30, report=10)
    assert workers(history, "wide", objective="minimize time") == (30, 10)
    assert sum(workers(history, "wide", objective="balance")) <= 40
    assert workers(history, "wide", policy="manual") == (32, 32)
    assert sum(workers(history, "wide")) == 64, "without an objective all that is allowed"


def test_a_target_without_a_maximum_follows_the_objective_once_the_work_is_known() -> None:
    history = known(model=30, report=10)
    assert workers(history, "open", objective="minimize time") == workers(history, "open") == (30, 10)
    assert workers(history, "open", objective="minimize cost") == (1, 1)
    assert 2 < sum(workers(history, "open", objective="balance")) < 40
    assert sum(workers(known(model=300), "open", objective="minimize time")) == 100
    assert workers(None, "open", objective="minimize time") == (1, 1)
    assert workers(history, "open", policy="manual") == (1, 1)


@given(
    model=st.integers(1, 10**6),
    model_s=st.floats(0.001, 1e6),
    report=st.integers(1, 10**6),
    report_s=st.floats(0.001, 1e6),
    objective=st.sampled_from([None, "minimize cost", "minimize time", "balance"]),
    policy=st.sampled_from([None, "safe", "aggressive", "manual"]),
)
def test_every_plan_serves_every_tag_within_the_limit_and_the_cheapest_is_in_time_if_any_is(
    model: int, model_s: float, report: int, report_s: float, objective: str | None, policy: str | None
) -> None:
    history = known(model=model, model_s=model_s, report=report, report_s=report_s)
    site = Site(load_text(MANIFEST, env={}, target="hpc").manifest, "hpc", MACHINE)
    found = plan_components(site, "hpc", objective=objective, policy=policy, history=history)
    fastest = plan_components(site, "hpc", objective="minimize time", policy="aggressive", history=history)
    counts = found.scale_plan.workers_by_tag
    assert min(counts.values()) >= 1
    assert sum(counts.values()) <= 16
    assert found.wall_s is not None
    assert fastest.wall_s is not None
    assert found.wall_s >= fastest.wall_s * 0.999
    if fastest.wall_s * 1.2 <= 3600 and policy != "manual":
        assert found.wall_s <= 3600 * 1.001


# Memory


def test_a_peak_near_the_limit_is_a_warning_with_what_to_write() -> None:
    (warning,) = plan(History(peaks={"tag:model": gib(7), "tag:report": Memory.parse("100MiB")})).warnings
    assert (warning.code, warning.path, warning.remedy) == (
        "memory-near-limit",
        "components.model",
        "write memory: 11GiB",
    )
    assert "7 GiB of its 8 GiB (87.5 %)" in warning.message


def test_a_peak_of_four_fifths_is_no_warning() -> None:
    assert plan(History(peaks={"tag:model": Memory(8 * 1024**3 * 8 // 10)})).warnings == ()


# For machines


def test_a_plan_for_machines_has_all_it_had_and_more() -> None:
    record = plan(known(), objective="minimize time", policy="aggressive").to_dict()
    assert record["workers_by_tag"] == {"model": 15, "report": 1}
    assert record["wall_s"] == 420
    assert record["cost_estimate"] is None
    assert record["warnings"] == record["findings"] == []
    assert {"target", "resources_by_tag", "objective", "policy", "assumptions"} <= set(record)
