"""Tasks whose workers cannot be had fail with the reason instead of waiting for ever; on real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from scalable import ScalableSession
from scalable.cluster import workers
from scalable.cluster.base import WorkerTemplate
from scalable.cluster.client import ScalableClient
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.local import ProcessLauncher
from scalable.cluster.scheduler import NoWorkerError
from scalable.engine import fleet
from tests.helpers.waiting import LONG_S, until

BROKEN = "raise ImportError('the licence server is gone')\n"


@pytest.fixture(autouse=True)
def hardly_a_pause_between_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (fleet, workers):
        monkeypatch.setattr(module, "START_DELAY_S", 0.05)


def test_a_worker_that_never_could_start_fails_its_task_within_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "setup.py").write_text(BROKEN)
    (tmp_path / "scalable.yaml").write_text(
        f"version: 1\nproject: {{name: broken}}\ncomponents: {{model: {{preload_script: {tmp_path / 'setup.py'}}}}}\n"
        "targets: {here: {provider: local, processes: true, adaptive: {minimum: 0, maximum: 1}}}\n"
    )
    with ScalableSession.from_yaml() as client, pytest.raises(NoWorkerError, match="the licence server is gone"):
        client.submit(abs, -1, tag="model").result(timeout=LONG_S)


def test_a_cluster_without_a_session_gives_tasks_up_too(tmp_path: Path) -> None:
    setup = tmp_path / "setup.py"
    setup.write_text("")
    kind = WorkerTemplate("model", preload_script=str(setup))
    cluster = TaggedCluster(ProcessLauncher(str(tmp_path)), [kind], scheduler={"host": "127.0.0.1"})
    with cluster, ScalableClient(cluster) as client:
        cluster.add_workers(1, "model")
        victim = client.submit(os.getpid, tag="model").result(timeout=LONG_S)
        setup.write_text(BROKEN)
        os.kill(victim, signal.SIGKILL)
        assert until(lambda: not cluster.worker_count("model"))
        with pytest.raises(NoWorkerError, match="the licence server is gone"):
            client.submit(abs, -1, tag="model").result(timeout=LONG_S)
