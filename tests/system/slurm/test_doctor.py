"""``scalable doctor`` asks a real Slurm about a target and submits nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalable.cli.main import main
from scalable.doctor import slurm as asking
from tests.tools.slurm import PrivateSlurm

MANIFEST = """
version: 1
project: {{name: lab}}
targets: {{hpc: {{provider: slurm, queue: {queue}, walltime: "00:30:00", max_workers: 2}}}}
components:
  small: {{cpus: 2, memory: 1GiB}}
  large: {{cpus: {cpus}{image}}}
"""
Doctor = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Checks by name of a target with these changes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCALABLE_TARGET", raising=False)

    def examine(queue: str = "main", cpus: int = 2, image: str = "", more: str = "") -> dict[str, dict[str, Any]]:
        Path("scalable.yaml").write_text(MANIFEST.format(queue=queue, cpus=cpus, image=image) + more)
        capsys.readouterr()
        status = main(["doctor", "--format", "json"])
        answer = json.loads(capsys.readouterr().out)
        assert answer["ok"] is (status == 0)
        return {f"{check['name']} {check['path']}".strip(): check for check in answer["checks"]}

    return examine


def test_a_good_target_passes_and_nothing_is_submitted(slurm: PrivateSlurm, doctor: Doctor) -> None:
    before = slurm.jobs()
    checks = doctor()
    assert {check["status"] for check in checks.values()} == {"ok"}, checks
    assert checks["Slurm"]["text"].endswith(" is UP")
    assert checks["queue"]["text"] == "main: 4 nodes, 4 idle, no time limit"
    assert checks["job components.small"]["message"].startswith("Slurm would take it (2 CPUs, 1 GiB), expected at ")
    assert checks["nodes"]["text"] == "4 nodes, all on this machine"
    assert slurm.jobs() == before


def test_a_component_that_no_node_can_hold_fails_with_what_nodes_have(slurm: PrivateSlurm, doctor: Doctor) -> None:
    check = doctor(cpus=64)["job components.large"]
    assert check["status"] == "fail"
    assert check["message"].startswith("Slurm would refuse it (64 CPUs): ")
    assert check["remedy"] == ("lower components.large.cpus or memory; the largest nodes have 4 CPUs and 4000 MB")
    assert not slurm.living()


def test_slurm_is_asked_for_the_profiles_that_sweeps_take_and_not_for_others(
    slurm: PrivateSlurm, doctor: Doctor
) -> None:
    Path("steps.py").write_text("def depth(cell): ...\n")
    sweep = 'sweeps: {own: {factor: depth, variants: [1, 2], assets: [a], run: "steps:depth", run_minutes: 1}}\n'
    sizes = "profiles: {standard: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 2, memory: 2GiB}}}\n"
    checks = doctor(more=sweep + sizes)
    assert checks["job profiles.standard.limit"]["status"] == "ok"
    assert "job profiles.heavy.limit" not in checks, "no node here could hold one, and nothing needs one"
    refused = doctor(more=sweep + sizes.replace("cpu: 2", "cpu: 64"))["job profiles.standard.limit"]
    assert refused["remedy"].startswith("lower profiles.standard.limit.cpu or memory; ")


def test_a_queue_that_does_not_exist_fails_with_those_that_do(slurm: PrivateSlurm, doctor: Doctor) -> None:
    check = doctor(queue="mian")["queue"]
    assert check["text"] == "queue 'mian' is not defined; known: main"
    assert check["remedy"] == "write main"


def test_a_walltime_over_the_limit_of_the_queue_and_a_queue_that_is_down_fail(
    slurm: PrivateSlurm, doctor: Doctor
) -> None:
    try:
        slurm.run("scontrol", "update", "partition=main", "MaxTime=10", "State=DOWN")
        checks = doctor()
    finally:
        slurm.run("scontrol", "update", "partition=main", "MaxTime=INFINITE", "State=UP")
    assert checks["queue"]["text"] == "main: 4 nodes, 4 idle, time limit 10:00, but it is down"
    assert checks["walltime"]["text"] == "00:30:00 is longer than queue main allows, 10:00"
    assert checks["walltime"]["remedy"] == 'write walltime: "00:10:00" or less'


def test_an_image_that_is_missing_or_broken_fails(slurm: PrivateSlurm, doctor: Doctor, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sif"
    broken.write_bytes(b"cut off")
    assert doctor(image=f", image: {tmp_path}/none.sif")["image components.large.image"]["message"].endswith(
        "No such file or directory"
    )
    assert doctor(image=f", image: {broken}")["image components.large.image"]["message"] == f"{broken} is no SIF image"


def test_a_controller_that_does_not_answer_fails_soon(
    slurm: PrivateSlurm, doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Path(slurm.env["SLURM_CONF"]).read_text()
    port = next(line for line in settings.splitlines() if line.startswith("SlurmctldPort="))
    (tmp_path / "slurm.conf").write_text(settings.replace(port, "SlurmctldPort=1"))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setattr(asking, "ANSWER_WITHIN_S", 1.0)
    checks = doctor()
    assert checks["Slurm"]["status"] == "fail"
    assert checks["Slurm"]["text"].startswith("the controller does not answer: ")
    assert "queue" not in checks


def test_a_maintenance_window_that_jobs_would_reach_into_is_told(slurm: PrivateSlurm, doctor: Doctor) -> None:
    slurm.run(
        "scontrol", "create", "reservation", "reservationname=upgrade", "starttime=now+20minutes",
        "duration=120", "flags=maint,ignore_jobs", "nodes=ALL", "users=root",
    )  # fmt: skip
    try:
        check = doctor()["maintenance"]
        assert check["status"] == "warn"
        assert "maintenance of 4 nodes (upgrade) from " in check["message"]
        assert "jobs of 00:30:00 would reach into it and start only after it" in check["message"]
        assert check["remedy"] == 'write walltime: "00:19:00" or less to run before it'
        slurm.run("scontrol", "update", "reservation=upgrade", "starttime=now+40minutes")
        assert "maintenance" not in doctor()
    finally:
        slurm.run("scontrol", "delete", "reservation=upgrade")
