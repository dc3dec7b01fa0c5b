"""What a session says by itself while it runs, on real processes; and what it says only once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scalable import ScalableSession
from scalable.cluster.base import WorkerTemplate
from scalable.cluster.client import ScalableClient
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.diagnosis import LIMITS, Limits
from scalable.cluster.diagnosis.pulse import LOOP_BLOCKED
from scalable.cluster.diagnosis.watching import OVER_AFTER_S
from scalable.cluster.processes import ProcessLauncher
from scalable.findings import Finding, Severity
from scalable.session.diagnosis import SessionObserver
from tests.helpers.session.diagnosis import told
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
    assert until(lambda: any(one.code == code for one in observer.watch.current))
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
        assert until(lambda: not any(one.code == "workers-silent" for one in observer.watch.current))
    assert told(session, "workers-silent")[0] == "finding"
    assert told(session, "workers-silent")[-1] == "finding-over"
    assert caplog.text.count(finding.message) == 1


def test_tasks_at_the_maximum_are_told_with_what_to_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_session(tmp_path, monkeypatch, "max_workers: 1") as (_, client, observer):
        futures = client.map(time.sleep, [0.5] * 20, tag="model", pure=False)
        finding = found(observer, "workers-full")
        assert finding.message.startswith("the only model worker is busy: 1 tasks run, ")
        assert finding.message.endswith(" wait, and 1 is the most allowed")
        assert finding.remedy == "to go faster, raise max_workers of the target, or call session.scale({'model': 2})"
        del futures


def test_a_worker_kept_by_the_minimum_is_told_and_work_withdraws_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_session(tmp_path, monkeypatch, "adaptive: {minimum: 1, maximum: 2}, cpu_price: 0.5 EUR/h") as (
        session,
        client,
        observer,
    ):
        finding = found(observer, "idle-workers")
        assert finding.message.startswith("1 model worker idle for ")
        assert finding.message.endswith(", kept by a minimum of 1, at EUR 0.50 an hour each")
        assert finding.remedy == "lower adaptive.minimum of the target"
        future = client.submit(time.sleep, OVER_AFTER_S + 2, tag="model")
        assert until(lambda: not any(one.code == "idle-workers" for one in observer.watch.current))
        future.result(timeout=LONG_S)
    assert told(session, "idle-workers")[:2] == ["finding", "finding-over"]


def test_a_worker_that_cannot_start_is_explained_once_however_often_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import nowhere\n")
    target = "adaptive: {minimum: 0, maximum: 1}"
    with a_session(tmp_path, monkeypatch, target, f"{{preload_script: {broken}}}") as (_, client, observer):
        future = client.submit(abs, -1, tag="model")
        finding = found(observer, "cannot-start")
        assert "No module named 'nowhere'" in finding.message
        assert finding.severity is Severity.ERROR
        with pytest.raises(Exception, match="No module named 'nowhere'"):
            future.result(timeout=LONG_S)
    assert caplog.text.count("did not come") == 1
    assert "refused" not in caplog.text, "the alert is in the journal only"


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with a_session(tmp_path, monkeypatch, "max_workers: 1") as (session, _, observer):
        over = threading.Event()
        assert observer.cluster.loop is not None
        observer.cluster.loop.add_callback(block, over)
        try:
            finding = found(observer, LOOP_BLOCKED)
        finally:
            over.set()
        assert " in block (test_diagnosis.py:" in finding.message
        assert until(lambda: not any(one.code == LOOP_BLOCKED for one in observer.watch.current))
    assert told(session, LOOP_BLOCKED) == ["finding", "finding-over"]


def test_a_session_goes_on_if_its_diagnosis_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(now: float) -> Any:
        raise ZeroDivisionError

    with a_session(tmp_path, monkeypatch, "max_workers: 1") as (_, client, observer):
        monkeypatch.setattr(observer, "snapshot", fails)
        assert until(lambda: "the diagnosis of this session stopped; the session goes on" in caplog.text)
        assert client.submit(abs, -1, tag="model").result(timeout=LONG_S) == 1
    assert caplog.text.count("the diagnosis of this session stopped") == 1


def block(over: threading.Event) -> None:
    while not over.is_set():
        time.sleep(0.1)
