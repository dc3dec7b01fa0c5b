"""A driver that is a batch job: it outlives its shell, is found and stopped, and hands over to a successor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalable.observe.drivers import DriverFolder
from scalable.observe.folders import RunFolder
from scalable.observe.liveness import state_now
from tests.helpers.settings import remove_settings
from tests.helpers.slurm.detached import LONG_S, Lab, finished
from tests.helpers.slurm.helpers import WITHIN_S
from tests.helpers.waiting import eventually
from tests.tools.slurm import PrivateSlurm


@pytest.fixture
def lab(slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    remove_settings(monkeypatch)
    return Lab(tmp_path)


def test_a_detached_driver_outlives_its_shell_and_its_results_are_there(slurm: PrivateSlurm, lab: Lab) -> None:
    driver = lab.detach()
    lab.wait_until("first begins")
    status = lab.status()
    assert status["running"] == [driver.run_id]
    assert status["run"]["driver"] == {"id": driver.id, "kind": "slurm", "job": driver.job, "unit": None}
    assert status["run"]["hours"]["per_hour"]["core-hours"] == 1
    lab.go_on()
    finished(driver)
    run = RunFolder.open(driver.run_id, lab.folder / ".scalable/runs")
    assert state_now(run).value == "ok"
    assert lab.noted() == ["first begins", "first ends", "second"]
    assert "second" in lab.call("logs", "--driver")
    assert 0 < json.loads(lab.call("report", "--format", "json"))["hours"]["used"]["core-hours"] < 1
    eventually(lambda: not slurm.living(), lambda: f"{slurm.living()} to be gone", WITHIN_S)


def test_a_detached_driver_is_stopped_from_another_shell(slurm: PrivateSlurm, lab: Lab) -> None:
    driver = lab.detach()
    lab.wait_until("first begins")
    lab.call("stop", "--yes")
    finished(driver)
    run = RunFolder.open(driver.run_id, lab.folder / ".scalable/runs")
    assert state_now(run).value == "interrupted"
    assert len(DriverFolder.all(lab.folder / ".scalable/runs")) == 1, "who is stopped has no successor"
    eventually(lambda: not slurm.living(), lambda: f"{slurm.living()} to be gone", WITHIN_S)


def test_a_driver_that_waits_in_the_queue_is_shown_and_taken_back(slurm: PrivateSlurm, lab: Lab) -> None:
    slurm.run("scontrol", "update", "partitionname=main", "state=down")
    try:
        driver = lab.detach()
        assert [entry["job"] for entry in lab.status()["drivers"]] == [driver.job]
        assert driver.job in lab.call("status")
        lab.call("stop", driver.id, "--yes")
        assert lab.status()["drivers"] == []
    finally:
        slurm.run("scontrol", "update", "partitionname=main", "state=up")
    eventually(lambda: not slurm.living(), lambda: f"{slurm.living()} to be gone", WITHIN_S)


def test_at_the_end_of_its_walltime_a_driver_hands_over_and_what_runs_may_finish(slurm: PrivateSlurm, lab: Lab) -> None:
    driver = lab.detach()
    lab.wait_until("first begins")
    slurm.run("scontrol", "update", f"jobid={driver.job}", "timelimit=4")  # less than the grace: the signal is due
    eventually(lambda: driver.facts().get("successor"), lambda: f"a successor: {driver.log.read_text()}", LONG_S)
    lab.go_on()
    finished(driver)
    successor = DriverFolder.find(driver.facts()["successor"], lab.folder / ".scalable/runs")
    finished(successor)
    assert successor.job != driver.job
    assert lab.noted() == ["first begins", "first ends", "second"], "the job in flight finished; nothing ran twice"
    runs = [RunFolder.open(each.run_id, lab.folder / ".scalable/runs") for each in (driver, successor)]
    assert [state_now(run).value for run in runs] == ["interrupted", "ok"]
    eventually(lambda: not slurm.living(), lambda: f"{slurm.living()} to be gone", WITHIN_S)
