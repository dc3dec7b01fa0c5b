"""A crash in a worker with several slots: the signal, the task and the place are named, and neighbours run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.cluster.client import WorkerKilledError
from scalable.engine.events import Loss
from tests.helpers.slurm.helpers import WITHIN_S, made
from tests.helpers.slurm.work import crashing, waiting
from tests.helpers.waiting import eventually
from tests.tools.slurm import PrivateSlurm


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    return tmp_path


def test_a_crash_is_named_and_costs_its_neighbours_nothing(slurm: PrivateSlurm, project: Path) -> None:
    with made(allowed_failures=0) as it:
        it.cluster.add_container(tag="wide", cpus=2, memory="800M", slots=3)
        it.cluster.add_workers(1, "wide")
        neighbours = it.client.map(waiting(), [project / "one" / "told", project / "two" / "told"], tag="wide")
        eventually(lambda: len(list(project.glob("*/running-*"))) == 2, lambda: str(it.told), WITHIN_S)
        crash = it.client.submit(crashing(), tag="wide")
        with pytest.raises(
            WorkerKilledError, match=r"job \d+ on \S+ crashed with SIGSEGV \(segmentation fault\)"
        ) as told:
            crash.result(WITHIN_S)
        assert "in string_at (ctypes/__init__.py:" in str(told.value)
        assert f"task {crash.key}" in str(told.value)
        (lost,) = it.wait_for("worker-lost")
        assert lost["cause"] == Loss.WORKER_CRASHED.value
        for folder in ("one", "two"):
            (project / folder / "told").touch()
        assert it.client.gather(neighbours) == ["told", "told"], "no retry is allowed, and none of them needed one"
