"""A driver in a session of its own, where there is no batch system: it outlives the shell that started it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scalable.observe.drivers import PROCESS, DriverFolder
from scalable.observe.folders import RunFolder
from scalable.observe.liveness import state_now
from tests.helpers.settings import remove_settings
from tests.helpers.waiting import eventually

WITHIN_S = 120.0  # a hang is longer than anything a busy machine needs
MANIFEST = {
    "version": 1,
    "project": {"name": "lab"},
    "targets": {"here": {"provider": "local", "max_workers": 1, "processes": True}},
    "components": {"small": {}},
    "tasks": {"count": {"component": "small", "run": "lab:count"}},
}
CODE = """
import time
from pathlib import Path


def count():
    while not Path(__file__).with_name("go-on").exists():
        time.sleep(0.05)
    return 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    remove_settings(monkeypatch)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/nowhere")  # neither systemd nor Slurm
    (tmp_path / "scalable.yaml").write_text(yaml.safe_dump(MANIFEST))
    (tmp_path / "lab.py").write_text(CODE)
    return tmp_path


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scalable", *words]
    return subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False)


def test_a_detached_driver_outlives_its_shell_is_found_and_leaves_its_results(folder: Path) -> None:
    command = f"{sys.executable} -m scalable run --detach --format json > started.json; kill -KILL -- -$$"
    subprocess.run(["/usr/bin/setsid", "--wait", "/bin/bash", "-c", command], cwd=folder, check=False)
    started = json.loads((folder / "started.json").read_text())
    driver = DriverFolder.find(started["driver"], folder / ".scalable/runs")
    assert started["kind"] == PROCESS
    eventually(lambda: driver.run_id, lambda: f"a run: {driver.log.read_text()}", WITHIN_S)
    status = json.loads(call(folder, "status", "--format", "json").stdout)
    assert status["running"] == [driver.run_id]
    assert status["run"]["driver"]["id"] == driver.id
    (folder / "go-on").touch()
    eventually(lambda: driver.over, lambda: f"its end: {driver.log.read_text()}", WITHIN_S)
    assert state_now(RunFolder.open(driver.run_id, folder / ".scalable/runs")).value == "ok"
    assert '"count": 5' in call(folder, "logs", "--driver").stdout
