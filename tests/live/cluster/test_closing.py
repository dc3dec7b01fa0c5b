"""A cluster that is closed leaves no scheduler, no thread and no key, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed.core import Status

from scalable import ScalableClient, SlurmCluster
from scalable.cluster import cluster as clusters
from scalable.cluster.base import Launched, LaunchRefused, WorkerTemplate
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.local import ThreadLauncher, WorkerThreads
from scalable.worker import project
from scalable.worker.project import ProjectError
from tests.helpers.waiting import LONG_S, until


class FailingLauncher(ThreadLauncher):
    """Its workers do not end as they should, nor does it."""

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        launched = await super().launch(name, template, scheduler)
        assert isinstance(launched, WorkerThreads)
        stop = launched.stop

        async def fail(*, gently: bool = True) -> None:
            await stop(gently=gently)
            if name == "model-0":
                raise OSError("no more processes")

        launched.stop = fail  # type: ignore[method-assign]
        return launched

    async def close(self) -> None:
        await super().close()
        raise OSError("the disk is full")


class WaitingLauncher(ThreadLauncher):
    """Asks a service that does not answer until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()

    async def poll(self, launched: list[Launched]) -> float:
        await asyncio.to_thread(self.ask)
        return 0.1

    def ask(self) -> None:
        self.asked.set()
        self.answer.wait(LONG_S)


def loops() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "IO loop"}


@pytest.fixture
def cluster() -> Iterator[Callable[..., TaggedCluster]]:
    made: list[TaggedCluster] = []

    def make(launcher: ThreadLauncher | None = None) -> TaggedCluster:
        made.append(
            TaggedCluster(launcher or ThreadLauncher(), [WorkerTemplate("model")], scheduler={"protocol": "inproc"})
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_what_fails_at_the_end_is_raised_and_nothing_is_left(cluster: Callable[..., TaggedCluster]) -> None:
    before = loops()
    failing = cluster(FailingLauncher())
    failing.add_workers(2, "model")
    failing.wait_until({"model": 2}, LONG_S)
    with pytest.raises(OSError, match="the disk is full") as raised:
        failing.close()
    assert "no more processes" in str(raised.value.__context__)
    assert (failing.status, failing.scheduler.status, failing.members) == (Status.closed, Status.closed, {})
    assert loops() <= before
    failing.close()


def test_a_client_that_never_connected_keeps_no_thread(
    cluster: Callable[..., TaggedCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: Any, **kw: Any) -> None:
        raise OSError("not today")

    before = loops()
    gc.disable()  # which would end it sooner or later
    try:
        monkeypatch.setattr(ScalableClient, "_start", refuse)
        alone = cluster()
        with pytest.raises(OSError, match="not today"):
            ScalableClient(alone)
        alone.close()
        assert loops() <= before
    finally:
        gc.enable()


def test_a_service_that_does_not_answer_does_not_fail_the_end(
    cluster: Callable[..., TaggedCluster], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(clusters, "LOOP_WITHIN_S", 0.1)
    before = loops()
    waiting = WaitingLauncher()
    one = cluster(waiting)
    assert waiting.asked.wait(LONG_S)
    one.close()
    assert one.scheduler.status is Status.closed
    assert "has not answered yet" in caplog.text
    waiting.answer.set()
    assert until(lambda: loops() <= before)


def keys(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.pem"))


def test_keys_are_gone_although_whoever_closed_the_cluster_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = SlurmCluster(interface="lo")
    assert keys(tmp_path)
    began, interrupted = threading.Event(), threading.Event()
    close = cluster.launcher.close

    async def slowly() -> None:
        began.set()
        await asyncio.to_thread(interrupted.wait, LONG_S)
        await close()

    monkeypatch.setattr(cluster.launcher, "close", slowly)
    loop: Any = cluster.loop
    closing = asyncio.run_coroutine_threadsafe(cluster._close(), loop.asyncio_loop)
    assert began.wait(LONG_S)
    closing.cancel()
    interrupted.set()
    assert until(lambda: cluster.status is Status.closed)
    assert until(lambda: not keys(tmp_path))
    cluster.close()


def test_keys_are_gone_if_the_project_cannot_be_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").touch()
    monkeypatch.setattr(project, "MOST_FILES", 0)
    with pytest.raises(ProjectError, match="too large to upload"):
        SlurmCluster(interface="lo", code="upload", run_folder=tmp_path / "run")
    assert keys(tmp_path) == []


@pytest.mark.parametrize("late", [False, True])
def test_a_worker_that_comes_though_the_answer_got_lost_is_sent_away(
    cluster: Callable[..., TaggedCluster], monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    came: list[asyncio.Future[Any]] = []

    async def launch(self: ThreadLauncher, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        work = asyncio.ensure_future(real(self, name, template, scheduler))
        came.append(work)
        if not late:
            await work
        raise LaunchRefused("no answer")

    real = ThreadLauncher.launch
    monkeypatch.setattr(ThreadLauncher, "launch", launch)
    one = cluster()
    with pytest.raises(LaunchRefused, match="no answer"):
        one.add_workers(1, "model")
    assert until(lambda: came[0].done())
    assert until(lambda: not one.scheduler.workers)
    assert until(lambda: came[0].result().worker.status is Status.closed)
