"""Tasks whose workers cannot be had fail with the reason instead of waiting for ever; on real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from scalable import ScalableSession
from scalable.cluster import replacing
from scalable.cluster.base import WorkerTemplate
from scalable.cluster.client import ScalableClient
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.giving_up import NoWorkerError
from scalable.cluster.processes import ProcessLauncher
from scalable.engine import fleet
from scalable.observe.reading import read
from tests.helpers.waiting import LONG_S, until

MANIFEST = """
version: 1
project: {name: fragile}
targets:
  here: {provider: local, max_workers: 2, processes: true}
components:
  model: {preload_script: setup.py}
  other: {}
"""
BROKEN = "raise ImportError('the licence server is gone')\n"


@pytest.fixture(autouse=True)
def hardly_a_pause_between_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (fleet, replacing):
        monkeypatch.setattr(module, "START_DELAY_S", 0.05)


def test_after_the_workers_cannot_start_any_more_what_waits_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    setup = tmp_path / "setup.py"
    setup.write_text("")
    (tmp_path / "scalable.yaml").write_text(MANIFEST.replace("setup.py", str(setup)))
    session = ScalableSession.from_yaml()
    with session as client:
        victim = client.submit(os.getpid, tag="model").result(timeout=LONG_S)
        setup.write_text(BROKEN)
        os.kill(victim, signal.SIGKILL)
        pending = client.submit(abs, -1, tag="model")
        dependent = client.submit(abs, pending, tag="other")
        with pytest.raises(NoWorkerError, match=r"no model worker can be had: .*the licence server is gone"):
            pending.result(timeout=LONG_S)
        with pytest.raises(NoWorkerError):
            dependent.result(timeout=LONG_S)
        assert client.submit(abs, -2, tag="other").result(timeout=LONG_S) == 2, "others are not concerned"

        setup.write_text("")
        again = client.submit(abs, -3, tag="model")
        assert again.result(timeout=LONG_S) == 3, "what comes later is tried anew"
    assert session.run is not None
    told = [one for one in read(session.run.journal) if one["kind"] == "task" and one["status"] == "failed"]
    assert [one["tag"] for one in told] == ["model"]
    assert "the licence server is gone" in told[0]["error"]


@pytest.mark.parametrize("processes", ["true", "false"])
def test_a_worker_that_never_could_start_fails_its_task_within_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "setup.py").write_text(BROKEN)
    (tmp_path / "scalable.yaml").write_text(
        f"version: 1\nproject: {{name: broken}}\ncomponents: {{model: {{preload_script: {tmp_path / 'setup.py'}}}}}\n"
        f"targets: {{here: {{provider: local, processes: {processes}, adaptive: {{minimum: 0, maximum: 1}}}}}}\n"
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
