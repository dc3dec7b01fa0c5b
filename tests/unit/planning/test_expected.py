"""What earlier sweeps measured: which of it counts for a plan, and what the plan makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from scalable.errors import PlanningError
from scalable.planning.front import Choice
from scalable.planning.history import History, MeasuredUnits
from scalable.planning.plan import Plan, plan_sweep
from scalable.planning.site import Machine
from scalable.quantities import Cpu, Memory
from tests.helpers.planning.builders import Change, a_site, codes, with_sweep

MINE = "mine: {factor: mine, variants: [a, b], assets: [X, Y, Z], folds: 4, run: m:f}"
TWO_CORES = Machine(Cpu.of(2), Memory.of_gib(16))


def units(*seconds: float, **circumstances: Any) -> MeasuredUnits:
    """25 searches of the example on a worker of one core of this machine, unless something else is said."""
    usual = {"trials": 30, "provider": "local", "cpus": 1.0, "cores": 1.0, "rows": 9}
    return MeasuredUnits(seconds or (4.0,) * 25, **{**usual, **circumstances})


def plan(
    *known: MeasuredUnits, sweep: str = "calibration", target: str = "local", changes: tuple[Change, ...] = ()
) -> Plan:
    site = a_site(with_sweep(MINE), *changes, target=target, machine=TWO_CORES)
    return plan_sweep(site, sweep, Choice(policy="manual"), History(units={sweep: known}))


def test_a_plan_from_measured_units_takes_what_they_took_and_says_so() -> None:
    found = plan(units())
    assert found.wall_s == pytest.approx(13 * 4.0)
    assert found.assumptions[0] == "4 s a job on 1 CPU (mean of 25 measured)"
    assert not codes(found) & {"cpus-few", "cpus-shared"}, "a worker has all the cores such a unit uses"


def test_every_worker_loads_the_code_once() -> None:
    assert plan(units(load_s=3.0)).wall_s == pytest.approx(3.0 + 13 * 4.0)


def test_units_that_differ_take_as_long_together_as_they_did() -> None:
    seconds = tuple(1.0 + n / 8 for n in range(25))
    found = plan(units(*seconds))
    assert sum(seconds) / 2 <= found.wall_s <= sum(seconds) / 2 + max(seconds)
    assert found.wall_range_s is not None


def test_after_a_slow_day_the_plan_rests_on_the_median_of_the_latest_sweeps() -> None:
    found = plan(units(*(5.2,) * 25, means=(4.0, 4.1, 5.2)))
    assert found.wall_s == pytest.approx(13 * 4.1)
    assert found.assumptions[0] == "4.1 s a job on 1 CPU (median of 3 sweeps, 25 measured in the latest)"


def test_a_unit_that_used_one_core_takes_as_long_on_a_worker_with_four() -> None:
    found = plan(units(provider="kubernetes", cpus=4.0), target="cluster")
    assert found.resources.cpus == 4
    assert found.wall_s == pytest.approx(5 * 4.0)


def test_what_was_measured_elsewhere_counts_until_there_is_something_from_here_and_says_where() -> None:
    found = plan(units(), target="cluster")
    assert found.wall_s == pytest.approx(5 * 4.0)
    assert "(mean of 25 measured on workers of 1 CPU, provider local)" in found.assumptions[0]
    here = units(*(6.0,) * 5, provider="kubernetes", cpus=4.0)
    assert plan(units(), here, target="cluster").wall_s == pytest.approx(5 * 6.0)
    assert plan(here, units(), target="cluster").wall_s == pytest.approx(5 * 6.0)


def test_units_that_used_more_cores_than_a_worker_has_here_take_longer() -> None:
    found = plan(units(provider="slurm", cpus=4.0, cores=4.0))
    assert found.wall_s == pytest.approx(13 * 16.0)
    (slower,) = [finding for finding in found.warnings if finding.code == "cpus-few"]
    assert "4 × as long as on 4 CPU" in slower.message


def test_searches_with_other_trials_are_scaled_and_the_same_number_is_preferred() -> None:
    found = plan(units(trials=15))
    assert found.wall_s == pytest.approx(13 * 8.0)
    assert "(mean of 25 measured with 15 trials, scaled to 30)" in found.assumptions[0]
    assert plan(units(trials=15), units(*(5.0,) * 9, trials=30)).wall_s == pytest.approx(13 * 5.0)


def test_too_few_units_and_those_of_another_workload_or_other_settings_do_not_count() -> None:
    assumed = plan().wall_s
    assert plan(units(*(4.0,) * 4)).wall_s == assumed
    assert plan(units(run="m:f")).wall_s == assumed
    assert plan(units(settings="years=1")).wall_s == assumed
    with_years = (("calibration: {factor: calibration,", "calibration: {factor: calibration, settings: {years: 1},"),)
    assert plan(units(settings="years=1"), changes=with_years).wall_s == pytest.approx(13 * 4.0)


def test_what_trials_mean_to_a_workload_of_ones_own_is_not_known_so_only_the_same_count() -> None:
    assert plan(units(run="m:f", trials=15), sweep="mine").wall_s == pytest.approx(24 / 2 * 60)
    assert plan(units(run="m:f", trials=30, rows=1), sweep="mine").wall_s == pytest.approx(24 / 2 * 4)


def test_a_workload_of_ones_own_shares_as_it_was_seen_to() -> None:
    found = plan(units(run="m:f", rows=2), sweep="mine")
    assert (found.rows, found.units, found.rows_per_unit) == (24, 12, 2)
    assert found.wall_s == pytest.approx(6 * 4.0)
    assert found.wall_unshared_s == pytest.approx(12 * 4.0)


def test_units_that_only_wait_do_not_share_anything() -> None:
    assert plan(units(cores=0.001)).wall_s == pytest.approx(13 * 4.0)


def test_start_up_is_the_median_of_what_sessions_on_such_a_target_took() -> None:
    site = a_site(target="local", machine=TWO_CORES)
    history = History(startups={"local": (2.0, 3.0, 60.0), "slurm": (100.0,)})
    found = plan_sweep(site, "calibration", history=history)
    assert found.ready_s == 3.0
    assert found.total_s == found.wall_s + 3.0
    assert found.over_s == found.total_s
    assert "start-up 3 s (median of 3 measured)" in found.assumptions
    assert plan_sweep(site, "calibration").ready_s == 0


def test_a_plan_says_to_the_journal_what_is_compared_later() -> None:
    record = plan(units()).to_dict()
    assert record["tasks"] == {"standard": 25}
    assert record["peaks"] == {"standard": "2GiB"}
    assert record["total_s"] == record["ready_s"] + record["wall_s"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"units": {"x": [{"seconds": [], "trials": 1, "cpus": 1}]}},
        {"units": {"x": [{"seconds": [-1], "trials": 1, "cpus": 1}]}},
        {"units": {"x": [{"seconds": [1], "trials": 1, "cpus": 0}]}},
        {"units": {"x": [{"seconds": [1], "trials": 1, "cpus": 1, "means": [0]}]}},
        {"units": {"x": [{"seconds": [1], "trials": 1, "cpus": 1, "cores": 0}]}},
        {"units": {"x": [{"seconds": [1], "trials": 1.5, "cpus": 1}]}},
        {"units": {"x": [{"seconds": [1], "cpus": 1}]}},
        {"units": {"x": [3]}},
        {"units": [1]},
        {"startups": {"local": [0]}},
        {"starts": {"local": [{"ask_s": -1}]}},
        {"starts": {"local": [{"node_s": {"compute": "soon"}}]}},
        {"starts": {"local": [3]}},
    ],
    ids=str,
)
def test_units_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanningError, match=r"the history cannot be read: .*; move it away to plan without it"):
        History.from_dict(wrong)
