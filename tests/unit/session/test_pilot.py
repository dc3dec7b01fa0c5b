"""A pilot: a few jobs of a sweep, within limits, from which plans are made."""

from __future__ import annotations

import pytest

from scalable.session.sweep.piloting import PilotError, PilotTimes, sample
from scalable.sweeps.units import Computed, StageTime
from tests.helpers.cli.commands import Call, call
from tests.helpers.session.builders import Project
from tests.helpers.session.sweeps import Sweeps, sweeps

pytestmark = pytest.mark.usefixtures("world")

__all__ = ["call", "sweeps"]

SLOW = "import time; time.sleep(7.0); note"  # of the world, whose clock jumps


def sampled(sweeps: Sweeps, most: int) -> list[str]:
    session = sweeps.session(variants=[1, 2, 3], folds=3)
    with session.open_store() as store:
        return [job.name for job in sample(session.compile("trial", store), most)]


def test_one_job_of_each_variant_and_asset_is_chosen_and_every_variant_before_a_second_asset(sweeps: Sweeps) -> None:
    assert sampled(sweeps, 9) == [
        *("A 1 fold 1", "A 2 fold 1", "A 3 fold 1"),
        *("BB 1 fold 1", "BB 2 fold 1", "BB 3 fold 1"),
        *("CCC 1 fold 1", "CCC 2 fold 1", "CCC 3 fold 1"),
    ]
    assert sampled(sweeps, 4) == ["A 1 fold 1", "A 2 fold 1", "A 3 fold 1", "BB 1 fold 1"]


def test_rows_of_a_pilot_are_stored_and_not_computed_again(sweeps: Sweeps) -> None:
    pilot = sweeps.session().run_pilot("trial")
    assert (pilot.complete, pilot.computed) == (True, 12)  # 6 of 12 jobs
    whole = sweeps.run()
    assert whole.complete and whole.computed == 12
    executed = sweeps.executed()
    assert len(executed) == len(set(executed)) == 15, "3 tables and 12 fits, each once"


def test_a_plan_rests_on_its_pilot(sweeps: Sweeps) -> None:
    sweeps.rewrite('    note(f"fitted', f'    {SLOW}(f"fitted')
    guessed = sweeps.session(run_minutes=28).plan_sweep("trial")
    assert not guessed.measured and guessed.wall_s > 3600
    sweeps.session().run_pilot("trial")
    planned = sweeps.session(run_minutes=28).plan_sweep("trial")
    assert planned.measured and planned.wall_s == pytest.approx(7 * 6, rel=0.05)
    assert "pilot: 6 jobs measured" in planned.assumptions[0]


def test_a_stage_that_many_jobs_share_and_the_first_call_in_a_process_count_as_often_as_the_sweep_has_them() -> None:
    def job(elapsed_s: float, *stages: StageTime) -> list[Computed]:
        return [Computed("row", {"score": 1.0}, elapsed_s, stages=stages)]

    fit, cold_fit, table = StageTime("fit", 2.0, False), StageTime("fit", 5.0, True), StageTime("table", 3.0, True)
    times = PilotTimes({"table": (20, 2), "fit": (20, 20)}, jobs=10)
    assert times.job_seconds() is None, "nothing has finished"
    times.taken.append([Computed("row", error="it broke", stages=(fit,))])
    assert times.job_seconds() is None
    times.taken.extend([job(8.5, table, cold_fit), job(2.5, fit)])
    assert times.job_seconds() == pytest.approx(0.5 + 2.0 + 3.0 * 2 / 10)


def test_few_jobs_of_a_pilot_count_although_as_few_of_a_run_do_not(sweeps: Sweeps) -> None:
    sweeps.session(assets=["A"], folds=1).run_pilot("trial")
    assert sweeps.session(assets=["A"], folds=1).plan_sweep("trial").measured


def test_a_pilot_ends_in_time_and_says_what_it_left_out(sweeps: Sweeps) -> None:
    sweeps.rewrite('    note(f"fitted', '    import time; time.sleep(3600.0); note(f"fitted')
    pilot = sweeps.session().run_pilot("trial")
    assert not pilot.complete and pilot.computed == 0 and len(pilot.missing) == 12
    assert not sweeps.session().plan_sweep("trial").measured


def test_a_pilot_in_which_everything_fails_is_refused_with_the_reason(sweeps: Sweeps) -> None:
    sweeps.rewrite('    note(f"fitted', "    raise ValueError('no data'); note(f\"fitted")
    with pytest.raises(PilotError, match="ValueError: no data"):
        sweeps.session().run_pilot("trial")


def test_nothing_is_started_where_all_rows_of_a_pilot_are_there(sweeps: Sweeps) -> None:
    sweeps.run()
    runs = sweeps.project.runs()
    assert sweeps.session().run_pilot("trial").computed == 0
    assert sweeps.project.runs() == runs


def test_a_plan_runs_its_pilot_first_and_says_what_it_measured(sweeps: Sweeps, call: Call, project: Project) -> None:
    sweeps.session(run_minutes=28)  # writes the manifest
    manifest = str(project.folder / "scalable.yaml")
    shown = call("plan", manifest, "--sweep", "trial", "--pilot", "--format", "json")
    assert shown.status == 0 and shown.json["measured"] and "pilot: 6 jobs" in shown.json["assumptions"][0]
    assert "pilot of trial: 12 rows measured" in shown.err


def test_a_pilot_of_a_sweep_that_is_not_there_is_refused(sweeps: Sweeps, call: Call, project: Project) -> None:
    sweeps.session()
    refused = call("plan", str(project.folder / "scalable.yaml"), "--sweep", "trail", "--pilot")
    assert refused.status == 2 and "sweep 'trail' is not defined; known: trial" in refused.err


def test_a_pilot_of_tasks_is_refused(call: Call) -> None:
    assert call("init", "--template", "hpc").status == 0
    refused = call("run", "--pilot", "--task", "simulate")
    assert refused.status == 2 and "--pilot is about a sweep" in refused.err
