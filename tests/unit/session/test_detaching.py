"""Detached drivers without any cluster: what is handed to sbatch, what is recorded, and what a signal leads to."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scalable.cli import drivers
from scalable.errors import ScalableError, UsageError
from scalable.manifest import ManifestError, load_text
from scalable.manifest.targets import SlurmTarget
from scalable.observe.drivers import PROCESS, SLURM, DriverFolder, driver_of, waiting
from scalable.observe.folders import RunFolder
from scalable.session.operate import detaching
from scalable.session.operate.detaching import (
    VARIABLE,
    HandedOver,
    command_of,
    driver_script,
    driving,
    hand_in,
    own_folder,
    unit_command,
)

TARGET = """
version: 1
project: {name: lab}
targets: {hpc: {provider: slurm, queue: batch, account: GCIMS, driver: {%s}}}
"""


def a_target(driver: str = "") -> SlurmTarget:
    target = load_text(TARGET % driver, env={}, target="hpc").manifest.targets["hpc"]
    assert isinstance(target, SlurmTarget)
    return target


@pytest.fixture
def folder(tmp_path: Path) -> DriverFolder:
    made = DriverFolder.create(tmp_path / ".scalable/runs")
    made.write(command=["python", "-m", "scalable", "run"], cwd=str(tmp_path), project="lab")
    return made


def directives(text: str) -> set[str]:
    return {line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")}


def test_a_driver_is_a_small_job_that_hears_of_its_end(folder: DriverFolder) -> None:
    text = driver_script(folder, a_target(), ["python", "-m", "scalable", "run"], "/work", "lab")
    asked = directives(text)
    assert {"--partition=batch", "--account=GCIMS", "--cpus-per-task=1", "--mem=2048M", "--requeue"} <= asked
    assert "--signal=B:USR1@120" in asked
    assert f"--output={folder.log}" in asked
    assert not any(option.startswith(("--time", "--dependency")) for option in asked)
    assert text.splitlines()[-1] == "exec python -m scalable run"


def test_the_manifest_says_how_large_a_driver_is_and_a_successor_waits_for_the_one_before(folder: DriverFolder) -> None:
    target = a_target("partition: long, walltime: '2-00:00:00', memory: 1GiB, grace: 5m, sbatch: [--qos=long]")
    asked = directives(driver_script(folder, target, ["x"], "/work", "lab", after="17"))
    assert {"--partition=long", "--time=2-00:00:00", "--mem=1024M", "--signal=B:USR1@300", "--qos=long"} <= asked
    assert "--dependency=afterany:17" in asked


@pytest.mark.parametrize(
    ("driver", "path", "remedy"),
    [
        ("walltime: tomorrow", "targets.hpc.driver.walltime", "HH:MM:SS"),
        ("walltime: '00:02:00', grace: 5m", "targets.hpc.driver.grace", "longer walltime"),
        ("cpus: 0", "targets.hpc.driver.cpus", "cpus: 4"),
        ("memory: lots", "targets.hpc.driver.memory", "8GiB"),
        ("queue: long", "targets.hpc.driver.queue", ""),
    ],
)
def test_wrong_input_is_answered_with_what_to_write(driver: str, path: str, remedy: str) -> None:
    with pytest.raises(ManifestError) as refused:
        a_target(driver)
    (finding,) = refused.value.report.errors
    assert finding.path == path
    assert remedy in finding.remedy


def test_what_is_done_once_is_not_done_again_by_the_driver() -> None:
    assert command_of(["run", "--pilot", "--sweep", "depth", "--detach"])[-3:] == ["run", "--sweep", "depth"]


def test_only_the_driver_itself_is_taken_for_one(folder: DriverFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(folder.path))
    assert own_folder() == folder
    assert VARIABLE not in os.environ, "what it starts is no driver"
    assert own_folder() is None
    assert folder.alive


def test_a_refusal_of_sbatch_is_told_and_leaves_nothing_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = subprocess.CompletedProcess[str]([], 1, "", "sbatch: error: Invalid partition name specified\n")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refusal)
    with pytest.raises(ScalableError, match="Invalid partition name"):
        detaching.detach(["run"], a_target(), "lab", tmp_path / ".scalable/runs")
    assert waiting(tmp_path / ".scalable/runs") == []


def test_without_sbatch_it_is_said_where_to_run_this(folder: DriverFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UsageError, match="login node"):
        hand_in(folder, a_target())


def test_a_unit_gets_variables_by_name_so_that_no_value_is_in_a_command_line(folder: DriverFolder) -> None:
    command = unit_command(folder, "scalable-x", {"TOKEN": "secret"})
    assert "--setenv=TOKEN" in command
    assert not any("secret" in word for word in command)
    assert command[command.index("--") + 1 :] == ["python", "-m", "scalable", "run"]


def test_a_driver_is_in_the_record_of_its_run_and_its_output_among_the_logs(folder: DriverFolder) -> None:
    folder.write(kind=SLURM, job="17")
    run = RunFolder.create("lab", folder.path.parents[1] / "runs")
    folder.log.write_text("hello\n")
    run.write_run({"driver": folder.drives(run)})
    assert driver_of(run)["job"] == "17"
    assert (run.logs / "driver.log").read_text() == "hello\n"
    assert waiting(run.path.parent) == [], "it has its run"


def test_the_state_of_a_driver_is_what_slurm_says_of_its_job(
    folder: DriverFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(kind=SLURM, job="17")
    said = {"out": "PENDING|Resources|\n"}
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(drivers, "run", lambda command: SimpleNamespace(returncode=0, stdout=said["out"], stderr=""))
    assert drivers.place(folder) == "job 17 waits for free nodes (Resources)"
    said["out"] = "RUNNING|None|n3\n"
    assert drivers.place(folder) == "job 17 running on n3"
    said["out"] = ""
    assert drivers.place(folder) == "job 17 is gone"
    assert not drivers.is_there(folder)


class Session:
    """A session that is not running yet: there is nothing to wait for."""

    driver = None
    detached: Any = None


def test_at_its_signal_a_driver_hands_in_a_successor_and_ends(
    folder: DriverFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = a_target().model_dump(mode="json", include=detaching.KEPT, exclude_none=True)
    folder.write(kind=SLURM, job="17", target=target)
    handed: list[tuple[DriverFolder, str]] = []

    def accept(following: DriverFolder, target: SlurmTarget, after: str = "") -> None:
        handed.append((following, after))
        following.write(kind=SLURM, job="18")

    monkeypatch.setattr(detaching, "hand_in", accept)
    told: list[str] = []
    with pytest.raises(HandedOver), driving(folder, cast(Any, Session()), told.append):
        signal.raise_signal(signal.SIGUSR1)
        signal.sigtimedwait([], 30)  # ended by the second signal, which the driver sends itself
    ((following, after),) = handed
    assert after == "17"
    assert following.facts()["before"] == folder.id
    assert folder.facts()["successor"] == following.id
    assert folder.over
    assert "job 18" in told[0]


def test_a_driver_that_fails_says_so_in_its_record(folder: DriverFolder) -> None:
    with pytest.raises(ScalableError), driving(folder, cast(Any, Session()), print):
        raise ScalableError("no such sweep")
    assert folder.facts()["failed"] == "no such sweep"


def test_a_process_that_ended_at_once_is_told_of_with_what_it_printed(folder: DriverFolder) -> None:
    folder.write(kind=PROCESS)
    folder.log.write_text("no sweep is called depht\n")
    folder.ended("no sweep is called depht")
    with pytest.raises(ScalableError, match="ended at once: no sweep is called depht"):
        drivers.show_driver(folder, "text")


def test_a_process_that_had_nothing_to_do_ended_well(folder: DriverFolder, capsys: pytest.CaptureFixture[str]) -> None:
    folder.write(kind=PROCESS)
    folder.ended()
    drivers.show_driver(folder, "text")
    assert folder.id in capsys.readouterr().out
