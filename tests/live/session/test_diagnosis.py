"""What a session says by itself while it runs, on real processes; and what it says only once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalable import ScalableSession
from scalable.cluster.base import WorkerTemplate
from scalable.cluster.client import ScalableClient
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.diagnosis import LIMITS, Limits
from scalable.cluster.diagnosis.watching import LOOP_BLOCKED
from scalable.cluster.local import ProcessLauncher
from scalable.findings import Finding
from scalable.session.driver.diagnosis import SessionObserver
from tests.helpers.session.diagnosis import findings
from tests.helpers.waiting import LONG_S, until

AT_ONCE = Limits(queued=0.5, silent=0.5, unasked=0.5, waiting=0.5, full=0.5, idle=0.5, cold_start=0.1)


@contextmanager
def a_session(
    folder: Path, monkeypatch: pytest.MonkeyPatch, target: str, component: str = "{}"
) -> Iterator[tuple[ScalableSession, ScalableClient, SessionObserver]]:
    """Impatient: what is worth a word after minutes is so after half a second."""
    monkeypatch.chdir(folder)
    (folder / "scalable.yaml").write_text(
        f"version: 1\nproject: {{name: why}}\ncomponents: {{model: {component}}}\n"
        f"targets: {{here: {{provider: local, processes: true, {target}}}}}\n"
    )
    session = ScalableSession.from_yaml()
    with session as client:
        assert session.driver is not None
        observer = session.driver.on_look
        assert isinstance(observer, SessionObserver)
        observer.limits = AT_ONCE
        yield session, client, observer


def found(observer: SessionObserver, code: str) -> Finding:
    """Wait until it is said."""
    assert until(lambda: code in codes(observer))
    return next(one for one in observer.watch.current if one.code == code)


def test_a_worker_whose_preload_sleeps_is_told_and_then_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import pathlib, time\nprint('waiting for the licence', flush=True)\n"
        f"while not pathlib.Path({str(tmp_path)!r}, 'licence').exists():\n    time.sleep(0.1)\n"
    )
    target = "adaptive: {minimum: 0, maximum: 1}"
    with a_session(tmp_path, monkeypatch, target, f"{{preload_script: {slow}}}") as (session, client, observer):
        observer.limits = LIMITS
        future = client.submit(abs, -1, tag="model")
        assert until(lambda: any("licence" in log.read_text() for log in session.folder.logs.iterdir()))
        observer.limits = AT_ONCE
        finding = found(observer, "workers-silent")
        assert finding.message.startswith("model-0 (process ")
        assert f"not connected to the scheduler at {observer.cluster.scheduler_address}" in finding.message
        assert "; 1 task waits" in finding.message
        assert finding.remedy == "see what its preload_script does:  scalable logs model-0"
        assert "its log ends: waiting for the licence" in finding.message
        (tmp_path / "licence").touch()
        assert future.result(timeout=LONG_S) == 1
        assert until(lambda: "workers-silent" not in codes(observer))
    assert findings(session, "workers-silent")[0]["kind"] == "finding"
    assert findings(session, "workers-silent")[-1]["kind"] == "finding-over"
    assert caplog.text.count(finding.message) == 1


def test_a_cluster_without_workers_says_what_to_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    launcher = ProcessLauncher(str(tmp_path))
    cluster = TaggedCluster(launcher, [WorkerTemplate("model")], scheduler={"host": "127.0.0.1"})
    with cluster, ScalableClient(cluster) as client:
        future = client.submit(abs, -1, tag="model")
        assert until(lambda: "1 task waits for model workers, and none was asked for" in caplog.text)
        assert "call add_workers(n, 'model')" in caplog.text
        cluster.add_workers(1, "model")
        assert future.result(timeout=LONG_S) == 1


def test_a_blocked_event_loop_is_told_while_it_is_blocked_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loaded machine may hold the loop up elsewhere, too: only what is told of ``block`` counts."""
    with a_session(tmp_path, monkeypatch, "max_workers: 1") as (session, _, observer):
        over = threading.Event()
        assert observer.cluster.loop is not None
        assert until(lambda: LOOP_BLOCKED not in codes(observer))
        observer.cluster.loop.add_callback(block, over, observer)
        try:
            finding = found(observer, LOOP_BLOCKED)
        finally:
            over.set()
        assert IN_BLOCK in finding.message
        assert until(lambda: LOOP_BLOCKED not in codes(observer))
    assert [one["kind"] for one in findings(session, LOOP_BLOCKED) if IN_BLOCK in one["text"]] == [
        "finding",
        "finding-over",
    ]


IN_BLOCK = " in block (test_diagnosis.py:"


def block(over: threading.Event, observer: SessionObserver) -> None:
    observer.pulse.beat()  # whatever held the loop up before, from now on it is this
    while not over.is_set():
        time.sleep(0.1)


def codes(observer: SessionObserver) -> set[str]:
    return {one.code for one in observer.watch.current}
