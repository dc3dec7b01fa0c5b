"""Workers inside a real Apptainer image."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from scalable.engine.events import Loss
from tests.helpers.slurm.helpers import SMALL, WITHIN_S, made
from tests.helpers.slurm.work import waiting
from tests.helpers.waiting import eventually
from tests.tools.apptainer import environment_folders
from tests.tools.apptainer.image import MARKER
from tests.tools.slurm import PrivateSlurm


def test_a_worker_computes_inside_its_image_and_heeds_notice_there(
    slurm: PrivateSlurm, apptainer: Path, sif: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("ANSWER = 42\n")
    (tmp_path / "an odd:name, really").mkdir()
    (tmp_path / "an odd:name, really" / "data").write_text("found")
    mounts = {str(folder): str(folder) for folder in environment_folders()}
    mounts[str(tmp_path / "an odd:name, really")] = "/data, mounted"
    with made(python=sys.executable) as it:
        it.cluster.add_container(
            tag="inside", memory=SMALL, path=str(sif), dirs=mounts, env={"GREETING": "hello there"}
        )
        it.cluster.add_workers(1, "inside")

        def look() -> tuple[bool, str, str, int]:
            answer = importlib.import_module("model").ANSWER
            mounted = Path("/data, mounted/data").read_text()
            return Path("/etc", MARKER).exists(), mounted, os.environ["GREETING"], answer

        assert it.client.submit(look, tag="inside").result(WITHIN_S) == (True, "found", "hello there", 42)
        assert not Path("/etc", MARKER).exists()
        future = it.client.submit(waiting(), tmp_path / "told", tag="inside")
        eventually(lambda: list(tmp_path.glob("running-*")), lambda: "the task to run")
        (job,) = it.jobs()
        slurm.run("scancel", "--batch", "--signal=TERM", str(job))  # as the notice before the walltime
        it.wait_for("worker-leaving")
        (tmp_path / "told").touch()
        assert future.result(WITHIN_S) == "told"
        assert it.wait_for("worker-lost")[0]["cause"] == Loss.PREEMPTED.value
        assert len(list(tmp_path.glob("running-*"))) == 1
